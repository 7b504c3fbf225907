"""Taking a cluster out: what nobody has any more of what it was last known to hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from distributor.control.client import ControlClient
from distributor.errors import CommandError
from distributor.local.processes import control_endpoints
from distributor.operations.replicas import ask_replicas, remembered_by_replicas
from distributor.survey import furthest, lacking, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.model import Partition
    from distributor.control.protocol import LinkRow
    from topology.model import ClusterSpec
    from topology.plan import Link, Plan


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
        told: Distributors and controllers whose links have left it.
        untold: Those that did not answer; their links leave it when it has been silent for long
            enough. And replicas that did not say what they know of it.
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


def declare_lost(plan: Plan, cluster: str, turn: Callable[[ClusterSpec, int, str], object]) -> Loss:
    """Tell every distributor and controller of other clusters, and compare what is left.

    Args:
        plan: All links.
        cluster: Which is lost.
        turn: Lets the controller in charge of a cluster aim its links of a level at a target.

    Raises:
        PlanError: The file does not say where a controller is told something.
    """
    loss = Loss(cluster)
    remembered = _tell_distributors(plan, loss)
    known = remembered_by_replicas(plan, cluster)  # before they are told: links forget it then
    remembered += known.heads
    loss.untold += known.silent
    if known.age_s is not None:
        loss.age_s = min(known.age_s, loss.age_s or float("inf"))
    _tell_controllers(plan, loss, turn, ask_replicas(plan).rows)
    holdings = [holding for holding in survey(plan.topology) if holding.cluster != cluster]
    loss.unreachable = [holding.cluster for holding in holdings if holding.store is None]
    wanted = {
        partition: head
        for partition, head in furthest(remembered).items()
        if plan.topology.wants(partition.topic, cluster)
    }
    loss.gone = gone(wanted, [holding.heads for holding in holdings])
    return loss


def _tell_controllers(
    plan: Plan,
    loss: Loss,
    turn: Callable[[ClusterSpec, int, str], object],
    rows: Mapping[Link, LinkRow],
) -> None:
    """Let links that aim at it aim at others, where they have any; `rows` say where they aim."""
    for cluster in plan.topology.clusters:
        if not cluster.controlled or cluster.name == loss.cluster:
            continue
        turns = {
            (link.level, next(one for one in link.targets if one != loss.cluster))
            for link in plan.links
            if link.source == cluster.name and len(link.targets) > 1
            if loss.cluster in (link.target, rows[link].target if link in rows else "")
        }
        try:
            for level, to in sorted(turns):
                turn(cluster, level, to)
        except (CommandError, QueryError) as error:
            loss.untold.append(f"{cluster.name}: {error}")
            continue
        loss.told += bool(turns)


def _tell_distributors(plan: Plan, loss: Loss) -> list[Mapping[Partition, int]]:
    cluster = loss.cluster
    remembered: list[Mapping[Partition, int]] = []
    if plan.topology.control is None:
        return remembered
    for distributor, endpoint in control_endpoints(plan):
        if distributor.cluster == cluster:
            continue
        try:
            with ControlClient(endpoint) as client:
                age_ms, heads = client.lost(cluster)
        except CommandError as error:
            loss.untold.append(f"{distributor.title}: {error}")
            continue
        loss.told += 1
        if age_ms >= 0:
            loss.age_s = min(age_ms / 1_000, loss.age_s or float("inf"))
        remembered.append(heads)
    return remembered


def gone(
    remembered: Mapping[Partition, int], kept: Iterable[Mapping[Partition, int]]
) -> list[Gone]:
    """What is in `remembered` and in none of `kept`, by partition."""
    return [
        Gone(partition.topic, partition.address, remembered[partition] + 1 - missing, missing)
        for partition, missing in sorted(lacking(remembered, furthest(kept)).items())
    ]
