"""`distributor status`: the lag of every link, worked out from both ends' heads, and what it says.

What a link says of itself can be wrong, above all when it is stuck. So its lag is what the source
has and the target lacks, of those partitions whose flags make this link responsible.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.process.clock import wall_ms
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.wire.primitives import text
from distributor.control.client import ControlClient
from distributor.control.protocol import PAUSED_STATE, SUPERSEDED_STATE
from distributor.errors import CommandError
from distributor.local.processes import control_endpoints
from distributor.operations.recovery import RecoveryPoint, recovery_points
from distributor.operations.replicas import ask_replicas
from distributor.operations.shares import UNWRITTEN, whole
from distributor.operations.slots import moving_slots
from distributor.survey import Holding, at_once, lacking, record_at, survey
from topology.copyflags import should_forward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from distributor.control.protocol import LinkRow, StoppedRow
    from topology.plan import Link, Plan


@dataclass(slots=True)
class Told:
    """What was answered.

    Attributes:
        rows: What each link of the plan says, of those that answered.
        silent: Distributors and replicas that gave no answer, and links, or shares of them, that
            none of these writes, as sentences.
        unwritten: Links of which no replica writes any share, where one of their cluster has
            answered.
        paused: Links that none writes as an operator wants that.
        idle: What replicas should do beside copying records, and none does, as sentences.
    """

    rows: dict[Link, LinkRow] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    unwritten: set[Link] = field(default_factory=set)
    paused: set[Link] = field(default_factory=set)
    idle: list[str] = field(default_factory=list)


def ask_links(plan: Plan) -> Told:
    """Ask every distributor that has a control socket, and every replica."""
    told = _ask_distributors(plan)
    by_replicas = ask_replicas(plan)
    told.rows |= by_replicas.rows
    told.silent += by_replicas.silent
    told.unwritten |= by_replicas.unwritten
    told.paused |= by_replicas.paused
    told.idle += by_replicas.idle
    return told


def _ask_distributors(plan: Plan) -> Told:
    told = Told()
    ports = [(distributor, port) for distributor, port in control_endpoints(plan) if port]
    answers = at_once(_ask, [port for _, port in ports])
    shares: dict[Link, dict[int, LinkRow]] = {}
    for (distributor, _), answer in zip(ports, answers, strict=True):
        if isinstance(answer, str):
            told.silent.append(f"{distributor.title}: {answer}")
        elif [_place(row) for row in answer] != [_place(link) for link in distributor.links]:
            other = "runs other links than the file has: restart it"
            told.silent.append(f"{distributor.title}: {other}")
        else:
            for link, row in zip(distributor.links, answer, strict=True):
                shares.setdefault(link, {})[distributor.share] = row
    of = plan.topology.links.shares_at
    told.rows = {
        link: whole(rows, of(link.level), "a distributor") for link, rows in shares.items()
    }
    return told


def _ask(endpoint: str) -> tuple[LinkRow, ...] | str:
    try:
        with ControlClient(endpoint) as client:
            return client.links()
    except CommandError as error:
        return str(error)


def _place(link: Link | LinkRow) -> tuple[str, int, int]:
    return (link.source, link.level, link.branch)


@dataclass(frozen=True, slots=True)
class StoppedPartition:
    """One partition that a link does not copy.

    Attributes:
        topic: Of the partition.
        address: Of the partition.
        reason: `diverged`, `overtaken` or `refused`; see `distributor.link.events`.
        first: The first sequence that differs, that the source keeps no more, or that is refused.
        end: The sequence after the last one that is known to.
    """

    topic: str
    address: str
    reason: str
    first: int
    end: int

    @classmethod
    def of(cls, row: StoppedRow) -> StoppedPartition:
        """As a link tells it."""
        return cls(text(row.topic), text(row.address), row.reason, row.first, row.end)


LATE_MAX = 1_000
"""So many late partitions are named for a link; the sums are of all."""


@dataclass(frozen=True, slots=True)
class LatePartition:
    """One partition of which a target lacks something that the link is to bring.

    Attributes:
        topic: Of the partition.
        address: Of the partition.
        lag_records: Records the target lacks.
        lag_seconds: Age of the oldest of them.
    """

    topic: str
    address: str
    lag_records: int
    lag_seconds: float


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One link, as both its ends show it.

    Attributes:
        source: Cluster it copies from.
        target: Cluster it copies to: the one it serves, or its preferred one if it says nothing.
        level: Tree level it crosses.
        partitions: How many partitions lag; None if that is not known, as the next two.
        lag_records: Records the target lacks.
        lag_seconds: Age of the oldest record the target lacks; 0 if it lacks none.
        error: Why nothing is known.
        state: What it says it does, see `LinkRow`; `no answer` if it does not say so where it has a
            control socket or replicas, empty where it has neither; `unwritten` where some answer
            and none writes it, or a share of it.
        diverged: Partitions it does not copy, as the target has other records of them.
        overtaken: Partitions it does not copy, as the source keeps no more what follows.
        refused: Partitions it does not copy for the moment, as the target takes nothing of them.
        shortened: Partitions it copied without their beginning, which the source kept no more.
        stopped: The first of those it does not copy.
        late: The partitions that lag, the latest first.
        topics: What it carries, if not what is on all clusters.
        waits_for: What it waits for while it is stuck, unwritten or superseded, for people.
        left: Target that was left lately as another one got too little of what it took; empty if
            none was.
        starved: Which one that was.
        left_seconds: How long ago.
    """

    source: str
    target: str
    level: int
    partitions: int | None = 0
    lag_records: int | None = 0
    lag_seconds: float | None = 0.0
    error: str = ""
    state: str = ""
    diverged: int = 0
    overtaken: int = 0
    refused: int = 0
    shortened: int = 0
    stopped: tuple[StoppedPartition, ...] = ()
    late: tuple[LatePartition, ...] = ()
    topics: str = ""
    waits_for: str = ""
    left: str = ""
    starved: str = ""
    left_seconds: float = 0.0


