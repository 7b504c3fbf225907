"""Ranges of partitions: how they are dealt to tasks, and read out of a cluster's stores.

How they are dealt depends on its arguments alone: a micro-batch that is planned again after a crash
is cut into the same tasks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dafka.errors import MisuseError, QueryError
from dafka.limits import READ_BYTES_MAX, READ_SPANS_MAX
from dafka.model import Range
from dafka.process.clock import CLOCK
from dafka.query.cluster_client import ClusterClient
from dafka.query.listing import Listing
from dafka.spark.bounds import Bound
from dafka.transport.request import QueryClient

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Self

    from dafka.cluster import Cluster
    from dafka.model import Batch, Partition
    from dafka.process.clock import Clock
    from dafka.query.client import StoreClient
    from dafka.spark.bounds import TopicSelection
    from dafka.transport.request import ConnectClient


T = TypeVar("T")


TaskRanges = tuple[Range, ...]

Pieces = list[tuple[Range, "list[Batch]"]]
"""Parts of ranges, with the batches that hold them."""

TOGETHER_RECORDS = 20_000
"""So many records at most are read with one question, of ranges that follow each other."""


def together(ranges: Iterable[Range]) -> Iterator[list[Range]]:
    """Yield ranges in their order, as many at a time as are read with one question."""
    group: list[Range] = []
    records = 0
    for wanted in ranges:
        records += wanted.records
        if group and (records > TOGETHER_RECORDS or len(group) == READ_SPANS_MAX):
            yield group
            group, records = [], wanted.records
        group.append(wanted)
    if group:
        yield group


def dealt(ranges: Iterable[Range], records_max: int, tasks_min: int) -> list[TaskRanges]:
    """Deal ranges to tasks of equal size, in order, cutting where a task is full.

    Args:
        ranges: What is to be read.
        records_max: At most so many records in a task.
        tasks_min: At least so many tasks, as far as there are records.
    """
    left = [one for one in ranges if one.records > 0]
    total = sum(one.records for one in left)
    if not total:
        return []
    tasks = min(total, max(tasks_min, -(-total // records_max)))
    dealt_tasks: list[TaskRanges] = []
    given = 0
    left.reverse()
    for number in range(1, tasks + 1):
        task: list[Range] = []
        # Shares by rounding the running total, so that none differs by more than one record.
        while given < total * number // tasks:
            partition, start, end = left.pop()
            cut = min(end, start + total * number // tasks - given)
            task.append(Range(partition, start, cut))
            given += cut - start
            if cut < end:
                left.append(Range(partition, cut, end))
        dealt_tasks.append(tuple(task))
    return dealt_tasks


def dealt_whole(ranges: Iterable[Range], records_max: int, tasks_min: int) -> list[TaskRanges]:
    """Deal ranges to tasks without cutting any: who writes needs each partition in order.

    Args:
        ranges: What is to be read.
        records_max: So many records in a task are meant; a larger range is one all the same.
        tasks_min: At least so many tasks, as far as there are ranges.
    """
    there = (one for one in ranges if one.records > 0)
    largest_first = sorted(there, key=lambda one: (-one.records, one))
    total = sum(one.records for one in largest_first)
    count = min(len(largest_first), max(tasks_min, -(-total // records_max)))
    tasks: list[list[Range]] = [[] for _ in range(count)]
    sizes = [0] * count
    for one in largest_first:
        least = sizes.index(min(sizes))
        tasks[least].append(one)
        sizes[least] += one.records
    return [tuple(task) for task in tasks]


PATIENCE_S = 30.0
"""How long the driver waits for a store to come back: an error there ends the query."""

_AGAIN_S = 0.5


class DataLossError(QueryError):
    """Records that were to be read are in no store of the cluster any more."""

    retriable = False


class _Listed(NamedTuple):
    """What one store has listed."""

    listing: Listing
    kept: dict[Partition, range]


class RangeReader:
    """What a cluster's stores have, and exactly what was planned of it. Used by one thread.

    Args:
        cluster: Which; the first store that answers is read, others where it fails.
        connect: Makes the connections.
        clock: What time it is.

    Raises:
        MisuseError: An endpoint cannot be used.
    """

    def __init__(
        self, cluster: Cluster, connect: ConnectClient = QueryClient, clock: Clock = CLOCK
    ) -> None:
        self._cluster = cluster
        self._stores = ClusterClient(cluster, connect=connect, clock=clock)
        self._listings: dict[tuple[str, TopicSelection, str | None], _Listed] = {}
        """By store, by what was asked for, and by topic where there are names."""

    def there(self, topics: TopicSelection, *, every: bool = False) -> dict[Partition, range]:
        """Return the sequences of every partition that is wanted, as the best of the stores has it.

        Args:
            topics: Which are wanted.
            every: Whether to do without the answer of no store.

        Raises:
            QueryError: No store answers, or one does not that has to.
        """
        found, failure = self._listed(topics)
        if failure is not None and every:
            raise failure
        return found

    def listed(self, topics: TopicSelection) -> tuple[dict[Partition, range], bool]:
        """Return the same, and whether every store has answered.

        Raises:
            QueryError: No store answers.
        """
        found, failure = self._listed(topics)
        return found, failure is None

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int] | None:
        """Return where these end, also of what stores have forgotten; None if one does not say."""
        named = list(partitions)
        answers = self._stores.all(lambda store: store.ranges_of(named))
        if answers.failure is not None:
            return None
        told = answers.given.values()
        return {one: max(ranges.get(one, range(0)).stop for ranges in told) for one in named}

    def settled(self, bound: Bound, there: Mapping[Partition, range]) -> Bound:
        """Return `bound` with sequences where it has a time: of the first record as late as that.

        Raises:
            QueryError: No store answers.
            MisuseError: A partition has none, and that is not to be passed over.
        """
        sequences = dict(bound.sequences)
        for partition, kept in there.items():
            timestamp_ms = bound.time_of(partition)
            if timestamp_ms is None:
                continue
            found = self._find(partition, timestamp_ms)
            if found is None and bound.strict:
                raise MisuseError(
                    f"partition {partition.address!r} of topic {partition.topic!r} has no record "
                    f"as late as {timestamp_ms}: with the option "
                    "startingOffsetsByTimestampStrategy=latest reading begins after what it has"
                )
            sequences[partition] = kept.stop if found is None else found
        return Bound(bound.latest, sequences=sequences)

    @property
    def silent(self) -> tuple[str, ...]:
        """The query ports of stores that have not answered lately, though others have."""
        return self._stores.silent

    def prefer(self, number: int, silent: Collection[str] = ()) -> None:
        """Read from another store first than those with other numbers do, as far as there are.

        Args:
            number: Which.
            silent: Stores that have not answered somebody else: they are asked last, and not
                waited for long. If none has, nothing is known of them.
        """
        servers = [one for one in self._cluster.stores if one not in silent]
        if not servers:
            servers, silent = list(self._cluster.stores), ()
        self._stores.prefer(servers[number % len(servers)], silent)

    def pieces(
        self, ranges: Iterable[Range], *, fail_on_data_loss: bool = True
    ) -> Iterator[Pieces]:
        """Yield the batches that hold ranges of different partitions; see `pages`.

        What one question brings of many comes together.
        """
        for group in together(ranges):
            left = group
            while len(left) > 1 and (found := self._read_together(left)):
                yield found
                ends = {wanted.partition: batches[-1].end for wanted, batches in found}
                after = (
                    Range(one.partition, max(one.start, ends.get(one.partition, 0)), one.end)
                    for one in left
                )
                left = [one for one in after if one.records > 0]
            for wanted in left:
                for batches in self.pages(wanted, fail_on_data_loss=fail_on_data_loss):
                    yield [(wanted, batches)]

    def _read_together(self, group: list[Range]) -> Pieces:
        """The beginnings of some ranges, of those that the first store has that answers."""
        spans = {one.partition: range(one.start, one.end) for one in group}
        try:
            found = self._stores.first(
                lambda store: store.read_each(spans, READ_BYTES_MAX, READ_BYTES_MAX)
            )
        except QueryError:
            return []  # who is asked for one after the other says why
        held = ((one, found.get(one.partition)) for one in group)
        return [
            (one, batches)
            for one, batches in held
            if batches and batches[0].sequence <= one.start < batches[0].end
        ]

    def pages(self, wanted: Range, *, fail_on_data_loss: bool = True) -> Iterator[list[Batch]]:
        """Yield the batches that hold a range, many at a time.

        Whole batches: the first may begin below, the last end above what was asked.

        Raises:
            DataLossError: No store has a part of it any more, and that is not to be passed over.
            QueryError: No store answers, or none has a part of it yet.
        """
        partition, at, end = wanted
        while at < end:
            batches = self._page(partition, at, end)
            if batches:
                yield batches
                at = batches[-1].end
                continue
            following, emptied = self._next_kept(partition, at)
            if fail_on_data_loss:
                reason = (
                    "nothing of it is left: the topic was deleted, or retention has taken all"
                    if emptied
                    else f"retention has taken what was before {following}"
                )
                raise DataLossError(
                    f"sequences {at} to {end - 1} of partition {partition.address} of topic "
                    f"{partition.topic!r} are in no store any more ({reason}); with the option "
                    "failOnDataLoss=false they are passed over"
                )
            at = min(following, end)

    def close(self) -> None:
        """Release the connections."""
        self._stores.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find(self, partition: Partition, timestamp_ms: int) -> int | None:
        answers = self._stores.all(lambda store: store.find(partition, timestamp_ms))
        found = [sequence for sequence in answers.given.values() if sequence is not None]
        if found:
            return min(found)
        if answers.failure is not None:
            # That very store may have some.
            raise answers.failure
        return None

    def _next_kept(self, partition: Partition, at: int) -> tuple[int, bool]:
        """The first sequence behind `at` that a store keeps, where none has `at` any more.

        And whether none keeps anything: then it is the sequence that comes next.

        Raises:
            QueryError: A store does not answer, none has come as far as `at`, or one has it now.
        """

        def following(store: StoreClient) -> tuple[range, int]:
            kept = store.ranges_of([partition]).get(partition, range(0))
            if at not in kept:
                return kept, kept.start
            batches = store.read(partition, at, 1)
            return kept, max(at, batches[0].sequence) if batches else kept.stop

        answers = self._stores.all(following)
        if answers.failure is not None:
            # That very store may keep more than the others.
            raise answers.failure
        kept = [held for held, _ in answers.given.values()]
        behind = [first for _, first in answers.given.values() if first >= at]
        if behind and min(behind) > at:
            return min(behind), not any(kept)
        raise QueryError(
            f"sequence {at} of partition {partition.address} of topic {partition.topic!r} is "
            f"not there yet: the cluster ends at {max((one.stop for one in kept), default=0)}"
        )

    def _listed(self, topics: TopicSelection) -> tuple[dict[Partition, range], QueryError | None]:
        """What those stores have that answer, and why another one does not."""
        found: dict[Partition, range] = {}
        failure: QueryError | None = None
        # By name where there are names: a key may permit no more than that.
        for name in topics.names or (None,):
            answers = self._stores.all(partial(self._ranges, topics, name))
            failure = answers.failure or failure
            if failure is not None and not answers.given:
                raise failure
            for ranges in answers.given.values():
                for partition, kept in ranges.items():
                    known = found.get(partition, kept)
                    if known is not kept:
                        kept = range(min(known.start, kept.start), max(known.stop, kept.stop))
                    found[partition] = kept
        return found, failure

    def _ranges(
        self, topics: TopicSelection, name: str | None, store: StoreClient
    ) -> dict[Partition, range]:
        """What one store keeps of what is wanted, of one topic where there are names."""
        place = store.endpoint, topics, name
        listed = self._listings.setdefault(place, _Listed(Listing(name), {}))
        news, everything = listed.listing.read(store)
        if everything:
            listed.kept.clear()
        for partition, kept in news.items():
            if kept is None:
                listed.kept.pop(partition, None)
            elif topics.takes(partition):
                listed.kept[partition] = kept
        return listed.kept

    def _page(self, partition: Partition, at: int, end: int) -> list[Batch]:
        """What the first store that has `at` answers; nothing if all answer and none has it."""

        def read(store: StoreClient) -> list[Batch] | None:
            batches = store.read(partition, at, end - at)
            return batches if batches and batches[0].sequence <= at < batches[0].end else None

        return self._stores.first_with(read) or []


def patiently(stores: RangeReader, ask: Callable[[RangeReader], T], clock: Clock = CLOCK) -> T:
    """Ask a cluster's stores, again and again where none answers: for the driver.

    Raises:
        QueryError: None has answered for `PATIENCE_S`.
    """
    deadline = clock.seconds() + PATIENCE_S
    while True:
        try:
            return ask(stores)
        except QueryError:
            if clock.seconds() > deadline:
                raise
            clock.sleep(_AGAIN_S)
