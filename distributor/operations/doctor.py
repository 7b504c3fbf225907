"""`distributor doctor`: what is wrong with a running topology, in plain words, and what to do.

Findings come in the order in which to mend them: processes, then clusters, then disks, then links,
which mostly suffer from one of the others; and last what no link has to bring.
"""

from __future__ import annotations

import shlex
import shutil
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.model import ALL_SLOTS, Slots
from dafka.plural import counted
from dafka.process.clock import wall_ms
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import Answers, ClusterClient
from dafka.query.slot_steps import slots_of_part
from distributor.control.protocol import PAUSED_STATE, SUPERSEDED_STATE
from distributor.operations.meter import (
    clock_skews_s,
    gone_records,
    holds_used,
    towers_away,
    unread_meshes,
)
from distributor.operations.probe import Vitals, probe
from distributor.operations.shares import UNWRITTEN
from distributor.operations.slots import unsettled
from distributor.operations.status import SILENT, STUCK, status_of
from distributor.survey import at_once, furthest, lacking, survey
from topology.processes import ProcessKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from dafka.model import Partition
    from dafka.query.messages import HealthResponse
    from distributor.operations.recovery import RecoveryPoint
    from distributor.operations.status import ClusterStatus, LinkStatus
    from distributor.survey import Holding
    from topology.model import ClusterSpec, StoreSpec, Topology
    from topology.plan import Plan
    from topology.processes import Process

SKEW_S = 5.0
"""Clocks that are kept differ by milliseconds; a record's way from another cluster adds to that."""

LATE_S = 60.0
"""A link further behind than this is worth a look; in health it is a fraction of a second."""

DISK_FREE_SHARE_MIN = 0.1
"""A disk with less of it free fills up before anybody is back from a weekend."""

HOLD_USED_MAX = 0.5
"""Beyond that somebody has to see to the cluster that lacks what is held for it."""

SETTLE_S = 5.0
"""What one cluster has and another lacks for so long, while no link lags, is not under way."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that is wrong.

    Attributes:
        about: The process, cluster, store or link.
        what: What is wrong with it, and what that means.
        do: What to do.
    """

    about: str
    what: str
    do: str


def examine(
    plan: Plan,
    processes: Sequence[Process],
    clock: Callable[[], int] = wall_ms,
    settle_s: float = SETTLE_S,
) -> list[Diagnosis]:
    """Ask every process, store and link of a topology; what is wrong, causes first.

    Args:
        plan: Of the topology.
        processes: Of the topology.
        clock: Wall time in milliseconds.
        settle_s: How long what one cluster has and another lacks may be under way.
    """
    status = status_of(plan, clock)
    vitals = probe(processes)
    return [
        *_of_processes(plan.topology, vitals),
        *_of_towers(plan.topology, vitals),
        *_of_stores(plan.topology),
        *_of_disks(plan.topology),
        *_of_links(plan.topology, status.links, status.clusters),
        *_of_idle(status.idle),
        *_of_relays(plan, status.links),
        *_of_heartbeats(status.unheard),
        *_of_holdings(plan.topology, status.links, settle_s),
    ]


_MEANS = {
    ProcessKind.TOWER: "nodes that start now do not find each other there",
    ProcessKind.STORE: "its cluster has one place less where records are kept",
    ProcessKind.DISTRIBUTOR: "nothing of its cluster crosses its level",
    ProcessKind.REGISTRY: "serializers there find no schema that they have not met yet",
    ProcessKind.SCHEMAS: "if its cluster is the primary, other clusters get no new schemas",
    ProcessKind.GATEWAY: "Kafka clients have to go to another gateway of its cluster",
    ProcessKind.REPLICA: "its cluster has one less that can copy its records",
    ProcessKind.CONTROLLER: "one less can say which replica of its cluster copies what",
}

_MEANS_ALONE = {
    ProcessKind.STORE: "nothing that is published on its cluster is stored",
    ProcessKind.GATEWAY: "Kafka clients cannot use its cluster",
    ProcessKind.REPLICA: "nothing of its cluster is copied",
    ProcessKind.CONTROLLER: "what is copied goes on, but no replica takes over from another",
}
"""The same where there is no other one of its kind in the cluster."""


