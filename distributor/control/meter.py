"""What a replica tells Prometheus."""

from __future__ import annotations

from collections import Counter as Tally
from itertools import product
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

from distributor.control.flow_table import Fate
from distributor.control.messages import FlowKind, FlowStatus

if TYPE_CHECKING:
    from distributor.control.events import SessionEnd
    from distributor.control.replica import ReplicaMachine

FLOWS = Gauge(
    "distributor_replica_flows",
    "Flows of this replica, by what they do and what they copy",
    ["status", "kind"],
)
RECONCILED = Counter(
    "distributor_replica_reconciled_flows",
    "Flows, whenever a controller has connected again, by what became of them",
    ["fate"],
)
SESSIONS_ENDED = Counter(
    "distributor_replica_sessions_ended",
    "Sessions that this replica has ended itself, by why",
    ["why"],
)
CONTROLLER_EPOCH = Gauge(
    "distributor_replica_controller_epoch", "The highest epoch in which a controller has come"
)


class ReplicaMeter:
    """The series of one replica."""

    def __init__(self) -> None:
        self._fates: Tally[Fate] = Tally()

    def tell(self, machine: ReplicaMachine) -> None:
        """Say how a replica is now."""
        counts = Tally((run.status, run.flow.kind) for run in machine.table.runs.values())
        for status, kind in product(FlowStatus, FlowKind):
            FLOWS.labels(status.value, kind.value).set(counts[status, kind])
        for fate in Fate:
            RECONCILED.labels(fate.value).inc(machine.table.fates[fate] - self._fates[fate])
        self._fates = machine.table.fates.copy()
        CONTROLLER_EPOCH.set(machine.epoch)

    def ended(self, why: SessionEnd) -> None:
        """A session was ended."""
        SESSIONS_ENDED.labels(why.value).inc()
