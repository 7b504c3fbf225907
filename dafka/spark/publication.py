"""What is staged is published where its topic's register says, by whoever comes.

What is published follows from the register and what is staged alone, so it does not matter who does
it, how often, and whether somebody else does it at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4, uuid5

from dafka.errors import DafkaError
from dafka.groups.membership import blocking_of
from dafka.groups.runs import STAGED
from dafka.model import Partition, Range, address_in, address_of
from dafka.process.clock import CLOCK
from dafka.query.cluster_client import ClusterClient
from dafka.spark.planning import DataLossError, RangeReader
from dafka.spark.rows import ahead
from dafka.spark.staging import unwrapped
from dafka.transport.request import QueryClient

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from dafka.cluster import Cluster
    from dafka.groups.runs import StagedRows, TopicSink
    from dafka.model import Batch, Slots
    from dafka.process.clock import Clock
    from dafka.query.cluster_client import Answers
    from dafka.query.sharing_store import SharingStore
    from dafka.spark.options import SinkOptions
    from dafka.spark.staging import MirrorPort
    from dafka.transport.request import ConnectClient

    Ends = dict[int, int]
    """Where partitions end, by their numbers."""

_NAMESPACE = UUID("6f1b6b4e-6d0c-5b6e-9d0e-3a6c1f0f7d5a")
"""Drawn once; makes our names differ from everybody else's."""


class LostRowsError(DafkaError):
    """What was agreed on is not all published, and what was staged of it is kept no more."""


def _drawn() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class CommitPorts:
    """What the commit of a run has around it; in the simulator that is something else.

    Attributes:
        mirror: What batches are published through.
        connect: Makes connections to stores.
        clock: What time it is.
        ahead: Reads what is staged while what was read before is being published.
        draw: A name that nobody else has.
    """

    mirror: Callable[[SinkOptions], MirrorPort]
    connect: ConnectClient = QueryClient
    clock: Clock = CLOCK
    ahead: Callable[[Generator[Batch, None, None]], Iterator[Batch]] = ahead
    draw: Callable[[], str] = _drawn


def address_for(cluster: Cluster, seed: str, number: int, partitions: int) -> str:
    """The address of one of so many partitions of a topic's sinks.

    A client of Kafka finds it in the partition of that number, if its topic has so many.
    """
    drawn = cluster.own_address(address_of(uuid5(_NAMESPACE, f"{seed}/{number}/{partitions}")))
    return address_in(drawn, number, partitions)


