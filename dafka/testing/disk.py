"""The disk of a simulated process: a log and a spool whose transactions take a while.

What the process has written it reads at once, as it does nothing else meanwhile. On disk it is when
the time is over; a crash before that loses it or keeps it, whole: what the contracts of the storage
ports promise of torn writes.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from dafka.errors import StorageError
from dafka.storage.log import NONE, NOTHING, extent_of
from dafka.storage.memory import MemoryLog
from dafka.storage.spool import MemorySpool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from dafka.model import Batch, Partition
    from dafka.storage.log import Extent, RecordLog, TableEntry
    from dafka.testing.world import SimNode

    Written = Callable[
        [Sequence[Batch], Iterable[Partition], Mapping[Partition, range], Collection[Partition]],
        None,
    ]


class SimDisk:
    """Transactions of one process, one after the other."""

    def __init__(self, node: SimNode[Any, Any]) -> None:
        self._node = node
        self._under_way: deque[Callable[[], None]] = deque()
        self.full = False
        """Whether it refuses whatever is to be written."""

    def begin(self) -> None:
        """Take the time of a transaction.

        Raises:
            StorageError: It is refused, as by a full disk.
        """
        if not self.takes():
            raise StorageError("cannot append: the disk is full")

    def takes(self) -> bool:
        """Take the time of a transaction; whether it is not refused."""
        world = self._node.world
        self._node.busy(world.random.randint(0, world.faults.disk_ms_max))
        return not self.full and world.faults.refusal <= world.random.random()

    def commit(self, action: Callable[[], None]) -> None:
        """Do what was begun, when its time is over."""
        self._under_way.append(action)
        self._node.leave(self._commit)

    def crash(self) -> None:
        """Keep some of what is under way, from the oldest on."""
        for _ in range(self._node.world.random.randint(0, len(self._under_way))):
            self._commit()
        self._under_way.clear()

    def land(self) -> None:
        """Keep all that is under way."""
        while self._under_way:
            self._commit()

    def _commit(self) -> None:
        self._under_way.popleft()()


class SimLog(MemoryLog):
    """A store's log as its process has it.

    Args:
        held: What is on disk.
        disk: How it gets there.
        written: Told of every transaction that is on disk: what it has appended, of which
            partitions it has dropped some, what it has passed over, and what it has erased.
    """

    def __init__(
        self,
        held: MemoryLog,
        disk: SimDisk,
        written: Written,
    ) -> None:
        super().__init__(held.identity)
        self.load(held)
        self._held = held
        self._disk = disk
        self._written = written

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
        assert not trims or not (batches or skips), "what is taken in drops nothing"
        self._disk.begin()
        super().append(
            batches, trims=trims, skips=skips, entries=entries, forgets=forgets, erases=erases
        )
        what = batches, trims, skips, entries, forgets, erases
        self._disk.commit(partial(landed, self._held, self._written, *what))


class SettledTables:
    """The port `HeldLog` of a simulated store: what is put there is on disk at once.

    Its answer leaves a store no earlier than that, and nothing else happens meanwhile.

    Args:
        held: What is on disk.
        view: The same as the process has it.
    """

    def __init__(self, held: MemoryLog, view: RecordLog) -> None:
        self._held, self._view = held, view

    def extents(self) -> Mapping[Partition, Extent]:
        """What there is of every partition, as the process has it."""
        return self._view.extents()

    def append(self, batches: Sequence[Batch], *, entries: Sequence[TableEntry]) -> None:
        """Put entries into tables."""
        self._held.append(batches, entries=entries)

    def scan(
        self, table: str, prefix: bytes, count_max: int, after: bytes | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Some of them, in order."""
        return self._held.scan(table, prefix, count_max, after)


def landed(
    held: MemoryLog,
    written: Written,
    batches: Sequence[Batch],
    trims: Mapping[Partition, int],
    skips: Mapping[Partition, int],
    entries: Sequence[TableEntry],
    forgets: Collection[Partition],
    erases: Collection[Partition],
) -> None:
    """Make a change of what is on disk, as `RecordLog.append` does, and tell of it."""
    extents = {one: extent_of(held, one) for one in skips}
    skipped = {
        one: range(0 if extent is None else extent.head + 1, skips[one])
        for one, extent in extents.items()
    }
    held.append(batches, trims=trims, skips=skips, entries=entries, forgets=forgets, erases=erases)
    written(batches, trims, skipped, erases)


class SimSpool(MemorySpool):
    """A producer's spool as its process has it.

    Args:
        held: What is on disk.
        disk: How it gets there.
    """

    def __init__(self, held: MemorySpool, disk: SimDisk) -> None:
        super().__init__(held.address)
        self.load(held)
        self._held = held
        self._disk = disk

    def append(self, batches: Sequence[Batch]) -> None:
        """Append in one transaction; see `Spool.append`."""
        self._disk.begin()
        super().append(batches)
        self._disk.commit(partial(self._held.append, batches))

    def forget(self, topic: str, end: int) -> None:
        """Drop what is stored; see `Spool.forget`."""
        super().forget(topic, end)
        self._held.forget(topic, end)