_WAITS_FOR = {
    ProcessKind.TOWER: "wait a moment",
    ProcessKind.STORE: "make room on its disk, or mend it",
    ProcessKind.DISTRIBUTOR: "start the clusters that it does not find",
    ProcessKind.REGISTRY: "start stores of its cluster",
    ProcessKind.SCHEMAS: "start stores of all clusters with registries",
    ProcessKind.GATEWAY: "start stores of its cluster",
    ProcessKind.REPLICA: "start the clusters that it does not find, and a controller of its own",
    ProcessKind.CONTROLLER: "start the replicas that it does not find",
}


def _of_processes(topology: Topology, all_vitals: list[Vitals]) -> Iterator[Diagnosis]:
    for vitals in all_vitals:
        process = vitals.process
        reasons = "; ".join(vitals.reasons)
        means = _means(topology.cluster(process.cluster), process)
        match vitals.state:
            case "no answer":
                what = f"does not answer ({reasons}): {means}"
                yield Diagnosis(process.name, what, f"start it: {_command(process)}")
            case "hangs":
                what = f"is there but does not answer ({reasons}): {means}"
                do = "it hangs or was stopped: let it go on (kill -CONT), else kill -9 and start it"
                yield Diagnosis(process.name, what, f"{do}: {_command(process)}")
            case "refused":
                what = f"does not say how it is ({reasons})"
                do = "see that the files under web: are those it was started with, and that the "
                do += "token may read metrics (dafka keys NAME --web metrics)"
                yield Diagnosis(process.name, what, do)
            case "unwell":
                what = f"runs but does not work ({reasons}): {means}"
                yield Diagnosis(process.name, what, "read the end of its log, then restart it")
            case "not ready":
                what = f"runs but waits ({reasons}): {means} until then"
                yield Diagnosis(
                    process.name, what, f"{_WAITS_FOR[process.kind]}; it goes on by itself"
                )
            case _:
                yield from _of_clock(vitals)
                yield from _of_dialect(vitals)
                yield from _of_holds(vitals)


def _means(cluster: ClusterSpec, process: Process) -> str:
    """What it means that a process of a cluster does not work."""
    kind = process.kind
    if kind is ProcessKind.STORE:
        lacking = _kept_by_none(cluster.stores, lambda one: one.query not in process.command)
        if lacking and lacking != ALL_SLOTS:
            return f"what is published in slots {lacking} is not stored"
        return _MEANS_ALONE[kind] if lacking else _MEANS[kind]
    members: Mapping[ProcessKind, Sequence[object]] = {
        ProcessKind.GATEWAY: cluster.gateways,
        ProcessKind.REPLICA: cluster.replicas,
        ProcessKind.CONTROLLER: cluster.controllers,
    }
    return _MEANS_ALONE[kind] if len(members.get(kind, ())) == 1 else _MEANS[kind]


def _kept_by_none(stores: Iterable[StoreSpec], works: Callable[[StoreSpec], bool]) -> Slots:
    """The slots of which there is no store that works."""
    return ALL_SLOTS.without(Slots.of(part for one in stores if works(one) for part in one.slots))


def _of_clock(vitals: Vitals) -> Iterator[Diagnosis]:
    """A store whose machine's clock differs from those of other clusters."""
    for skew_s in clock_skews_s(vitals.exposition):
        if abs(skew_s) >= SKEW_S:
            way = "ahead of" if skew_s > 0 else "behind"
            yield Diagnosis(
                vitals.process.name,
                f"its machine's clock is {abs(skew_s):,.0f} s {way} those of other clusters",
                "set it (chronyc tracking): ages, delays and positions by time are wrong by that",
            )


def _of_dialect(vitals: Vitals) -> Iterator[Diagnosis]:
    """A process that says nothing, so that what it hears of does not break."""
    if unread_meshes(vitals.exposition):
        yield Diagnosis(
            vitals.process.name,
            "says nothing in a cluster: all that it has heard of there write as the C "
            "implementation does, and would break at what it says",
            "if the cluster is theirs, declare it wire: libdafka; else find out who connects to "
            "its ports (ss -tnp) and keep him away. It goes on once one of its own kind is there",
        )


