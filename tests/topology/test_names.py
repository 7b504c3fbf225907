from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.errors import UnnamedError
from topology.names import TOPIC_BYTES_MAX, Names
from topology.testing import topology_of, tree_of

FULL = "{tenant}-{environment}-{topic}"


def names_of(topics=FULL, subjects="{environment}/{topic}", **fields):
    topology = topology_of(tree_of((1, "c1", "c2")))
    first, second = topology.clusters
    clusters = (replace(first, subject_format=subjects), second)
    fields = fields or {"tenant": "acme"}
    return Names(replace(topology, clusters=clusters, topic_format=topics, fields=fields), "c1")


def test_a_topic_has_its_technical_name_and_subjects():
    names = names_of()
    technical = names.topic("my-orders", environment="dev")
    assert technical == "acme-dev-my-orders"
    assert names.seen(technical) == "my-orders"
    assert names.subject(technical, "value") == "dev/my-orders-value"


@given(st.text(min_size=1, max_size=20))
def test_without_formats_names_are_what_users_see(seen):
    names = names_of("{topic}", "{topic}")
    assert names.topic(seen) == seen
    assert names.seen(seen) == seen
    assert names.subject(seen, "key") == f"{seen}-key"


def test_topics_of_the_cluster_itself_have_one_name():
    assert names_of().topic("_schemas") == "_schemas"
    assert names_of().seen("_schemas") == "_schemas"
    with pytest.raises(UnnamedError, match="'_schemas' belongs to the cluster itself: it has no"):
        names_of().subject("_schemas", "value")


@pytest.mark.parametrize("topic", ["orders", "other-dev-orders"])
def test_a_topic_of_somebody_else_is_none_of_ours(topic):
    assert names_of().seen(topic) is None
    with pytest.raises(UnnamedError, match="not spelled as topic_format says"):
        names_of().subject(topic, "value")


@pytest.mark.parametrize(
    ("seen", "values", "why"),
    [
        ("x", {}, r"field \{environment\} has no value: give one for topic 'x'"),
        ("x", {"environment": "a-b"}, "'a-b' is no value of field {environment}"),
        ("x" * TOPIC_BYTES_MAX, {"environment": "dev"}, "258 bytes: 1 to 249"),
        ("", {"environment": "dev"}, "1 to 249"),
        ("x", {"tenant": "other", "environment": "dev"}, "{tenant} is 'acme' in this topology"),
        ("x", {"enviroment": "dev"}, "no field 'enviroment' to give a value: {tenant}, "),
        ("x", {"topic": "y", "environment": "dev"}, "no field 'topic' to give a value"),
    ],
    ids=range(7),
)
def test_what_has_no_name_is_said(seen, values, why):
    with pytest.raises(UnnamedError, match=why):
        names_of().topic(seen, **values)


def test_a_cluster_that_is_not_there():
    with pytest.raises(UnnamedError, match="there is no cluster 'c9': choose from c1, c2"):
        Names(topology_of(tree_of((1, "c1", "c2"))), "c9")


def test_subjects_that_need_more_than_the_topic_tells_have_no_name():
    names = names_of("{topic}", "{environment}/{topic}")
    with pytest.raises(UnnamedError, match="environment"):
        names.subject("orders", "value")
