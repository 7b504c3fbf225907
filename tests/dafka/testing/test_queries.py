from __future__ import annotations

import pytest

from dafka.errors import QueryError
from dafka.model import Batch, Partition
from dafka.query.client import StoreClient
from dafka.query.messages import HealthRequest, HealthResponse, decode_answer, encode
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimStore
from dafka.testing.queries import SimQueryClient, SimQueryLine
from dafka.testing.world import Faults, SimMesh, World

PLACE = Partition("orders", "P")


@pytest.fixture
def store():
    world = World(1, Faults(delay_ms_max=20, disk_ms_max=100))
    store = SimStore(world, "S", SimMesh(world), MemoryLog("S"))
    store.boot()
    return store


def test_a_client_is_answered_at_once_about_what_is_on_disk(store):
    client = StoreClient("S", connect=lambda endpoint, _: SimQueryClient(store, lambda: False))
    assert client.heads() == {}
    store.log.append([Batch(PLACE, 0, 3, b"content")])
    assert client.heads() == {PLACE: 2}
    store.crash()
    with pytest.raises(QueryError):
        client.heads()


def test_what_is_lost_is_not_answered(store):
    lost = [False, True]
    client = StoreClient("S", connect=lambda endpoint, _: SimQueryClient(store, lost.pop))
    with pytest.raises(QueryError):
        client.health()
    assert client.health().identity == "S"


def answers(line, store, time_ms):
    store.world.run_until(store.world.now_ms + time_ms)
    found = []
    while (received := line.receive()) is not None:
        found.append((received[0], decode_answer(received[1])))
    return found


class Asking:
    """Whoever has a line; it counts how often something came for it."""

    def __init__(self, world):
        self.world = world
        self.came = 0

    def come_to_it(self):
        self.came += 1


def test_a_line_is_answered_when_the_store_comes_to_it(store):
    asking = Asking(store.world)
    line = SimQueryLine(asking, store, lambda: False)
    numbers = [line.send(encode(HealthRequest())) for _ in range(3)]
    assert answers(line, store, 0) == []
    found = answers(line, store, 200)
    assert sorted(number for number, _ in found) == numbers
    assert all(isinstance(answer, HealthResponse) for _, answer in found)
    assert asking.came == 3


def test_a_store_that_is_busy_answers_when_it_is_not(store):
    line = SimQueryLine(Asking(store.world), store, lambda: False)
    store.busy(1_000)
    line.send(encode(HealthRequest()))
    assert answers(line, store, 900) == []
    assert len(answers(line, store, 300)) == 1


def test_nothing_comes_over_a_line_that_is_cut_or_closed_or_to_a_dead_store(store):
    cut = SimQueryLine(Asking(store.world), store, lambda: True)
    closed = SimQueryLine(Asking(store.world), store, lambda: False)
    for line in (cut, closed):
        line.send(encode(HealthRequest()))
    closed.close()
    assert answers(cut, store, 500) == answers(closed, store, 0) == []
    late = SimQueryLine(Asking(store.world), store, lambda: False)
    late.send(encode(HealthRequest()))
    store.crash()
    assert answers(late, store, 500) == []
