from __future__ import annotations

from uuid import UUID

import pytest

from dafka.errors import QueryError
from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.catalog import CONTROLLED, TopicState, encoded_topic
from dafka.gateway.effects import ReadLedger
from dafka.gateway.events import LedgerLine, LineKind
from dafka.gateway.lines import LEDGER, chain_address, encoded
from dafka.gateway.share import batches_of
from dafka.limits import LEDGER_EPOCHS_AHEAD_MAX
from dafka.model import Partition, range_of, replace, slot_of
from dafka.node.ledgers import read_catalog, read_ledgers
from dafka.query.messages import HealthResponse
from tests.support.hostile_node import garbled

ORDERS = Topic("orders", 2, UUID(int=7), {})
FIRST, SECOND = KafkaPartition("orders", 0), KafkaPartition("orders", 1)
TOPICS = {"orders": ORDERS}


class StoreOfLogs:
    """A store's query port, as far as it is asked here."""

    def __init__(self):
        self.logs = {}
        self.read_together = []

    def add(self, *batches):
        for batch in batches:
            self.logs.setdefault(batch.partition, []).append(batch)

    def chain(self, partition, epoch, *kinds):
        log = Partition(LEDGER, chain_address("A" * 32, partition, epoch))
        lines = [LedgerLine(epoch, number, kind, 0) for number, kind in enumerate(kinds)]
        self.add(*batches_of(log, 0, [encoded(line, partition) for line in lines]))
        return lines

    def ranges(self, topic):
        return {
            place: range(batches[0].sequence, batches[-1].end)
            for place, batches in self.logs.items()
            if place.topic == topic
        }

    endpoint = "tcp://127.0.0.1:1"

    def health(self):
        return HealthResponse("S0", 0, 0, new=True)

    def ranges_of(self, places):
        return {place: self.ranges(place.topic)[place] for place in places}

    def read_each(self, spans, bytes_max):
        self.read_together.append(len(spans))
        return {place: self.logs[place][:1] for place in spans}

    def scan(self, place, start, end, first=()):
        log = self.logs[place]
        assert list(first) == log[: len(first)]
        return (one for one in log if one.end > start and one.sequence < end)


def test_a_ledger_of_an_epoch_that_is_far_ahead_is_nobodys():
    store = StoreOfLogs()
    store.chain(FIRST, 9 + LEDGER_EPOCHS_AHEAD_MAX + 1, LineKind.BEGIN, LineKind.OPEN)
    there = {8: store.chain(FIRST, 8, LineKind.BEGIN, LineKind.OPEN)}
    assert read(store, FIRST).lines == there
    near = 9 + LEDGER_EPOCHS_AHEAD_MAX
    there = {near: store.chain(FIRST, near, LineKind.BEGIN, LineKind.OPEN)}
    assert read(store, FIRST).lines == there


def read(store, partition, epoch=9):
    wanted = ReadLedger(partition, epoch, 3)
    (found,) = read_ledgers(store, [wanted], TOPICS).items()
    assert found[0] == (partition, epoch)
    assert (found[1].token, found[1].store) == (3, "S0")
    return found[1]


def test_thousands_of_ledgers_are_read_some_hundred_at_a_time():
    store, topic = StoreOfLogs(), ORDERS._replace(partitions=600)
    partitions = [KafkaPartition("orders", number) for number in range(600)]
    chains = {one: store.chain(one, 1, LineKind.BEGIN, LineKind.OPEN) for one in partitions}
    store.add(*batches_of(Partition("orders", "A" * 32), 0, [b"a record"]))
    wanted = [ReadLedger(one, 9, 3) for one in partitions]
    found = read_ledgers(store, wanted, {"orders": topic})
    assert {one: read.lines[1] for (one, _), read in found.items()} == chains
    assert store.read_together == [256, 256, 88]


