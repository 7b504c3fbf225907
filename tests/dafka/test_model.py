from __future__ import annotations

import gc
import pickle
import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import MisuseError
from dafka.model import (
    ALL_SLOTS,
    SLOTS,
    WHOLE,
    Batch,
    Endpoint,
    Partition,
    PartitionShare,
    Reach,
    Slots,
    TowerEndpoints,
    address_in,
    address_of,
    checked_topic,
    endpoint_of,
    range_of,
    replace,
    slot_key,
    slot_of,
)
from dafka.testing.strategies import topics
from dafka.wire.messages import Head, MessageId

HEAD = Head("orders", "AA", 7)


def test_they_are_equal_by_their_fields_and_can_be_kept_in_sets():
    assert Head("orders", "AA", 7, stored=False) == HEAD
    assert {HEAD, Head("orders", "AA", 7)} == {HEAD}
    assert Head("orders", "AA", 8) != HEAD


def test_nobody_can_change_them():
    with pytest.raises(AttributeError):
        HEAD.sequence = 8  # type: ignore[misc]
    assert replace(HEAD, sequence=8) == Head("orders", "AA", 8)
    assert HEAD.sequence == 7


def test_what_belongs_to_the_kind_is_no_field():
    assert HEAD.id is MessageId.HEAD
    assert repr(HEAD) == "Head(topic='orders', address='AA', sequence=7, stored=False)"


def test_the_collector_does_not_look_at_them():
    assert not gc.is_tracked(Batch(Partition("orders", "AA"), 0, 1, b"x"))


def test_they_travel_between_processes():
    batch = Batch(Partition("orders", "AA"), 3, 2, b"x")
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert batch.end == 5


def test_an_address_is_32_upper_case_hex_digits():
    assert address_of(uuid.UUID(int=0xABCDEF)) == "0" * 26 + "ABCDEF"


@given(topics)
def test_every_topic_of_the_wire_may_be_used(topic):
    assert checked_topic(topic) == topic


@pytest.mark.parametrize("topic", ["a", "a" * 249, "é" * 124, "\udcff", "a b/c.d"])
def test_good_topics(topic):
    assert checked_topic(topic) == topic


@pytest.mark.parametrize(
    "topic", ["", "a" * 250, "é" * 125, "a\0b", "\ud800", "\udcc3\udca9", None, b"bytes", 7]
)
def test_bad_topics(topic):
    with pytest.raises(MisuseError, match="topic"):
        checked_topic(topic)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("tcp://localhost:1", "localhost", 1),
        ("tcp://10.0.0.1:65535", "10.0.0.1", 65_535),
        ("tcp://[::1]:5556", "[::1]", 5556),
        ("tcp://a-b_c.d:5556", "a-b_c.d", 5556),
    ],
)
def test_good_endpoints(text, host, port):
    assert Endpoint.parse(text) == (host, port)
    assert str(Endpoint.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tcp://",
        "tcp://h",
        "tcp://h:",
        "tcp://h:0",
        "tcp://h:65536",
        "tcp://h:123456",
        "tcp://h:1 ",
        "tcp://h:1\n",
        "tcp://h:\u0661",
        "tcp://*:1",
        "ipc:///tmp/x",
        "h:1",
        "tcp://::1:5",
        None,
    ],
)
def test_bad_endpoints(text):
    with pytest.raises(MisuseError, match="endpoint"):
        Endpoint.parse(text)


@pytest.mark.parametrize("text", ["ipc:///run/dafka/tower", "ipc:///a", "inproc://t", "tcp://h:1"])
def test_endpoints_of_any_kind(text):
    assert str(endpoint_of(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("ipc://", "ipc://relative", "ipc:///a b", "ipc:///a\0", "ipc:///" + "a" * 107),
        *("inproc://", "inproc:t", "udp://h:1", 7),
    ],
)
def test_endpoints_of_no_kind(text):
    with pytest.raises(MisuseError, match="endpoint"):
        endpoint_of(text)


@pytest.mark.parametrize(
    ("endpoint", "tower", "node"),
    [
        ("inproc://t", Reach.PROCESS, Reach.PROCESS),
        ("ipc:///run/t", Reach.MACHINE, Reach.MACHINE),
        ("tcp://127.0.0.1:5", Reach.MACHINE, Reach.NETWORK),
        ("tcp://[::1]:5", Reach.MACHINE, Reach.NETWORK),
        ("tcp://localhost:5", Reach.MACHINE, Reach.NETWORK),
        ("tcp://10.0.0.1:5", Reach.NETWORK, Reach.NETWORK),
    ],
)
def test_from_how_far_an_endpoint_is_reached(endpoint, tower, node):
    assert (Reach.of_tower(endpoint), Reach.of_node(endpoint)) == (tower, node)


@given(st.text())
def test_an_endpoint_or_misuse(text):
    try:
        Endpoint.parse(text)
    except MisuseError:
        return


def test_a_tower_publishes_on_the_next_port():
    towers = TowerEndpoints.parse("tcp://h:5556")
    assert towers == ("tcp://h:5556", "tcp://h:5557")


def test_a_tower_needs_a_next_port():
    with pytest.raises(MisuseError, match="next port"):
        TowerEndpoints.parse("tcp://h:65535")


