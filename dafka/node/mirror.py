"""A mirror for those who have batches: under whatever names they are given, until they are stored.

Spark's tasks write through it. A link does not: there the mirror's machine is part of a larger one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.cluster import cluster_of
from dafka.errors import NotStoredError
from dafka.node.loop import Node
from dafka.protocol.effects import Stored
from dafka.protocol.events import Mirrored, TurnEnded
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.transport.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.cluster import Cluster
    from dafka.model import Batch, Partition
    from dafka.node.turn import Role
    from dafka.protocol.events import Event
    from dafka.transport.sockets import Pollable


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Event: what is unstored of these partitions is given up."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Begins:
    """Event: nobody has a partition's records before `sequence` any more."""

    partition: Partition
    sequence: int


class Mirror:
    """Publishes batches under the names they have. Used by one thread at a time.

    Batches of one partition must be given in order; they need not follow each other directly.

    Args:
        cluster: Which, or its tower, `tcp://host:port`.
        min_acks: How many distinct stores must have a record before it counts as stored.
        buffer_bytes_max: Bytes published and not stored yet at which `publish` begins to wait.

    Raises:
        MisuseError: An argument cannot be used.
    """

    def __init__(
        self,
        cluster: Cluster | str,
        *,
        min_acks: int = 1,
        buffer_bytes_max: int = 32 * 1024 * 1024,
    ) -> None:
        cluster = cluster_of(cluster)
        self.address = cluster.new_address()
        self._buffer_bytes_max = buffer_bytes_max
        self._changed = threading.Condition()
        """Guards what follows, and tells of progress."""
        self._unstored: dict[Partition, range] = {}
        """The sequences that are published and not stored, of the partitions that have some."""
        self._buffered = 0
        self._stored = 0
        """How often stores have said that they have more: progress."""
        mesh = Mesh(cluster, self.address)
        machine = MirrorMachine(MirrorSettings(foreign=mesh.foreign, min_acks=min_acks))
        role: Role[None, Forgotten | Begins] = _MirrorRole(
            machine, self._on_stored, self._on_forgotten
        )
        self._node = Node(role, self.address, {None: mesh})
        self._node.start()

    def publish(self, batch: Batch, silence_s: float) -> None:
        """Publish a batch, once there is room for it.

        Raises:
            NotStoredError: There is none, and no store has acknowledged anything for `silence_s`.
        """
        self._wait(lambda: self._buffered < self._buffer_bytes_max, silence_s)
        with self._changed:
            before = self._unstored.get(batch.partition)
            start = before.start if before else batch.sequence
            self._unstored[batch.partition] = range(start, batch.end)
            self._buffered += len(batch.content)
        self._node.post(None, Mirrored(batch))

    def flush(self, silence_s: float) -> None:
        """Wait until everything published is stored.

        Raises:
            NotStoredError: It is not, and no store has acknowledged anything for `silence_s`.
        """
        self._wait(lambda: not self._unstored, silence_s)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Give up what is unstored of these partitions, so that they may be begun anywhere."""
        forgotten = tuple(partitions)
        with self._changed:
            for partition in forgotten:
                self._unstored.pop(partition, None)
        self._node.post(None, Forgotten(forgotten))

    def begins(self, partition: Partition, sequence: int) -> None:
        """A partition is there only from `sequence` on: stores that want more are told so."""
        self._node.post(None, Begins(partition, sequence))

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""
        return not self._node.join(0)

    def close(self) -> None:
        """Leave the cluster; what is unstored is given up."""
        self._node.stop()

    def _wait(self, done: Callable[[], bool], silence_s: float) -> None:
        with self._changed:
            while not done():
                stored = self._stored
                self._changed.wait_for(lambda: done() or self._stored > stored, silence_s)  # noqa: B023
                self._node.check()
                if not done() and self._stored == stored:
                    raise NotStoredError(
                        f"no store has acknowledged anything for {silence_s:g} s; "
                        f"unstored are {self._names()}",
                        [(one, len(left)) for one, left in self._unstored.items()],
                    )

    def _names(self) -> str:
        names = [f"{topic!r}/{address}" for topic, address in sorted(self._unstored)[:3]]
        more = len(self._unstored) - len(names)
        return ", ".join(names) + (f" and {more} more partitions" if more else "")

    def _on_stored(self, effect: Stored) -> None:
        with self._changed:
            self._buffered -= effect.size
            left = self._unstored.pop(effect.partition, range(0))
            if left.stop > effect.end:
                start = max(left.start, effect.end)
                self._unstored[effect.partition] = range(start, left.stop)
            self._stored += 1
            self._changed.notify_all()

    def _on_forgotten(self, size: int) -> None:
        with self._changed:
            self._buffered -= size
            self._changed.notify_all()


class _MirrorRole:
    """The mirror's shell in the node's thread."""

    name = "mirror"

    def __init__(
        self,
        machine: MirrorMachine,
        on_stored: Callable[[Stored], None],
        on_forgotten: Callable[[int], None],
    ) -> None:
        self._machine = machine
        self._on_stored = on_stored
        self._on_forgotten = on_forgotten

    def handle(
        self, side: None, event: Event | Forgotten | Begins, now_ms: int
    ) -> Iterable[tuple[None, object]]:
        if isinstance(event, TurnEnded):
            return ()
        if isinstance(event, Forgotten):
            freed = sum(self._machine.forget(partition) for partition in event.partitions)
            self._on_forgotten(freed)
            return ()
        if isinstance(event, Begins):
            self._machine.begins(event.partition, event.sequence)
            return ()
        return [(side, effect) for effect in self._machine.handle(event, now_ms)]

    def wakeup_ms(self) -> int | None:
        return self._machine.wakeup_ms()

    def perform(self, _side: None, effect: object) -> None:
        # Who wants what is not held any more gets it from a store that has it.
        if isinstance(effect, Stored):
            self._on_stored(effect)

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, Event]]]]:
        return {}

    def close(self) -> None:
        return
