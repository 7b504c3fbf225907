"""How large records are, as far as they have come: what cannot be seen is as large on average."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import BATCH_RECORDS_MAX, FETCH_ANSWER_BYTES_MAX

if TYPE_CHECKING:
    from dafka.model import Batch


class RecordSize:
    """The mean over everything that was received."""

    def __init__(self) -> None:
        self._records = self._batches = self._bytes = 0

    def took(self, batch: Batch) -> None:
        """A batch was received."""
        self._records += batch.count
        self._batches += 1
        self._bytes += len(batch.content)

    def records_in(self, size: int) -> int:
        """How many records so many bytes are, at least one; many if none was seen yet."""
        return max(1, size * self._records // self._bytes) if self._bytes else BATCH_RECORDS_MAX

    def bytes_of(self, records: int) -> int:
        """How many bytes come for so many records, at least a batch; if none was seen yet, many."""
        if not self._records:
            return FETCH_ANSWER_BYTES_MAX
        return max(records * self._bytes // self._records, self._bytes // self._batches)
