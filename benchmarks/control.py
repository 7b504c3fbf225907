"""What is wanted of a replica, said whole in a new session: as a controller does that connects."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.harness import Results, Worker, free_ports, until_told
from distributor.control.controller import ControllerMachine
from distributor.control.events import SessionSettings
from distributor.control.flow_work import WhileAllowed
from distributor.control.messages import (
    AllowWrites,
    CreateFlow,
    CreateInstance,
    Flow,
    FlowKind,
    FlowStatus,
    InitializationComplete,
    Schedule,
    UpdateConfiguration,
)
from distributor.control.replica_client import ReplicaClient
from distributor.control.replica_server import ReplicaServer
from topology.model import ClusterName
from topology.plan import Link

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from distributor.control.messages import StateCommand

DEADLINE_S = 60.0
INSTANCE = CreateInstance("cluster-1", 1)
REPLICA = "replica"
SETTINGS = SessionSettings()
RARELY = UpdateConfiguration({"report_interval_ms": 60_000})
"""How often flows look how far they are: 5,000 threads that do so twice a second are a load of
their own, and none of it is there to be seen."""


class _Idle:
    """What a flow does here: nothing. What begins and ends is not measured, but what is said."""

    def join(self, timeout: float) -> bool:
        """It never ends by itself."""
        return not timeout < 0

    def unwell(self) -> str:
        """It works."""
        return ""

    def unready(self) -> str:
        """It lacks nothing."""
        return ""

    def close(self) -> None:
        """There is nothing to end."""


def replay(results: Results, count: int) -> None:
    """Tell a replica of so many flows; then hang up, and tell it the same anew."""
    port = free_ports(1)
    replica = Worker(serve, port)
    replica.hear()
    try:
        first, again = asyncio.run(_sessions(port, count))
    finally:
        replica.end()
    results.add(f"{count:,} flows, a replica begins them", "s", first)
    results.add(f"{count:,} flows, said again to who runs them", "s", again)


def serve(pipe: Connection, port: int) -> None:
    """Be a replica until told."""

    def opened(flow: Flow, *, permitted: bool) -> WhileAllowed:
        assert flow.kind is FlowKind.RECORDS
        return WhileAllowed(_Idle, permitted=permitted)

    server = ReplicaServer(REPLICA, INSTANCE, f"127.0.0.1:{port}", opened)
    pipe.send("up")
    until_told(pipe)
    server.close()


async def _sessions(port: int, count: int) -> tuple[float, float]:
    return await _session(port, count), await _session(port, count)


async def _session(port: int, count: int) -> float:
    """How long it takes from nothing until the replica has told of all flows that they write."""
    changed = asyncio.Event()
    machine = ControllerMachine("bench", 1, REPLICA, SETTINGS)
    began = time.perf_counter()
    client = ReplicaClient(machine, f"127.0.0.1:{port}", print, changed.set)
    client.want(INSTANCE, RARELY, *_wanted(count), InitializationComplete())
    written = 0
    async with asyncio.timeout(DEADLINE_S):
        while written < count:
            await changed.wait()
            changed.clear()
            told = machine.reports.flows.values()
            written = sum(one.status is FlowStatus.WRITING for one in told)
    took_s = time.perf_counter() - began
    await client.close()
    return took_s


def _wanted(count: int) -> Iterator[StateCommand]:
    names = tuple(ClusterName(f"cluster-{number}") for number in range(1, 5))
    for number in range(1, count + 1):
        link = Link(
            source=names[0],
            level=3,
            branch=1,
            targets=names[2:],
            beyond=names[2:],
            span=names,
            topics=f"orders-{number}-*",
        )
        yield CreateFlow(number, Flow(link, FlowKind.RECORDS), {})
        yield Schedule(number)
        yield AllowWrites(number, number)
