"""What a store keeps for clusters that lack it: floors, below which every one of them has all.

| table | key | value |
|---|---|---|
| `holds` | empty | epoch u64, era u64, the need |
| `holds` | SHA-256 of topic, NUL, address | era u64, floor u64 |

Who is in charge of the cluster says the floors (ADR 40). No word is no leave: a partition without a
floor is held whole. Floors of an era before count for nothing: another need has begun since, and
whoever joined has nothing yet.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dafka.errors import WireError
from dafka.storage.log import TableEntry
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dafka.model import Batch, Partition
    from dafka.storage.log import Extent

TABLE = "holds"

_TERM_KEY = b""
_TERM = struct.Struct(">QQ")
_FLOOR = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True)
class HoldWord:
    """What who is in charge says.

    Attributes:
        epoch: In which; an older one than has been heard is refused.
        need: A digest of which clusters must have what. Another one than before makes all floors 0.
        floors: Of some partitions; of all others they stay as they are.
    """

    epoch: int
    need: bytes
    floors: Mapping[Partition, int]


class HeldLog(Protocol):
    """What floors need of a log: see `RecordLog`."""

    def extents(self) -> Mapping[Partition, Extent]:
        """What there is of every partition."""

    def append(self, batches: Sequence[Batch], *, entries: Sequence[TableEntry]) -> None:
        """Put entries into tables."""

    def get(self, table: str, key: bytes) -> bytes | None:
        """One of them."""


class Holds:
    """The floors of one log.

    Args:
        log: Where they are kept.

    Raises:
        StorageError: The disk refused.
    """

    def __init__(self, log: HeldLog) -> None:
        self._log = log
        kept = log.get(TABLE, _TERM_KEY) or _TERM.pack(0, 0)
        self._epoch, self._era = _TERM.unpack_from(kept)
        self._need = kept[_TERM.size :]
        self._read: dict[Partition, int] = {}
        """Floors that were looked up, or said, since it was opened."""

    def place(self, word: HoldWord) -> None:
        """Keep what is said of partitions that are there; on disk when this returns.

        Raises:
            StorageError: The disk refused, and nothing has changed.
            WireError: It is of an older epoch.
        """
        if word.epoch < self._epoch:
            raise WireError("hold")
        again = word.need != self._need
        era = self._era + again
        extents = self._log.extents()
        floors = {one: end for one, end in word.floors.items() if one in extents}
        entries = [
            TableEntry(TABLE, _key(one), _FLOOR.pack(era, end))
            for one, end in floors.items()
            if again or self.floor(one) != end
        ]
        if again or word.epoch != self._epoch:
            term = _TERM.pack(word.epoch, era) + word.need
            entries.append(TableEntry(TABLE, _TERM_KEY, term))
        if entries:
            self._log.append((), entries=entries)
        if again:
            self._read.clear()
        self._epoch, self._era, self._need = word.epoch, era, word.need
        self._read |= floors

    def floor(self, partition: Partition) -> int:
        """Return the sequence below which nobody lacks anything of a partition.

        Raises:
            StorageError: The disk refused.
        """
        floor = self._read.get(partition)
        if floor is None:
            row = self._log.get(TABLE, _key(partition)) if self._era else None
            era, floor = (0, 0) if row is None else _FLOOR.unpack(row)
            floor = floor if era == self._era else 0
            self._read[partition] = floor
        return floor

    def forgetting(self, partitions: Iterable[Partition]) -> list[TableEntry]:
        """Return what to remove with partitions that are forgotten; none if nothing was said."""
        if not self._era:
            return []
        return [TableEntry(TABLE, _key(one), None) for one in partitions]

    def forgotten(self, partitions: Iterable[Partition]) -> None:
        """That has been removed."""
        for one in partitions:
            self._read.pop(one, None)


def _key(partition: Partition) -> bytes:
    topic, address = map(octets_of, partition)
    return hashlib.sha256(topic + b"\0" + address).digest()
