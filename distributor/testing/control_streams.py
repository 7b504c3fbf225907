"""Processes that die and freeze, and streams between them that break.

See `distributor.testing.control`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from distributor.control.events import StreamEnded, Writable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.testing.world import World
    from distributor.control.events import ControllerEvent, ReplicaEvent

E = TypeVar("E")

TICK_MS = 20


class SimProcess(ABC, Generic[E]):
    """A process that takes things in one after the other, unless it is dead or frozen."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = False
        self.frozen = False
        self.incarnation = 0
        self._inbox: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin to live."""
        self.alive, self.frozen = True, False
        self.incarnation += 1
        self._inbox.clear()
        self._tick(self.incarnation)

    def crash(self) -> None:
        """Die."""
        self.alive = False
        self._inbox.clear()

    def thaw(self) -> None:
        """Go on, with what has come in the meantime."""
        self.frozen = False
        inbox, self._inbox = self._inbox, []
        for action in inbox:
            self.when_awake(action)

    def when_awake(self, action: Callable[[], None]) -> None:
        """Do something now, or when it is awake again; never if it dies before."""
        if self.alive:
            self._inbox.append(action) if self.frozen else action()

    @abstractmethod
    def turn(self) -> None:
        """Do what is due."""

    @abstractmethod
    def told(self, stream: SimStream, event: E) -> None:
        """Something comes over a stream."""

    def _tick(self, incarnation: int) -> None:
        if self.alive and self.incarnation == incarnation:
            self.world.after(TICK_MS, partial(self._tick, incarnation))
            if not self.frozen:
                self.turn()


class SimStream:
    """One stream between two processes; each way things arrive in order, or not at all."""

    def __init__(
        self,
        world: World,
        controller: SimProcess[ControllerEvent],
        replica: SimProcess[ReplicaEvent],
        numbers: tuple[int, int],
    ) -> None:
        self.world = world
        self.controller, self.replica = controller, replica
        self.there, self.back = numbers
        """How the replica calls it, and how the controller does."""
        self.broken = False
        self._lives = controller.incarnation, replica.incarnation
        self._there_ms = self._back_ms = 0
        """When the last that was sent arrives."""

    @property
    def open(self) -> bool:
        """Whether anything that is sent arrives."""
        return not self.broken and self._lives == (
            self.controller.incarnation,
            self.replica.incarnation,
        )

    def to_replica(self, event: ReplicaEvent) -> None:
        """Let the replica be told something, behind all that was sent to it before."""
        self._there_ms = self._at_ms(self._there_ms)
        told = partial(self.replica.told, self, event)
        self._at(self._there_ms, partial(self.replica.when_awake, told))

    def to_controller(self, event: ControllerEvent) -> None:
        """Let the controller be told something, behind all that was sent to it before."""
        self._back_ms = self._at_ms(self._back_ms)
        told = partial(self.controller.told, self, event)
        self._at(self._back_ms, partial(self.controller.when_awake, told))

    def commanded(self) -> None:
        """What was sent to the replica is taken in once it is awake: then there is room."""
        writable = partial(self.to_controller, Writable(self.back))
        self._at(self._there_ms, partial(self.replica.when_awake, writable))

    def responded(self) -> None:
        """The same the other way."""
        writable = partial(self.to_replica, Writable(self.there))
        self._at(self._back_ms, partial(self.controller.when_awake, writable))

    def cut(self, *, noticed: bool) -> None:
        """Lose the connection and what is under way; unnoticed, nobody is told."""
        if noticed and self.open:
            there = partial(self.replica.told, self, StreamEnded(self.there))
            back = partial(self.controller.told, self, StreamEnded(self.back))
            self.world.after(self.world.delay_ms(), partial(self._lost, self.replica, 1, there))
            self.world.after(self.world.delay_ms(), partial(self._lost, self.controller, 0, back))
        self.broken = True

    def _lost(self, process: SimProcess[E], end: int, tell: Callable[[], None]) -> None:
        if process.incarnation == self._lives[end]:
            process.when_awake(tell)

    def _at_ms(self, last_ms: int) -> int:
        return max(last_ms, self.world.now_ms + self.world.delay_ms())

    def _at(self, at_ms: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if self.open:
                action()

        self.world.after(at_ms - self.world.now_ms, act)
