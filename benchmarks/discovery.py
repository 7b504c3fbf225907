"""`python -m benchmarks.discovery`: how long nodes that start all at once take to find each other.

Over TCP, in few processes; with `--delivery stores` as guests of some stores. `--simulated` leaves
out sockets and processes: only what each node's presence does is counted, for as many as wanted.
"""

from __future__ import annotations

import argparse
import heapq
import random
import time
from collections import deque
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks.harness import Worker, cpu_seconds
from dafka.cluster import DELIVERIES, Cluster
from dafka.node.tower import Tower
from dafka.process.clock import now_ms
from dafka.protocol.events import Woke
from dafka.protocol.presence import (
    Announce,
    Connect,
    Heard,
    PresenceMachine,
    PresenceSettings,
    tower_beacon,
)
from dafka.transport.mesh import Mesh
from dafka.transport.poller import Poller
from dafka.transport.shedder import shedder
from dafka.transport.shedding import SheddingBounds
from dafka.wire.beacon import NodeBeacon

if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.connection import Connection

    from dafka.transport.sockets import Socket

TOWER = "tcp://127.0.0.1:19990"

STEADY_S = 5.0
"""How long the cost of being there is watched, once all have found all."""

STEADY_MS = 5_000

REST_S = 0.05
"""Who is many nodes looks at all their sockets at once, so seldom: a process of one need not."""

STORM_MS = 100
"""All nodes of a simulated start begin within it."""

SETTLED_MS = 3_000
"""By then simulated nodes have found each other."""

MIB = 1024 * 1024


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.discovery", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200, help="in one mesh")
    parser.add_argument("--processes", type=int, default=8, help="that share them")
    parser.add_argument("--delivery", choices=DELIVERIES, default=DELIVERIES[0])
    parser.add_argument("--stores", type=int, default=2, help="beside nodes that are their guests")
    parser.add_argument("--simulated", action="store_true", help="without sockets")
    arguments = parser.parse_args()
    guests = arguments.delivery == "stores"
    stores = arguments.stores if guests else 0
    if arguments.simulated:
        table = simulated(arguments.nodes, stores)
    else:
        table = measured(arguments.nodes, arguments.processes, stores)
    Console().print(table)


def measured(nodes: int, processes: int, stores: int) -> Table:
    """Start nodes in processes, beside stores if they are guests of some."""
    share = nodes // processes
    nodes = share * processes
    peers = stores or nodes - 1
    with Tower(TOWER):
        keepers = [Worker(crowd, 1, nodes + stores - 1, "store") for _ in range(stores)]
        delivery = "stores" if stores else "direct"
        crowds = [Worker(crowd, share, peers, delivery) for _ in range(processes)]
        workers = [*keepers, *crowds]
        for worker in workers:
            worker.hear()
        began, tower_began = time.monotonic(), cpu_seconds()
        for worker in workers:
            worker.tell("begin")
        found = [worker.hear(600) for worker in workers]
        took_s, tower_cpu = time.monotonic() - began, cpu_seconds() - tower_began
        for worker in workers:
            worker.tell("all have found all")
        tower_began = cpu_seconds()
        steady = [worker.hear() for worker in workers]
        tower_steady = cpu_seconds() - tower_began
        for worker in workers:
            worker.end()
    title = f"{nodes} nodes in {processes} processes"
    table = Table("figure", "value", title=title + (f", guests of {stores}" if stores else ""))
    table.add_row("all have found all", f"{took_s:.1f} s")
    crowded, kept = found[stores:], found[:stores]
    table.add_row("CPU of nodes until then", f"{sum(cpu for cpu, _, _ in crowded):.1f} s")
    table.add_row("CPU of the tower until then", f"{tower_cpu:.1f} s")
    table.add_row("open files of a process", f"{max(files for _, files, _ in crowded):,}")
    size = sum(size for _, _, size in crowded) / nodes
    table.add_row("memory of a node", f"{size / 1024:,.0f} KiB")
    table.add_row("CPU of a node afterwards", _part(sum(steady[stores:]) / nodes))
    if stores:
        table.add_row("CPU of a store until then", f"{max(cpu for cpu, _, _ in kept):.1f} s")
        table.add_row("open files of a store", f"{max(files for _, files, _ in kept):,}")
        table.add_row("memory of a store", f"{max(size for _, _, size in kept) / MIB:,.0f} MiB")
        table.add_row("CPU of a store afterwards", _part(max(steady[:stores])))
    # It is watched while nodes settle, too.
    table.add_row("CPU of the tower afterwards", _part(tower_steady / 2))
    return table


def _part(cpu_s: float) -> str:
    return f"{cpu_s / STEADY_S:.2%} of a core"


def crowd(pipe: Connection, share: int, peers: int, delivery: str) -> None:
    """Be `share` of the nodes: say what it cost to find the others, then what it costs to stay."""
    pipe.send("ready")
    pipe.recv()
    began, began_size = cpu_seconds(), _size()
    store = delivery == "store"
    cluster = Cluster(TOWER, delivery="direct" if store else delivery)
    if share > 1:
        # Thousands of nodes in one process make it grow as a flood would; one does not.
        shedder.bounds = SheddingBounds(watched_bytes=1 << 40)
    nodes = _Nodes()
    for _ in range(share):
        # Whatever is unique will do for an address.
        nodes.add(Mesh(cluster, f"{time.monotonic_ns():032X}", store=store))
    while any(mesh.peers < peers for mesh in nodes.meshes):
        nodes.turn()
    files = len(list(Path("/proc/self/fd").iterdir()))
    pipe.send((cpu_seconds() - began, files, _size() - began_size))
    # Those that are not done yet need ours; then the steady state of all is measured.
    while not pipe.poll():
        nodes.turn()
    settled = time.monotonic() + STEADY_S
    while time.monotonic() < settled:
        nodes.turn()
    began, until = cpu_seconds(), time.monotonic() + STEADY_S
    while time.monotonic() < until:
        nodes.turn()
    pipe.send(cpu_seconds() - began)


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


