from __future__ import annotations

from contextlib import suppress

import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import LmdbLog
from dafka.storage.memory import MemoryLog
from dafka.testing.lmdb_store import LmdbStore
from dafka.testing.scenario import LMDB_EVERY, run
from dafka.testing.world import Faults, SimMesh, World

PLACE = Partition("orders", "P")


@pytest.fixture
def store(tmp_path):
    world = World(1, Faults())
    found = LmdbStore(world, "S", SimMesh(world), MemoryLog("S"), tmp_path, 1_000, [])
    found.boot()
    yield found
    if found._turn is not None:
        found.crash()


def batch(sequence, size=10):
    return Batch(PLACE, sequence, 1, bytes(size))


def begun_again(store):
    store.crash()
    store.boot()
    return store._view


def test_what_was_written_is_there_again_also_where_the_map_was_full(store):
    for sequence in range(5):
        store._view.append([batch(sequence, 100_000)])
    assert begun_again(store).heads() == {PLACE: 4}


def test_a_write_that_is_refused_leaves_nothing(store):
    store._view.append([batch(0)])
    store.disk.full = True
    with pytest.raises(StorageError, match="No space left"):
        store._view.append([batch(1)])
    store.disk.full = False
    assert begun_again(store).heads() == {PLACE: 0}


def test_what_is_not_what_was_written_is_found(store):
    store._view.append([batch(0)])
    store.crash()
    store.log.append([batch(1)])
    with pytest.raises(AssertionError):
        store.boot()


def broken(seed):
    try:
        return bool(run(seed).anomalies)
    except AssertionError:
        return True


@pytest.mark.sim
@pytest.mark.slow
def test_a_log_that_says_that_it_has_what_was_refused_is_found(monkeypatch):
    seeds = range(1, 10 * LMDB_EVERY, LMDB_EVERY)
    append = LmdbLog.append

    def trusting(self, batches, **rest):
        with suppress(StorageError):
            append(self, batches, **rest)

    monkeypatch.setattr(LmdbLog, "append", trusting)
    assert any(broken(seed) for seed in seeds)
