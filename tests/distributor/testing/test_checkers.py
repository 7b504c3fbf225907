"""Flags and origin that do not fit the way through the tree are found."""

from __future__ import annotations

import pytest

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import FRESH, Envelope
from dafka.testing.world import Faults
from distributor.testing.checkers import flags_tell_the_way
from distributor.testing.world import SimWorld
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
    assert world.settled()
    return world


def batch(partition: Partition, values: list[bytes], envelope: Envelope = FRESH) -> Batch:
    builder = BatchBuilder(10_000)
    for value in values:
        builder.append(0, None, value, ())
    return Batch(partition, 0, builder.count, enclosed(builder.build(), 0, envelope))


def test_a_good_run_passes(world, the_plan):
    assert world.anomalies() == []
    assert flags_tell_the_way(world, the_plan) == []


def test_wrong_flags_and_wrong_origin_are_found(world, the_plan):
    for envelope in (Envelope(1, 0b10), Envelope(2, 0b1), FRESH):
        partition = Partition("flights", f"made-{envelope.origin}-{envelope.copy_flags}")
        world.clusters["c1"].producers[0].partitions.add(partition)
        world.clusters["c2"].store.log.append([batch(partition, [b"x"], envelope)])
    assert len(flags_tell_the_way(world, the_plan)) == 3
