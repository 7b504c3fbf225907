"""Reading the ledgers of Kafka partitions from one store, for whoever takes over (ADR 28)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import QueryError, RecordError
from dafka.gateway.broker import KafkaPartition
from dafka.gateway.catalog import CATALOG, ORDERED, Catalog, decoded_state
from dafka.gateway.chains import readable
from dafka.gateway.effects import ReadLedger
from dafka.gateway.events import StoreRead
from dafka.gateway.lines import EPOCH_MAX, LEDGER, chain_name, chain_of, mark_of_partition
from dafka.limits import LEDGER_EPOCHS_AHEAD_MAX
from dafka.model import range_of, slot_of
from dafka.records.batch import values_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from dafka.gateway.broker import Topic
    from dafka.gateway.catalog import TopicState
    from dafka.gateway.events import LedgerLine
    from dafka.model import Batch, Partition
    from dafka.query.client import StoreClient


READS_MAX = 10
"""So often a store is read again as it has dropped what was being read."""

FIRST_BYTES = 64 * 1024
"""What is read of a ledger together with others; of most that is all."""

TOGETHER = 256
"""Ledgers that are read together: a gateway may have to take over thousands."""


def read_ledgers(
    client: StoreClient, wanted: Collection[ReadLedger], topics: Mapping[str, Topic]
) -> dict[tuple[KafkaPartition, int], StoreRead]:
    """Return what a store has of several partitions, by partition and epoch.

    Args:
        client: Its query port.
        wanted: Which.
        topics: All that Kafka clients see, or saw.

    Raises:
        QueryError: It does not answer, or is another one by the end.
    """
    # Before the rest: a disk that was new when it was read may have lacked something.
    health = client.health()
    lines = _read_lines(client, {one.partition: one.epoch for one in wanted})
    # The records after the lines: what a line speaks of, and is there, is seen.
    found = {}
    kept: dict[KafkaPartition, dict[str, range]] = {}
    for topic in {one.partition.topic for one in wanted}:
        numbers = 1 if KafkaPartition(topic, 0) in ORDERED else topics[topic].partitions
        for place, there in client.ranges(topic).items():
            partition = KafkaPartition(topic, range_of(slot_of(place.address), numbers))
            kept.setdefault(partition, {})[place.address] = there
    if client.health().identity != health.identity:
        raise QueryError(f"{client.endpoint} has got another disk while it was read")
    for one in wanted:
        has = lines[one.partition], kept.get(one.partition, {})
        found[one.partition, one.epoch] = StoreRead(one.token, health.identity, *has, health.new)
    return found


def read_all_ledgers(
    client: StoreClient, topic: str | None = None
) -> Mapping[KafkaPartition, StoreRead]:
    """Return what a store has of every Kafka partition that it knows of.

    Args:
        client: Its query port.
        topic: Only of this one.

    Raises:
        QueryError: It does not answer.
    """
    catalog = known_topics(client)
    wanted = [
        ReadLedger(partition, EPOCH_MAX, 0)
        for partition in catalog.partitions()
        if topic in (None, partition.topic)
    ]
    found = read_ledgers(client, wanted, catalog.known)
    return {partition: read for (partition, _), read in found.items()}


def known_topics(client: StoreClient) -> Catalog:
    """Return the topics that Kafka clients have made in a cluster, as a store knows them.

    Raises:
        QueryError: It does not answer.
    """
    catalog = Catalog()
    for place, there in sorted(client.ranges(CATALOG).items()):
        catalog.add(read_catalog(client, place, there.start, there.stop))
    return catalog


def read_catalog(client: StoreClient, place: Partition, start: int, end: int) -> list[TopicState]:
    """Return what a controller has said in a log, in its order.

    Raises:
        QueryError: The store does not answer.
    """
    values = (value for _, value in _values(client, place, start, end))
    return [state for state in map(decoded_state, values) if state is not None]


def _read_lines(
    client: StoreClient, wanted: Mapping[KafkaPartition, int]
) -> dict[KafkaPartition, Mapping[int, Sequence[LedgerLine]]]:
    """The lines of each partition, by epoch; of what has been there all the while.

    Args:
        client: A store.
        wanted: Of each partition the epoch of who takes it over: what is far above is made up.
    """
    for _ in range(READS_MAX):
        there = client.ranges(LEDGER)
        chains: dict[int, list[tuple[int, Partition]]] = {}
        for place, kept in there.items():
            if (name := chain_name(place.address)) is not None and kept:
                chains.setdefault(name.mark, []).append((name.epoch, place))
        newest_first: list[tuple[KafkaPartition, list[tuple[int, Partition]]]] = []
        for one, epoch in wanted.items():
            last = epoch + LEDGER_EPOCHS_AHEAD_MAX
            marked = chains.get(mark_of_partition(one), ())
            ranked = sorted((chain for chain in marked if chain[0] <= last), reverse=True)
            newest_first.append((one, ranked))
        read: set[Partition] = set()
        found: dict[KafkaPartition, Mapping[int, Sequence[LedgerLine]]] = {}
        for start in range(0, len(newest_first), TOGETHER):
            some = newest_first[start : start + TOGETHER]
            newest = {ranked[0][1] for _, ranked in some if ranked}
            begun = client.read_each({place: there[place] for place in newest}, FIRST_BYTES)
            for one, ranked in some:
                found[one] = _newest_whole(client, one, ranked, there, begun)
            read |= begun.keys()
        # It drops what is before a newer beginning: half of that may have been read by then.
        after = client.ranges_of(read)
        if all(after[one].start == there[one].start for one in read if one in after):
            return found
    raise QueryError(f"{client.endpoint} drops its ledgers while they are read")


def _newest_whole(
    client: StoreClient,
    partition: KafkaPartition,
    newest_first: Iterable[tuple[int, Partition]],
    there: Mapping[Partition, range],
    begun: dict[Partition, list[Batch]],
) -> dict[int, Sequence[LedgerLine]]:
    """The chain of the highest epoch that is whole, and what there is of those above.

    What is read to find out is added to what has been begun to be read.
    """
    found: dict[int, Sequence[LedgerLine]] = {}
    for epoch, place in newest_first:
        first = begun.setdefault(place, [])
        values = _values(client, place, there[place].start, there[place].stop, first)
        chain = chain_of(values, partition, epoch)
        if chain:
            found[epoch] = chain
        if readable(chain):
            break
    return found


def _values(
    client: StoreClient, place: Partition, start: int, end: int, first: Sequence[Batch] = ()
) -> Iterator[tuple[int, bytes | None]]:
    """The values of records with their sequences; nothing behind what cannot be read."""
    for batch in client.scan(place, start, end, first):
        try:
            values = values_of(batch, start)
        except RecordError:
            return
        yield from enumerate(values, max(start, batch.sequence))