class Publisher:
    """Publishes runs. Used by one thread at a time.

    Args:
        options: Of the sink.
        cluster: Where to.
        stores: How its stores are asked.
        ports: What is around it.
    """

    def __init__(
        self, options: SinkOptions, cluster: Cluster, stores: ClusterClient, ports: CommitPorts
    ) -> None:
        self._ports = ports
        self._options = options
        self._cluster = cluster
        self._stores = stores
        self._whole: set[tuple[str, int, str]] = set()
        """Runs of which it is known that all that a topic has of them is published."""
        self._kept: Answers[Slots] | None = None
        """What stores keep, once they were asked: who is away is waited for once."""

    def publish(self, topic: str, sink: TopicSink) -> None:
        """Publish all that the last run has in a topic; returns when stores have it.

        Raises:
            LostRowsError: What was staged is kept no more.
            NotStoredError: Not enough stores acknowledge.
            QueryError: No store answers.
        """
        self._send(topic, sink, sink.parts(topic))
        self._note(topic, sink)

    def complete(self, topic: str, sink: TopicSink, *, patient: bool) -> None:
        """Publish what of that is not known to be published.

        Args:
            topic: In which.
            sink: What is there.
            patient: Whether to let somebody else do it who is at it.

        Raises:
            LostRowsError: What was staged is kept no more.
            NotStoredError: Not enough stores acknowledge.
            QueryError: No store answers.
        """
        parts = sink.parts(topic)
        if not parts or self._is_noted(topic, sink):
            return
        enough = self._enough(self._partition(topic, sink, number) for number in parts)
        told = self._told(topic, sink, parts)
        while patient and _lacking(parts, told, enough):
            self._ports.clock.sleep(self._options.stalled_s)
            before, told = told, self._told(topic, sink, parts)
            if told == before:
                break
        try:
            self._send(topic, sink, _lacking(parts, told, enough))
        except LostRowsError:
            # What one store has the others get from it.
            if _lacking(parts, told, 1):
                raise
        self._note(topic, sink)

    def _note(self, topic: str, sink: TopicSink) -> None:
        if sink.last is not None:
            self._whole.add((sink.last.key, sink.last.run, topic))

    def _is_noted(self, topic: str, sink: TopicSink) -> bool:
        return sink.last is not None and (sink.last.key, sink.last.run, topic) in self._whole

    def _partition(self, topic: str, sink: TopicSink, number: int) -> Partition:
        address = address_for(self._cluster, sink.seed, number, len(sink.ends))
        return Partition(topic, address)

    def _enough(self, partitions: Iterable[Partition]) -> int:
        """How many stores must have what is published in any of these.

        If that is not said, as many as block a majority of those that keep its slot; who does not
        answer may be one of them.
        """
        usual = self._options.min_acks
        if self._options.acks_given or usual == 1:
            return usual
        if self._kept is None:
            self._kept = self._stores.all(lambda store: store.kept)
        told, unknown = self._kept.given.values(), len(self._kept.failures)
        fewest = min(sum(slots.keeps(*one) for slots in told) for one in partitions) + unknown
        return min(usual, blocking_of(max(1, fewest)))

    def _told(self, topic: str, sink: TopicSink, numbers: Iterable[int]) -> list[Ends]:
        """Where stores say that partitions end, each of its own.

        By name: what retention has emptied may be forgotten.

        Raises:
            QueryError: No store answers.
        """
        named = {self._partition(topic, sink, number): number for number in numbers}

        def ends(store: SharingStore) -> Ends:
            return {named[one]: kept.stop for one, kept in store.own_ranges_of(named).items()}

        answers = self._stores.all(ends)
        if answers.given:
            return list(answers.given.values())
        ports = self._ports
        with ClusterClient(self._cluster, None, ports.connect, ports.clock) as patient:
            return patient.some(ends, 1)

    def _send(self, topic: str, sink: TopicSink, parts: Mapping[int, range]) -> None:
        """Publish what is staged of these; returns when stores have all of it."""
        if not parts or sink.last is None:
            return
        partitions = {number: self._partition(topic, sink, number) for number in parts}
        enough = self._enough(partitions.values())
        mirror = self._ports.mirror(replace(self._options, min_acks=enough))
        # A mirror that wrote here before a failure would go on behind what it wrote then.
        mirror.forget(partitions.values())
        begins = {number: part.start for number, part in parts.items()}
        segments = [one for one in sink.last.segments if one.topic == topic]
        try:
            for batch in self._ports.ahead(self._staged(segments, partitions, begins)):
                mirror.publish(batch, self._options.silence_s)
            mirror.flush(self._options.silence_s)
        except DataLossError as error:
            raise LostRowsError(str(error)) from error
        finally:
            mirror.forget(partitions.values())

    def _staged(
        self,
        segments: Iterable[StagedRows],
        partitions: Mapping[int, Partition],
        begins: dict[int, int],
    ) -> Generator[Batch, None, None]:
        """Yield what is staged for some partitions, as it is to be published.

        Args:
            segments: In order.
            partitions: By their numbers.
            begins: The next sequence of each; goes on with what is yielded.
        """
        with RangeReader(self._cluster, self._ports.connect, self._ports.clock) as stores:
            # Who does not answer the other questions is the last to be asked here, too.
            stores.prefer(0, self._stores.silent)
            for segment in segments:
                if not any(number in partitions for number, _ in segment.rows):
                    continue
                end = segment.start + segment.batches
                wanted = Range(Partition(STAGED, segment.address), segment.start, end)
                pages = stores.pages(wanted)
                yield from unwrapped((one for page in pages for one in page), partitions, begins)


def _lacking(parts: Mapping[int, range], told: Sequence[Ends], stores: int) -> dict[int, range]:
    """The parts that less than so many stores have."""
    return {
        number: part
        for number, part in parts.items()
        if sum(ends.get(number, 0) >= part.stop for ends in told) < stores
    }
