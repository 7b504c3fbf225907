"""Flags and origin that do not fit the way through the tree are found."""

from __future__ import annotations

import pytest

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import FRESH, Envelope
from dafka.storage.memory import MemoryLog
from dafka.testing.world import Faults
from distributor.testing.checkers import all_has_come, flags_tell_the_way, settled
from distributor.testing.links import REPAIRING, SimSettings
from distributor.testing.world import SimWorld
from topology.copyflags import EVERY_FLAG
from topology.plan import plan
from topology.testing import topology_of, tree_of


@pytest.fixture
def the_plan():
    return plan(topology_of(tree_of((1, "c1", "c2"))))


@pytest.fixture
def world(the_plan):
    """Two clusters, one record published on c1 and copied to c2."""
    world = SimWorld(the_plan, seed=1, faults=Faults())
    world.world.run_until(2_000)
    world.clusters["c1"].producers[0].send("flights", 3)
    world.world.run_until(5_000)
    assert settled(world)
    return world


def batch(partition: Partition, values: list[bytes], envelope: Envelope = FRESH) -> Batch:
    builder = BatchBuilder(10_000)
    for value in values:
        builder.append(0, None, value, ())
    return Batch(partition, 0, builder.count, enclosed(builder.build(), 0, envelope))


def test_a_good_run_passes(world, the_plan):
    assert world.anomalies() == []
    assert flags_tell_the_way(world, the_plan) == []


def test_what_retention_has_taken_on_every_way_is_not_waited_for():
    row = plan(topology_of(tree_of((2, (1, "c1", "c2"), "c3"))))  # c3 reaches c2 by c1 alone
    world = SimWorld(row, seed=1, faults=Faults())
    partition = Partition("flights", "MADE")
    first, second, third = (world.clusters[name].store for name in ("c1", "c2", "c3"))
    for store in (first, third):
        store.log.append([batch(partition, [b"x", b"y"])])
    assert not all_has_come(world), "c1 brings it to c2"
    first.log.append((), trims={partition: 1})
    assert not all_has_come(world), "what is left of it"
    first.log.append((), trims={partition: 2})
    assert all_has_come(world)
    second.log.append((), skips={partition: 1})
    assert all_has_come(world), "the same of what goes on"
    first.log = MemoryLog("new")
    assert not all_has_come(world), "c3 brings it to c1"


@pytest.mark.parametrize("pulls", [False, True])
def test_who_keeps_what_another_was_to_bring_sends_it_if_links_pull(pulls):
    row = plan(topology_of(tree_of((2, (1, "c1", "c2"), "c3"))))
    world = SimWorld(row, seed=1, faults=Faults(), settings=REPAIRING if pulls else SimSettings())
    partition = Partition("flights", "MADE")
    flagged = Envelope(3, EVERY_FLAG)
    for name in ("c2", "c3"):
        world.clusters[name].store.log.append([batch(partition, [b"x"], flagged)])
    assert not all_has_come(world), "nothing has been taken"
    world.clusters["c3"].store.log.append((), trims={partition: 1})
    assert all_has_come(world) is not pulls


def test_who_has_no_link_lacks_what_nobody_has_taken():
    row = plan(topology_of(tree_of((2, (1, "c1", "c2"), "c3"))))
    world = SimWorld(row, seed=1, faults=Faults())
    world.links.clear()
    world.clusters["c1"].store.log.append([batch(Partition("flights", "MADE"), [b"x"])])
    assert not all_has_come(world)


def test_wrong_flags_and_wrong_origin_are_found(world, the_plan):
    for envelope in (Envelope(1, 0b10), Envelope(2, 0b1), FRESH):
        partition = Partition("flights", f"made-{envelope.origin}-{envelope.copy_flags}")
        world.clusters["c1"].producers[0].partitions.add(partition)
        world.clusters["c2"].store.log.append([batch(partition, [b"x"], envelope)])
    assert len(flags_tell_the_way(world, the_plan)) == 3
