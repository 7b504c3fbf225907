"""What troubles do to a tree, and that those who judge it see what is wrong."""

from __future__ import annotations

import pytest

from dafka.model import Partition
from dafka.testing.world import Faults
from distributor.testing.checkers import settled
from distributor.testing.troubles import (
    TROUBLES,
    WRONG_MS,
    NewDisks,
    NewDisksOfReceiver,
    OtherHistories,
    OvertakingRetention,
    UnevenRetention,
    WrongClocks,
)
from distributor.testing.world import SimWorld
from topology.plan import plan
from topology.testing import topology_of, tree_of

PLAN = plan(topology_of(tree_of((2, (1, "c1", "c2"), "c3"))))


def flowing(kind, seed=1):
    sim = SimWorld(PLAN, seed, Faults(), settings=kind.settings, stores=kind.stores)
    trouble = kind(sim)
    sim.world.run_until(2_000)
    for _ in range(5):
        sim.send_somewhere("flights", 3)
        sim.world.run_until(sim.world.now_ms + 500)
    return sim, trouble


def settle(sim, *, limit_ms=60_000):
    end_ms = sim.world.now_ms + limit_ms
    while not settled(sim) and sim.world.now_ms < end_ms:
        sim.world.run_until(sim.world.now_ms + 250)
    assert settled(sim)


@pytest.mark.parametrize("kind", [NewDisks, NewDisksOfReceiver])
def test_a_new_disk_is_filled_again(kind):
    sim, trouble = flowing(kind)
    sim.world.run_until(10_000)
    trouble.again()
    (store,) = [store for store in sim.stores if not store.log.heads()]
    assert store.log.identity.endswith("-new")
    sim.world.run_until(sim.world.now_ms + 2_000)
    settle(sim)
    assert not sim.anomalies() + trouble.wrong()
    assert sum(link.pulled for link in sim.links) == 0 or not kind.flags_tell


def test_a_disk_that_alone_has_something_is_not_lost():
    sim, trouble = flowing(NewDisks)
    for link in sim.links:
        link.crash()
    for cluster in sim.clusters.values():
        cluster.producers[0].send("flights", 1)
    sim.world.run_until(sim.world.now_ms + 2_000)
    assert not any(sim.is_spare(store) for store in sim.stores)
    trouble.again()
    assert all(store.log.heads() for store in sim.stores)


def test_what_wrong_clocks_drop_too_early_is_told():
    sim, trouble = flowing(WrongClocks)
    for cluster in sim.clusters.values():
        cluster.producers[0].send("readings", 3)
    sim.world.run_until(sim.world.now_ms + 5_000)
    assert trouble.wrong() == []
    store, producer = sim.stores[0], sim.clusters["c1"].producers[0]
    partition = Partition("readings", producer.address)
    store.trim(partition, 3)
    sim.world.run_until(sim.world.now_ms + 10_000)
    assert trouble.wrong()


def test_a_clock_that_was_behind_lets_records_seem_old():
    sim, trouble = flowing(WrongClocks)
    clocks = set()
    for _ in range(40):
        trouble.happen()
        clocks |= {store.machine_clock.ahead_ms for store in sim.stores}
    assert clocks == {-WRONG_MS, 0, WRONG_MS}
    late = {name for name, late_ms in trouble._late.items() if late_ms}
    (cluster,) = (
        one for one in sim.clusters.values() if late == {*map(_name, (one.store, *one.producers))}
    )
    cluster.producers[0].send("readings", 3)
    sim.world.run_until(sim.world.now_ms + 5_000)
    partition = Partition("readings", cluster.producers[0].address)
    cluster.store.trim(partition, 3)
    sim.world.run_until(sim.world.now_ms + 10_000)
    assert cluster.store.log.extents()[partition].start == 3
    assert trouble.wrong() == []


def _name(node):
    return node.name


def test_of_each_cluster_one_store_keeps_everything():
    sim, trouble = flowing(UnevenRetention)
    for _ in range(20):
        trouble.happen()
        sim.world.run_until(sim.world.now_ms + 100)
    trimmed = [store for store in sim.stores if any(e.start for e in store.log.extents().values())]
    assert 0 < len(trimmed) <= len(sim.stores) // 2
    assert trouble.wrong() == []
    for store in sim.stores:
        for partition, extent in store.log.extents().items():
            store.log.append((), trims={partition: extent.head + 1})
    assert trouble.wrong()


def test_what_links_leave_out_the_operator_has_to_say():
    sim, trouble = flowing(OvertakingRetention)
    c1, c3 = (sim.clusters[name] for name in ("c1", "c3"))
    producer = c1.producers[0]
    producer.send("flights", 1)
    sim.world.run_until(sim.world.now_ms + 1_000)
    (partition,) = producer.partitions
    end = c3.store.log.heads()[partition] + 1
    for link in sim.links:
        link.crash()
    producer.send("flights", 4)
    sim.world.run_until(sim.world.now_ms + 1_000)
    c1.store.trim(partition, end + 4)
    for link in sim.links:
        link.boot()
    producer.send("flights", 1)
    sim.world.run_until(sim.world.now_ms + 20_000)
    assert sum(partition in link.stops for link in sim.links) == 2
    assert trouble.wrong() == []
    trouble.mend()
    settle(sim)
    assert not sim.anomalies() + trouble.wrong()
    (link,) = [one for one in sim.links if one.target is c3 and one.link.source == "c1"]
    (lost,) = [one for one in link.lost if one.partition == partition]
    assert (lost.start, lost.end) == (end, end + 4)
    link.left_out.append(lost)
    assert trouble.wrong()


@pytest.mark.parametrize("seed", range(5))
def test_two_histories_do_not_mix_and_their_links_say_so(seed):
    sim, trouble = flowing(OtherHistories, seed)
    settle(sim)
    assert not sim.anomalies() + trouble.wrong()
    held = {one.name: trouble.values(one.store)[:1] for one in sim.clusters.values()}
    stops = {link.name for link in sim.links if OtherHistories.CONTESTED in link.stops}
    differing = {
        link.name for link in sim.links if held[link.link.source] != held[link.target.name]
    }
    assert stops == differing


def test_each_kind_has_its_seeds():
    assert len(set(TROUBLES)) == 8
