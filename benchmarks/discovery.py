"""`python -m benchmarks.discovery`: how long many nodes take to find each other over TCP."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks.harness import Worker, cpu_seconds
from dafka.cluster import Cluster
from dafka.node.tower import Tower
from dafka.process.clock import now_ms
from dafka.transport.mesh import Mesh
from dafka.transport.sockets import Poller

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

TOWER = "tcp://127.0.0.1:19990"

STEADY_S = 5.0
"""How long the cost of being there is watched, once all have found all."""

MIB = 1024 * 1024


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.discovery", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200, help="in one mesh")
    parser.add_argument("--processes", type=int, default=8, help="that share them")
    arguments = parser.parse_args()
    share = arguments.nodes // arguments.processes
    nodes = share * arguments.processes
    console = Console()
    with Tower(TOWER):
        workers = [Worker(crowd, share, nodes) for _ in range(arguments.processes)]
        for worker in workers:
            worker.hear()
        began = time.monotonic()
        for worker in workers:
            worker.tell("begin")
        found = [worker.hear() for worker in workers]
        took_s = time.monotonic() - began
        steady = [worker.hear() for worker in workers]
        for worker in workers:
            worker.end()
    table = Table("figure", "value", title=f"{nodes} nodes in {arguments.processes} processes")
    table.add_row("all have found all", f"{took_s:.1f} s")
    table.add_row("CPU until then", f"{sum(cpu for cpu, _, _ in found):.1f} s")
    table.add_row("open files of a process", f"{max(files for _, files, _ in found):,}")
    table.add_row("memory of all", f"{sum(size for _, _, size in found) / MIB:,.0f} MiB")
    table.add_row("CPU of a node afterwards", f"{sum(steady) / nodes / STEADY_S:.2%} of a core")
    console.print(table)


def crowd(pipe: Connection, share: int, nodes: int) -> None:
    """Be `share` of the nodes: say what it cost to find the others, then what it costs to stay."""
    pipe.send("ready")
    pipe.recv()
    began = cpu_seconds()
    poller = Poller()
    meshes = []
    for _ in range(share):
        # Whatever is unique will do for an address.
        address = f"{time.monotonic_ns():032X}"
        mesh = Mesh(Cluster(TOWER), address)
        meshes.append(mesh)
        for socket in mesh.pollable:
            poller.add(socket, lambda mesh=mesh, socket=socket: _take(mesh, socket))  # type: ignore[misc]
    while any(mesh.peers < nodes - 1 for mesh in meshes):
        _turn(poller, meshes)
    files = len(list(Path("/proc/self/fd").iterdir()))
    size = int(Path("/proc/self/statm").read_text().split()[1]) * 4_096
    pipe.send((cpu_seconds() - began, files, size))
    # Those that are not done yet need ours; then the steady state of all is measured.
    settled = time.monotonic() + STEADY_S
    while time.monotonic() < settled:
        _turn(poller, meshes)
    began, until = cpu_seconds(), time.monotonic() + STEADY_S
    while time.monotonic() < until:
        _turn(poller, meshes)
    pipe.send(cpu_seconds() - began)


def _turn(poller: Poller, meshes: list[Mesh]) -> None:
    now = now_ms()
    for mesh in meshes:
        if (mesh.wakeup_ms() or 0) <= now:
            mesh.wake(now)
    poller.turn(10)


def _take(mesh: Mesh, socket: object) -> None:
    for _ in mesh.receive(socket, now_ms()):  # type: ignore[arg-type]
        pass


if __name__ == "__main__":
    main()
