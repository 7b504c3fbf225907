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
_ROWS = 10_000
"""Read at a time."""


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

    def scan(
        self, table: str, prefix: bytes, count_max: int, after: bytes | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Some of them, in order."""


class Holds:
    """The floors of one log.

    Args:
        log: Where they are kept.

    Raises:
        StorageError: The disk refused.
    """

    def __init__(self, log: HeldLog) -> None:
        self._log = log
        self._epoch = self._era = 0
        self._need = b""
        self._floors: dict[Partition, int] = {}
        """In memory: a step of retention may ask for as many as there are."""
        self._load()

    def _load(self) -> None:
        keys: dict[bytes, Partition] = {}
        after: bytes | None = None
        while rows := self._log.scan(TABLE, b"", _ROWS, after):
            for key, row in rows:
                if key == _TERM_KEY:  # the first one
                    self._epoch, self._era = _TERM.unpack_from(row)
                    self._need = row[_TERM.size :]
                    keys = {_key(one): one for one in self._log.extents()}
                    continue
                era, floor = _FLOOR.unpack(row)
                if era == self._era and key in keys:
                    self._floors[keys[key]] = floor
            after = rows[-1][0]

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
            if again or self._floors.get(one) != end
        ]
        if again or word.epoch != self._epoch:
            term = _TERM.pack(word.epoch, era) + word.need
            entries.append(TableEntry(TABLE, _TERM_KEY, term))
        if entries:
            self._log.append((), entries=entries)
        if again:
            self._floors.clear()
        self._epoch, self._era, self._need = word.epoch, era, word.need
        self._floors |= floors

    def floor(self, partition: Partition) -> int:
        """Return the sequence below which nobody lacks anything of a partition."""
        return self._floors.get(partition, 0)

    def forgetting(self, partitions: Iterable[Partition]) -> list[TableEntry]:
        """Return what to remove with partitions that are forgotten; none if nothing was said."""
        if not self._era:
            return []
        return [TableEntry(TABLE, _key(one), None) for one in partitions]

    def forgotten(self, partitions: Iterable[Partition]) -> None:
        """That has been removed."""
        for one in partitions:
            self._floors.pop(one, None)


def _key(partition: Partition) -> bytes:
    topic, address = map(octets_of, partition)
    return hashlib.sha256(topic + b"\0" + address).digest()