def _of_holds(vitals: Vitals) -> Iterator[Diagnosis]:
    """A store that soon keeps no more what a cluster lacks, and what it has let go."""
    do = "have that cluster back, or give the hold a larger bound (hold_age_s, hold_bytes)"
    for used in holds_used(vitals.exposition):
        if used > HOLD_USED_MAX:
            what = f"keeps what another cluster lacks, and has used {used:.0%} of that hold"
            yield Diagnosis(vitals.process.name, what, do)
    for cluster, records in gone_records(vitals.exposition).items():
        yield Diagnosis(
            f"{vitals.process.cluster} → {cluster}",
            f"{cluster} lacks {counted(records, 'record')} that no store of "
            f"{vitals.process.cluster} keeps any more",
            f"see whether another cluster brings them (distributor verify); {do}",
        )


def _of_towers(topology: Topology, all_vitals: list[Vitals]) -> Iterator[Diagnosis]:
    """Those that run by their own word, and are not heard by others."""
    ill = {vitals.process.name for vitals in all_vitals if vitals.state in ("no answer", "hangs")}
    for cluster in topology.clusters:
        for number, tower in enumerate(cluster.towers, 1):
            name = f"{cluster.name}-tower-{number}"
            deaf = [
                vitals.process.name
                for vitals in all_vitals
                if tower in towers_away(vitals.exposition)
            ]
            if deaf and name not in ill:
                yield Diagnosis(
                    f"{name} → {', '.join(deaf)}",
                    "the tower is not heard there, or does not hear them: when they start, they "
                    "find nobody",
                    "mend the network between them, both ways, for its port and the next one",
                )


def _command(process: Process) -> str:
    """What to type: without the interpreter that this process happens to run in."""
    return " ".join(process.command[2:])


def _asked(
    cluster: ClusterSpec,
) -> tuple[Answers[HealthResponse], Answers[dict[Partition, range]]]:
    """How the stores of a cluster are, and what they wait for that nobody has."""
    with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
        answers = stores.all(lambda store: store.health())
        # Where none answers, another question takes as long and tells nothing.
        return answers, stores.all(lambda store: store.holes()) if answers.given else Answers(
            {}, {}
        )


def _of_stores(topology: Topology) -> Iterator[Diagnosis]:
    told = at_once(_asked, topology.clusters)
    for cluster, (answers, holes) in zip(topology.clusters, told, strict=True):
        for endpoint, found in holes.given.items():
            if found:
                records = counted(sum(map(len, found.values())), "record")
                topics = sorted({partition.topic for partition in found})
                yield Diagnosis(
                    f"{cluster.name} {endpoint}",
                    f"waits for {records} of {counted(len(found), 'partition')} ({topics[0]!r} "
                    "among them) that nobody has: what their producers send now is not stored",
                    "start whatever store of the cluster is down; if none has them, go on without: "
                    f"dafka holes --store {endpoint} --skip {shlex.quote(topics[0])}",
                )
        yield from _of_new_disks(cluster, answers.given, answers.failures)
        yield from _of_slots(cluster, answers.given)
        lacking = ALL_SLOTS  # by what stores say: one that is to keep slots may only join them yet
        for health in answers.given.values():
            lacking = lacking.without(slots_of_part(health.slots))
        of = "" if lacking == ALL_SLOTS else f" of slots {lacking}"
        for error in answers.failures.values():
            what = f"its store does not answer ({error})"
            if lacking:
                what += f": producers there keep their records{of} until it is back, then wait"
            yield Diagnosis(
                cluster.name, what, "start the store, or mend the network on the way to it"
            )


def _of_slots(cluster: ClusterSpec, given: Mapping[str, HealthResponse]) -> Iterator[Diagnosis]:
    """By themselves stores move nothing: somebody has to look at all of them."""
    for endpoint, health in given.items():
        if health.moving.waits:
            yield Diagnosis(
                f"{cluster.name} {endpoint}",
                f"{health.moving}: it does not keep what it was started with yet",
                "wait for `distributor apply`; if none is under way, give it a copy of the file "
                "that runs: it goes on until each store keeps its slots",
            )
    for store in cluster.stores:
        answer = given.get(store.query)
        if answer is None or str(answer.moving):
            continue
        if said := unsettled(store, answer):
            yield Diagnosis(
                f"{cluster.name} {store.query}",
                said,
                f"start it with --slots {Slots.of(store.slots)}, as the file says, and give "
                "`distributor apply` a copy of the file, which moves them; or correct the file",
            )