def test_the_end_of_a_batch_is_where_the_next_begins():
    assert Batch(Partition("t", "A"), 5, 3, b"").end == 8


def test_a_tower_without_a_network_publishes_beside_its_name():
    towers = TowerEndpoints.parse("ipc:///run/dafka/tower")
    assert towers == ("ipc:///run/dafka/tower", "ipc:///run/dafka/tower.out")
    with pytest.raises(MisuseError, match="endpoint"):
        TowerEndpoints.parse("ipc:///" + "a" * 105)


def test_slots_are_the_same_for_ever_and_ranges_nest():
    assert slot_of("AB" * 16) == 959
    assert 0 <= slot_of("\udcff") < SLOTS
    for slot in range(SLOTS):
        assert range_of(slot, 1) == 0
        assert range_of(slot, SLOTS) == slot
        assert range_of(slot, 12) // 4 == range_of(slot, 3)


def test_a_drawn_address_is_moved_to_where_it_is_wanted():
    for ranges in (1, 2, 3, 2_500, SLOTS):
        for number in {0, ranges // 2, ranges - 1}:
            moved = {address_in(address_of(uuid.uuid4()), number, ranges) for _ in range(10)}
            assert len(moved) == 10
            assert {range_of(slot_of(one), ranges) for one in moved} == {number}
    assert address_in("AB" * 16, 7, 9)[:28] == "AB" * 14


def test_slots_are_spread_evenly():
    counts = Counter(range_of(slot_of(address_of(uuid.UUID(int=n << 64))), 8) for n in range(8_000))
    assert min(counts.values()) > 800


SHARES = {
    "AB" * 16: {2: 0, 3: 0, 4: 0, 7: 1, SLOTS: 959},
    "0123456789ABCDEF0123456789ABCDEF": {2: 1, 3: 1, 4: 2, 7: 4, SLOTS: 2_374},
    "AA": {2: 1, 3: 2, 4: 3, 7: 6, SLOTS: 3_517},
    "\udcff": {2: 0, 3: 0, 4: 0, 7: 0, SLOTS: 0},
}
"""By address, in which share it is of so many: replicas of all versions have to agree."""


def test_shares_are_the_same_for_ever():
    for address, shares in SHARES.items():
        for of, number in shares.items():
            assert PartitionShare(number, of).has(address)


@given(st.text(max_size=40), st.integers(1, SLOTS))
def test_each_partition_is_in_one_share_and_no_other(address, of):
    assert sum(PartitionShare(number, of).has(address) for number in range(of)) == 1
    assert WHOLE.has(address)


@given(st.text(max_size=40), st.integers(1, 20), st.integers(1, 20))
def test_shares_meet_that_may_have_the_same(address, of, others):
    mine = next(one for one in _shares(of) if one.has(address))
    theirs = next(one for one in _shares(others) if one.has(address))
    assert mine.meets(theirs)
    assert theirs.meets(mine)
    assert [one for one in _shares(of) if one.meets(mine)] == [mine]


def _shares(of):
    return [PartitionShare(number, of) for number in range(of)]


class TestSlots:
    def test_they_are_ranges_and_have_what_lies_in_them(self):
        slots = Slots.of([range(10, 20), range(4_000, SLOTS)])
        assert [slot for slot in range(SLOTS) if slots.has(slot)] == [
            *range(10, 20),
            *range(4_000, SLOTS),
        ]
        assert slots.ranges() == [range(10, 20), range(4_000, SLOTS)]
        assert str(slots) == "10-19,4000-4095"
        assert Slots(0).ranges() == []
        assert not Slots(0)
        assert Slots.of([range(5, 9), range(9, 12)]).ranges() == [range(5, 12)]
        assert Slots.of([range(SLOTS)]) == ALL_SLOTS

    def test_they_are_put_together_and_taken_apart(self):
        one, other = Slots.of([range(100)]), Slots.of([range(50, 150)])
        assert one.shared(other) == Slots.of([range(50, 100)])
        assert one.joined(other) == Slots.of([range(150)])
        assert one.without(other) == Slots.of([range(50)])

    @pytest.mark.parametrize(
        ("ranges", "count"),
        [
            ([range(SLOTS)], 1),
            ([range(2_048)], 1),
            ([range(4_095, SLOTS)], 1),
            ([range(1, 4_095)], 22),
            ([range(1_365), range(2_731, SLOTS)], 12),
        ],
    )
    def test_few_prefixes_are_exactly_these(self, ranges, count):
        slots = Slots.of(ranges)
        prefixes = slots.prefixes()
        assert len(prefixes) == count
        for slot in range(SLOTS):
            begins = [prefix for prefix in prefixes if slot_key(slot).startswith(prefix)]
            assert len(begins) == slots.has(slot)

    def test_what_a_cluster_says_of_itself_lies_in_all(self):
        low = Slots.of([range(slot_of("AB"))])
        assert not low.keeps("orders", "AB")
        assert low.keeps("_schemas", "AB")
        assert ALL_SLOTS.keeps("orders", "AB")
        assert Slots.of([range(slot_of("AB"), SLOTS)]).keeps("orders", "AB")
