"""How far apart a producer without linger seals its batches.

A batch of every record is the least latency while nobody is busy, and the most once somebody is:
everybody down the line pays for batches, not for records. How long stores take to acknowledge tells
which it is, so the gap is a part of that: it grows with the load, and batches with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dafka.model import Partition

GAP_S_MIN = 0.0003
GAP_S_MAX = 0.002
"""What a record waits at most for the sake of others; on average half of it."""

SHARE = 0.5
"""Of the time from publishing to ACK."""

_SMOOTHING = 0.125
"""Weight of the last measurement."""

_PROBE_S_MAX = 1.0
"""A batch that is not acknowledged by then tells nothing of the load."""


class _Probe(NamedTuple):
    partition: Partition
    end: int
    published_s: float


class SealGap:
    """The gap, from one batch after the other: published, and acknowledged."""

    def __init__(self) -> None:
        self.seconds = GAP_S_MIN
        """Between two times that open batches are sealed."""
        self._probe: _Probe | None = None
        """The batch that is timed."""

    def published(self, partition: Partition, end: int, now_s: float) -> None:
        """A batch that ends below sequence `end` goes out."""
        if self._probe is None or now_s - self._probe.published_s > _PROBE_S_MAX:
            self._probe = _Probe(partition, end, now_s)

    def stored(self, partition: Partition, end: int, now_s: float) -> None:
        """Enough stores have everything below `end`."""
        probe = self._probe
        if probe is None or probe.partition != partition or end < probe.end:
            return
        self._probe = None
        took_s = now_s - probe.published_s
        if took_s > _PROBE_S_MAX:
            return
        gap_s = min(max(SHARE * took_s, GAP_S_MIN), GAP_S_MAX)
        self.seconds += _SMOOTHING * (gap_s - self.seconds)
