"""Whether the disk of a store is new: whether it may lack what the one before had (ADR 28).

| table | key | value |
|---|---|---|
| `disk` | `caught up` | empty |

A log has the entry once somebody has seen in it all that each of the other stores had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.storage.log import TableEntry

if TYPE_CHECKING:
    from dafka.storage.log import RecordLog

TABLE = "disk"
_CAUGHT_UP = b"caught up"


def is_new(log: RecordLog) -> bool:
    """Whether nobody has seen yet that it has what the other stores have.

    Raises:
        StorageError: The disk refused.
    """
    return log.get(TABLE, _CAUGHT_UP) is None


def catch_up(log: RecordLog) -> None:
    """Somebody has seen it.

    Raises:
        StorageError: The disk refused.
    """
    if is_new(log):
        log.append((), entries=[TableEntry(TABLE, _CAUGHT_UP, b"")])
