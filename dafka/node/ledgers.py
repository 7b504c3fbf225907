"""Reading the ledgers of Kafka partitions from one store, for whoever takes over (ADR 28)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.gateway.broker import KafkaPartition
from dafka.gateway.catalog import CONTROLLED, decoded_topic
from dafka.gateway.events import LineKind, StoreRead
from dafka.gateway.lines import LEDGER, chain_name, chain_of, mark_of_partition
from dafka.model import range_of, slot_of
from dafka.records.batch import values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dafka.gateway.broker import Topic
    from dafka.gateway.effects import ReadLedger
    from dafka.gateway.events import LedgerLine
    from dafka.model import Partition
    from dafka.query.client import StoreClient


def read_ledgers(
    client: StoreClient, store: str, wanted: Iterable[ReadLedger], topics: Mapping[str, Topic]
) -> dict[tuple[KafkaPartition, int], StoreRead]:
    """Return what a store has of several partitions, by partition and epoch, in one pass.

    Args:
        client: Its query port.
        store: What it is called.
        wanted: Which.
        topics: All that Kafka clients see.

    Raises:
        QueryError: It does not answer.
    """
    chains: dict[int, list[tuple[int, Partition, int]]] = {}
    for place, there in client.ranges(LEDGER).items():
        if (name := chain_name(place.address)) is not None and there.start == 0 < there.stop:
            chains.setdefault(name.mark, []).append((name.epoch, place, there.stop))
    # The records after the lines: what a line speaks of, and is there, is seen.
    found = {}
    lines = {}
    for one in wanted:
        newest_first = sorted(chains.get(mark_of_partition(one.partition), ()), reverse=True)
        lines[one] = _newest_whole(client, one.partition, newest_first)
    kept: dict[KafkaPartition, dict[str, range]] = {}
    for topic in {one.partition.topic for one in wanted}:
        numbers = 1 if topic == CONTROLLED.topic else topics[topic].partitions
        for place, there in client.ranges(topic).items():
            partition = KafkaPartition(topic, range_of(slot_of(place.address), numbers))
            kept.setdefault(partition, {})[place.address] = there
    for one in wanted:
        read = StoreRead(one.token, store, lines[one], kept.get(one.partition, {}))
        found[one.partition, one.epoch] = read
    return found


def read_topics(client: StoreClient, place: Partition, start: int, end: int) -> list[Topic]:
    """Return the topics that the records of a log are about, in their order.

    Raises:
        QueryError: The store does not answer.
    """
    values = _values(client, place, start, end)
    return [topic for topic in map(decoded_topic, values) if topic is not None]


def _newest_whole(
    client: StoreClient,
    partition: KafkaPartition,
    newest_first: Iterable[tuple[int, Partition, int]],
) -> dict[int, Sequence[LedgerLine]]:
    """The chain of the highest epoch that is whole, and what there is of those above."""
    found: dict[int, Sequence[LedgerLine]] = {}
    for epoch, place, end in newest_first:
        chain = chain_of(_values(client, place, 0, end), partition, epoch)
        if chain:
            found[epoch] = chain
        if any(line.kind is LineKind.OPEN for line in chain):
            break
    return found


def _values(client: StoreClient, place: Partition, start: int, end: int) -> Iterator[bytes | None]:
    """The values of records; nothing behind what cannot be read."""
    for batch in client.scan(place, start, end):
        try:
            values = values_of(batch, start)
        except RecordError:
            return
        yield from values
