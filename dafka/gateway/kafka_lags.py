"""How far Kafka groups are behind in what this gateway owns, worked out a little at a time.

Of many groups and partitions a round takes long, and the node has to serve meanwhile: a figure is
as old as a round takes, and how long that is follows from how many of both there are.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

STEP = 5_000
"""Groups of partitions that are looked at at once: some milliseconds."""


class KafkaLags:
    """Goes round all groups of all partitions.

    Args:
        behind: Begins a round: groups, and how many records each is behind in some partition.
    """

    def __init__(self, behind: Callable[[], Iterable[tuple[str, int]]]) -> None:
        self._behind = behind
        self._round: Iterator[tuple[str, int]] = iter(())
        self._sums: Counter[str] = Counter()
        self._found: Mapping[str, int] = {}

    def step(self, most: int = STEP) -> Mapping[str, int]:
        """Go on with the round; return what the last whole one has found, by group."""
        looked_at = 0
        for group, records in islice(self._round, most):
            self._sums[group] += records
            looked_at += 1
        if looked_at < most:
            self._found, self._sums = dict(self._sums), Counter()
            self._round = iter(self._behind())
        return self._found
