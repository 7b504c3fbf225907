from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.limits import SUBJECT_BYTES_MAX
from dafka.schemas.entries import (
    ConfigKey,
    ModeKey,
    Primary,
    PrimaryKey,
    Reference,
    Schema,
    SchemaEntry,
    SchemaKey,
    Stamp,
    Version,
    VersionKey,
)
from distributor.schemas.translation import Translation, UntranslatableError
from topology.formats import parse_format

FULL, SHORT = map(
    parse_format, ("{tenant}-{instance}-{environment}-{topic}", "{environment}/{topic}")
)
FIELDS = {"tenant": "acme", "instance": "prod"}
OUT, BACK = Translation(FULL, SHORT, FIELDS), Translation(SHORT, FULL, FIELDS)
STAMP = Stamp(3, 4)


def reason_of(translation, subject):
    with pytest.raises(UntranslatableError) as refused:
        translation.subject(subject)
    return refused.value.reason


def test_a_subject_is_spelled_as_the_other_cluster_does_and_back():
    assert OUT.subject("acme-prod-dev-orders-value") == "dev/orders-value"
    assert BACK.subject("dev/orders-value") == "acme-prod-dev-orders-value"


@given(st.from_regex("[a-z0-9_.]{1,5}", fullmatch=True), st.text(min_size=1, max_size=20))
def test_no_two_subjects_become_one(environment, topic):
    there = SHORT.join({"environment": environment, "topic": topic})
    assert OUT.subject(BACK.subject(there)) == there


def test_what_has_no_name_there_is_told_apart():
    assert reason_of(OUT, "orders") == "spelling"
    assert reason_of(OUT, "other-prod-dev-orders") == "fields"
    assert reason_of(BACK, "dev/" + "x" * (SUBJECT_BYTES_MAX - 4)) == "length"


def test_every_entry_keeps_its_id_and_its_time():
    used = Reference("n", "acme-prod-dev-note", 2)
    schema = Schema("AVRO", '"n"', (used,))
    entries = {
        SchemaEntry(SchemaKey(7), STAMP, schema): SchemaEntry(
            SchemaKey(7), STAMP, Schema("AVRO", '"n"', (used._replace(subject="dev/note"),))
        ),
        SchemaEntry(VersionKey("acme-prod-dev-a", 3), STAMP, Version(7, True)): SchemaEntry(
            VersionKey("dev/a", 3), STAMP, Version(7, True)
        ),
        SchemaEntry(ConfigKey("acme-prod-dev-a"), STAMP, "FULL"): SchemaEntry(
            ConfigKey("dev/a"), STAMP, "FULL"
        ),
        SchemaEntry(ModeKey("acme-prod-dev-a"), STAMP, None): SchemaEntry(
            ModeKey("dev/a"), STAMP, None
        ),
    }
    for entry, expected in entries.items():
        assert OUT.entry(entry) == expected
        assert BACK.entry(expected) == entry


@pytest.mark.parametrize(
    "entry",
    [
        SchemaEntry(ConfigKey(None), STAMP, "FULL"),
        SchemaEntry(ModeKey(None), STAMP, "READONLY"),
        SchemaEntry(SchemaKey(1), STAMP, Schema("AVRO", '"int"')),
        SchemaEntry(PrimaryKey(), STAMP, Primary("c1", "A")),
    ],
)
def test_what_names_no_subject_stays_as_it_is(entry):
    assert OUT.entry(entry) == entry
