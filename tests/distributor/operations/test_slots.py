"""Slots of a cluster's stores, real ones in this process, moved as a new file says."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dafka.cluster import Cluster
from dafka.model import ALL_SLOTS, Partition, Slots, address_in
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.operations.slots import (
    beyond,
    let_join,
    move_slots,
    moving_slots,
    still_moving,
)
from topology.model import WHOLE_RING, StoreSpec

LOW, HIGH = (range(2_048),), (range(2_048, 4_096),)


@pytest.fixture
def specs(pair, tmp_path, free_ports):
    """A cluster of one store, and the same of two that share the slots."""
    old = pair.topology.clusters[0]
    new = StoreSpec(query=f"tcp://127.0.0.1:{free_ports(1)}", data=str(tmp_path / "s2"), slots=HIGH)
    return old, replace(old, stores=(replace(old.stores[0], slots=LOW), new))


@pytest.fixture
def running(reopened):
    """Runs the towers and stores of a cluster, or some stores of it."""

    @contextmanager
    def running(cluster):
        place = Cluster.declared(cluster)
        with ExitStack() as stack:
            stack.enter_context(reopened(partial(Tower, place)))
            for spec in cluster.stores:
                slots = Slots.of(spec.slots)
                told = {"query": spec.query, "slots": slots, "durability": Durability.OS}
                stack.enter_context(reopened(partial(Store, Path(spec.data), place, **told)))
            yield

    return running


def kept(data):
    with closing(LmdbLog(Path(data))) as log:
        return KeptSlots(log, ALL_SLOTS).keeping.kept


def test_a_store_that_comes_keeps_nothing_yet_and_one_that_was_there_what_it_did(specs, tmp_path):
    old, new = specs
    for _ in range(2):  # whoever changes the topology may die and begin again
        let_join(beyond(new, old), tmp_path)
    assert kept(new.stores[1].data) == Slots(0)
    assert not (Path(new.stores[0].data) / "data.mdb").exists()
    store = replace(new.stores[1], data="known")
    with closing(LmdbLog(tmp_path / "known")) as log:
        KeptSlots(log, Slots.of(HIGH))
    let_join([store], tmp_path)
    assert kept(tmp_path / "known") == Slots.of(HIGH)


@pytest.mark.net
def test_a_store_that_runs_as_before_is_waited_for(specs, running):
    old, new = specs
    with running(old):
        told = move_slots(replace(new, stores=new.stores[:1]))
    assert told == f"{old.stores[0].query} to be started with slots 0-2047"
    assert "cannot reach" in move_slots(new)


@pytest.mark.net
def test_what_a_store_keeps_counts_not_what_the_file_says(specs, running):
    """A move to where all keep all may be interrupted, or `up` not have read its file yet."""
    _, new = specs
    whole = replace(new, stores=tuple(replace(one, slots=WHOLE_RING) for one in new.stores))
    alone = replace(new, stores=new.stores[:1])
    first, second = (one.query for one in new.stores)
    with closing(LmdbLog(Path(new.stores[0].data))) as log:
        KeptSlots(log, Slots.of(LOW))
    with running(replace(whole, stores=whole.stores[:1])):
        assert moving_slots(whole) == [f"{first} joins slots 2048-4095"]
        assert moving_slots(alone) == [f"{first} joins slots 2048-4095"]
    with running(replace(new, stores=new.stores[1:])):
        assert moving_slots(whole) == [
            f"{second} keeps slots 2048-4095, and the file gives it slots 0-4095"
        ]


@pytest.mark.net
@pytest.mark.slow
def test_who_shares_slots_out_and_does_not_answer_may_be_about_to_move_some(specs, pair, running):
    _, new = specs
    half = replace(new, stores=new.stores[1:])
    topology = replace(pair.topology, clusters=(half, pair.topology.clusters[1]))
    assert still_moving(topology) == {"c1"}, "where all keep all who is silent is only silent"
    with running(half):
        assert still_moving(topology) == set()


@pytest.mark.net
@pytest.mark.slow
def test_slots_come_to_a_new_store_with_all_that_there_is_of_them(
    specs, running, pair, make_batch, until, tmp_path
):
    old, new = specs
    places = [Partition("orders", address_in("AB" * 16, half, 2)) for half in (0, 1)]
    pair.fill(1, *(make_batch([b"1", b"2"], 0, place) for place in places))
    let_join(beyond(new, old), tmp_path)
    with running(new):
        assert moving_slots(new) == [
            f"{new.stores[0].query} gives up slots 2048-4095",
            f"{new.stores[1].query} joins slots 2048-4095",
        ]
        until(lambda: not move_slots(new))
        assert moving_slots(new) == []
    for store, place in zip(new.stores, places, strict=True):
        with closing(LmdbLog(Path(store.data))) as log:
            assert log.heads() == {place: 1}
        assert kept(store.data) == Slots.of(store.slots)
