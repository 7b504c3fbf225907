"""What a consumer can be told: which topics, from where on, and how much it may hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Partition


class Start(Enum):
    """Where to begin a partition that has no explicit position."""

    EARLIEST = "earliest"
    """At its first record."""
    LATEST = "latest"
    """Behind the first head that is heard of it, or at the first record that arrives live."""
    ASSIGNED = "assigned"
    """Nowhere, until `Positioned` says so; `Found` asks for it."""


def _every_topic(_topic: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What a consumer can be told.

    Attributes:
        topics: Topics to subscribe to; none means all, as far as `wants` agrees.
        wants: With all topics: which of them to take.
        start: Where partitions without a position begin.
        positions: Sequence to begin each partition at.
        committed: Deliver only what a store has on disk.
        buffer_bytes_max: Delivered and not drained; beyond it nothing more is taken in.
        heads_interval_ms_max: GET-HEADS is repeated, ever more rarely, up to this interval: the
            partition of a dead producer is announced by nobody else, and the answer may be lost.
    """

    topics: tuple[str, ...] = ()
    wants: Callable[[str], bool] = _every_topic
    start: Start = Start.EARLIEST
    positions: Mapping[Partition, int] = field(default_factory=dict)
    committed: bool = False
    buffer_bytes_max: int = 32 * 1024 * 1024
    heads_interval_ms_max: int = 10_000
