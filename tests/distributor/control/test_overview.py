"""What a controller knows of flows and replicas, as rows."""

from __future__ import annotations

from dafka.model import Partition, replace
from distributor.control.controller import ControllerMachine, ControllerState
from distributor.control.demands import Demands
from distributor.control.grants import Wished, Wishes
from distributor.control.messages import FlowStatus
from distributor.control.overview import (
    ControlledFlowRow,
    DrivenReplicaRow,
    flow_rows,
    replica_row,
)
from distributor.control.reports import FlowReport
from distributor.link.events import Hole
from tests.support.control_commands import SETTINGS, flow_of

WISHES = Wishes(1, 0, {5: Wished(flow_of(1), "r1", 9), 6: Wished(flow_of(2))})


class Told(ControllerMachine):
    """A replica that has said what its flows do."""

    def __init__(self, name, state=ControllerState.ACTIVE, **statuses):
        super().__init__("c1", 1, name, SETTINGS)
        self._told = state
        for flow, status in statuses.items():
            self.reports.flows[int(flow[1:])] = FlowReport({}, status=status)

    @property
    def state(self):
        return self._told


def test_flows_are_told_with_who_writes_and_who_could():
    machines = {
        "r1": Told("r1", f5=FlowStatus.WRITING, f6=FlowStatus.WARM),
        "r2": Told("r2", f5=FlowStatus.WARM, f6=FlowStatus.FAILED),
        "r3": Told("r3", ControllerState.WAITING, f5=FlowStatus.WARM),
    }
    about = {"source": "north", "target": "south", "level": 1, "kind": "records"}
    shares = {"share": "1/4096"}, {"share": "2/4096"}
    assert [*flow_rows(WISHES, machines)] == [
        ControlledFlowRow(
            flow=5, **about, **shares[0], writer="r1", epoch=9, state="writing", ready=1
        ),
        ControlledFlowRow(flow=6, **about, **shares[1], writer="", epoch=0, state="", ready=1),
    ]
    assert next(flow_rows(WISHES, {})).state == ""
    machines["r1"].reports.flows[5].reason = "no such cluster"
    assert [row.why for row in flow_rows(WISHES, machines)] == ["no such cluster", ""]


def test_what_an_operator_wants_of_a_flow_is_told():
    hole = Hole(Partition("orders", "A"), 3, 9)
    flows = {
        5: Wished(replace(flow_of(1), passes=(hole,)), "r1", 9),
        6: Wished(replace(flow_of(2), passes=(hole,))),
    }
    wishes = replace(WISHES, flows=flows)
    machines = {"r1": Told("r1", f5=FlowStatus.WARM)}
    passes = "passes over holes in 1 partition"
    assert [row.why for row in flow_rows(wishes, machines)] == [passes, passes]
    machines["r1"].reports.flows[5].reason = "superseded"
    assert next(flow_rows(wishes, machines)).why == f"superseded; {passes}"
    paused = replace(wishes, demands=Demands(paused=frozenset({1})))
    unwritten = [*flow_rows(paused, {})][1]
    assert (unwritten.state, unwritten.why) == ("paused", f"paused by an operator; {passes}")
    machines["r1"].reports.flows[5].status = FlowStatus.WRITING
    assert next(flow_rows(paused, machines)).state == "writing", "it is just ending"


def test_replicas_are_told_with_what_they_say():
    one = Told("r2", f5=FlowStatus.WARM, f6=FlowStatus.FAILED)
    assert replica_row("r2", one, "stalled") == DrivenReplicaRow(
        "r2", "active", writing=0, ready=1, failed=1, last_end="stalled"
    )
    away = Told("r3", ControllerState.CONNECTING, f5=FlowStatus.WRITING)
    assert replica_row("r3", away, "closed").writing == 0
