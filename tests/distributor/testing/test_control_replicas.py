"""Simulated replicas: their flows copy, and a witness reckons what they should run."""

from __future__ import annotations

from distributor.control.controller import ControllerState
from distributor.control.replica import ReplicaStage
from distributor.testing.control_replicas import ReplicaWitness, flow_of
from tests.support.control_commands import COMPLETE, INSTANCE, A, B, copied, create, hello, pair


def test_a_flow_that_may_write_copies_what_there_is():
    world, controller, replica = pair()
    replica._records.source.update({A: 50, B: 7})
    world.run_until(2_000)
    assert replica._records.target(flow_of(1)) == {A: 50, B: 7}
    assert controller.machines["r1"].reports.flows[1].write == {A: 50, B: 7}


def test_a_stuck_replica_is_noticed():
    world, controller, replica = pair()
    replica.stuck = True
    world.run_until(world.now_ms + 10_000)
    assert any(end.value == "stalled" for end in controller.ended)


def test_a_dead_replica_hears_nothing_and_begins_with_nothing():
    world, controller, replica = pair()
    replica.crash()
    world.run_until(3_000)
    assert controller.machines["r1"].state is not ControllerState.ACTIVE
    replica.boot()
    assert replica.machine.stage is ReplicaStage.DETACHED
    assert not replica.runs
    assert copied(world, controller, replica)


def test_a_witness_believes_whole_windows_of_who_is_in_charge():
    witness, first, second = ReplicaWitness(), object(), object()
    for command in (hello(epoch=2), INSTANCE, create(1)):
        witness.hear(first, command)
    assert not witness.complete
    witness.hear(first, COMPLETE)
    assert witness.wanted == {1: flow_of(1)}
    for command in (hello(epoch=1, controller="c2"), INSTANCE, COMPLETE):
        witness.hear(second, command)
    assert witness.wanted == {1: flow_of(1)}
    for command in (hello(epoch=3, controller="c2"), INSTANCE, COMPLETE):
        witness.hear(second, command)
    assert witness.wanted == {}
