from __future__ import annotations

from uuid import UUID

from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.catalog import CONTROLLED, encoded_topic
from dafka.gateway.effects import ReadLedger
from dafka.gateway.events import LedgerLine, LineKind
from dafka.gateway.lines import LEDGER, chain_address, encoded
from dafka.gateway.share import batches_of
from dafka.model import Partition, range_of, replace, slot_of
from dafka.node.ledgers import read_ledgers, read_topics
from tests.support.hostile_node import garbled

ORDERS = Topic("orders", 2, UUID(int=7), {})
FIRST, SECOND = KafkaPartition("orders", 0), KafkaPartition("orders", 1)
TOPICS = {"orders": ORDERS}


class StoreOfLogs:
    """A store's query port, as far as it is asked here."""

    def __init__(self):
        self.logs = {}

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

    def scan(self, place, start, end):
        return (one for one in self.logs[place] if one.end > start and one.sequence < end)


def read(store, partition, epoch=9):
    wanted = ReadLedger(partition, epoch, 3)
    (found,) = read_ledgers(store, "S0", [wanted], TOPICS).items()
    assert found[0] == (partition, epoch)
    assert (found[1].token, found[1].store) == (3, "S0")
    return found[1]


def test_of_chains_the_newest_whole_one_is_read_and_what_there_is_of_newer_ones():
    store = StoreOfLogs()
    store.chain(FIRST, 1, LineKind.BEGIN, LineKind.OPEN)
    whole = store.chain(FIRST, 2, LineKind.BEGIN, LineKind.OPEN, LineKind.TRIM)
    torn = store.chain(FIRST, 3, LineKind.BEGIN)
    store.chain(SECOND, 4, LineKind.BEGIN, LineKind.OPEN)
    assert read(store, FIRST).lines == {2: whole, 3: torn}


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
    assert read_topics(store, log, 0, 3) == [ORDERS, other]
    assert read_topics(store, log, 1, 3) == [other]
