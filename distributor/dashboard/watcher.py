"""Looks at a running topology and says what it sees as plain values, for JSON."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from dafka.errors import DafkaError
from dafka.process.clock import wall_ms
from distributor.dashboard.counters import Counters
from distributor.link.meter import hop_buckets, link_totals, quantile
from distributor.operations.meter import GatewayTotals, gateway_totals
from distributor.operations.probe import Vitals, probe
from distributor.operations.status import status_of
from distributor.verify.compare import verify
from topology.copyflags import format_flags
from topology.model import Branch
from topology.processes import ProcessKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from topology.model import Tree
    from topology.plan import Plan
    from topology.processes import Process
    from topology.spread import Spread

DIFFERENCES_MAX = 50
"""Sentences of a comparison that are shown; `distributor verify --json` has them all."""


class _LinkCounter(NamedTuple):
    """What a process has copied of a link; several may, one after the other or a share each."""

    process: str
    link: tuple[str, str, str]
    what: str


class _HopBucket(NamedTuple):
    """How many batches of a link a process has copied within a time."""

    process: str
    link: tuple[str, str, str]
    bound_s: float


def _by_link(
    rates: Mapping[Hashable, float],
) -> dict[tuple[tuple[str, str, str], str], float]:
    """The rates of all processes together; of one that has just come nothing is known yet."""
    sums: dict[tuple[tuple[str, str, str], str], float] = {}
    for counter, rate in rates.items():
        if isinstance(counter, _LinkCounter):
            place = (counter.link, counter.what)
            sums[place] = sums.get(place, 0.0) + rate
    return sums


def _recent_hops(
    recent: Mapping[Hashable, float],
) -> dict[tuple[str, str, str], list[tuple[float, float]]]:
    """The hops of the last minute as a histogram for each link, of all processes together."""
    counts: dict[tuple[str, str, str], dict[float, float]] = {}
    for counter, grown in recent.items():
        if isinstance(counter, _HopBucket):
            bounds = counts.setdefault(counter.link, {})
            bounds[counter.bound_s] = bounds.get(counter.bound_s, 0.0) + grown
    return {link: sorted(bounds.items()) for link, bounds in counts.items()}


def _hop_row(buckets: list[tuple[float, float]]) -> dict[str, Any]:
    """What 99 of 100 batches of the last minute took at most; None if there was none.

    Beyond the last bound of the histogram it is only known that it took longer than that.
    """
    if not buckets or not buckets[-1][1]:
        return {"hop_p99_ms": None, "hop_p99_beyond": False}
    bound_s = quantile(buckets, 0.99)
    beyond = bound_s == float("inf")
    return {"hop_p99_ms": (buckets[-2][0] if beyond else bound_s) * 1_000, "hop_p99_beyond": beyond}


class Watcher:
    """One topology's observer.

    Args:
        plan: Of the topology.
        processes: Its processes; those without metrics are not asked how they are.
    """

    def __init__(self, plan: Plan, processes: Sequence[Process]) -> None:
        self._plan = plan
        self.plan = plan
        """The same, each link's target being the one it was last seen to serve."""
        self._processes = processes
        self._counters = Counters()
        self._lock = Lock()
        self._comparison: dict[str, Any] = {"running": False}

    def topology(self) -> dict[str, Any]:
        """What does not change: the tree and the links."""
        topology = self._plan.topology
        return {
            "name": topology.name,
            "tree": _tree(topology.tree),
            "clusters": [cluster.name for cluster in topology.clusters],
            "links": [
                {"source": link.source, "target": link.target, "level": link.level}
                for link in self.plan.links
            ],
        }

    def look(self) -> dict[str, Any]:
        """Ask all clusters and processes; takes a few seconds when some do not answer."""
        vitals = probe(self._processes)
        found = status_of(self._plan)
        self.plan = _aimed(self._plan, [link.target for link in found.links])
        status = asdict(found)
        counters: dict[Hashable, float] = {
            row["cluster"]: row["records"] for row in status["clusters"] if not row["error"]
        }
        for process in vitals:
            for link, total in link_totals(process.exposition).items():
                counters[_LinkCounter(process.process.name, link, "records")] = total.records
                counters[_LinkCounter(process.process.name, link, "bytes")] = total.size
            for link, buckets in hop_buckets(process.exposition).items():
                for bound_s, count in buckets:
                    counters[_HopBucket(process.process.name, link, bound_s)] = count
        gateways = [
            (process, gateway_totals(process.exposition))
            for process in vitals
            if process.process.kind is ProcessKind.GATEWAY
        ]
        for process, told in gateways:
            for what in _GATEWAY_COUNTERS if process.exposition else ():
                counters[process.process.name, what] = getattr(told, what)
        self._counters.read(counters, time.monotonic())
        rates = self._counters.rates
        by_link = _by_link(rates)
        hops = _recent_hops(self._counters.recent)
        for row in status["clusters"]:
            row["records_per_s"] = rates.get(row["cluster"])
        for row in status["links"]:
            link = (row["source"], row["target"], f"{row['level']} {row['topics']}".strip())
            row["records_per_s"] = by_link.get((link, "records"))
            row["bytes_per_s"] = by_link.get((link, "bytes"))
            row |= _hop_row(hops.get(link, []))
        return {
            "at_ms": wall_ms(),
            **status,
            "gateways": [_gateway(process, told, rates) for process, told in gateways],
            "processes": [_process(process) for process in vitals],
            "comparison": self.comparison(),
        }

    def compare(self) -> bool:
        """Begin to compare all clusters, in a thread; False if that is under way already."""
        with self._lock:
            if self._comparison["running"]:
                return False
            self._comparison = {**self._comparison, "running": True, "done": 0, "total": 0}
        Thread(target=self._compare, name="compare", daemon=True).start()
        return True

    def comparison(self) -> dict[str, Any]:
        """The last comparison, and how far the one under way has come."""
        with self._lock:
            return dict(self._comparison)

    def _compare(self) -> None:
        found: dict[str, Any]
        try:
            verdict = verify(self._plan.topology, deep=True, progress=self._compared)
        except DafkaError as error:
            found = {"equal": False, "problems": [str(error)], "more": 0}
        else:
            problems = verdict.problems
            found = {
                "equal": verdict.equal,
                "partitions": verdict.partitions,
                "records": verdict.records,
                "problems": problems[:DIFFERENCES_MAX],
                "more": max(0, len(problems) - DIFFERENCES_MAX) + verdict.more,
            }
        with self._lock:
            self._comparison = {"running": False, "at_ms": wall_ms(), **found}

    def _compared(self, done: int, total: int) -> None:
        with self._lock:
            self._comparison |= {"done": done, "total": total}


