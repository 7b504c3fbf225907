"""Which slots of the ring a log is of, and how they come and go (ADR 60).

| table | key | value |
|---|---|---|
| `slots` | `kept` | the bits of `dafka.model.Slots`, lowest octet first |
| `slots` | `dropped` | the same: given up, and not all off the disk yet |

A log without the first entry keeps all. What a store is started with is what it is to keep: what
its log lacks of that joins, and what its log has beyond that it goes on keeping until somebody who
has seen that enough others have it says that it need not.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.model import ALL_SLOTS, SLOTS, SYSTEM, Slots, slot_of
from dafka.protocol.keeping import NO_SLOTS, Keeping
from dafka.storage.log import TableEntry
from dafka.storage.passed_over import parting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dafka.model import Partition
    from dafka.storage.holds import Holds
    from dafka.storage.log import RecordLog

TABLE = "slots"
_KEPT, _DROPPED = b"kept", b"dropped"

STOPPED_MS = 10_000
"""For so long at most nothing is taken in of slots that are to be given up."""

TAKEN_MS = 30_000
"""For so long at least they are taken in again afterwards: others may lack for long what is here,
one with a full disk, say, and this store could be the only one that takes in what comes."""

ERASED_MAX = 1_000
"""Partitions that are erased in one transaction: some milliseconds."""


class KeptSlots:
    """Those of one log.

    Args:
        log: Where they are kept.
        wanted: Those that its store is started with.
        joins: Whether a log in which nothing is has them only when they were joined; else it keeps
            them from the beginning.

    Raises:
        StorageError: The disk refused.
    """

    def __init__(self, log: RecordLog, wanted: Slots = ALL_SLOTS, *, joins: bool = False) -> None:
        self._log = log
        self.wanted = wanted
        self._stops = 0
        self._stopped = NO_SLOTS
        self._until_ms = 0
        self._again_ms = 0
        """Nothing is stopped before."""
        self._asked: tuple[tuple[str, Slots], ...] = ()
        self._ended: dict[Partition, int] = {}
        self._looked_at = -1
        """Up to which number what is forgotten was looked at for what was given up."""
        dropped = self._read(_DROPPED)
        self.dropped = NO_SLOTS if dropped is None else dropped
        """Those that were given up and may be on the disk: they join no sooner than they are
        not."""
        found = self._read(_KEPT)
        if found is None and not (log.extents() or log.forgotten):
            self._kept = NO_SLOTS if joins else wanted
            if self._kept != ALL_SLOTS:
                self._write(self._kept, self.dropped)
        else:
            self._kept = ALL_SLOTS if found is None else found
        strays = [range(slot, slot + 1) for slot in self._strays(self._kept.joined(wanted))]
        if strays:
            self._write(self._kept, self.dropped.joined(Slots.of(strays)))

    @property
    def identity(self) -> str:
        """The address of the store."""
        return self._log.identity

    @property
    def keeping(self) -> Keeping:
        """What the store does."""
        joining = self.wanted.without(self._kept).without(self.dropped)
        return Keeping(self._kept, joining, self._stopped, self._asked)

    @property
    def token(self) -> str:
        """Names the time in which what is stopped is stopped; empty if nothing is."""
        return f"{self.opening}.{self._stops}" if self._stopped else ""

    def ask(self, stores: tuple[tuple[str, Slots], ...]) -> None:
        """Pass over nothing of what joins but what each of these stores lacks that keeps it."""
        self._asked = stores

    def end(self, ends: Mapping[Partition, int]) -> None:
        """Of these nobody keeps anything; know where they ended, where nothing is known.

        Who says so may have to say it again: it is seen in what is told of them afterwards.
        """
        self._ended |= ends

    def ended(self) -> Mapping[Partition, int]:
        """What was said so since this was asked last."""
        ended, self._ended = self._ended, {}
        return ended

    @property
    def opening(self) -> str:
        """Names this opening of the log: what joins has joined all the time since."""
        return self._log.changes.now.opening

    def take(self, slots: Slots, opening: str) -> None:
        """Keep slots that have joined: it was seen that it has all that is kept of them.

        Raises:
            MisuseError: One has not joined, or that was seen of an earlier opening: they may have
                been off the disk since.
            StorageError: The disk refused.
        """
        if opening != self.opening:
            raise MisuseError(
                "the store was started anew since it was seen what it has: look again"
            )
        missing = slots.without(self.keeping.joining).without(self._kept)
        if missing:
            raise MisuseError(f"slots {missing} do not join this store: look again")
        if slots.without(self._kept):
            self._write(self._kept.joined(slots), self.dropped)

    def stop(self, slots: Slots, now_ms: int) -> None:
        """Take nothing in of slots for a while, so that others come to have all that is here.

        To say it again while they are stopped makes that no longer.

        Raises:
            MisuseError: The store is to keep one of them, or does not keep it, or stopped in vain a
                moment ago.
        """
        wrong = slots.without(self._kept.without(self.wanted))
        if wrong or not slots:
            raise MisuseError(f"slots {wrong or 'none'} are not to be given up by this store")
        if slots == self._stopped:
            return
        if now_ms < self._again_ms:
            left_s = -(-(self._again_ms - now_ms) // 1_000)
            raise MisuseError(f"slots {slots} were stopped in vain: look again in {left_s} s")
        self._stops += 1
        self._stopped, self._until_ms = slots, now_ms + STOPPED_MS
        self._again_ms = self._until_ms + TAKEN_MS

    def drop(self, token: str) -> None:
        """Give up what is stopped: it was seen, since it is, that enough others have it.

        Raises:
            MisuseError: It was not stopped all the time.
            StorageError: The disk refused.
        """
        if not token or token != self.token:
            raise MisuseError("what is to be given up has to be stopped until it is: stop it again")
        self._write(self._kept.without(self._stopped), self.dropped.joined(self._stopped))
        self._stopped, self._again_ms = NO_SLOTS, 0

    def lapse(self, now_ms: int) -> None:
        """Go on with what is stopped if it was for long."""
        if now_ms >= self._until_ms:
            self._stopped = NO_SLOTS

    def clear(self, batches_max: int, holds: Holds) -> bool:
        """Take a bounded part of what was given up off the disk; whether there was something.

        Raises:
            StorageError: The disk refused.
        """
        if not self.dropped:
            return False
        found = list(islice(self._partitions(self.dropped), ERASED_MAX))
        extents, left = self._log.extents(), batches_max
        trims: dict[Partition, int] = {}
        for partition in found:
            extent = extents[partition]
            if extent.start <= extent.head and left > 0:
                outlines = self._log.outlines(partition, extent.start, left)
                trims[partition] = outlines[-1].end
                left -= len(outlines)
        if trims:
            self._log.append((), trims=trims)
        elif found:
            rows = [*holds.forgetting(found), *parting(self._log, found)]
            self._log.append((), erases=found, entries=rows)
            holds.forgotten(found)
        elif forgotten := self._log.forgotten_behind(self._looked_at, ERASED_MAX):
            self._recall(one for _, one, _ in forgotten)
            self._looked_at = forgotten[-1][0]
        else:
            self._write(self._kept, NO_SLOTS)
        return True

    def _recall(self, forgotten: Iterable[Partition]) -> None:
        """Bring back what was given up of what is forgotten, so that it is erased as all else."""
        recalled = dict.fromkeys(_among(forgotten, self.dropped), 0)
        if recalled:
            self._log.append((), trims=recalled)

    def _partitions(self, slots: Slots) -> Iterator[Partition]:
        return _among(self._log.extents(), slots)

    def _strays(self, known: Slots) -> set[int]:
        """Slots of which there is something, though the store neither keeps nor joins them."""
        if known == ALL_SLOTS:
            return set()
        strange = self._partitions(ALL_SLOTS.without(known).without(self.dropped))
        return {slot_of(partition.address) for partition in strange}

    def _read(self, key: bytes) -> Slots | None:
        found = self._log.get(TABLE, key)
        return None if found is None else Slots(int.from_bytes(found, "little"))

    def _write(self, kept: Slots, dropped: Slots) -> None:
        rows = (_KEPT, kept), (_DROPPED, dropped)
        entries = [
            TableEntry(TABLE, key, slots.bits.to_bytes(SLOTS // 8, "little")) for key, slots in rows
        ]
        self._log.append((), entries=entries)
        if dropped != self.dropped:
            self._looked_at = -1
        self._kept, self.dropped = kept, dropped


def _among(partitions: Iterable[Partition], slots: Slots) -> Iterator[Partition]:
    for partition in partitions:
        if not partition.topic.startswith(SYSTEM) and slots.has(slot_of(partition.address)):
            yield partition
