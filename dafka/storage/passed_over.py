"""What a store has passed over: records that nobody had whom it asked, so that it never had them.

| table | key | value |
|---|---|---|
| `passed-over` | SHA-256 of topic, NUL, address | topic, NUL, address, NUL; then ranges |

A range is its first sequence and the one behind its last, u64 each. What retention has taken is in
none, so that who is about to give up what another lacks knows which of the two it was (ADR 60). A
row goes with its partition.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

from dafka.model import Partition
from dafka.storage.log import TableEntry, extent_of
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dafka.storage.log import RecordLog

TABLE = "passed-over"

RANGES_MAX = 16
"""Of one partition; beyond it the first two become one, with what lies between them: there the
first is no more exact."""

_RANGE = struct.Struct(">QQ")


def passing(log: RecordLog, skips: Mapping[Partition, int]) -> list[TableEntry]:
    """Return what to put into the table together with skips; see `RecordLog.append`.

    Raises:
        StorageError: The disk refused.
    """
    entries: list[TableEntry] = []
    for partition, sequence in skips.items():
        extent = extent_of(log, partition)
        end = 0 if extent is None else extent.head + 1
        if sequence <= end:
            continue
        row = log.get(TABLE, _key(partition))
        ranges = [*([] if row is None else _ranges(row)[1]), range(end, sequence)]
        while len(ranges) > RANGES_MAX:
            ranges[:2] = [range(ranges[0].start, ranges[1].stop)]
        packed = b"".join(_RANGE.pack(one.start, one.stop) for one in ranges)
        entries.append(TableEntry(TABLE, _key(partition), _named(partition) + packed))
    return entries


def parting(log: RecordLog, partitions: Iterable[Partition]) -> list[TableEntry]:
    """Return what to remove with partitions that go.

    Raises:
        StorageError: The disk refused.
    """
    keys = map(_key, partitions)
    return [TableEntry(TABLE, key, None) for key in keys if log.get(TABLE, key) is not None]


def passed_over(
    log: RecordLog, after: bytes, count_max: int
) -> tuple[dict[Partition, list[range]], bytes | None]:
    """Return what is in the table of some partitions, and behind what to go on; None at its end.

    Raises:
        StorageError: The disk refused.
    """
    rows = log.scan(TABLE, b"", count_max, after or None)
    return dict(_ranges(row) for _, row in rows), rows[-1][0] if len(rows) == count_max else None


def _named(partition: Partition) -> bytes:
    topic, address = map(octets_of, partition)
    return topic + b"\0" + address + b"\0"


def _key(partition: Partition) -> bytes:
    return hashlib.sha256(_named(partition)[:-1]).digest()


def _ranges(row: bytes) -> tuple[Partition, list[range]]:
    topic, address, packed = row.split(b"\0", 2)
    ranges = [range(*one) for one in _RANGE.iter_unpack(packed)]
    return Partition(text(topic), text(address)), ranges
