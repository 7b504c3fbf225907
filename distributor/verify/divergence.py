"""Do two clusters mean the same record by the same name? Digests of what both have last.

A producer that lost its spool and took up its old address again, or a store restored from an old
backup, can give one place to two records. What follows such a record must not be copied.

A partition is looked at before anything of it is copied, at the last record that both ends have:
histories that part do not meet again. Where the target never had anything there is nothing to look
at. After that a few partitions at a time are looked at once more, those first whose turn was
longest ago, in what both have got since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dafka.errors import QueryError, RefusedError
from distributor.verify.bisection import Bisection, Coverage, Segment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dafka.model import Partition
    from dafka.query.messages import DigestResponse

FIRST_LOOKS_MAX = 1_000
"""Partitions looked at for the first time in one survey; where they are not batched alike, each
takes some questions of its own."""

LOOKS_MAX = 20
"""Partitions looked at again in one survey."""

LOOK_RECORDS_MAX = 10_000
"""Records of a partition in one look: a few megabytes that two stores read."""


class DigestSource(Protocol):
    """What is asked of a store."""

    def digest(self, partition: Partition, start: int, end: int, *, exact: bool) -> DigestResponse:
        """Return the digest of a range; see `StoreClient.digest`."""

    def digests(self, spans: Mapping[Partition, range]) -> dict[Partition, tuple[int, int, bytes]]:
        """Return the digests of many ranges; see `StoreClient.digests`."""


class Witness:
    """Looks at the partitions of one link.

    Args:
        first_looks_max: Partitions looked at for the first time in one survey.
        looks_max: Partitions looked at again in one survey.
        look_records_max: Records of a partition in one look.
    """

    def __init__(
        self,
        *,
        first_looks_max: int = FIRST_LOOKS_MAX,
        looks_max: int = LOOKS_MAX,
        look_records_max: int = LOOK_RECORDS_MAX,
    ) -> None:
        self._first_looks_max = first_looks_max
        self._looks_max = looks_max
        self._look_records_max = look_records_max
        self._seen: dict[Partition, int] = {}
        """Up to where each partition was looked at; those of which that is longest ago first."""
        self._doubtful: set[Partition] = set()
        """Partitions that the target has or had, and that were not looked at since."""
        self.diverged: dict[Partition, int] = {}
        """Partitions of which the two clusters hold other records under the same name, each with
        the first sequence that is known to differ."""

    def waiting(self, target: Mapping[Partition, int]) -> frozenset[Partition]:
        """Partitions that the target has and that have not been looked at.

        Of those the source may not have said yet that it has them: it did not answer, or another
        of its stores has them so far.
        """
        return frozenset(target.keys() - self._seen.keys())

    def due(
        self,
        source: Mapping[Partition, int],
        target: Mapping[Partition, int],
        kept: Collection[Partition] = (),
    ) -> dict[Partition, range]:
        """Return what to look at next of which partitions.

        What one end does not have any more is looked at anew: it may come back as something else.
        What was found to differ does so until that, or until the target has nothing of it.

        Args:
            source: The last sequence of each partition there.
            target: The same of the target.
            kept: What the target does not list, and may have all the same.
        """
        again: dict[Partition, range] = {}
        for partition in self.diverged.keys() - target.keys() - set(kept):
            del self.diverged[partition]
        self._doubtful &= source.keys() | target.keys()
        for partition, seen in list(self._seen.items()):
            end = min(source.get(partition, -1), target.get(partition, -1)) + 1
            if end < seen or partition not in source:
                del self._seen[partition]
                if seen:
                    self._doubtful.add(partition)
            elif end > seen and partition not in self.diverged and len(again) < self._looks_max:
                again[partition] = range(max(seen, end - self._look_records_max), end)
        # Sorted, here and below: who is looked at first is to be the same in each run of a seed.
        alone = source.keys() - target.keys() - self._seen.keys() - self._doubtful
        self._seen.update(dict.fromkeys(sorted(alone), 0))
        first: dict[Partition, range] = {}
        waiting = self.waiting(target) & source.keys()
        self._doubtful |= waiting
        for partition in sorted(waiting):
            if len(first) == self._first_looks_max:
                break
            end = min(source[partition], target[partition]) + 1
            first[partition] = range(max(0, end - 1), end)
        return first | again

    def look(
        self, source: DigestSource, target: DigestSource, spans: Mapping[Partition, range]
    ) -> None:
        """Compare what both ends have of partitions.

        Args:
            source: A store of the one cluster.
            target: A store of the other.
            spans: What to look at; both have it.

        Raises:
            RefusedError: One of them cannot read one of the partitions; all others were looked at.
            QueryError: One of them does not answer; what was looked at until then counts.
        """
        filled = {partition: span for partition, span in spans.items() if span}
        try:
            ours, theirs = source.digests(filled), target.digests(filled)
        except QueryError:
            # A store before this question was, or one that cannot read one of the partitions:
            # each is looked at by itself.
            ours = theirs = {}
        refused: RefusedError | None = None
        for partition, span in spans.items():
            first = None
            if span and not _alike(ours.get(partition), theirs.get(partition), span):
                try:
                    first = _parting(source, target, partition, span)
                except RefusedError as error:
                    refused = error
                    continue
            # To the end of the line.
            self._seen.pop(partition, None)
            self._seen[partition] = span.stop
            self._doubtful.discard(partition)
            self.diverged.pop(partition, None)
            if first is not None:
                self.diverged[partition] = first
        if refused is not None:
            raise refused


def _alike(
    ours: tuple[int, int, bytes] | None, theirs: tuple[int, int, bytes] | None, span: range
) -> bool:
    """Whether digests say so: both cover all of `span`, in the same batches."""
    if ours is None or ours != theirs:
        return False
    start, end, _ = ours
    return start <= span.start and end >= span.stop


def _parting(
    source: DigestSource, target: DigestSource, partition: Partition, span: range
) -> int | None:
    """Where the histories part, if they do within `span`."""
    bisection = Bisection(Segment(span.start, span.stop, ("source", "target")))
    while (question := bisection.question) is not None:
        answers = {}
        for name, end in (("source", source), ("target", target)):
            found = end.digest(partition, question.start, question.end, exact=question.exact)
            answers[name] = Coverage(found.start, found.end, found.digest, found.damage)
        bisection.answered(answers)
        for finding in bisection.findings:
            if len(finding.groups) > 1:
                return finding.start
    return None