def _of_new_disks(
    cluster: ClusterSpec, given: Mapping[str, HealthResponse], away: Collection[str]
) -> Iterator[Diagnosis]:
    """Gateways compare a new disk with all others; without gateways nobody does, or needs it."""
    new = [endpoint for endpoint, health in given.items() if health.new]
    if new and away and cluster.gateways:
        yield Diagnosis(
            f"{cluster.name} {', '.join(new)}",
            f"has a new disk, which is to be compared with {', '.join(away)} before it counts: "
            "gateways may be unable to take over Kafka partitions, and groups until then",
            "start the store that is away; if it is gone for good, start an empty one in its place",
        )


def _of_disks(topology: Topology) -> Iterator[Diagnosis]:
    """Only those of this machine can be seen."""
    for cluster in topology.clusters:
        if not _is_here(cluster):
            continue
        for store in cluster.stores:
            if not Path(store.data).exists():
                continue
            usage = shutil.disk_usage(store.data)
            if usage.free < usage.total * DISK_FREE_SHARE_MIN:
                yield Diagnosis(
                    f"{cluster.name} {store.data}",
                    f"the disk has {usage.free / 1e9:.1f} of {usage.total / 1e9:.1f} GB left: "
                    "a store that cannot write does not acknowledge",
                    "make room, or move the directory to a larger disk while the store is down",
                )


def _is_here(cluster: ClusterSpec) -> bool:
    try:
        return cluster.host == "localhost" or ip_address(cluster.host.strip("[]")).is_loopback
    except ValueError:
        return False


def _of_links(
    topology: Topology, links: list[LinkStatus], clusters: list[ClusterStatus]
) -> Iterator[Diagnosis]:
    down = {cluster.cluster for cluster in clusters if cluster.error}
    for link in links:
        name = f"{link.source} → {link.target}, level {link.level}"
        waits_for = [end for end in (link.source, link.target) if end in down]
        if waits_for:
            answer = "does not answer" if len(waits_for) == 1 else "do not answer"
            what = f"cannot be judged: {' and '.join(waits_for)} {answer}"
            yield Diagnosis(name, what, "mend that first; the link catches up by itself")
        elif link.error:
            yield Diagnosis(name, link.error, "run distributor status again in a moment")
        elif link.state in (SILENT, STUCK):
            what = link.waits_for or f"{link.target} gives no sign of life"
            yield Diagnosis(
                name,
                f"is {link.state}: {what}",
                f"look at the towers and stores of {link.target}; the link goes on by itself",
            )
        elif link.state in (UNWRITTEN, SUPERSEDED_STATE):
            yield _of_writers(topology, name, link)
        elif link.state == PAUSED_STATE and topology.cluster(link.source).controlled:
            yield Diagnosis(
                name,
                "is paused: nothing of it is copied",
                "if nobody wants it so, distributor controller unpause HOST:PORT --level "
                f"{link.level}, at listen of a controller of {link.source}; a distributor apply "
                "that was given up goes on when it is given again",
            )
        elif link.diverged or link.overtaken or link.refused:
            yield _of_stopped(name, link)
        elif (link.lag_seconds or 0) > LATE_S:
            yield Diagnosis(
                name,
                f"is behind by {counted(link.lag_records or 0, 'record')}, the oldest "
                f"{link.lag_seconds:,.0f} s old, in {counted(link.partitions or 0, 'partition')}",
                f"look {_who_copies(topology, link)} and at its metrics; if the lag shrinks, wait",
            )


def _of_writers(topology: Topology, name: str, link: LinkStatus) -> Diagnosis:
    """A link, or a share of one, that nobody writes, or that another process does."""
    who = _who_copies(topology, link)
    if link.state == SUPERSEDED_STATE:
        return Diagnosis(
            name,
            f"writes nothing: it waits for {link.waits_for}",
            "end the one of the two that is not wanted: it may be on another host, or have been "
            f"started with another file; look {who} there",
        )
    what = f"no replica of {link.source} writes it: nothing of it is copied"
    if link.waits_for:
        what = f"waits for {link.waits_for}: nothing of that is copied"
    controlled = topology.cluster(link.source).controlled
    return Diagnosis(name, what, _mend_replicas(link.source) if controlled else f"look {who}")


def _mend_replicas(cluster: str) -> str:
    return (
        f"mend what is said of controllers and replicas of {cluster}; "
        "distributor controller flows HOST:PORT tells more"
    )


def _who_copies(topology: Topology, link: LinkStatus) -> str:
    if topology.cluster(link.source).controlled:
        return "which replica writes it (distributor controller flows HOST:PORT), at its load"
    share = " --share" if topology.links.shares_at(link.level) > 1 else ""
    return f"whether distributor run --cluster {link.source} --level {link.level}{share} runs"


