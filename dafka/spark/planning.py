"""Ranges of partitions: how they are dealt to tasks, and read out of a cluster's stores.

How they are dealt depends on its arguments alone: a micro-batch that is planned again after a crash
is cut into the same tasks.

How far a stream has come: what Spark keeps in its checkpoint.

| field | meaning |
|---|---|
| `next` | of every partition, the sequence after the last one read |
| `forgotten` | the same of those that no store lists any more, the longest unlisted first |
| `from` | of the partitions that are new in this micro-batch, where they begin |
| `begun` | whether it has been settled where the stream begins |
| `deal` | at least so many tasks, at most so many records in each |

Spark's log holds only where micro-batches end. Where the first one began it asks again after a
crash, and the answer to "latest" would be another one then; so the end carries the beginnings too.
So it does how a micro-batch was dealt to tasks: one that is repeated under other options must come
in the same tasks, as sinks may know their rows by them. The initial offset says nothing at all.
Of what stores have forgotten a bounded number of positions is kept, as a consumer keeps them: where
one comes back, or another cluster still lists it, the stream neither skips nor repeats any of it.
Spark compares offsets as text, hence the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dafka.errors import MisuseError, QueryError
from dafka.limits import READ_BYTES_MAX, READ_SPANS_MAX
from dafka.model import Partition
from dafka.process.clock import CLOCK
from dafka.query.cluster_client import ClusterClient
from dafka.spark.bounds import Bound

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Self

    from dafka.cluster import Cluster
    from dafka.model import Batch
    from dafka.process.clock import Clock
    from dafka.query.client import StoreClient
    from dafka.spark.bounds import TopicSelection


T = TypeVar("T")


class Range(NamedTuple):
    """Records of one partition, from sequence `start` to below `end`."""

    partition: Partition
    start: int
    end: int

    @property
    def records(self) -> int:
        """How many that is."""
        return self.end - self.start


TaskRanges = tuple[Range, ...]

Pieces = list[tuple[Range, "list[Batch]"]]
"""Parts of ranges, with the batches that hold them."""

SMALL_RECORDS = 1_000
"""Ranges of no more records are read with others, by one question for all of them."""

TOGETHER_RECORDS = 10_000
"""So many records at most, of such ranges, are read with one question."""


def together(ranges: Iterable[Range]) -> Iterator[list[Range]]:
    """Yield ranges in their order: large ones alone, small ones that follow each other as one."""
    small: list[Range] = []
    records = 0
    for wanted in ranges:
        fits = len(small) < READ_SPANS_MAX and records + wanted.records <= TOGETHER_RECORDS
        if small and (wanted.records > SMALL_RECORDS or not fits):
            yield small
            small, records = [], 0
        if wanted.records > SMALL_RECORDS:
            yield [wanted]
        else:
            small.append(wanted)
            records += wanted.records
    if small:
        yield small


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


def limited(
    starts: Mapping[Partition, int], ends: Mapping[Partition, int], records_max: int | None
) -> dict[Partition, int]:
    """Return ends of which all ranges together hold at most `records_max` records.

    Each partition gets a share in proportion to what it has, and at least one record, so that none
    waits for ever behind large ones. Where there are more partitions than records allowed, one of
    each passes the limit, as in Spark's Kafka source.
    """
    sizes = {partition: ends[partition] - starts[partition] for partition in sorted(ends)}
    total = sum(sizes.values())
    if records_max is None or total <= records_max:
        return dict(ends)
    waiting = {partition: size for partition, size in sizes.items() if size > 0}
    spare, others = max(0, records_max - len(waiting)), max(1, total - len(waiting))
    cut = dict(starts)
    seen = 0
    for partition, size in waiting.items():
        # Shares by rounding the running total, so that together they are exactly what there is.
        before = seen * spare // others
        seen += size - 1
        cut[partition] += 1 + seen * spare // others - before
    return cut


Places = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream has come.

    Attributes:
        begun: Whether it has been settled where it begins.
        begins: Where the partitions begin that are new in this micro-batch.
        nexts: The sequence after the last one read.
        forgotten: The same of those that no store lists any more, in the order in which that was
            found.
        deal: At least so many tasks, and at most so many records in each.
    """

    begun: bool = False
    begins: Mapping[Partition, int] = field(default_factory=dict)
    nexts: Mapping[Partition, int] = field(default_factory=dict)
    forgotten: Mapping[Partition, int] = field(default_factory=dict)
    deal: tuple[int, int] = (1, 1)

    def as_json(self) -> dict[str, Any]:
        """What Spark keeps."""
        return {
            "begun": self.begun,
            "deal": [*self.deal],
            "forgotten": [[*place, sequence] for place, sequence in self.forgotten.items()],
            "from": _places(self.begins),
            "next": _places(self.nexts),
        }

    @classmethod
    def of_json(cls, offset: Mapping[str, Any]) -> Progress:
        """Read what Spark has kept.

        Raises:
            MisuseError: It was not written by this source.
        """
        try:
            tasks_min, records_per_task = map(int, offset["deal"])
            forgotten = offset.get("forgotten", ())  # versions before this one kept all in `next`
            return cls(
                offset["begun"] is True,
                _sequences(offset["from"]),
                _sequences(offset["next"]),
                {Partition(topic, address): int(at) for topic, address, at in forgotten},
                (tasks_min, records_per_task),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MisuseError(f"the checkpoint holds no offset of this source: {offset}") from error

    def after(
        self, there: Mapping[Partition, range], starting: Bound, records_max: int | None
    ) -> Progress:
        """Return how far the next micro-batch shall come: itself if there is nothing to read.

        Args:
            there: The sequences of every partition that is wanted.
            starting: Where the stream begins.
            records_max: At most so many records.
        """
        back = {one: at for one, at in self.forgotten.items() if one in there}
        known = {**self.nexts, **back}
        new = {
            partition: self._begin(partition, sequences, starting)
            for partition, sequences in there.items()
            if partition not in known
        }
        starts = {**known, **new}
        # A cluster that the stream was moved to may not have all of it yet.
        ends = {
            partition: max(start, there[partition].stop if partition in there else 0)
            for partition, start in starts.items()
        }
        cut = limited(starts, ends, records_max)
        moved = {partition for partition, end in cut.items() if end > starts[partition]}
        if self.begun and not moved:
            return self
        kept = {partition: start for partition, start in new.items() if partition in moved}
        begins = kept if self.begun else new
        nexts = {partition: cut[partition] for partition in (*known, *begins)}
        forgotten = {one: at for one, at in self.forgotten.items() if one not in back}
        return Progress(True, begins, nexts, forgotten, self.deal)

    def without(self, unlisted: Iterable[Partition], forgotten_max: int) -> Progress:
        """Return the same after what all stores have forgotten, and this has read to its end.

        Args:
            unlisted: Which partitions that is.
            forgotten_max: Of how many the position is kept; of more, the longest forgotten go.
        """
        nexts = dict(self.nexts)
        forgotten = {**self.forgotten, **{one: nexts.pop(one) for one in unlisted}}
        for one in list(forgotten)[: max(0, len(forgotten) - forgotten_max)]:
            del forgotten[one]
        return replace(self, nexts=nexts, forgotten=forgotten)

    def ranges_to(self, end: Progress) -> list[Range]:
        """What lies between this and `end`, of which nothing else is known.

        Raises:
            MisuseError: They are not the start and the end of one micro-batch.
        """
        ranges: list[Range] = []
        for partition, stop in sorted(end.nexts.items()):
            known = self.nexts.get(partition, self.forgotten.get(partition))
            start = end.begins.get(partition) if known is None else known
            if start is None:
                raise MisuseError(f"the checkpoint does not say where {partition} begins")
            ranges.append(Range(partition, start, stop))
        return ranges

    def _begin(self, partition: Partition, there: range, starting: Bound) -> int:
        if not self.begun:
            return starting.of(partition, there)
        # What came into being after the stream began is read from its beginning. Whether it matters
        # that some of that is gone already, reading decides.
        return max(0, starting.sequences.get(partition, 0))


def _places(sequences: Mapping[Partition, int]) -> Places:
    places: Places = {}
    for (topic, address), sequence in sorted(sequences.items()):
        places.setdefault(topic, {})[address] = sequence
    return places


def _sequences(places: Places) -> dict[Partition, int]:
    return {
        Partition(topic, address): int(sequence)
        for topic, sequences in places.items()
        for address, sequence in sequences.items()
    }


PATIENCE_S = 30.0
"""How long the driver waits for a store to come back: an error there ends the query."""

_AGAIN_S = 0.5


class DataLossError(QueryError):
    """Records that were to be read are in no store of the cluster any more."""

    retriable = False


class RangeReader:
    """What a cluster's stores have, and exactly what was planned of it. Used by one thread.

    Args:
        cluster: Which; the first store that answers is read, others where it fails.

    Raises:
        MisuseError: An endpoint cannot be used.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stores = ClusterClient(cluster)

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
            silent: Stores that have not answered somebody else.
        """
        servers = [one for one in self._cluster.stores if one not in silent]
        servers = servers or list(self._cluster.stores)
        self._stores.prefer(servers[number % len(servers)])

    def pieces(
        self, ranges: Iterable[Range], *, fail_on_data_loss: bool = True
    ) -> Iterator[Pieces]:
        """Yield the batches that hold ranges of different partitions; see `pages`.

        Of many small ranges what one question brings comes together, what is left of them behind.
        """
        for group in together(ranges):
            left = group
            if len(group) > 1:
                found = self._read_together(group)
                if found:
                    yield found
                ends = {wanted.partition: batches[-1].end for wanted, batches in found}
                left = [
                    Range(one.partition, max(one.start, ends.get(one.partition, 0)), one.end)
                    for one in group
                ]
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
            answers = self._stores.all(partial(_ranges, name))
            failure = answers.failure or failure
            if failure is not None and not answers.given:
                raise failure
            for ranges in answers.given.values():
                for partition, kept in ranges.items():
                    if topics.takes(partition):
                        known = found.get(partition, kept)
                        found[partition] = range(
                            min(known.start, kept.start), max(known.stop, kept.stop)
                        )
        return found, failure

    def _page(self, partition: Partition, at: int, end: int) -> list[Batch]:
        """What the first store that has `at` answers; nothing if all answer and none has it."""

        def read(store: StoreClient) -> list[Batch] | None:
            batches = store.read(partition, at, end - at)
            return batches if batches and batches[0].sequence <= at < batches[0].end else None

        return self._stores.first_with(read) or []


def _ranges(topic: str | None, store: StoreClient) -> dict[Partition, range]:
    return store.ranges(topic)


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
