"""Simulated replicas: their flows copy, and a witness reckons what they should run."""

from __future__ import annotations

import pytest

from distributor.control.controller import ControllerState
from distributor.control.replica import ReplicaStage
from distributor.testing.control_replicas import (
    SUPERSEDED_MS_MAX,
    ReplicaWitness,
    SimRecords,
    flow_of,
)
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


def test_a_witness_hears_nothing_in_a_session_that_has_ended():
    witness, ended = ReplicaWitness(), object()
    witness.over(ended)
    for command in (hello(epoch=3), INSTANCE, COMPLETE):
        witness.hear(ended, command)
    assert not witness.complete


def write(records, epochs, from_ms, to_ms):
    for now_ms in range(from_ms, to_ms, 100):
        for epoch in epochs:
            records.written(flow_of(1), epoch, 0, now_ms)


def test_an_older_writer_beside_a_later_one_is_found():
    records = SimRecords()
    write(records, [5, 6], 0, SUPERSEDED_MS_MAX)
    with pytest.raises(AssertionError, match="I8: 5 writes beside 6"):
        write(records, [5, 6], SUPERSEDED_MS_MAX, SUPERSEDED_MS_MAX + 200)


def test_who_is_told_an_older_epoch_later_has_as_long_to_stop():
    records = SimRecords()
    write(records, [5], 0, 1_000)
    write(records, [6], 1_000, 9_000)
    write(records, [5, 6], 9_000, 9_000 + SUPERSEDED_MS_MAX)
    with pytest.raises(AssertionError, match="I8"):
        write(records, [5, 6], 9_000 + SUPERSEDED_MS_MAX, 9_200 + SUPERSEDED_MS_MAX)


def test_an_older_writer_may_go_on_when_the_later_one_has_ended():
    records = SimRecords()
    write(records, [6], 0, 1_000)
    write(records, [5], 1_000, 9_000)
