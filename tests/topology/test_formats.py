from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from topology.formats import IDENTITY, TOPIC, NameFormat, is_field, is_value, parse_format

NAMES = ("tenant", "instance", "environment", "region")
VALUES = st.text("ab1_.", min_size=1, max_size=3)
TOPICS = st.text("ab1_.-/ü\n", min_size=1, max_size=6)
ENDS = st.text("a_.-", max_size=3)
BETWEEN = st.text("a_.-#/", max_size=3)


@st.composite
def formats(draw):
    """Texts of fields in some order with something between them; some are no format."""
    fields = draw(st.permutations([TOPIC, *draw(st.sets(st.sampled_from(NAMES), max_size=3))]))
    inner = "".join(draw(BETWEEN) + f"{{{field}}}" for field in fields[1:])
    return f"{draw(ENDS)}{{{fields[0]}}}{inner}{draw(ENDS)}"


@given(formats(), st.data())
def test_what_was_joined_is_split_into_the_same_values(text, data):
    try:
        form = parse_format(text)
    except ValueError:
        assume(False)
    values = {field: data.draw(TOPICS if field == TOPIC else VALUES) for field in form.fields}
    name = form.join(values)
    assert form.split(name) == values


@given(formats(), st.text("ab_.-#/", max_size=12))
def test_what_can_be_split_is_joined_to_the_same_name(text, name):
    try:
        form = parse_format(text)
    except ValueError:
        assume(False)
    values = form.split(name)
    assert values is None or form.join(values) == name


def test_the_formats_of_the_distribution_model():
    ours = parse_format("{tenant}-{instance}-{environment}-{topic}")
    values = {"tenant": "acme", "instance": "prod", "environment": "dev", "topic": "my-topic-value"}
    assert ours.join(values) == "acme-prod-dev-my-topic-value"
    assert ours.split("acme-prod-dev-my-topic-value") == values
    assert ours.split("acme-prod-dev") is None
    assert ours.split("acme-prod--x") is None
    assert parse_format("{tenant}-{topic}-value").split("acme-orders-key") is None
    assert parse_format(IDENTITY) == NameFormat((TOPIC,), ("", ""))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "{topic} is missing"),
        ("{tenant}-x", "{topic} is missing"),
        ("{topic}-{topic}", "{topic} stands there twice"),
        ("{a-b}-{topic}", "'a-b' is not the name of a field"),
        ("{}-{topic}", "'' is not the name of a field"),
        ("{topic", "'{' stands alone"),
        ("topic}", "'}' stands alone"),
        ("{tenant}{topic}", "it is not clear where {tenant} ends"),
        ("{tenant}.{topic}", "it is not clear where {tenant} ends"),
        ("{topic}x{tenant}", "it is not clear where {tenant} begins"),
        ("{topic}{tenant}", "it is not clear where {tenant} begins"),
        ("a\0{topic}", "cannot stand in a name"),
    ],
)
def test_what_is_no_format(text, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_format(text)


def test_names_and_values_of_fields():
    assert is_field("tenant_1")
    assert not any(map(is_field, ("1a", "a-b", "", None, 7)))
    assert is_value("eu.west_1")
    assert not any(map(is_value, ("a-b", "", "a" * 64)))
