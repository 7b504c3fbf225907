"""Counters that are read now and then: how fast they grow, and by how much in the last minute."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

SPAN_S = 60.0
"""What is called recent, in seconds."""


class Counters:
    """Counters by name. One that went back was begun anew: what it shows has come since.

    Attributes:
        rates: How fast each grows, per second; a new one is left out.
        recent: How much each has grown in the last `SPAN_S`, as far as it was read then.
    """

    def __init__(self) -> None:
        self.rates: dict[Hashable, float] = {}
        self.recent: dict[Hashable, float] = {}
        self._values: Mapping[Hashable, float] = {}
        self._read_s = 0.0
        self._growths: deque[tuple[float, dict[Hashable, float]]] = deque()
        """By when they began, the oldest first."""

    def read(self, values: Mapping[Hashable, float], now_s: float) -> None:
        """Take what all counters show now, by a monotonic clock.

        What was read longer ago than `SPAN_S`, as nobody watched meanwhile, tells nothing of now.
        """
        before, self._values = self._values, dict(values)
        began_s, self._read_s = self._read_s, now_s
        elapsed_s = now_s - began_s
        grown: dict[Hashable, float] = {}
        if 0 < elapsed_s <= SPAN_S:
            grown = {
                name: value - before[name] if value >= before[name] else value
                for name, value in values.items()
                if name in before
            }
        self.rates = {name: growth / elapsed_s for name, growth in grown.items()}
        self._growths.append((began_s, grown))
        while self._growths and self._growths[0][0] < now_s - SPAN_S:
            self._growths.popleft()
        self.recent = {}
        for _, growths in self._growths:
            for name, growth in growths.items():
                self.recent[name] = self.recent.get(name, 0.0) + growth