def _of_idle(lines: list[str]) -> Iterator[Diagnosis]:
    """What no replica does of what it should beside copying records."""
    for line in lines:
        about, _, what = line.partition(": ")
        yield Diagnosis(about, what, _mend_replicas(about.partition(" ")[0]))


def _of_relays(plan: Plan, links: list[LinkStatus]) -> Iterator[Diagnosis]:
    """Distributors by which too little came from one target to another, as links have seen it.

    A relay that is slow has nothing to do once it is got round, and looks well by itself.
    """
    for link in links:
        for distributor in plan.distributors:
            relays = any(link.starved in one.targets for one in distributor.links)
            if distributor.cluster == link.left and relays:
                about, whose = distributor.name, "that distributor's load and network"
                if plan.topology.cluster(link.left).controlled:
                    about = f"{link.left} level {distributor.level}"
                    whose = "the load and network of the replicas that write it"
                yield Diagnosis(
                    f"{about} → {link.starved}",
                    f"{link.starved} got nothing of what {link.left} took, or got it far too late: "
                    f"the link of {link.source} left {link.left} for that "
                    f"{link.left_seconds:,.0f} s ago",
                    f"look at {whose}, and at the stores of {link.starved}; once it is mended, "
                    + _back(plan.topology, link),
                )


def _of_heartbeats(unheard: list[RecoveryPoint]) -> Iterator[Diagnosis]:
    """Clusters of which not even a heartbeat has ever come to others."""
    for origin in dict.fromkeys(point.origin for point in unheard):
        deaf = ", ".join(point.cluster for point in unheard if point.origin == origin)
        yield Diagnosis(
            f"{origin} → {deaf}",
            f"no heartbeat of {origin} has ever come to {deaf}: nothing else that is published on "
            f"{origin} may have either",
            f"if {origin} has just begun, wait a moment; else see that what copies at its lowest "
            "level runs, as that sends them, and then every link on the way",
        )


def _back(topology: Topology, link: LinkStatus) -> str:
    if topology.cluster(link.source).controlled:
        return f"the link goes back to {link.left} by itself if links: has failback, else it stays"
    return (
        f"distributor retarget FILE --cluster {link.source} --level {link.level} --to {link.left}"
    )


def _of_stopped(name: str, link: LinkStatus) -> Diagnosis:
    what = []
    if link.diverged:
        what.append(
            f"does not copy {counted(link.diverged, 'partition')} of which {link.target} has other "
            "records under the same names"
        )
    if link.overtaken:
        what.append(
            f"does not copy {counted(link.overtaken, 'partition')} of which no store of "
            f"{link.source} that answers keeps what {link.target} lacks"
        )
    if link.refused:
        what.append(
            f"does not copy {counted(link.refused, 'partition')} for the moment, of which "
            f"{link.target} acknowledges nothing"
        )
    do = "see distributor status for which, and docs/operations.md for what to decide"
    if link.overtaken:
        do += (
            f"; start what is down of {link.source}, or go on without what nobody has by "
            "distributor resume"
        )
    return Diagnosis(name, "; ".join(what), do)


def _of_holdings(
    topology: Topology, links: list[LinkStatus], settle_s: float
) -> Iterator[Diagnosis]:
    """What somebody has, somebody else lacks, and nobody brings. Flags alone do not show that."""
    if any(link.error or link.lag_records for link in links):
        return  # that is said already, or under way
    before = survey(topology)
    due = furthest(holding.heads for holding in before)
    if not any(_lacks(topology, due, holding) for holding in before):
        return
    time.sleep(settle_s)
    for holding in survey(topology):
        lacks = _lacks(topology, due, holding)
        if lacks:
            yield Diagnosis(
                holding.cluster,
                f"lacks {counted(sum(lacks), 'record')} in {counted(len(lacks), 'partition')} that "
                "other clusters have, and no link has them to bring",
                "wait a minute, as links repair that by themselves; if it stays, run distributor "
                "verify to see which",
            )


def _lacks(topology: Topology, due: Mapping[Partition, int], holding: Holding) -> list[int]:
    """How many records a cluster lacks of each partition that it is to have, where it lacks any."""
    return [
        records
        for partition, records in lacking(due, holding.heads).items()
        if topology.wants(partition.topic, holding.cluster)
    ]
