"""The loss of a cluster, rehearsed: load, kill, survive, bring back, compare.

The steps are here, `distributor.cli.demo` shows them. Nothing is staged: the processes are killed
with signal 9 at a moment that nobody has prepared, and the proof reads every record back.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.model import Partition
from dafka.node.producer import Producer
from distributor.demo.job import READY_S, ROW_HEADER, STALLED_S, Published
from distributor.errors import PlanError, ProcessError
from distributor.survey import furthest, lacking, survey
from topology.model import branches
from topology.spread import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from distributor.local.supervisor import Supervisor
    from topology.model import Topology
    from topology.plan import Link, Plan

TOPIC = "drill"

WARM_UP_S = 4.0
"""Load before the loss, and after the return."""

SLACK_S = 30.0
"""Beside the timers: for starting, catching up, and busy machines."""

TICK_S = 0.05
"""How often the load sends: short against any stall worth measuring."""

LOOK_TIMEOUT_MS = 500
"""A store that is down holds up a look no longer than this."""

LOOK_INTERVAL_S = 0.1

Heads = dict[str, dict[Partition, int]]
"""By cluster, the last sequence of every partition it holds; clusters that answer only."""


class Load:
    """A producer on every cluster, each sending at the same steady rate.

    Args:
        topology: Where.
        rate: Records a second on each cluster.
    """

    def __init__(self, topology: Topology, rate: int) -> None:
        self._rate = rate
        self._producers = {
            cluster.name: Producer(Cluster.declared(cluster)) for cluster in topology.clusters
        }
        self.published = Published(
            homes={
                Partition(TOPIC, producer.address): name
                for name, producer in self._producers.items()
            }
        )
        self._paused: set[str] = set()
        self._lock = Lock()
        self._done = Event()
        self._thread = Thread(target=self._send, name="load", daemon=True)
        self._began_s = time.monotonic()
        self._thread.start()

    def pause(self, cluster: str) -> None:
        """Send nothing more on a cluster; what is not acknowledged yet is kept there."""
        with self._lock:
            self._paused.add(cluster)

    def resume(self, cluster: str) -> None:
        """Send on a cluster again."""
        with self._lock:
            self._paused.discard(cluster)

    @contextmanager
    def paused(self, clusters: Iterable[str]) -> Iterator[None]:
        """Send nothing more on these clusters for a while."""
        names = list(clusters)
        for name in names:
            self.pause(name)
        yield
        for name in names:
            self.resume(name)

    def finish(self) -> Published:
        """Stop sending and wait until everything is acknowledged.

        Raises:
            NotStoredError: It is not within `STALLED_S`.
        """
        self._done.set()
        self._thread.join()
        for producer in self._producers.values():
            producer.flush(STALLED_S)
        self.published.seconds = time.monotonic() - self._began_s
        self.close()
        return self.published

    def close(self) -> None:
        """Stop at once; what is not acknowledged is lost."""
        self._done.set()
        self._thread.join()
        for producer in self._producers.values():
            producer.close(0)

    def _send(self) -> None:
        per_tick = max(1, round(self._rate * TICK_S))
        while not self._done.wait(TICK_S):
            with self._lock:
                sending = [
                    producer
                    for name, producer in self._producers.items()
                    if name not in self._paused
                ]
                for producer in sending:
                    for _ in range(per_tick):
                        number = str(self.published.rows).encode()
                        producer.send(TOPIC, number, headers=[(ROW_HEADER, number)])
                        self.published.rows += 1
                        self.published.size += len(number)


class Stalls:
    """The longest time in which each link has brought nothing, though load never stopped.

    What a link has brought is what any cluster behind it has of the clusters whose records it
    carries: so it does not matter which target it serves, nor who else took over.

    Args:
        plan: Whose links.
        homes: Cluster of each partition of the load.
    """

    def __init__(self, plan: Plan, homes: Mapping[Partition, str]) -> None:
        self._partitions = {
            link: [partition for partition, home in homes.items() if home in carried_by(plan, link)]
            for link in plan.links
        }
        self._last: dict[Link, tuple[float, int]] = {}
        self._paused_s = 0.0
        self.longest_s: dict[Link, float] = dict.fromkeys(plan.links, 0.0)

    def update(self, heads: Heads, now_s: float) -> None:
        """Take in what the clusters hold now."""
        now_s -= self._paused_s
        for link, partitions in self._partitions.items():
            brought = sum(
                max(heads.get(target, {}).get(partition, -1) for target in link.targets) + 1
                for partition in partitions
            )
            since_s, before = self._last.setdefault(link, (now_s, brought))
            self.longest_s[link] = max(self.longest_s[link], now_s - since_s)
            if brought > before:
                self._last[link] = (now_s, brought)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time without load, which no link has to answer for."""
        began_s = time.monotonic()
        yield
        self._paused_s += time.monotonic() - began_s


