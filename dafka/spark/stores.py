"""The stores of one cluster, asked together: what is there, and exactly what was planned."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from dafka.errors import QueryError
from dafka.query.client import StoreClient
from dafka.spark.options import Bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from dafka.model import Batch, Partition
    from dafka.spark.options import TopicSelection
    from dafka.spark.planning import Range

T = TypeVar("T")

ANSWER_TIMEOUT_MS = 10_000
"""How long one store may take for one answer; a busy one answers between two writes."""


PATIENCE_S = 30.0
"""How long the driver waits for a store to come back: an error there ends the query."""

_AGAIN_S = 0.5


class DataLossError(QueryError):
    """Records that were to be read are in no store of the cluster any more."""

    retriable = False


class Stores:
    """The stores of a cluster. Used by one thread at a time.

    Args:
        servers: Their query ports; the first that answers is read, others where it fails.

    Raises:
        MisuseError: An endpoint cannot be used.
    """

    def __init__(self, servers: Sequence[str]) -> None:
        self._clients = [StoreClient(server, ANSWER_TIMEOUT_MS) for server in servers]

    def there(self, topics: TopicSelection) -> dict[Partition, range]:
        """Return the sequences of every partition that is wanted, as the best of the stores has it.

        Raises:
            QueryError: No store answers.
        """
        found: dict[Partition, range] = {}
        # By name where there are names: a key may permit no more than that.
        for name in topics.names or (None,):
            for ranges in self._asked(lambda client: client.ranges(name)):  # noqa: B023 (at once)
                for partition, kept in ranges.items():
                    if topics.wants(partition.topic):
                        known = found.get(partition, kept)
                        found[partition] = range(
                            min(known.start, kept.start), max(known.stop, kept.stop)
                        )
        return found

    def settled(self, bound: Bound, there: Mapping[Partition, range]) -> Bound:
        """Return `bound` with sequences where it has a time: of the first record as late as that.

        Raises:
            QueryError: No store answers.
        """
        if bound.timestamp_ms is None:
            return bound
        sequences = {
            partition: self._find(partition, bound.timestamp_ms, kept.stop)
            for partition, kept in there.items()
        }
        return Bound(sequences=sequences)

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
        for client in self._clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find(self, partition: Partition, timestamp_ms: int, otherwise: int) -> int:
        answers, failure = self._answers(lambda client: client.find(partition, timestamp_ms))
        found = [sequence for sequence in answers if sequence is not None]
        if found:
            return min(found)
        if failure is not None:
            # That very store may have some.
            raise failure
        return otherwise

    def _next_kept(self, partition: Partition, at: int) -> tuple[int, bool]:
        """The first sequence behind `at` that a store keeps, where none has `at` any more.

        And whether none keeps anything: then it is the sequence that comes next.

        Raises:
            QueryError: A store does not answer, none has come as far as `at`, or one has it now.
        """
        answers, failure = self._answers(lambda client: client.ranges(partition.topic))
        if failure is not None:
            # That very store may keep more than the others.
            raise failure
        kept = [ranges.get(partition, range(0)) for ranges in answers]
        behind = [one.start for one in kept if one.start > at]
        if behind and not any(at in one for one in kept):
            return min(behind), not any(kept)
        raise QueryError(
            f"sequence {at} of partition {partition.address} of topic {partition.topic!r} is "
            f"not there yet: the cluster ends at {max((one.stop for one in kept), default=0)}"
        )

    def _asked(self, question: Callable[[StoreClient], T]) -> list[T]:
        """The answers of those that answer; the error of the last one if none does."""
        answers, failure = self._answers(question)
        if failure is not None and not answers:
            raise failure
        return answers

    def _answers(self, question: Callable[[StoreClient], T]) -> tuple[list[T], QueryError | None]:
        """The answers of those that answer, and the error of the last one that does not."""
        answers: list[T] = []
        failure: QueryError | None = None
        for client in self._clients:
            try:
                answers.append(question(client))
            except QueryError as error:
                failure = error
        return answers, failure

    def _page(self, partition: Partition, at: int, end: int) -> list[Batch]:
        """What the first store that has `at` answers; nothing if all answer and none has it."""
        failure: QueryError | None = None
        for client in self._clients:
            try:
                batches = client.read(partition, at, end - at)
            except QueryError as error:
                failure = error
                continue
            if batches and batches[0].sequence <= at < batches[0].end:
                return batches
        if failure is not None:
            raise failure
        return []


def patiently(servers: Sequence[str], ask: Callable[[Stores], T]) -> T:
    """Ask stores, again and again where none answers: for the driver.

    Raises:
        QueryError: None has answered for `PATIENCE_S`.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with Stores(servers) as stores:
                return ask(stores)
        except QueryError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_S)
