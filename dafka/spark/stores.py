"""The stores of one cluster, asked together: what is there, and exactly what was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.query.client import StoreClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from dafka.model import Batch, Partition
    from dafka.spark.options import Topics
    from dafka.spark.ranges import Range

ANSWER_TIMEOUT_MS = 10_000
"""How long one store may take for one answer; a busy one answers between two writes."""


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

    def there(self, topics: Topics) -> dict[Partition, range]:
        """Return the sequences of every partition that is wanted, as the best of the stores has it.

        Raises:
            QueryError: No store answers.
        """
        found: dict[Partition, range] = {}
        for heads in self._answers():
            for partition, head in heads.items():
                if topics.wants(partition.topic):
                    known = found.get(partition, range(0))
                    found[partition] = range(max(known.stop, head + 1))
        return found

    def pages(self, wanted: Range, *, fail_on_data_loss: bool = True) -> Iterator[list[Batch]]:
        """Yield the batches that hold a range, many at a time.

        Whole batches: the first may begin below, the last end above what was asked.

        Raises:
            DataLossError: No store has a part of it, and that is not to be passed over.
            QueryError: No store answers.
        """
        partition, at, end = wanted
        while at < end:
            batches = self._page(partition, at, end)
            if not batches:
                if fail_on_data_loss:
                    raise DataLossError(
                        f"sequences {at} to {end - 1} of partition {partition.address} of topic "
                        f"{partition.topic!r} are in no store any more; with the option "
                        "failOnDataLoss=false they are passed over"
                    )
                return
            yield batches
            at = batches[-1].end

    def close(self) -> None:
        """Release the connections."""
        for client in self._clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _answers(self) -> Iterator[dict[Partition, int]]:
        failure: QueryError | None = None
        answered = False
        for client in self._clients:
            try:
                yield client.heads()
                answered = True
            except QueryError as error:
                failure = error
        if failure is not None and not answered:
            raise failure

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
