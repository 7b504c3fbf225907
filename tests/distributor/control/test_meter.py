"""What of a replica is told: flows by what they do, what became of them, sessions by their ends."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import REGISTRY

from distributor.control.events import FlowChanged, SessionEnd
from distributor.control.flow_table import Fate
from distributor.control.holds import HeldForRow
from distributor.control.messages import FlowKind, FlowStatus
from distributor.control.meter import ControllerMeter, ReplicaMeter
from distributor.control.overview import ControlledFlowRow
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


def of_controller(name, **labels):
    return REGISTRY.get_sample_value(f"distributor_controller_{name}", {"cluster": "c7"} | labels)


def test_a_controller_tells_of_flows_and_replicas_while_it_is_in_charge():
    meter = ControllerMeter("c7")
    assert of_controller("in_charge") == 0
    assert of_controller("flows", state="unwritten") is None
    flow = ControlledFlowRow(1, "c7", "c8", 1, "records", "0/1", "r1", 1, "writing", 0)
    other = [replace(flow, state=state) for state in ("warm", "", "paused")]
    meter.tell([flow, *other], 1, 2)
    assert of_controller("in_charge") == 1
    told = [of_controller("flows", state=state) for state in ("written", "unwritten", "paused")]
    assert told == [1, 2, 1]
    assert [of_controller("replicas", state=state) for state in ("there", "away")] == [1, 2]
    meter.tell_holds([HeldForRow("c8", True, 1, 5, 2)])
    told = [of_controller(f"{name}_records", other="c8") for name in ("lacking", "gone")]
    assert told == [5, 2]
    meter.leave()
    assert of_controller("gone_records", other="c8") is None
    assert of_controller("in_charge") == 0
    assert of_controller("flows", state="written") is None
    assert of_controller("replicas", state="away") is None
