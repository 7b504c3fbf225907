from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.node.tower import Tower
from dafka.query.client import StoreClient
from dafka.records.batch import records_of
from dafka.records.envelope import Envelope
from distributor.verify.compare import verify
from distributor.verify.repair import repair, repairable
from distributor.verify.verdict import Difference, DifferenceKind
from tests.support.shares import also_shared
from topology.copyflags import EVERY_FLAG

ORDERS = Partition("orders", "AB" * 16)
OTHERS = Partition("others", "CD" * 16)


def difference(kind, cluster="c2", place=ORDERS, **fields):
    return Difference(kind, *place, cluster, **{"first": 2, "last": 4, "others": ("c1",)} | fields)


def test_only_what_is_missing_and_undisputed_may_be_repaired():
    good = difference(DifferenceKind.BEHIND, place=OTHERS)
    damaged = difference(DifferenceKind.UNREADABLE, place=OTHERS)
    found = [
        good,
        damaged,
        difference(DifferenceKind.DIFFERS, "c3"),
        difference(DifferenceKind.BEHIND),
        difference(DifferenceKind.GONE, "c4", OTHERS),
        difference(DifferenceKind.BEHIND, "c4", OTHERS),
        difference(DifferenceKind.BEHIND, "c5", OTHERS, moving=True),
        difference(DifferenceKind.BEHIND, "c6", OTHERS, others=()),
    ]
    chosen, left = repairable(found)
    assert chosen == [good]
    assert [line.rpartition("; ")[2] for line in left] == [
        "left alone, as the partition's history differs between clusters",
        "left alone, as nobody keeps what stands before it",
        "left to its link",
    ]


def held(pair, index):
    with StoreClient(pair.topology.clusters[index].stores[0].query) as client:
        return {
            partition: [
                (record.sequence, record.value, record.origin, record.copy_flags)
                for batch in client.scan(partition, kept.start, kept.stop)
                for record in records_of(batch)
            ]
            for partition, kept in client.ranges().items()
        }


def repaired(pair, **settings):
    found = verify(pair.topology, deep=True, settle_s=0)
    return repair(pair.topology, found.differences, **settings)


@pytest.mark.net
@also_shared("pair")
def test_what_is_missing_is_brought_under_its_name_and_goes_no_further(pair, make_batch):
    pair.fill(1, make_batch([b"0", b"1", b"2", b"3"]), make_batch([b"4"], 4))
    pair.fill(1, make_batch([b"a"], 0, OTHERS, Envelope(7, 0b100)))
    pair.fill(2, make_batch([b"0", b"1"], envelope=Envelope(1, 1)))
    told = []
    with pair.running():
        done = repaired(pair, progress=lambda *numbers: told.append(numbers))
        assert (done.records, done.partitions, done.left) == (4, {ORDERS, OTHERS}, [])
        assert told == [(3, 4), (4, 4)]
        there = held(pair, 1)
        assert there[ORDERS] == [
            (0, b"0", 1, 1),
            (1, b"1", 1, 1),
            *((number, b"%d" % number, 1, EVERY_FLAG) for number in (2, 3, 4)),
        ]
        assert there[OTHERS] == [(0, b"a", 7, EVERY_FLAG)]
        assert verify(pair.topology, deep=True).equal
        assert repaired(pair).records == 0, "nothing is left to do"


@pytest.mark.net
def test_a_partition_that_begins_late_is_brought_from_there_on(pair, make_batch):
    pair.fill(1, make_batch([b"0", b"1"]), make_batch([b"2", b"3"], 2))
    pair.trim(1, {ORDERS: 2})
    with pair.running():
        assert repaired(pair).records == 2
        assert [row[:2] for row in held(pair, 1)[ORDERS]] == [(2, b"2"), (3, b"3")]
        assert verify(pair.topology, deep=True).equal


@pytest.mark.net
def test_another_history_is_never_overwritten_nor_gone_on_with(pair, make_batch):
    pair.fill(1, make_batch([b"0", b"1", b"2"]))
    pair.fill(2, make_batch([b"0", b"x"]))
    with pair.running():
        done = repaired(pair)
        assert (done.records, done.partitions) == (0, set())
        assert "history differs" in done.left[0]
        assert [row[1] for row in held(pair, 1)[ORDERS]] == [b"0", b"x"]


@pytest.mark.net
def test_a_source_that_cannot_read_its_records_is_said_to(pair, make_batch):
    broken = make_batch([b"0", b"1"])
    pair.fill(1, type(broken)(ORDERS, 0, 3, broken.content), make_batch([b"3"], 3))
    with pair.running():
        done = repaired(pair)
    assert done.records == 0
    assert "not repaired: c1: cannot read record batch" in done.left[0]


@pytest.mark.net
def test_a_cluster_whose_stores_take_nothing_is_said_to(pair, make_batch):
    pair.fill(1, make_batch([b"0"]))
    missing = [difference(DifferenceKind.BEHIND, first=0, last=0)]
    with pair.running(1), Tower(pair.topology.clusters[1].towers[0]):
        done = repair(pair.topology, missing, silence_s=0.3)
    assert done.records == 0
    assert "not repaired: no store has acknowledged anything" in done.left[0]


@pytest.mark.net
def test_an_interface_that_is_none_of_this_machine_is_refused(pair):
    missing = [difference(DifferenceKind.BEHIND, first=0, last=0)]
    with pair.running(2), pytest.raises(MisuseError, match="cannot"):
        repair(pair.topology, missing, host="127.1.2.3.4.example")


@pytest.mark.net
def test_a_source_that_is_gone_is_said_to(pair, make_batch):
    missing = [difference(DifferenceKind.BEHIND, first=0, last=0)]
    with pair.running(2):
        done = repair(pair.topology, missing)
    assert "not repaired: nobody keeps 0 any more" in done.left[0]
