"""A simulated topology starts, breaks and heals as it is told."""

from __future__ import annotations

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.testing.world import Faults
from distributor.testing.world import SimWorld
from topology.plan import plan
from topology.testing import topology_of, tree_of

PLAN = plan(topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4")))))


def test_every_link_store_and_producer_is_a_node():
    world = SimWorld(PLAN, seed=1, faults=Faults(), producers=2)
    assert len(world.nodes) == 4 + 8 + 8
    assert all(node.alive for node in world.nodes)


def test_what_has_crashed_comes_back():
    world = SimWorld(PLAN, seed=1, faults=Faults())
    world.crash_something(back_within_ms=100)
    assert sum(not node.alive for node in world.nodes) == 1
    assert not world.settled()
    world.world.run_until(200)
    assert all(node.alive for node in world.nodes)


def test_nothing_is_left_to_crash_when_all_are_down():
    world = SimWorld(PLAN, seed=1, faults=Faults())
    for _ in range(len(world.nodes) + 1):
        world.crash_something(back_within_ms=1)
    assert not any(node.alive for node in world.nodes)
    world.send_somewhere("flights", 1)
    assert not any(cluster.producers[0].partitions for cluster in world.clusters.values())


def test_healing_ends_loss_and_repetition():
    world = SimWorld(PLAN, seed=1, faults=Faults(loss=1.0, duplication=1.0))
    world.world.run_until(2_000)
    world.send_somewhere("flights", 2)
    world.world.run_until(10_000)
    assert not world.settled()
    world.heal()
    world.world.run_until(60_000)
    assert world.settled()
    assert {cluster.store.log.heads().popitem()[1] for cluster in world.clusters.values()} == {1}


def test_links_count_what_they_forward_and_skip():
    world = SimWorld(PLAN, seed=1, faults=Faults())
    world.world.run_until(2_000)
    world.clusters["c1"].producers[0].send("flights", 5)
    world.world.run_until(10_000)
    assert sum(link.forwarded for link in world.links) == 15
    names = {link.name: link.forwarded for link in world.links if link.forwarded}
    assert names == {"link-c1-3-1": 5, "link-c1-1-1": 5, "link-c3-1-1": 5}


def test_a_cluster_that_has_another_record_is_told_by_name():
    world = SimWorld(PLAN, seed=1, faults=Faults())
    world.world.run_until(2_000)
    world.send_somewhere("flights", 2)
    world.world.run_until(5_000)
    builder = BatchBuilder(1_000)
    builder.append(0, None, b"stray", ())
    stray = Batch(Partition("flights", "stray"), 0, 1, enclosed(builder.build(), 0))
    next(iter(world.clusters.values())).store.log.append([stray])
    found = {line.split(":")[0] for line in world.anomalies()}
    assert found == {"I6 phantom", "I12 replicas-differ"}
