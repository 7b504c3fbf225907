"""The one rule by which a log grows, shared by every implementation of the port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.model import Batch, Partition


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
