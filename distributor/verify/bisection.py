"""Finding the records that several clusters do not hold alike, from digests of ranges.

Logs begin where retention left them, and end anywhere: what is compared are segments that the same
clusters hold. First ranges as large as a store digests at once, of whole batches as they stand.
Where these differ, the records are digested one by one: the same records may be in other batches.
Where that differs too, the range is halved, the first half first, down to single records. A history
that is another one from some record on differs in everything behind it, so only so many halvings
are made; what is left by then is told as a whole.

Source: the descent in a Merkle tree, as anti-entropy in Dynamo (DeCandia et al., 2007) does it,
without keeping the tree.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

HALVINGS_MAX = 200
"""In one segment: some seconds of the stores' time, and enough for a dozen places that differ."""


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


class Question(NamedTuple):
    """What to ask each of `clusters`: the digest of a range, exactly or of whole batches."""

    start: int
    end: int
    exact: bool
    clusters: tuple[str, ...]


class Coverage(NamedTuple):
    """One cluster's answer.

    Attributes:
        start: The first record it covers; above the one asked for if that is kept no more.
        end: The sequence after the last one; at or below the one asked for if there are none.
        digest: Of these.
        damage: Why they cannot be read; empty if they can.
    """

    start: int
    end: int
    digest: bytes
    damage: str = ""


class Mismatch(NamedTuple):
    """Records that are not the same everywhere.

    Attributes:
        start: Sequence of the first.
        end: The sequence after the last.
        groups: Clusters that have the same; the largest group first.
        damaged: Clusters that cannot read them, with the reason.
        absent: Clusters that do not have them any more, though they ended behind them before.
    """

    start: int
    end: int
    groups: tuple[tuple[str, ...], ...]
    damaged: tuple[tuple[str, str], ...]
    absent: tuple[str, ...]


class Bisection:
    """The comparison of one segment. Ask `question`, give the answers to `answered`, till None.

    Args:
        segment: What to compare.
    """

    def __init__(self, segment: Segment) -> None:
        self._holders = segment.holders
        self._end = segment.end
        self._ranges: list[tuple[int, int, bool]] = [(segment.start, segment.end, False)]
        """What is still to be compared, the next one last; exactly or not."""
        self._halvings = 0
        self.findings: list[Mismatch] = []
        """What differs, in order; neighbours that differ alike are one."""

    @property
    def position(self) -> int:
        """Sequence below which everything is compared."""
        return self._ranges[-1][0] if self._ranges else self._end

    @property
    def question(self) -> Question | None:
        """What to ask next; None when all is compared, or nobody is left to compare with."""
        if not self._ranges or len(self._holders) < 2:
            return None
        return Question(*self._ranges[-1], self._holders)

    def leave(self, cluster: str) -> None:
        """Go on without a cluster: it does not answer."""
        self._holders = tuple(name for name in self._holders if name != cluster)

    def answered(self, answers: Mapping[str, Coverage]) -> None:
        """Take in what each of the question's clusters says.

        Args:
            answers: By cluster. Exact ones cover nothing outside the range asked for.
        """
        start, stop, exact = self._ranges.pop()
        begin = max(coverage.start for coverage in answers.values())
        if begin > start:
            # Retention was faster than we are.
            self._push(begin, stop, exact=exact)
            return
        absent = [name for name, coverage in answers.items() if coverage.end <= start]
        if absent:
            self._find(Mismatch(start, self._end, (), (), tuple(absent)))
            for name in absent:
                self.leave(name)
            self._push(start, stop, exact=exact)
            return
        end = min(stop, *(coverage.end for coverage in answers.values()))
        alike = len(set(answers.values())) == 1
        if not exact and alike and not answers[self._holders[0]].damage:
            self._push(answers[self._holders[0]].end, stop, exact=False)
        elif not exact:
            self._push(end, stop, exact=False)
            self._push(start, end, exact=True)
        elif any(coverage.end > end for coverage in answers.values()):
            self._push(end, stop, exact=True)
            self._push(start, end, exact=True)
        else:
            self._push(end, stop, exact=True)
            self._judge(start, end, answers)

    def _judge(self, start: int, end: int, answers: Mapping[str, Coverage]) -> None:
        """All cover the same records, exactly."""
        groups: dict[bytes, list[str]] = {}
        for name, coverage in answers.items():
            if not coverage.damage:
                groups.setdefault(coverage.digest, []).append(name)
        damaged = tuple((name, one.damage) for name, one in answers.items() if one.damage)
        if len(groups) < 2 and not damaged:
            return
        if end - start > 1 and self._halvings < HALVINGS_MAX:
            self._halvings += 1
            middle = (start + end) // 2
            self._push(middle, end, exact=True)
            self._push(start, middle, exact=True)
            return
        # The sort is stable: among groups of one size the first cluster's is the first.
        ordered = sorted(groups.values(), key=len, reverse=True)
        self._find(Mismatch(start, end, tuple(map(tuple, ordered)), damaged, ()))

    def _push(self, start: int, end: int, *, exact: bool) -> None:
        if start < end:
            self._ranges.append((start, end, exact))

    def _find(self, finding: Mismatch) -> None:
        if self.findings:
            last = self.findings[-1]
            if (last.end, *last[2:]) == (finding.start, *finding[2:]):
                finding = finding._replace(start=last.start)
                self.findings.pop()
        self.findings.append(finding)
