"""A simulated store on a real log, in a directory, that is compared with what it should hold.

Its writes are on disk at once, whatever the simulated disk takes for them. Those that this refuses
fail at the segment, and map and segments are so small that they are often full.
"""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import TYPE_CHECKING

from dafka.errors import StorageError
from dafka.node.store_settings import StoreSettings
from dafka.storage.file_calls import FileCalls
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.log import NONE, NOTHING, ChangeOrder
from dafka.testing.disk import landed
from dafka.testing.nodes import SimStore, kept

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from dafka.model import Batch, Partition
    from dafka.storage.log import RecordLog, TableEntry
    from dafka.storage.memory import MemoryLog
    from dafka.storage.retention import Retention
    from dafka.testing.world import SimMesh, World

MAP_BYTES = 1 << 16
SEGMENT_BYTES = 1 << 15
INDEXED_BYTES = 1 << 12


class SimFileCalls(FileCalls):
    """Those of the system, unless they are to be refused."""

    refused = False

    def write(self, file: int, pieces: Sequence[bytes], at: int) -> int:
        """Write, or not."""
        if self.refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(file, pieces, at)


class SimLmdbLog(LmdbLog):
    """A store's log as its process has it, which is on disk as well.

    Args:
        directory: Where.
        store: Whose.
    """

    def __init__(self, directory: Path, store: LmdbStore) -> None:
        self._calls = SimFileCalls()
        super().__init__(
            directory,
            durability=Durability.OS,
            clock=store.clock.wall_ms,
            map_bytes=MAP_BYTES,
            segment_bytes=SEGMENT_BYTES,
            indexed_bytes=INDEXED_BYTES,
            calls=self._calls,
        )
        self._store = store
        self.changes = ChangeOrder(f"{store.name}.{store.incarnation}")  # by the seed alone

    @property
    def identity(self) -> str:
        """By the seed alone, too."""
        return self._store.log.identity

    def append(
        self,
        batches: Sequence[Batch],
        *,
        trims: Mapping[Partition, int] = NOTHING,
        skips: Mapping[Partition, int] = NOTHING,
        entries: Sequence[TableEntry] = (),
        forgets: Collection[Partition] = NONE,
        erases: Collection[Partition] = NONE,
    ) -> None:
        """Change the log in one transaction; see `RecordLog.append`."""
        store = self._store
        self._calls.refused = not store.disk.takes()
        if self._calls.refused and not batches:
            # The simulated disk refuses all; this one would find room for it in the index.
            raise StorageError("cannot append: the disk is full")
        super().append(
            batches, trims=trims, skips=skips, entries=entries, forgets=forgets, erases=erases
        )
        what = batches, trims, skips, entries, forgets, erases
        store.disk.commit(partial(landed, store.log, store.written, *what))

    def close(self) -> None:
        """As by kill -9: what of the index is not on disk is found again in the segments."""
        self._release()


class LmdbStore(SimStore):
    """A store whose log is a real one.

    Args:
        world: Where it lives.
        name: Its name.
        mesh: Its cluster.
        log: What has to be in the directory.
        directory: Where its log is.
        forget_after_ms: How long a partition has to be empty before it is forgotten.
        retention: What need not be kept.
    """

    def __init__(
        self,
        world: World,
        name: str,
        mesh: SimMesh,
        log: MemoryLog,
        directory: Path,
        forget_after_ms: int,
        retention: Sequence[Retention],
    ) -> None:
        self._directory = directory
        super().__init__(
            world, name, mesh, log, StoreSettings(forget_after_ms=forget_after_ms), retention
        )

    def opened(self) -> RecordLog:
        """Open what is in the directory: it is what was written, no more and no less."""
        found = SimLmdbLog(self._directory, self)
        held, there = self.log.extents(), found.extents()
        assert held.keys() == there.keys()
        for partition, extent in held.items():
            assert (there[partition].start, there[partition].head) == (extent.start, extent.head)
            ours, theirs = kept(self.log, partition), kept(found, partition)
            assert [one.content for one in ours] == [one.content for one in theirs]
        return found

    def crash(self) -> None:
        """Die as by kill -9, between two writes: what was written is on disk."""
        self.disk.land()
        super().crash()