def test_of_chains_the_newest_whole_one_is_read_and_what_there_is_of_newer_ones():
    store = StoreOfLogs()
    store.chain(FIRST, 1, LineKind.BEGIN, LineKind.OPEN)
    whole = store.chain(FIRST, 2, LineKind.BEGIN, LineKind.OPEN, LineKind.TRIM)
    torn = store.chain(FIRST, 3, LineKind.BEGIN)
    store.chain(SECOND, 4, LineKind.BEGIN, LineKind.OPEN)
    assert read(store, FIRST).lines == {2: whole, 3: torn}


class Dropping(StoreOfLogs):
    """While it is read, so many times, a newer chain becomes whole and an older one is dropped."""

    times = 1

    def ranges_of(self, places):
        if self.times:
            self.times -= 1
            old, new = sorted(self.logs)
            self.logs[old] = [replace(one, sequence=one.sequence + 1) for one in self.logs[old]]
            self.add(*batches_of(new, self.logs[new][-1].end, self.values))
        return super().ranges_of(places)


@pytest.fixture
def dropping():
    store = Dropping()
    store.chain(FIRST, 1, LineKind.BEGIN, LineKind.OPEN)
    lines = store.chain(FIRST, 2, LineKind.BEGIN)
    lines.append(LedgerLine(2, 1, LineKind.OPEN, 0))
    store.values = [encoded(lines[1], FIRST)]
    return store, lines


def test_what_is_dropped_while_it_is_read_is_read_again(dropping):
    store, lines = dropping
    assert read(store, FIRST).lines == {2: lines}


def test_a_store_that_does_not_end_to_drop_what_is_read_cannot_be_read(dropping):
    store, _ = dropping
    store.values = []
    store.times = 1_000
    with pytest.raises(QueryError, match="drops its ledgers"):
        read(store, FIRST)


def test_a_chain_whose_beginning_is_gone_is_not_read():
    store = StoreOfLogs()
    store.chain(FIRST, 1, LineKind.BEGIN, LineKind.OPEN)
    (log,) = store.logs
    store.logs[log] = [replace(batch, sequence=1) for batch in store.logs[log]]
    assert read(store, FIRST).lines == {}


def test_a_batch_that_cannot_be_read_ends_its_chain():
    store = StoreOfLogs()
    store.chain(FIRST, 1, LineKind.BEGIN, LineKind.OPEN)
    (log,) = store.logs
    store.logs[log] = [
        replace(one, content=garbled(one.content, 30, b"\7")) for one in store.logs[log]
    ]
    assert read(store, FIRST).lines == {}


def test_a_new_disk_says_so_and_one_that_is_changed_meanwhile_is_not_read():
    store = StoreOfLogs()
    assert read(store, FIRST).new
    identities = iter(("S0", "S1"))
    store.health = lambda: HealthResponse(next(identities), 0, 0)
    with pytest.raises(QueryError, match="another disk"):
        read(store, FIRST)


def test_records_are_those_in_the_partitions_slots():
    store = StoreOfLogs()
    drawn = [Partition("orders", f"{number:032X}") for number in range(20)]
    for log in drawn:
        store.add(*batches_of(log, 0, [b"x", b"y"]))
    for partition in (FIRST, SECOND):
        kept = read(store, partition).kept
        own = {
            one.address for one in drawn if range_of(slot_of(one.address), 2) == partition.number
        }
        assert kept == dict.fromkeys(own, range(2))
    assert read(store, CONTROLLED).kept == {}


def test_topics_are_read_in_their_order():
    store = StoreOfLogs()
    log = Partition("__catalog", "A")
    other = ORDERS._replace(name="sales")
    values = [encoded_topic(ORDERS), b"none", encoded_topic(other)]
    store.add(*batches_of(log, 0, values))
    assert read_catalog(store, log, 0, 3) == [TopicState(ORDERS), TopicState(other)]
    assert read_catalog(store, log, 1, 3) == [TopicState(other)]
