"""Who holds which part of a partition: logs begin where retention left them, and end anywhere."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Segment(NamedTuple):
    """Consecutive records of a partition that the same clusters hold.

    Attributes:
        start: Sequence of the first.
        end: The sequence after the last.
        holders: Who holds them, in the order given.
    """

    start: int
    end: int
    holders: tuple[str, ...]


def segments(kept: Mapping[str, range]) -> list[Segment]:
    """Return what anybody holds, cut where some cluster's part begins or ends.

    Args:
        kept: The sequences that each cluster keeps.
    """
    bounds = sorted({bound for held in kept.values() if held for bound in (held.start, held.stop)})
    found = [
        Segment(start, end, tuple(name for name, held in kept.items() if start in held))
        for start, end in pairwise(bounds)
    ]
    return [segment for segment in found if segment.holders]
