"""What of a replica is told: flows by what they do, what became of them, sessions by their ends."""

from __future__ import annotations

from prometheus_client import REGISTRY

from distributor.control.events import FlowChanged, SessionEnd
from distributor.control.flow_table import Fate
from distributor.control.messages import FlowKind, FlowStatus
from distributor.control.meter import ReplicaMeter
from tests.support.control_commands import COMPLETE, INSTANCE, Driven, create, hello


def value(name, **labels):
    return REGISTRY.get_sample_value(f"distributor_replica_{name}", labels) or 0


def test_flows_and_what_became_of_them_are_told():
    created = value("reconciled_flows_total", fate=Fate.CREATED.value)
    kept = value("reconciled_flows_total", fate=Fate.KEPT.value)
    one, meter = Driven(), ReplicaMeter()
    for _ in range(2):
        one.connect(hello(epoch=5))
        one.tell(INSTANCE, create(1), create(2, kind=FlowKind.OFFSETS), COMPLETE)
        meter.tell(one.machine)
    one.handle(FlowChanged(1, FlowStatus.FAILED, 0, "no such cluster"))
    meter.tell(one.machine)
    assert value("flows", status="failed", kind="records") == 1
    assert value("flows", status="suspended", kind="offsets") == 1
    assert value("flows", status="suspended", kind="records") == 0
    assert value("reconciled_flows_total", fate="created") == created + 2
    assert value("reconciled_flows_total", fate="kept") == kept + 2
    assert value("controller_epoch") == 5


def test_ends_of_sessions_are_counted():
    before = value("sessions_ended_total", why="stale")
    ReplicaMeter().ended(SessionEnd.STALE)
    assert value("sessions_ended_total", why="stale") == before + 1
