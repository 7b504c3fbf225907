"""What `Inflow` keeps of each partition that it receives, and of each that it has asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dafka.model import Batch


@dataclass(slots=True)
class Stream:
    """One partition being received."""

    expected: int
    """Next sequence that continues what was received."""
    head: int = -1
    """Highest sequence heard of."""
    # A list, not a deque: thousands of partitions are idle, and an empty deque has 600 bytes.
    ready: list[Batch] = field(default_factory=list)
    """Received in order, not taken yet. The first may begin below what is wanted."""
    ahead: dict[int, Batch] = field(default_factory=dict)
    """Received beyond a gap, by first sequence."""
    store: str | None = None
    """The store that is asked."""
    answered: bool = False
    """Whether a FETCH has brought something."""
    barren: int = 0
    """Windows in a row that brought nothing but log starts."""


@dataclass(slots=True)
class Window:
    """One FETCH without an answer yet."""

    reached: int
    """What was expected when it was sent, or when it last brought something."""
    end: int
    """Sequence behind what was asked for."""
    due_ms: int
    rest_ms: int
    """How long to wait before asking again, should it bring nothing."""
    store: str | None
    """The one that was asked; None is everybody."""
    size: int
    """What it may bring, in bytes, as far as that can be told."""
    spoke: bool = False
    """Whether it has brought something, and not all."""
    without: dict[str, int] = field(default_factory=dict)
    """Who does not have it: a log start behind it, or 0 for who has not come so far."""
