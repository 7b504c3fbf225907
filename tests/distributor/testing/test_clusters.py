"""Simulated clusters have the stores that a plan declares."""

from __future__ import annotations

from dafka.model import ALL_SLOTS, SLOTS, Slots
from dafka.testing.world import Faults, World
from distributor.testing.clusters import SimCluster, kept_by, placed
from topology.plan import plan
from topology.testing import topology_of, tree_of

PAIR = plan(topology_of(tree_of((1, "c1", "c2"))))
LOW, HIGH = (Slots.of([one]) for one in (range(SLOTS // 2), range(SLOTS // 2, SLOTS)))


def test_so_many_stores_keep_each_slot_whether_they_share_them_or_not():
    assert kept_by(2, sharing=False) == [ALL_SLOTS] * 2
    assert kept_by(2, sharing=True) == [LOW, LOW, HIGH, HIGH]


def test_one_cluster_may_have_other_stores_than_the_rest():
    one, other = placed(PAIR, [ALL_SLOTS], {"c2": [LOW, HIGH]}).topology.clusters
    assert [store.query for store in one.stores] == ["store-c1"]
    assert [(store.query, store.slots) for store in other.stores] == [
        ("store-c2", (range(SLOTS // 2),)),
        ("store-c2-1", (range(SLOTS // 2, SLOTS),)),
    ]


def test_stores_that_are_to_come_join_what_they_are_to_keep():
    cluster = SimCluster(World(1, Faults()), "c2", 2, 1, [LOW], coming=[HIGH])
    assert [(store.name, store.slots) for store in cluster.stores] == [("store-c2", LOW)]
    (store,) = cluster.coming
    assert (store.name, store.slots) == ("store-c2-1", Slots(0))
    assert store.kept_slots.keeping.joining == HIGH
