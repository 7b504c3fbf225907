"""The one shape of every machine, and what machines share: lifecycles, and when to wake up.

A machine is told what has happened and says what is to be done. It has no IO, clock, randomness or
threads, and what a peer sends never makes it raise: that becomes `Dropped(reason)`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

In = TypeVar("In", contravariant=True)
"""What a machine is told: its events."""

Out = TypeVar("Out")
"""What it asks for: its effects."""

S = TypeVar("S", bound=Enum)


class Machine(Protocol[In, Out]):
    """What every machine is."""

    def handle(self, event: In, now_ms: int) -> list[Out]:
        """Take one event in; returns what is to be done, in this order.

        Args:
            event: What has happened.
            now_ms: The time, of a monotonic clock.
        """

    def wakeup_ms(self) -> int | None:
        """When to send it `Woke` at the latest; None if only an event can bring something to do."""

    def check(self) -> None:
        """Assert its invariants; the simulator asks for that after every event."""


class Lifecycle(Generic[S]):
    """A state that changes here alone, and only as its table says.

    Args:
        table: What may follow each state. The first is the one to begin with.
    """

    __slots__ = ("_table", "state")

    def __init__(self, table: Mapping[S, Collection[S]]) -> None:
        self._table = table
        self.state = next(iter(table))

    def become(self, state: S) -> None:
        """Change to a state that may follow; to stay is no change."""
        allowed = state is self.state or state in self._table[self.state]
        assert allowed, f"{self.state} does not become {state}"
        self.state = state


def earliest(*dues_ms: int | None) -> int | None:
    """Return the least that is set; None if none is.

    A loop, because every turn of every node asks: `min` over a generator takes thrice as long.
    """
    first: int | None = None
    for due_ms in dues_ms:
        if due_ms is not None and (first is None or due_ms < first):
            first = due_ms
    return first