class _Nodes:
    """Meshes turned by one thread: only those that something has come for.

    Their sockets sleep, also those that a node looks at in each turn: here are thousands of them.
    """

    def __init__(self) -> None:
        self.meshes: list[Mesh] = []
        self._poller = Poller()

    def add(self, mesh: Mesh) -> None:
        """Turn one more."""
        self.meshes.append(mesh)
        for socket in mesh.pollable:
            self._poller.add_sleeper(socket, partial(self._receive, mesh, socket))

    def _receive(self, mesh: Mesh, socket: Socket) -> None:
        for _ in mesh.receive(socket, now_ms()):
            pass
        self._poller.used(mesh.pollable)  # whom it was told of it connects to

    def turn(self) -> None:
        """Let those turn whose time it is, or who have been sent something."""
        now = now_ms()
        for mesh in self.meshes:
            if (mesh.wakeup_ms() or 0) <= now:
                mesh.wake(now)
                self._poller.used(mesh.pollable)
        self._poller.turn(round(REST_S * 1_000))
        if len(self.meshes) > 1:
            time.sleep(REST_S)


class _Crowd:
    """Nodes without sockets around one tower: what it passes on is heard at once.

    Args:
        nodes: How many, which begin within `STORM_MS`.
        stores: How many stores they are guests of; with none they hear each other.
    """

    def __init__(self, nodes: int, stores: int) -> None:
        settings = PresenceSettings(peers_max=nodes + stores)
        self._nodes = [
            PresenceMachine(NodeBeacon(f"{one:032X}", _host(one), 7), settings, [TOWER])
            for one in range(nodes + stores)
        ]
        self._stores = stores
        count = nodes + stores
        order = random.Random(1).sample(range(count), count)  # noqa: S311
        self._due = [(place * STORM_MS // count, index) for place, index in enumerate(order)]
        self._begun = bytearray(count)
        """Who has, for the others hear nothing yet."""
        self.heard = {"node": 0, "store": 0, "tower": 0}
        """Beacons."""
        self.cpu_s = {"node": 0.0, "store": 0.0}
        self.connections = 0
        self.connected_ms = 0
        """When the last of them was begun."""

    def run(self, until_ms: int) -> None:
        """Let time pass."""
        while self._due[0][0] <= until_ms:
            time_ms, index = self._due[0]
            self._begun[index] = True
            self._feed(index, Woke(), time_ms)
            due_ms = self._nodes[index].wakeup_ms()
            assert due_ms is not None
            heapq.heapreplace(self._due, (max(due_ms, time_ms + 1), index))

    def _feed(self, index: int, event: Woke | Heard, time_ms: int) -> None:
        pending = deque([(index, event)])
        while pending:
            index, event = pending.popleft()
            kind = "store" if index < self._stores else "node"
            began = time.process_time()
            effects = self._nodes[index].handle(event, time_ms)
            self.cpu_s[kind] += time.process_time() - began
            self.heard[kind] += isinstance(event, Heard)
            for effect in effects:
                if isinstance(effect, Connect):
                    self.connections, self.connected_ms = self.connections + 1, time_ms
                elif isinstance(effect, Announce):
                    self.heard["tower"] += 1
                    beacon = tower_beacon(effect.beacon, "")
                    assert beacon is not None
                    heard = Heard(beacon, TOWER)
                    pending.extend((one, heard) for one in self._hearing(index))

    def _hearing(self, speaker: int) -> Iterable[int]:
        if not self._stores or speaker < self._stores:
            return compress(range(len(self._nodes)), self._begun)
        return (*compress(range(self._stores), self._begun), speaker)


def _host(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def simulated(nodes: int, stores: int) -> Table:
    """Count what presence does, of nodes that hear each other or are guests of some stores."""
    before = _size()
    crowd = _Crowd(nodes, stores)
    crowd.run(SETTLED_MS)
    size = _size() - before
    heard, cpu_s = dict(crowd.heard), dict(crowd.cpu_s)
    title = f"{nodes:,} nodes" + (f", guests of {stores}" if stores else "") + ", simulated"
    table = Table("figure", "until all are found", "a second afterwards", title=title)
    crowd.run(SETTLED_MS + STEADY_MS)
    begun = f"{crowd.connections:,}, the last at {crowd.connected_ms} ms"
    table.add_row("connections begun", begun, "")
    table.add_row("memory of presence, all together", f"{size / MIB:,.0f} MiB", "")
    for kind, count in (("tower", 1), ("node", nodes), ("store", stores)):
        if not count:
            continue
        later = (crowd.heard[kind] - heard[kind]) / count / STEADY_S
        table.add_row(f"beacons heard by a {kind}", f"{heard[kind] / count:,.0f}", f"{later:,.1f}")
        if kind in cpu_s:
            later_s = (crowd.cpu_s[kind] - cpu_s[kind]) / count / STEADY_S
            until = f"{cpu_s[kind] / count * 1_000:,.2f} ms"
            table.add_row(f"CPU of a {kind}'s presence", until, f"{later_s * 1_000:,.3f} ms")
    return table


if __name__ == "__main__":
    main()
