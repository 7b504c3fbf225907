"""The port a store writes through: partitions of dense sequences, appended in transactions.

Contract, held by every implementation (tests/contracts/test_record_log.py):

* `append` is one transaction. When it returns, every batch is on disk and survives a power cut;
  when it raises, none of them is there. A process that dies inside it leaves all or nothing.
* A partition grows only at its end: a batch's sequence is the partition's head plus one, or 0.
* What was appended is read back byte for byte, across restarts.
* `identity` is drawn once when the log is created, and never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Batch, Partition


class RecordLog(Protocol):
    """A durable set of partitions."""

    @property
    def identity(self) -> str:
        """The address of the store that owns this log: 32 upper-case hex digits."""

    def heads(self) -> dict[Partition, int]:
        """Return the last sequence of every partition."""

    def append(self, batches: Sequence[Batch]) -> None:
        """Append `batches` durably, in the order given, all or none.

        Raises:
            StorageError: The disk refused, or a batch does not follow its partition's head.
        """

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on, in order.

        Whole batches, as they were appended, so the first may begin below `sequence`. At most as
        many as begin below `sequence + count_max` and as fit into `bytes_max`, but at least one
        if `sequence` is there at all; none if it is not.
        """

    def close(self) -> None:
        """Release the log. Nothing may be called after it."""
