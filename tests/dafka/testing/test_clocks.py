"""Clocks of simulated machines: each has its own, and what stands still in suspension."""

from __future__ import annotations

from dafka.testing.clocks import EPOCH_MS, SimClock
from dafka.testing.world import Faults, World


def test_a_machine_has_a_time_of_its_own():
    machine = SimClock(lambda: 500, booted_ms=10_000, ahead_ms=-3_000)
    assert machine.clock.now_ms() == 10_500
    assert machine.clock.wall_ms() == EPOCH_MS + 500 - 3_000
    assert machine.world_ms(10_700) == 700
    machine.ahead_ms = 60_000
    assert machine.clock.wall_ms() == EPOCH_MS + 500 + 60_000


def test_in_suspension_only_the_clock_of_short_times_stands_still():
    machine = SimClock(lambda: 5_000)
    machine.suspended(4_000)
    assert machine.clock.now_ms() == 5_000
    assert machine.clock.seconds() == 1.0


def test_a_world_gives_each_machine_other_clocks_and_the_same_again():
    def clocks(seed):
        world = World(seed, Faults(skew_ms_max=1_000))
        found = [world.machine().clock for _ in range(3)]
        return [(one.now_ms(), one.wall_ms()) for one in found]

    assert clocks(1) == clocks(1) != clocks(2)
    assert len({now_ms for now_ms, _ in clocks(1)}) == 3
    assert all(abs(wall_ms - EPOCH_MS) <= 1_000 for _, wall_ms in clocks(1))
