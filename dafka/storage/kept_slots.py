"""Which slots of the ring a log was made for: a store is started with these or not at all.

| table | key | value |
|---|---|---|
| `slots` | `kept` | the bits of `dafka.model.Slots`, lowest octet first |

A log without the entry keeps all. With fewer slots than before a store would hide what it has
acknowledged; with more it would say of what it never got that it is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import StorageError
from dafka.model import ALL_SLOTS, SLOTS, Slots
from dafka.storage.log import TableEntry

if TYPE_CHECKING:
    from dafka.storage.log import RecordLog

TABLE = "slots"
_KEPT = b"kept"


def keep_slots(log: RecordLog, slots: Slots) -> None:
    """See that a log is of these slots; one that is empty becomes so.

    Raises:
        StorageError: It was made for others, or the disk refused.
    """
    found = log.get(TABLE, _KEPT)
    there = ALL_SLOTS if found is None else Slots(int.from_bytes(found, "little"))
    if there == slots:
        return
    if found is not None or log.extents() or log.forgotten:
        raise StorageError(
            f"the log was made for slots {there} and cannot be that of a store of slots {slots}: "
            "give the store the slots of its disk, or an empty directory, which the other stores "
            "fill"
        )
    octets = slots.bits.to_bytes(SLOTS // 8, "little")
    log.append((), entries=[TableEntry(TABLE, _KEPT, octets)])
