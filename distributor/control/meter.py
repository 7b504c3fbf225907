"""What a replica, and a controller, tells Prometheus."""

from __future__ import annotations

from collections import Counter as Tally
from itertools import product
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

from distributor.control.flow_table import Fate
from distributor.control.messages import FlowKind, FlowStatus
from distributor.control.protocol import PAUSED_STATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from distributor.control.events import SessionEnd
    from distributor.control.holds import HeldForRow
    from distributor.control.overview import ControlledFlowRow
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

IN_CHARGE = Gauge(
    "distributor_controller_in_charge", "Whether this controller is in charge", ["cluster"]
)
CONTROLLED_FLOWS = Gauge(
    "distributor_controller_flows",
    "Flows of the controller in charge, by whether a replica writes them",
    ["cluster", "state"],
)
CONTROLLED_REPLICAS = Gauge(
    "distributor_controller_replicas",
    "Replicas of the controller in charge, by whether they are there",
    ["cluster", "state"],
)
LACKING = Gauge(
    "distributor_controller_lacking_records",
    "Records of this cluster that another one lacks, and that are held for it",
    ["cluster", "other"],
)
GONE = Gauge(
    "distributor_controller_gone_records",
    "Of these, how many no store of this cluster keeps any more",
    ["cluster", "other"],
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


class ControllerMeter:
    """The series of one controller.

    Args:
        cluster: Whose.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        IN_CHARGE.labels(cluster).set(0)

    def tell(self, flows: Sequence[ControlledFlowRow], there: int, away: int) -> None:
        """Say how it is while it is in charge.

        Args:
            flows: All that it wants.
            there: How many replicas are there.
            away: How many are not.
        """
        written = sum(row.state == FlowStatus.WRITING.value for row in flows)
        IN_CHARGE.labels(self._cluster).set(1)
        CONTROLLED_FLOWS.labels(self._cluster, "written").set(written)
        paused = sum(row.state == PAUSED_STATE for row in flows)
        CONTROLLED_FLOWS.labels(self._cluster, "paused").set(paused)
        CONTROLLED_FLOWS.labels(self._cluster, "unwritten").set(len(flows) - written - paused)
        CONTROLLED_REPLICAS.labels(self._cluster, "there").set(there)
        CONTROLLED_REPLICAS.labels(self._cluster, "away").set(away)

    def tell_holds(self, rows: Iterable[HeldForRow]) -> None:
        """Say what others lack."""
        for row in rows:
            LACKING.labels(self._cluster, row.cluster).set(row.records)
            GONE.labels(self._cluster, row.cluster).set(row.gone)

    def leave(self) -> None:
        """It is in charge no more, and knows nothing of these."""
        IN_CHARGE.labels(self._cluster).set(0)
        for gauge in (CONTROLLED_FLOWS, CONTROLLED_REPLICAS, LACKING, GONE):
            gauge.remove_by_labels({"cluster": self._cluster})
