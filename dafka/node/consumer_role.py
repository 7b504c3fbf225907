"""The consumer's shell in the node's thread: what is delivered waits for the application."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from dafka.protocol.effects import Deliver
from dafka.protocol.events import Event, TurnEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.protocol.consumer import ConsumerMachine
    from dafka.transport.sockets import Pollable


class ConsumerRole:
    """A consumer's machine in its node."""

    name = "consumer"

    def __init__(self, machine: ConsumerMachine) -> None:
        self.machine = machine
        self.told: Callable[[], None] = lambda: None
        """Called when something was delivered, or the node ends."""
        self._delivered: queue.SimpleQueue[Deliver] = queue.SimpleQueue()

    def next(self, timeout: float, *, whole: bool) -> Deliver | None:
        """The next batch, None if there is none in time."""
        try:
            return self._delivered.get(timeout=timeout)
        except queue.Empty:
            return None

    def handle(self, side: None, event: Event, now_ms: int) -> Iterable[tuple[None, object]]:
        """Pass an event to the machine."""
        if isinstance(event, TurnEnded):
            return ()
        return [(side, effect) for effect in self.machine.handle(event, now_ms)]

    def wakeup_ms(self) -> int | None:
        """When the machine wants to be woken."""
        return self.machine.wakeup_ms()

    def perform(self, _side: None, effect: object) -> None:
        """Hand batches to the application."""
        if isinstance(effect, Deliver):
            self._delivered.put(effect)
            self.told()

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, Event]]]]:
        """No sockets of its own."""
        return {}

    def close(self) -> None:
        """Nothing is held outside this object."""
        self.told()
