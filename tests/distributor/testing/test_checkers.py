"""Each judgement finds what it is for."""

from __future__ import annotations

import pytest

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import FRESH, Envelope
from dafka.testing.world import Faults
from distributor.testing import checkers
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


def test_a_good_run_passes_every_judgement(world, the_plan):
    assert checkers.clusters_are_equal(world) == []
    assert checkers.nothing_acknowledged_is_missing(world) == []
    assert checkers.every_record_once_and_in_order(world) == []
    assert checkers.flags_tell_the_way(world, the_plan) == []


def test_a_head_that_others_do_not_have_is_found(world):
    log = world.clusters["c2"].store.log
    log.append([batch(Partition("flights", "stray"), [b"x"])])
    assert checkers.clusters_are_equal(world) == ["c2 and c1 differ in their heads"]


def test_an_acknowledged_record_that_is_missing_is_found(world):
    producer = world.clusters["c1"].producers[0]
    partition = next(iter(producer.stored))
    producer.stored[partition] += 1
    found = checkers.nothing_acknowledged_is_missing(world)
    assert len(found) == 2
    assert "acknowledged to 3" in found[0]


def test_a_changed_value_is_found(world):
    producer = world.clusters["c1"].producers[0]
    partition = next(iter(producer.sent))
    producer.sent[partition][1] = b"another"
    found = checkers.every_record_once_and_in_order(world)
    assert [line.split()[0] for line in found] == ["c1", "c2"]


def test_wrong_flags_and_wrong_origin_are_found(world, the_plan):
    for envelope in (Envelope(1, 0b10), Envelope(2, 0b1), FRESH):
        partition = Partition("flights", f"made-{envelope.origin}-{envelope.copy_flags}")
        world.clusters["c1"].producers[0].sent[partition] = [b"x"]
        world.clusters["c2"].store.log.append([batch(partition, [b"x"], envelope)])
    assert len(checkers.flags_tell_the_way(world, the_plan)) == 3
