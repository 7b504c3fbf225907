from __future__ import annotations

import pytest

from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimStore
from dafka.testing.registry_nodes import Action, Ask, Call, Held, SimRegistry
from dafka.testing.world import Faults, SimMesh, World

TEXT = '"int"'


class Bench:
    """A registry and its stores."""

    def __init__(self, stores=1):
        self.world = World(0, Faults())
        mesh = SimMesh(self.world)
        self.stores = [
            SimStore(self.world, f"S{one}", mesh, MemoryLog(f"S{one}")) for one in range(stores)
        ]
        self.registry = SimRegistry(self.world, "R0", mesh, self.stores, "home", 1, first=True)
        for node in (*self.stores, self.registry):
            node.boot()

    def ask(self, action, word="", patience_ms=60_000):
        call = self.send(action, word)
        self.world.run_until(self.world.now_ms + patience_ms)
        return call

    def send(self, action, word=""):
        call = Call(Ask(action, "a", word), "home", self.registry.life, self.world.now_ms)
        self.registry.put(call)
        return call


@pytest.fixture
def bench():
    bench = Bench(3)
    yield bench
    if bench.registry.alive:
        bench.registry.crash()


def test_what_is_registered_is_read_and_deleted(bench):
    first = bench.ask(Action.REGISTER, TEXT)
    assert (first.done, first.id) == (True, 1)
    assert first.reading.versions == {1: Held(1, TEXT, live=True)}
    assert bench.ask(Action.DELETE, "1").reading.versions == {1: Held(1, TEXT, live=False)}
    assert bench.ask(Action.SET_MODE, "READONLY").reading.mode == "READONLY"
    assert bench.ask(Action.SET_LEVEL, "FULL").refused
    assert bench.ask(Action.READ).done


def test_a_write_that_times_out_is_unknown_and_lands_later(bench):
    for store in bench.stores:
        bench.world.run_until(1_000)
        store.disk.full = True
    call = bench.ask(Action.REGISTER, TEXT, 14_000)
    assert (call.done, call.refused, call.code) == (False, False, 50001)
    for store in bench.stores:
        store.disk.full = False
    bench.world.run_until(60_000)
    assert bench.ask(Action.READ).reading.versions == {1: Held(1, TEXT, live=True)}


def test_one_that_dies_answers_nothing_and_comes_back_with_what_is_stored(bench):
    assert bench.ask(Action.REGISTER, TEXT).done
    call = bench.send(Action.REGISTER, '"long"')
    bench.world.run_until(bench.world.now_ms + 1)
    bench.registry.crash()
    bench.world.run_until(bench.world.now_ms + 1_000)
    assert call.ended_ms is None
    bench.registry.boot()
    assert bench.ask(Action.READ).reading.versions[1] == Held(1, TEXT, live=True)


def test_stores_that_it_cannot_reach_are_not_asked(bench):
    bench.world.run_until(1_000)
    bench.registry.unreachable = {"S0", "S1"}
    assert bench.ask(Action.READ).done
    assert bench.ask(Action.REGISTER, TEXT).code == 50001


def test_one_that_stands_still_writes_later(bench):
    assert bench.ask(Action.REGISTER, TEXT).done
    bench.registry.stall(3_000)
    call = bench.ask(Action.REGISTER, '"long"')
    assert call.done
    assert call.ended_ms - call.began_ms >= 3_000


def test_an_operator_makes_another_cluster_the_primary(bench):
    bench.world.run_until(1_000)
    call = Call(Ask(Action.PROMOTE, "", "elsewhere"), "home", bench.registry.life, 1_000)
    bench.registry.put(call)
    bench.world.run_until(5_000)
    assert call.done
    assert bench.ask(Action.REGISTER, TEXT).code == 42205
