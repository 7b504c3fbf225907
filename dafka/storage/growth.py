"""The rules by which a log grows, shared by every implementation of the port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import StorageError
from dafka.limits import TABLE_BYTES_MAX, TABLE_KEY_BYTES_MAX
from dafka.records.batch import newest_ms
from dafka.storage.log import Standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.model import Batch, Partition
    from dafka.storage.log import Entry


def heads_after(heads: Mapping[Partition, int], batches: Sequence[Batch]) -> dict[Partition, int]:
    """Return the new head of every partition that `batches` extend.

    Raises:
        StorageError: A batch does not follow its partition's head.
    """
    grown: dict[Partition, int] = {}
    for batch in batches:
        assert batch.count >= 1
        partition = batch.partition
        head = grown[partition] if partition in grown else heads.get(partition, -1)
        if batch.sequence != head + 1:
            raise StorageError(
                f'cannot append to partition "{partition.topic}/{partition.address}": '
                f"sequence {batch.sequence} follows {head}"
            )
        grown[partition] = batch.end - 1
    return grown


def checked(
    standings: Mapping[Partition, Standing],
    batches: Sequence[Batch],
    trims: Mapping[Partition, int],
    entries: Sequence[Entry],
) -> None:
    """See that every batch follows its partition's head and every entry fits.

    Raises:
        StorageError: One does not.
    """
    heads: dict[Partition, int] = {}
    for batch in batches:
        known = standings.get(batch.partition)
        heads[batch.partition] = known.head if known else -1
    for partition, sequence in trims.items():
        heads[partition] = max(heads.get(partition, -1), sequence - 1)
    heads_after(heads, batches)
    for entry in entries:
        if len(entry.table.encode()) > TABLE_BYTES_MAX or len(entry.key) > TABLE_KEY_BYTES_MAX:
            raise StorageError(
                f"cannot put a key of {len(entry.key)} bytes into table {entry.table!r}: "
                f"names have at most {TABLE_BYTES_MAX} bytes, keys {TABLE_KEY_BYTES_MAX}"
            )


def extended(known: Standing | None, batch: Batch, arrival_ms: int) -> Standing:
    """Return a partition's standing after `batch`."""
    time_ms = newest_ms(batch.content)
    if time_ms is None:
        time_ms = arrival_ms
    size = len(batch.content)
    if known is None:
        return Standing(batch.sequence, batch.end - 1, size, time_ms, time_ms)
    start, head, before, oldest_ms, last_ms = known
    time_ms = max(time_ms, last_ms)
    if start > head:
        oldest_ms = time_ms
    return Standing(start, batch.end - 1, before + size, oldest_ms, time_ms)
