"""Simulated controllers, and what is kept of what is wanted."""

from __future__ import annotations

from distributor.testing.control_controllers import Desired
from distributor.testing.control_replicas import flow_of
from tests.support.control_commands import COMPLETE, A, copied, pair


def test_without_a_controller_flows_go_on():
    world, controller, replica = pair()
    controller.crash()
    assert copied(world, controller, replica)


def test_what_is_wanted_of_a_replica_is_kept_without_a_controller():
    desired = Desired()
    desired.flows[4] = flow_of(4), {A: 2}
    desired.grants[4] = {"r2": 3}
    assert len(desired.commands("r1")) == 4
    assert len(desired.commands("r2")) == 5
    desired.remove(4)
    assert desired.commands("r2")[-1] == COMPLETE
    assert len(desired.commands("r2")) == 3
