from __future__ import annotations

import pytest

from dafka.node.loop import NodeFailedError
from dafka.testing.sim_thread import SimThread
from dafka.testing.world import Faults, World


@pytest.fixture
def world():
    return World(0, Faults())


def test_it_waits_in_the_worlds_time(world):
    seen = []

    def body():
        seen.append(("asked", world.now_ms))
        seen.append((thread.wait_for(lambda: False, 50), world.now_ms))

    thread = SimThread(world, "R", body)
    thread.start()
    assert seen == [("asked", 0)], "it has run as far as it could"
    world.run_until(100)
    assert seen == [("asked", 0), (False, 50)]


def test_it_goes_on_when_it_is_told_that_what_it_waits_for_is_there(world):
    there, seen = [], []

    def body():
        seen.append((thread.wait_for(lambda: bool(there), 1_000), world.now_ms))

    thread = SimThread(world, "R", body)
    thread.start()
    world.after(10, thread.wake)  # for nothing

    def come():
        there.append(1)
        thread.wake()
        thread.wake()

    world.after(20, come)
    world.run_until(2_000)
    assert seen == [(True, 20)]


def test_one_that_is_killed_ends_where_it_waits(world):
    seen = []

    def body():
        try:
            thread.wait_for(lambda: False)
            seen.append("went on")
        finally:
            seen.append("ended")

    thread = SimThread(world, "R", body)
    thread.start()
    thread.wake()
    thread.kill()
    thread.kill()
    world.run_until(10)
    assert seen == ["ended"]


def test_what_it_fails_by_is_told_where_the_world_runs(world):
    def body():
        thread.wait_for(lambda: False, 5)
        raise KeyError("id")

    thread = SimThread(world, "R", body)
    thread.start()
    with pytest.raises(NodeFailedError, match="R has failed: KeyError"):
        world.run_until(10)