def trace(found: Spread, width: int) -> dict[str, Any]:
    """A record's ways, with flags as text of so many digits."""
    return {
        "origin": found.origin,
        "hops": [
            {
                "source": hop.source,
                "target": hop.target,
                "level": hop.level,
                "flags": format_flags(hop.flags_after, width),
            }
            for hop in found.hops
        ],
    }


def _aimed(plan: Plan, targets: Sequence[str]) -> Plan:
    """The plan with each link's target in use as its first one."""
    links = tuple(
        replace(link, targets=tuple(sorted(link.targets, key=lambda name: name != target)))
        for link, target in zip(plan.links, targets, strict=True)
    )
    return replace(plan, links=links)


def _tree(tree: Tree) -> str | dict[str, Any]:
    if isinstance(tree, Branch):
        return {"level": tree.level, "children": [_tree(child) for child in tree.children]}
    return tree


_GATEWAY_COUNTERS = "requests", "received_bytes", "sent_bytes"


def _gateway(
    vitals: Vitals, told: GatewayTotals, rates: Mapping[Hashable, float]
) -> dict[str, Any]:
    """A gateway; what it does not tell is None."""
    name = vitals.process.name
    row = told._asdict() if vitals.exposition else dict.fromkeys(told._fields)
    for what in _GATEWAY_COUNTERS:
        del row[what]
        row[f"{what}_per_s"] = rates.get((name, what))
    return {"name": name, "cluster": vitals.process.cluster, "state": vitals.state, **row}


def _process(vitals: Vitals) -> dict[str, Any]:
    return {
        "name": vitals.process.name,
        "kind": vitals.process.kind.value,
        "cluster": vitals.process.cluster,
        "state": vitals.state,
        "reasons": list(vitals.reasons),
    }
