"""Taking a cluster out: what nobody has any more of what it was last known to hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distributor.control.client import ControlClient
from distributor.errors import CommandError
from distributor.local.processes import control_endpoints
from distributor.survey import furthest, lacking, survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dafka.model import Partition
    from topology.plan import Plan


@dataclass(frozen=True, slots=True)
class Gone:
    """Records of one partition that no survivor has.

    Attributes:
        topic: Of the partition.
        address: Of the partition.
        first: The first sequence that is gone.
        records: How many, as far as is known.
    """

    topic: str
    address: str
    first: int
    records: int


@dataclass(slots=True)
class Loss:
    """What the loss of a cluster cost.

    Attributes:
        cluster: Which.
        told: Distributors that have left it.
        untold: Those that did not answer; they leave it when it has been silent for long enough.
        age_s: How long ago it was last known what the cluster holds; None if never. What it took
            in later is gone too, and nobody can count it.
        gone: What nobody has any more, as far as is known; the recovery point.
        unreachable: Survivors that did not answer; what they have counts as gone here.
    """

    cluster: str
    told: int = 0
    untold: list[str] = field(default_factory=list)
    age_s: float | None = None
    gone: list[Gone] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)

    @property
    def silent(self) -> bool:
        """Whether somebody did not answer, so that `gone` may be too much or too little."""
        return bool(self.untold or self.unreachable)

    @property
    def unknown(self) -> bool:
        """Whether `gone` names nothing only because somebody did not answer."""
        return self.silent and not self.gone


def declare_lost(plan: Plan, cluster: str) -> Loss:
    """Tell every distributor of other clusters, and compare what is left."""
    loss = Loss(cluster)
    remembered: list[Mapping[Partition, int]] = []
    for distributor, endpoint in control_endpoints(plan):
        if distributor.cluster == cluster:
            continue
        try:
            with ControlClient(endpoint) as client:
                age_ms, heads = client.lost(cluster)
        except CommandError as error:
            loss.untold.append(f"{distributor.cluster} level {distributor.level}: {error}")
            continue
        loss.told += 1
        if age_ms >= 0:
            loss.age_s = min(age_ms / 1_000, loss.age_s or float("inf"))
        remembered.append(heads)
    holdings = [holding for holding in survey(plan.topology) if holding.cluster != cluster]
    loss.unreachable = [holding.cluster for holding in holdings if holding.store is None]
    wanted = {
        partition: head
        for partition, head in furthest(remembered).items()
        if plan.topology.wants(partition.topic, cluster)
    }
    loss.gone = gone(wanted, [holding.heads for holding in holdings])
    return loss


def gone(
    remembered: Mapping[Partition, int], kept: Iterable[Mapping[Partition, int]]
) -> list[Gone]:
    """What is in `remembered` and in none of `kept`, by partition."""
    return [
        Gone(partition.topic, partition.address, remembered[partition] + 1 - missing, missing)
        for partition, missing in sorted(lacking(remembered, furthest(kept)).items())
    ]