NO_ANSWER = "no answer"
"""The state of a link whose distributor does not answer at its control socket."""

SILENT, STUCK = "silent", "stuck"

ILL = (NO_ANSWER, SILENT, STUCK, UNWRITTEN, SUPERSEDED_STATE)
"""States in which those copy nothing that the file has, and nobody has asked for that."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """One cluster: whether it answers, and what it holds; None if that is not known.

    Attributes:
        cluster: Its name.
        partitions: How many it has.
        records: How many were ever published there.
        error: Why there is no answer.
        moving: Stores that do not keep the slots yet that they are to, as sentences.
    """

    cluster: str
    partitions: int | None
    records: int | None
    error: str
    moving: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """The whole topology at one moment.

    Attributes:
        clusters: Every one.
        links: Every one.
        recovery: Of each cluster what has come to each; empty without heartbeats.
        idle: What replicas should do beside copying records, and none does, as sentences.
    """

    clusters: list[ClusterStatus]
    links: list[LinkStatus]
    recovery: list[RecoveryPoint] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)

    @property
    def unheard(self) -> list[RecoveryPoint]:
        """Recovery points of which nothing is known though both clusters answer."""
        silent = {cluster.cluster for cluster in self.clusters if cluster.error}
        return [
            point
            for point in self.recovery
            if point.seconds is None and silent.isdisjoint((point.origin, point.cluster))
        ]

    @property
    def well(self) -> bool:
        """Whether every cluster answers, every link runs and copies all, and none left a relay.

        And every cluster has heard of every other, if there are heartbeats.
        """
        return not (
            self.idle
            or self.unheard
            or any(cluster.error for cluster in self.clusters)
            or any(
                link.diverged or link.overtaken or link.refused or link.left or link.state in ILL
                for link in self.links
            )
        )


def status_of(plan: Plan, clock: Callable[[], int] = wall_ms) -> Status:
    """Ask every cluster and compare the ends of every link.

    All are asked at once: who is away costs one timeout.

    Args:
        plan: Of the topology.
        clock: Wall time in milliseconds, read whenever one has answered.
    """
    with ThreadPoolExecutor(2, "dafka-ask") as pool:
        telling = pool.submit(ask_links, plan)
        recovering = pool.submit(recovery_points, plan.topology, clock)
        holdings = {holding.cluster: holding for holding in survey(plan.topology)}
    told = telling.result()
    rows = told.rows
    answered = [name for name, holding in holdings.items() if holding.store is not None]
    moving = at_once(lambda name: moving_slots(plan.topology.cluster(name)), answered)
    return Status(
        clusters=_clusters(holdings.values(), dict(zip(answered, moving, strict=True))),
        links=[
            _with_row(
                _link_status(
                    plan, link, holdings[link.source], holdings[_target(link, rows)], clock
                ),
                rows.get(link),
                _unsaid(plan, link, told),
            )
            for link in plan.links
        ],
        recovery=recovering.result(),
        idle=told.idle,
    )


def _unsaid(plan: Plan, link: Link, told: Told) -> str:
    """The state of a link that says nothing."""
    if link in told.unwritten:
        return UNWRITTEN
    if link in told.paused:
        return PAUSED_STATE
    asked = plan.topology.control or plan.topology.cluster(link.source).controlled
    return NO_ANSWER if asked else ""


def _clusters(holdings: Iterable[Holding], moving: Mapping[str, list[str]]) -> list[ClusterStatus]:
    return [
        ClusterStatus(one.cluster, None, None, one.error)
        if one.store is None
        else ClusterStatus(
            one.cluster, len(one.heads), one.records, one.error, tuple(moving[one.cluster])
        )
        for one in holdings
    ]


def _target(link: Link, rows: Mapping[Link, LinkRow]) -> str:
    """Which cluster it copies to."""
    row = rows.get(link)
    return link.target if row is None or row.target not in link.targets else row.target


def _with_row(status: LinkStatus, row: LinkRow | None, unsaid: str) -> LinkStatus:
    """The same, and what the link itself says."""
    if row is None:
        return replace(status, state=unsaid)
    return replace(
        status,
        state=row.state,
        diverged=row.diverged,
        overtaken=row.overtaken,
        refused=row.refused,
        shortened=row.shortened,
        stopped=tuple(map(StoppedPartition.of, row.stopped)),
        waits_for=row.waits_for,
        left=row.left,
        starved=row.starved,
        left_seconds=row.left_ms / 1_000,
    )


def _link_status(
    plan: Plan, link: Link, source: Holding, target: Holding, clock: Callable[[], int]
) -> LinkStatus:
    ends = (link.source, target.cluster)
    unknown = LinkStatus(*ends, link.level, None, None, None, topics=link.topics)
    for end in (source, target):
        if end.store is None:
            error = f"{end.cluster}: {end.error}"
            return replace(unknown, error=error)
    assert source.store is not None
    late: list[LatePartition] = []
    try:
        spec = plan.topology.cluster(link.source)
        with ClusterClient(Cluster.declared(spec), LOOK_TIMEOUT_MS) as stores:
            for partition, missing in lacking(source.heads, target.heads).items():
                if not plan.topology.carries(partition.topic, link.span):
                    continue
                stop = source.heads[partition] + 1
                # What retention has taken at the source nobody can bring any more.
                first = max(stop - missing, source.starts.get(partition, 0))
                # Its flags say whose duty it is, its time how late.
                record = record_at(stores.store(source.store), partition, first)
                if record is not None and should_forward(record.copy_flags, link.level):
                    seconds = max(0, clock() - record.timestamp_ms) / 1_000
                    late.append(LatePartition(*partition, stop - first, seconds))
    except QueryError as error:
        return replace(unknown, error=str(error))
    late.sort(key=lambda one: one.lag_seconds, reverse=True)
    return replace(
        unknown,
        partitions=len(late),
        lag_records=sum(one.lag_records for one in late),
        lag_seconds=late[0].lag_seconds if late else 0.0,
        late=tuple(late[:LATE_MAX]),
    )
