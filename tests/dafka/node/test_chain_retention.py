from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.gateway.broker import KafkaPartition
from dafka.gateway.events import LedgerLine, LineKind
from dafka.gateway.lines import LEDGER, chain_address, encoded
from dafka.gateway.share import batches_of
from dafka.limits import CHANGES_MAX
from dafka.model import Partition
from dafka.node.chain_retention import ChainRetention
from dafka.storage.memory import MemoryLog
from tests.support.ledger_chains import chain

FIRST, SECOND = KafkaPartition("orders", 0), KafkaPartition("orders", 1)


class Bench:
    """A store's log, and what drops ledgers there."""

    def __init__(self):
        self.log = MemoryLog("S0")
        self.retention = ChainRetention()
        self.generation = 2
        """The last one of the gateways that the store knows of."""

    def write(self, lines, partition=FIRST):
        """Lines of one chain come, each in a batch of its own; which chain that is."""
        epoch = lines[0].epoch
        place = Partition(LEDGER, chain_address("A" * 32, partition, epoch))
        for line in lines:
            self.log.append(batches_of(place, line.number, [encoded(line, partition)]))
        return place

    def step(self, batches_max=100):
        trims = self.retention.due(self.log, batches_max, self.generation)
        self.log.append((), trims=trims)
        return trims

    def start(self, place):
        return self.log.extents()[place].start


@pytest.fixture
def bench():
    return Bench()


def settled(epoch, number=3):
    return LedgerLine(epoch, number, LineKind.SETTLED, 0)


def test_old_chains_go_once_enough_stores_have_the_new_one(bench):
    old = bench.write(chain(1, ("A", 0, 5)))
    new = bench.write(chain(2, ("A", 0, 5)))
    assert bench.step() == {}
    bench.write([settled(2)])
    assert bench.step() == {old: 3}
    assert (bench.start(old), bench.start(new)) == (3, 0)
    assert bench.step() == {}


def test_nothing_goes_for_an_epoch_that_the_gateways_have_not_come_to(bench):
    old = bench.write(chain(1, ("A", 0, 5)))
    bench.write([*chain(2, ("A", 0, 5)), settled(2)])
    bench.write([*chain(2**31 - 1), settled(2**31 - 1, 2)])
    bench.generation = 1
    assert bench.step() == bench.step() == {}
    bench.generation = 2
    assert bench.step() == {old: 3}, "the store had only not been told of that one"
    assert bench.step() == {}


def test_a_chain_that_was_begun_anew_loses_what_is_before(bench):
    lines = chain(1, ("A", 0, 5))
    anew = [line._replace(number=line.number + 4) for line in lines]
    place = bench.write([*lines, settled(1), *anew])
    assert bench.step() == {}
    bench.write([settled(1, 7)])
    assert bench.step() == {place: 4}


def test_a_chain_of_another_partition_stays(bench):
    bench.write(chain(1, ("A", 0, 5)), SECOND)
    bench.write([*chain(2, ("A", 0, 5)), settled(2)])
    assert bench.step() == {}


def test_it_drops_a_bounded_part_at_a_time_and_goes_on_after_a_restart(bench):
    old = bench.write(chain(1, ("A", 0, 5), ("B", 0, 5)))
    bench.write([*chain(2, ("A", 0, 5)), settled(2)])
    assert bench.step(batches_max=1) == {old: 1}
    bench.retention = ChainRetention()
    assert bench.step(batches_max=1) == {old: 2}
    assert bench.step(batches_max=5) == {old: 4}


def test_what_is_forgotten_is_followed_no_more(bench):
    old = bench.write(chain(1))
    bench.write([*chain(2), settled(2, 2)])
    assert bench.step() == {old: 2}
    bench.log.append((), forgets=[old])
    assert bench.step() == {}


def test_what_is_forgotten_among_more_than_can_be_told_is_followed_no_more(bench):
    old = bench.write(chain(1))
    new = bench.write([*chain(2), settled(2, 2)])
    assert bench.step() == {old: 2}
    bench.log.append((), forgets=[old])
    bench.log.changes.note(Partition("orders", str(number)) for number in range(CHANGES_MAX + 1))
    bench.write([settled(2, 3)])
    assert bench.step() == {}
    assert bench.start(new) == 0
    assert not bench.retention.behind


def test_what_no_owner_can_have_written_lets_nothing_go(bench):
    bench.write(chain(1, ("A", 0, 5)))
    forged = Partition(LEDGER, chain_address("A" * 32, FIRST, 2))
    values = [encoded(line, SECOND) for line in (*chain(2), settled(2, 2))]
    bench.log.append(batches_of(forged, 0, [*values, b"", b"\xff"]))
    bench.log.append(batches_of(Partition(LEDGER, "X"), 0, [b"none"]))
    assert bench.step() == {}


def test_what_the_disk_does_not_give_is_kept(bench, monkeypatch, caplog):
    bench.write(chain(1, ("A", 0, 5)))
    bench.write([*chain(2, ("A", 0, 5)), settled(2)])

    def refused(*_):
        raise StorageError("input/output error")

    monkeypatch.setattr(bench.log, "read", refused)
    assert bench.step() == {}
    assert "it is kept" in caplog.text
    assert not bench.retention.behind


class CountedExtents(dict):
    """What there is of each partition, and how often that was asked."""

    asked = 0

    def __getitem__(self, place):
        self.asked += 1
        return super().__getitem__(place)


def test_a_look_costs_by_the_chains_that_have_changed(bench, monkeypatch):
    for number in range(200):
        bench.write(chain(1, ("A", 0, 5)), KafkaPartition("orders", number))
    while bench.retention.behind or bench.retention.due(bench.log, 100, 2):
        bench.step()
    old = bench.write([*chain(2, ("A", 0, 5)), settled(2)])
    extents = CountedExtents(bench.log.extents())
    monkeypatch.setattr(bench.log, "extents", lambda: extents)
    assert len(bench.retention.due(bench.log, 100, 2)) == 1
    assert 0 < extents.asked < 30
    assert old in extents


def test_what_there_was_no_room_for_goes_at_the_next_look(bench):
    old = [bench.write(chain(1), one) for one in (FIRST, SECOND)]
    for one in (FIRST, SECOND):
        bench.write([*chain(2), settled(2, 2)], one)
    assert len(bench.step(batches_max=2)) == 1
    assert bench.retention.behind
    assert len(bench.step(batches_max=2)) == 1
    assert [bench.start(one) for one in old] == [2, 2]


def test_what_a_disk_did_not_drop_is_dropped_later(bench):
    old = bench.write(chain(1))
    bench.write([*chain(2), settled(2, 2)])
    assert bench.retention.due(bench.log, 100, 2) == {old: 2}
    assert bench.step() == {old: 2}
