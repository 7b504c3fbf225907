from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dafka.schemas.entries import (
    ConfigKey,
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
from dafka.schemas.state import State
from distributor.schemas.comparison import lacking
from distributor.schemas.translation import Translation
from topology.formats import parse_format

SAME = Translation(parse_format("{topic}"), parse_format("{topic}"), {})
OUT = Translation(parse_format("a-{topic}"), parse_format("b-{topic}"), {})
INT, LONG = Schema("AVRO", '"int"'), Schema("AVRO", '"long"')


def at(number, epoch=1):
    return Stamp(epoch, number)


def using(*subjects):
    return Schema("AVRO", '"x"', tuple(Reference(name, name, 1) for name in subjects))


def test_who_the_primary_is_comes_first_and_each_schema_behind_what_it_uses():
    entries = [
        # Decided late on purpose: the order of decisions alone would be another.
        SchemaEntry(VersionKey("a-used", 1), at(9), Version(1, deleted=True)),
        SchemaEntry(SchemaKey(1), at(8), INT),
        SchemaEntry(VersionKey("a-user", 1), at(3), Version(2)),
        SchemaEntry(SchemaKey(2), at(2), using("a-used")),
        SchemaEntry(PrimaryKey(), at(10), Primary("c1", "A")),
    ]
    lack = lacking(State(entries), State(), OUT)
    assert [entry.key for entry in lack.entries] == [
        PrimaryKey(),
        SchemaKey(1),
        VersionKey("b-used", 1),
        SchemaKey(2),
        VersionKey("b-user", 1),
    ]
    assert lack.skipped == {}


def test_references_that_go_round_in_a_circle_do_not_hold_it_up():
    entries = [
        SchemaEntry(SchemaKey(1), at(1), using("a")),
        SchemaEntry(VersionKey("a", 1), at(2), Version(1)),
    ]
    assert len(lacking(State(entries), State(), SAME).entries) == 2


def test_a_long_chain_of_references_is_followed_to_its_end():
    entries = []
    for number in range(1, 3_000):
        entries.append(SchemaEntry(SchemaKey(number), at(5_000 - number), using(f"s{number - 1}")))
        entries.append(SchemaEntry(VersionKey(f"s{number}", 1), at(number), Version(number)))
    keys = [entry.key for entry in lacking(State(entries), State(), SAME).entries]
    assert [key.id for key in keys if isinstance(key, SchemaKey)] == list(range(1, 3_000))


def test_only_what_is_decided_later_is_lacking():
    ours = State(
        [SchemaEntry(ConfigKey("s"), at(5), "FULL"), SchemaEntry(ConfigKey("t"), at(1), "NONE")]
    )
    theirs = State(
        [SchemaEntry(ConfigKey("s"), at(6), None), SchemaEntry(ConfigKey("t"), at(1), "NONE")]
    )
    assert lacking(ours, theirs, SAME).entries == ()
    assert [one.key for one in lacking(theirs, ours, SAME).entries] == [ConfigKey("s")]


def test_only_the_keys_that_are_named_are_looked_at():
    ours = State(
        [SchemaEntry(ConfigKey("s"), at(5), "FULL"), SchemaEntry(ConfigKey("t"), at(1), "NONE")]
    )
    (entry,) = lacking(ours, State(), SAME, [ConfigKey("t")]).entries
    assert entry.key == ConfigKey("t")


def test_an_older_epoch_never_wins():
    ours = State([SchemaEntry(ConfigKey("s"), at(1, epoch=2), "FULL")])
    theirs = State([SchemaEntry(ConfigKey("s"), at(99), "NONE")])
    assert lacking(theirs, ours, SAME).entries == ()


def test_what_cannot_be_named_there_is_counted_with_the_versions_that_need_it():
    entries = [
        SchemaEntry(VersionKey("strange", 1), at(1), Version(1)),
        SchemaEntry(SchemaKey(1), at(2), INT),
        SchemaEntry(SchemaKey(2), at(3), using("strange")),
        SchemaEntry(VersionKey("a-user", 1), at(4), Version(2)),
    ]
    lack = lacking(State(entries), State(), OUT)
    assert [entry.key for entry in lack.entries] == [SchemaKey(1)]
    assert lack.skipped == {
        VersionKey("strange", 1): "spelling",
        SchemaKey(2): "spelling",
        VersionKey("a-user", 1): "no schema",
    }


def test_an_id_that_means_another_schema_there_is_left_alone():
    ours = State(
        [SchemaEntry(SchemaKey(1), at(9), INT), SchemaEntry(VersionKey("s", 1), at(9), Version(1))]
    )
    theirs = State([SchemaEntry(SchemaKey(1), at(1), LONG)])
    lack = lacking(ours, theirs, SAME)
    assert lack.entries == ()
    assert lack.skipped == {SchemaKey(1): "id taken", VersionKey("s", 1): "no schema"}


STAMPS = st.builds(Stamp, st.integers(1, 2), st.integers(0, 9))
ENTRIES = st.lists(
    st.builds(
        SchemaEntry,
        st.builds(ConfigKey, st.sampled_from("abc")),
        STAMPS,
        st.sampled_from(["NONE", "FULL", None]),
    )
)


@given(ENTRIES, ENTRIES)
def test_once_both_have_written_what_they_lack_they_are_the_same(here, there):
    ours, theirs = State(here), State(there)
    for entry in lacking(ours, theirs, SAME).entries:
        theirs.apply(entry)
    for entry in lacking(theirs, ours, SAME).entries:
        ours.apply(entry)
    assert ours.entries == theirs.entries
    assert lacking(ours, theirs, SAME).entries == ()
