"""How large the machines of a topology have to be: who copies what to whom, times what that costs.

What is counted is what the plan decides: records published, stored, heard and copied. Costs were
measured (docs/capacity.md says when and how), at a machine's bad hour rather than at its best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from topology.spread import spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.model import ClusterName, ClusterSpec
    from topology.plan import Distributor, Link, Plan

RECORD_BYTES = 11
"""What a record has besides key, value and headers, in a batch of 128 kB: 10 to 11 bytes."""

DISK_SHARE = 1.1
"""What a log has of what it holds: 1.04 with batches of 128 kB, 1.09 with batches of 16 kB."""

STORE_NS = 4.0
"""CPU of a store, of each byte that it stores: 3.5 of records of 1 kB, 3 to 6.4 of 100 bytes."""

HEAR_NS = 2.8
"""CPU of a link, of each byte that its source's publishers send and that it does not copy."""

COPY_NS = 4.0
"""CPU of a link, of each byte that it copies: 2.2 to 3.9 of records of 1 kB."""

PROCESS_BYTES = 30_000_000
"""Memory of any process that has just begun, without pages of files."""

BUFFER_BYTES = 40_000_000
"""What a store or a link takes beyond that under load, and keeps."""

PARTITION_BYTES = 1_300
"""Of a partition that a store or link knows."""

CORES_MAX = 0.8
"""What one process of these can use: it does its work in one thread."""

DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is published.

    Attributes:
        rates: Records a second, by the cluster that they are published on.
        record_bytes: Key, value and headers of one.
        keep_s: How long stores keep them.
        consumers: How many read along on each cluster.
        partitions: How many producers publish on each cluster, each with a partition of its own.
    """

    rates: Mapping[ClusterName, float]
    record_bytes: int
    keep_s: int = DAY_S
    consumers: int = 0
    partitions: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSize:
    """What one process takes, or all producers of a cluster together.

    Attributes:
        cluster: Of which cluster.
        process: Which, as in `store-1` and `level-3`.
        records_per_s: What it stores or copies; what producers publish.
        in_bytes_per_s: What comes in over the network.
        out_bytes_per_s: What goes out.
        cores: CPU, in cores; None where it is the application's.
        memory_bytes: None where it is the application's.
        disk_bytes: What it keeps.
    """

    cluster: ClusterName
    process: str
    records_per_s: float
    in_bytes_per_s: float
    out_bytes_per_s: float
    cores: float | None
    memory_bytes: int | None
    disk_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSize:
    """What the processes of one cluster take together, without its producers.

    Attributes:
        cluster: Which.
        in_bytes_per_s: What comes in.
        out_bytes_per_s: What goes out.
        cores: CPU, in cores.
        memory_bytes: Without pages of files, which are better the more there are.
        disk_bytes: What its stores keep.
    """

    cluster: ClusterName
    in_bytes_per_s: float
    out_bytes_per_s: float
    cores: float
    memory_bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Sizing:
    """The answer.

    Attributes:
        processes: Every process, by cluster in the order of the file.
        clusters: Their sums.
        warnings: What one process cannot do, and what to do instead.
    """

    processes: tuple[ProcessSize, ...]
    clusters: tuple[ClusterSize, ...]
    warnings: tuple[str, ...]


def size(plan: Plan, load: Workload) -> Sizing:
    """Work out what a load takes, with every link at its preferred target.

    Records of all topics are taken to be on all clusters.
    """
    plan = plan.everywhere
    clusters = plan.topology.clusters
    stored = dict.fromkeys((one.name for one in clusters), 0.0)
    copied: dict[tuple[ClusterName, int, ClusterName], float] = {}
    for origin, rate in load.rates.items():
        found = spread(plan, origin)
        for name in found.arrivals():
            stored[name] += rate
        for hop in found.hops:
            way = hop.source, hop.level, hop.target
            copied[way] = copied.get(way, 0.0) + rate
    sizes = [
        one
        for cluster in clusters
        for one in _sizes(plan, load, cluster, stored[cluster.name], copied)
    ]
    sums = tuple(_sum(cluster.name, sizes) for cluster in clusters)
    return Sizing(tuple(sizes), sums, tuple(_warnings(plan, sizes)))


def _sizes(
    plan: Plan,
    load: Workload,
    cluster: ClusterSpec,
    stored: float,
    copied: Mapping[tuple[ClusterName, int, ClusterName], float],
) -> list[ProcessSize]:
    """The processes of one cluster, producers first."""
    each = load.record_bytes + RECORD_BYTES
    known = load.partitions * len(load.rates) * PARTITION_BYTES
    own = load.rates.get(cluster.name, 0.0)
    found = [
        ProcessSize(
            cluster=cluster.name,
            process="producers",
            records_per_s=own,
            in_bytes_per_s=0.0,
            out_bytes_per_s=own * each * _listeners(plan, load, cluster.name),
            cores=None,
            memory_bytes=None,
        )
    ]
    found += [
        ProcessSize(
            cluster=cluster.name,
            process=f"tower-{number}",
            records_per_s=0.0,
            in_bytes_per_s=0.0,
            out_bytes_per_s=0.0,
            cores=0.0,
            memory_bytes=PROCESS_BYTES,
        )
        for number, _ in enumerate(cluster.towers, 1)
    ]
    found += [
        ProcessSize(
            cluster=cluster.name,
            process=f"store-{number}",
            records_per_s=stored * store.share,
            in_bytes_per_s=stored * store.share * each,
            out_bytes_per_s=0.0,
            cores=stored * store.share * each * STORE_NS / 1e9,
            memory_bytes=PROCESS_BYTES + BUFFER_BYTES + round(known * store.share),
            disk_bytes=round(stored * store.share * each * DISK_SHARE * load.keep_s),
        )
        for number, store in enumerate(cluster.stores, 1)
    ]
    for one in plan.distributors:
        if one.cluster == cluster.name:
            ways = [
                (link, copied.get((link.source, link.level, link.target), 0.0) / one.shares)
                for link in one.links
            ]
            found.append(_copying(plan, load, one, ways, stored, known))
    return found


def _copying(
    plan: Plan,
    load: Workload,
    distributor: Distributor,
    ways: list[tuple[Link, float]],
    stored: float,
    known: int,
) -> ProcessSize:
    """The links of one distributor: each hears all that is published at its source."""
    each = load.record_bytes + RECORD_BYTES
    sent = sum(rate for _, rate in ways)
    heard = len(ways) * stored
    out = sum(rate * each * _listeners(plan, load, link.target) for link, rate in ways)
    cores = ((heard - sent) * HEAR_NS + sent * COPY_NS) * each / 1e9
    return ProcessSize(
        cluster=distributor.cluster,
        process=distributor.name.removeprefix(f"{distributor.cluster}-"),
        records_per_s=sent,
        in_bytes_per_s=heard * each,
        out_bytes_per_s=out,
        cores=cores,
        memory_bytes=PROCESS_BYTES + len(ways) * (BUFFER_BYTES + known),
    )


def _listeners(plan: Plan, load: Workload, name: ClusterName) -> float:
    """To how many each publisher of a cluster sends: its stores, links and consumers."""
    links = sum(1 for link in plan.links if link.source == name)
    stores = sum(store.share for store in plan.topology.cluster(name).stores)
    return stores + links + load.consumers


def _sum(name: ClusterName, sizes: list[ProcessSize]) -> ClusterSize:
    ours = [one for one in sizes if one.cluster == name and one.memory_bytes is not None]
    return ClusterSize(
        cluster=name,
        in_bytes_per_s=sum(one.in_bytes_per_s for one in ours),
        out_bytes_per_s=sum(one.out_bytes_per_s for one in ours),
        cores=sum(one.cores or 0.0 for one in ours),
        memory_bytes=sum(one.memory_bytes or 0 for one in ours),
        disk_bytes=sum(one.disk_bytes for one in ours),
    )


def _warnings(plan: Plan, sizes: list[ProcessSize]) -> list[str]:
    """What asks more of one process than it has."""
    shares_of = {one.name: one.shares for one in plan.distributors}
    found = []
    for one in sizes:
        if one.cores is None or one.cores <= CORES_MAX:
            continue
        need = f"{one.cluster} {one.process} needs {one.cores:.1f} cores, and one process uses one"
        if one.process.startswith("store"):
            cure = "let stores share slots, or publish less on all clusters, or larger batches"
        else:
            shares = -int(-one.cores // CORES_MAX)
            cure = f"run it in shares, `links: {{shares: {shares}}}`"
            if shares_of[f"{one.cluster}-{one.process}"] > 1:
                cure = "more shares copy less each, and each hears all that is published there"
        found.append(f"{need}: {cure} ({CORES_MAX:g} of it are planned with)")
    return found
