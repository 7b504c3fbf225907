from __future__ import annotations

import pytest

from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimStore
from dafka.testing.registry_nodes import Call, ClientRequest, RequestKind, SimRegistry, ToldVersion
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
        call = Call(ClientRequest(action, "a", word), "home", self.registry.life, self.world.now_ms)
        self.registry.put(call)
        return call


@pytest.fixture
def bench():
    bench = Bench(3)
    yield bench
    if bench.registry.alive:
        bench.registry.crash()


def test_what_is_registered_is_read_and_deleted(bench):
    first = bench.ask(RequestKind.REGISTER, TEXT)
    assert (first.done, first.id) == (True, 1)
    assert first.reading.versions == {1: ToldVersion(1, TEXT, live=True)}
    assert bench.ask(RequestKind.DELETE, "1").reading.versions == {
        1: ToldVersion(1, TEXT, live=False)
    }
    assert bench.ask(RequestKind.SET_MODE, "READONLY").reading.mode == "READONLY"
    assert bench.ask(RequestKind.SET_LEVEL, "FULL").refused
    assert bench.ask(RequestKind.READ).done


def test_a_write_that_times_out_is_unknown_and_lands_later(bench):
    for store in bench.stores:
        bench.world.run_until(1_000)
        store.disk.full = True
    call = bench.ask(RequestKind.REGISTER, TEXT, 14_000)
    assert (call.done, call.refused, call.code) == (False, False, 50001)
    for store in bench.stores:
        store.disk.full = False
    bench.world.run_until(60_000)
    assert bench.ask(RequestKind.READ).reading.versions == {1: ToldVersion(1, TEXT, live=True)}


def test_one_that_dies_answers_nothing_and_comes_back_with_what_is_stored(bench):
    assert bench.ask(RequestKind.REGISTER, TEXT).done
    call = bench.send(RequestKind.REGISTER, '"long"')
    bench.world.run_until(bench.world.now_ms + 1)
    bench.registry.crash()
    bench.world.run_until(bench.world.now_ms + 1_000)
    assert call.ended_ms is None
    bench.registry.boot()
    assert bench.ask(RequestKind.READ).reading.versions[1] == ToldVersion(1, TEXT, live=True)


def test_stores_that_it_cannot_reach_are_not_asked(bench):
    bench.world.run_until(1_000)
    bench.registry.unreachable = {"S0", "S1"}
    assert bench.ask(RequestKind.READ).done
    assert bench.ask(RequestKind.REGISTER, TEXT).code == 50001


def test_one_that_stands_still_writes_later(bench):
    assert bench.ask(RequestKind.REGISTER, TEXT).done
    bench.registry.stall(3_000)
    call = bench.ask(RequestKind.REGISTER, '"long"')
    assert call.done
    assert call.ended_ms - call.began_ms >= 3_000


def test_an_operator_makes_another_cluster_the_primary(bench):
    bench.world.run_until(1_000)
    call = Call(
        ClientRequest(RequestKind.PROMOTE, "", "elsewhere"), "home", bench.registry.life, 1_000
    )
    bench.registry.put(call)
    bench.world.run_until(5_000)
    assert call.done
    assert bench.ask(RequestKind.REGISTER, TEXT).code == 42205
