"""What a comparison of clusters found, for people and for scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from distributor.verify.bisection import Mismatch

DIFFERENCES_MAX = 10_000
"""Differences that are kept: some megabytes. More are counted."""


class DifferenceKind(Enum):
    """How a cluster differs from others in some records."""

    BEHIND = "behind"
    """It does not have them yet, or lost them: they are behind all that it has."""

    GONE = "gone"
    """It does not have them, and nobody who has what follows keeps them any more."""

    DIFFERS = "differs"
    """It has other records under the same names."""

    UNREADABLE = "unreadable"
    """It has them and cannot read them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Consecutive records of a partition that one cluster does not have as others do.

    Attributes:
        kind: How it differs.
        topic: Of the partition.
        address: Of the partition.
        cluster: Which cluster.
        first: Sequence of the first such record.
        last: Sequence of the last.
        others: The clusters it was compared with: who has them, or more of them alike.
        detail: Why they cannot be read.
        moving: Whether the cluster took records of the partition in while it was looked at.
        within: The cluster whose stores were compared, which `cluster` and `others` then name.
        records: How many that is, at most where too many differ to tell them apart.
    """

    kind: DifferenceKind
    topic: str
    address: str
    cluster: str
    first: int
    last: int
    others: tuple[str, ...] = ()
    detail: str = ""
    moving: bool = False
    within: str = ""
    records: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", self.last - self.first + 1)

    @property
    def partition(self) -> Partition:
        """Of which they are."""
        return Partition(self.topic, self.address)

    def __str__(self) -> str:
        """One sentence."""
        place = f"{self.topic!r}/{self.address[:8]}"
        records = f"{self.first:,}" if self.records == 1 else f"{self.first:,} to {self.last:,}"
        others = ", ".join(self.others)
        match self.kind:
            case DifferenceKind.BEHIND:
                catching_up = ", and is catching up" if self.moving else ""
                return f"{place}: {self.cluster} lacks {records}, there on {others}{catching_up}"
            case DifferenceKind.GONE:
                return f"{place}: {self.cluster} lacks {records}, which nobody keeps any more"
            case DifferenceKind.DIFFERS:
                return f"{place}: {self.cluster} has other records than {others}: {records}"
            case DifferenceKind.UNREADABLE:
                return f"{place}: {self.cluster} cannot read {records}: {self.detail}"


def differences(partition: Partition, finding: Mismatch) -> list[Difference]:
    """Say of each cluster that is not with the largest group what is the matter with it."""
    span = (finding.start, finding.end - 1)
    reference = finding.groups[0] if finding.groups else ()
    return [
        *(
            Difference(DifferenceKind.DIFFERS, *partition, name, *span, reference)
            for group in finding.groups[1:]
            for name in group
        ),
        *(
            Difference(DifferenceKind.UNREADABLE, *partition, name, *span, reference, reason)
            for name, reason in finding.damaged
        ),
        *(Difference(DifferenceKind.BEHIND, *partition, name, *span) for name in finding.absent),
    ]


@dataclass(slots=True)
class Verdict:
    """What a comparison found.

    Attributes:
        clusters: Records per cluster; None if it did not answer.
        partitions: How many were compared.
        deep: Whether contents were compared too.
        records: How many were digested, over all clusters.
        differences: What differs; none means equal.
        more: Differences beyond the bound, which are not kept.
        unreachable: Clusters that did not answer, and why.
        shortened: Partitions of which a cluster has dropped the beginning; the rest was compared.
        repaired: Records that were missing and have been brought.
    """

    clusters: dict[str, int | None]
    partitions: int = 0
    deep: bool = False
    records: int = 0
    differences: list[Difference] = field(default_factory=list)
    more: int = 0
    unreachable: list[str] = field(default_factory=list)
    shortened: int = 0
    repaired: int = 0

    @property
    def equal(self) -> bool:
        """Whether every cluster answered and all hold the same, as far as was looked."""
        return not self.differences and not self.unreachable

    @property
    def exit_code(self) -> int:
        """0 equal, 1 records are missing, 3 histories differ or are damaged, 4 not all answered.

        The gravest counts: 3 needs a decision, 4 could hide anything, 1 passes or can be repaired.
        """
        if any(one.kind is not DifferenceKind.BEHIND for one in self.differences):
            return 3
        if self.unreachable:
            return 4
        return 1 if self.differences else 0

    @property
    def problems(self) -> list[str]:
        """What is wrong, as sentences."""
        return self.unreachable + [str(difference) for difference in self.differences]

    def take(self, stores: Verdict) -> None:
        """Add what the comparison of one cluster's stores has found."""
        self.records += stores.records
        self.more += stores.more
        self.unreachable += stores.unreachable
        self.add(stores.differences)

    def add(self, found: Iterable[Difference]) -> None:
        """Keep differences, as many as there is room for."""
        for difference in found:
            if len(self.differences) < DIFFERENCES_MAX:
                self.differences.append(difference)
            else:
                self.more += 1