def carried_by(plan: Plan, link: Link) -> set[str]:
    """The clusters whose records cross a link while everything is well."""
    return {
        cluster.name
        for cluster in plan.topology.clusters
        if any(
            (hop.source, hop.level) == (link.source, link.level) and hop.target in link.targets
            for hop in spread(plan.on(link.span), cluster.name).hops
        )
    }


def patience_s(topology: Topology) -> float:
    """How long survivors may take to become equal: fail over, then one repair for each hop."""
    levels = len({branch.level for branch in branches(topology.tree)})
    links = topology.links
    return (links.failover_after_ms + levels * links.repair_after_ms) / 1_000 + SLACK_S


def victim_of(plan: Plan, wanted: str | None) -> str:
    """Whom to kill: the one that is wanted, else the first link's target, which relays for others.

    Raises:
        PlanError: There is no such cluster, or no other.
    """
    known = [cluster.name for cluster in plan.topology.clusters]
    if wanted is not None and wanted not in known:
        raise PlanError(f"no cluster {wanted!r}: there are {', '.join(known)}")
    if not plan.links:
        raise PlanError("a single cluster has nobody who could take over")
    return wanted or plan.links[0].target


def without(topology: Topology, cluster: str) -> Topology:
    """The other clusters, to be asked and compared; the tree is as it was."""
    rest = tuple(one for one in topology.clusters if one.name != cluster)
    return replace(topology, clusters=rest)


def look(topology: Topology) -> Heads:
    """What the clusters of `topology` hold of the load."""
    return {
        holding.cluster: {
            partition: head for partition, head in holding.heads.items() if partition.topic == TOPIC
        }
        for holding in survey(topology, timeout_ms=LOOK_TIMEOUT_MS)
        if holding.store is not None
    }


def watch_until(
    condition: Callable[[Heads], bool],
    seconds: float,
    topology: Topology,
    supervisor: Supervisor,
    stalls: Stalls | None = None,
) -> float | None:
    """Keep the processes alive and look at the clusters until a condition is true of them.

    Args:
        condition: Of what they hold.
        seconds: How long at most.
        topology: The clusters to look at.
        supervisor: Of the processes; this thread must be the one that started them.
        stalls: What measures while load runs.

    Returns:
        How long it took; None if it did not become true.
    """
    began = time.monotonic()
    while True:
        supervisor.watch()
        heads = look(topology)
        now = time.monotonic()
        if stalls is not None:
            stalls.update(heads, now)
        if condition(heads):
            return now - began
        if now - began >= seconds:
            return None
        time.sleep(LOOK_INTERVAL_S)


def all_hold(topology: Topology, expected: Mapping[Partition, int]) -> Callable[[Heads], bool]:
    """The condition that every cluster of `topology` has partitions up to these heads."""
    names = [cluster.name for cluster in topology.clusters]

    def hold(heads: Heads) -> bool:
        return not any(lacking(expected, heads.get(name, {})) for name in names)

    return hold


def union(heads: Heads) -> dict[Partition, int]:
    """The most that anybody holds."""
    return furthest(heads.values())


def wait_until_back(
    topology: Topology,
    supervisor: Supervisor,
    stalls: Stalls | None = None,
    ready_s: float = READY_S,
) -> None:
    """Wait until every cluster has answered once: on a busy machine not all do so in one look.

    Raises:
        ProcessError: One does not within `ready_s`.
    """
    silent = {cluster.name for cluster in topology.clusters}

    def answer(heads: Heads) -> bool:
        silent.difference_update(heads)
        return not silent

    if watch_until(answer, ready_s, topology, supervisor, stalls) is None:
        raise ProcessError(f"no answer within {ready_s:.0f} s from {', '.join(sorted(silent))}")
