from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dafka.schemas.entries import (
    ConfigKey,
    Primary,
    PrimaryKey,
    Schema,
    SchemaEntry,
    SchemaKey,
    Stamp,
    Version,
    VersionKey,
)
from dafka.schemas.state import (
    CLUSTERS_MAX,
    EPOCH_MAX,
    State,
    id_range,
    next_epoch,
    promotion_epoch,
)
from topology.naming_rules import REGISTRIES_ID_MAX

NUMBERS = st.integers(1, CLUSTERS_MAX)
KNOWN = st.integers(0, EPOCH_MAX - CLUSTERS_MAX)


@given(KNOWN, KNOWN, NUMBERS, NUMBERS)
def test_two_clusters_never_open_the_same_epoch_whatever_they_know(here, there, one, other):
    ours, theirs = next_epoch(here, one), next_epoch(there, other)
    assert ours > here
    assert (ours == theirs) <= (one == other)
    if ours != theirs:
        assert not set(id_range(ours)) & set(id_range(theirs))


@given(KNOWN, NUMBERS)
def test_no_epoch_of_a_cluster_is_left_out(known, number):
    assert next_epoch(known, number) <= known + CLUSTERS_MAX


@given(KNOWN, NUMBERS, NUMBERS)
def test_who_is_made_the_primary_outdoes_claims_that_are_on_their_way(known, chosen, before):
    """What its registries knew as they began was no more; one of them may have heard of another."""
    first = next_epoch(known, before)
    assert promotion_epoch(known, chosen) > next_epoch(first, before)


def test_the_first_epoch_of_the_first_cluster_begins_with_id_1():
    assert next_epoch(0, 1) == 1
    assert id_range(1)[0] == 1
    assert next_epoch(1, 1) == CLUSTERS_MAX + 1


def test_ids_fit_31_bits():
    assert id_range(EPOCH_MAX)[-1] < 2**31


def test_the_topology_lets_no_cluster_have_a_registry_that_has_no_epochs():
    assert REGISTRIES_ID_MAX == CLUSTERS_MAX


STAMPS = st.builds(Stamp, st.integers(1, 3), st.integers(0, 3))
SCHEMAS = st.sampled_from([Schema("AVRO", '"int"'), Schema("AVRO", ' "int"'), Schema("AVRO", "{}")])
ENTRIES = st.one_of(
    st.builds(SchemaEntry, st.builds(SchemaKey, st.integers(1, 3)), STAMPS, st.none() | SCHEMAS),
    st.builds(
        SchemaEntry,
        st.builds(VersionKey, st.sampled_from("ab"), st.integers(1, 2)),
        STAMPS,
        st.none() | st.builds(Version, st.integers(1, 3), st.booleans()),
    ),
    st.builds(
        SchemaEntry, st.just(ConfigKey(None)), STAMPS, st.sampled_from(["NONE", "FULL", None])
    ),
    st.builds(
        SchemaEntry,
        st.just(PrimaryKey()),
        STAMPS,
        st.builds(Primary, st.just("c"), st.sampled_from("xy")),
    ),
)


@given(st.lists(ENTRIES), st.randoms(use_true_random=False))
def test_the_order_of_entries_and_their_repetition_make_no_difference(entries, random):
    one = State(entries)
    again = entries * 2
    random.shuffle(again)
    other = State(again)
    assert one.entries == other.entries
    assert one.versions == other.versions
    assert one.last == other.last
    assert one.primary == other.primary
    assert (one.rivals, one.epoch_before) == (other.rivals, other.epoch_before)
    assert [one.id_of(schema) for schema in (Schema("AVRO", '"int"'), Schema("AVRO", "{}"))] == [
        other.id_of(schema) for schema in (Schema("AVRO", '"int"'), Schema("AVRO", "{}"))
    ]


def test_an_id_is_given_once_even_if_its_schema_is_gone():
    state = State()
    assert state.next_id(1) == 1
    state.apply(SchemaEntry(SchemaKey(1), Stamp(1, 1), Schema("AVRO", '"int"')))
    state.apply(SchemaEntry(SchemaKey(1), Stamp(1, 2), None))
    assert state.schema(1) is None
    assert state.id_of(Schema("AVRO", '"int"')) is None
    assert state.next_id(1) == 2
    assert state.next_id(2) == id_range(2)[0]


def test_a_used_up_range_says_so():
    state = State([SchemaEntry(SchemaKey(id_range(1)[-1]), Stamp(1, 1), Schema("AVRO", '"int"'))])
    assert state.next_id(1) is None


def test_ids_that_came_from_other_epochs_use_up_none():
    state = State([SchemaEntry(SchemaKey(id_range(9)[0]), Stamp(9, 1), Schema("AVRO", '"int"'))])
    assert state.next_id(2) == id_range(2)[0]
    assert state.changes == 1


def test_what_changed_since_some_point_is_known_the_last_first():
    state = State()
    for number, subject in enumerate("abca", 1):
        state.apply(SchemaEntry(ConfigKey(subject), Stamp(1, number), "NONE"))
    state.apply(SchemaEntry(ConfigKey("b"), Stamp(0, 1), "FULL"))
    assert state.changed_since(0) == [ConfigKey("a"), ConfigKey("c"), ConfigKey("b")]
    assert state.changed_since(2) == [ConfigKey("a"), ConfigKey("c")]
    assert state.changed_since(4) == []
