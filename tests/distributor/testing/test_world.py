"""A simulated topology starts, breaks and heals as it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.model import Batch, Partition
from dafka.protocol.effects import Dropped
from dafka.protocol.store import StoreMachine
from dafka.records.batch import BatchBuilder, enclosed, records_of
from dafka.records.envelope import FRESH, Envelope
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import READ_ALL
from dafka.testing.strangers import SimBareProducer
from dafka.testing.world import Faults
from distributor.link.events import PassOver, Resumed, Side, Stop, Stopped, StopReason
from distributor.testing.checkers import contents, settled
from distributor.testing.links import REPAIRING
from distributor.testing.world import SimWorld
from topology.copyflags import EVERY_FLAG
from topology.plan import plan
from topology.testing import topology_of, tree_of

PLAN = plan(topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4")))))


def test_every_link_store_and_producer_is_a_node():
    world = SimWorld(PLAN, seed=1, faults=Faults(), producers=2)
    assert len(world.nodes) == 4 + 8 + 8
    assert all(node.alive for node in world.nodes)


def test_a_mixed_world_has_a_link_twice_and_a_producer_without_envelopes():
    world = SimWorld(PLAN, seed=1, faults=Faults(), mixed=True)
    assert len(world.nodes) == 4 + 8 + 4 + 2
    (bare,) = (one for one in world.nodes if isinstance(one, SimBareProducer))
    (twin,) = (one for one in world.links if one.name.endswith("-twin"))
    assert sum(one.link == twin.link for one in world.links) == 2
    world.world.run_until(2_000)
    bare.send("flights", 5)
    world.world.run_until(20_000)
    assert settled(world)
    assert world.anomalies() == []
    assert twin.forwarded + twin.skipped
    held = {
        tuple(record.value for record in contents(store.log)[Partition("flights", bare.name)])
        for store in world.stores
    }
    assert held == {tuple(bare.values["flights"])}


def test_what_has_crashed_comes_back():
    world = SimWorld(PLAN, seed=1, faults=Faults())
    world.crash_something(back_within_ms=100)
    assert sum(not node.alive for node in world.nodes) == 1
    assert not settled(world)
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
    assert not settled(world)
    world.heal()
    world.world.run_until(60_000)
    assert settled(world)
    assert {cluster.store.log.heads().popitem()[1] for cluster in world.clusters.values()} == {1}


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


PAIR = plan(topology_of(tree_of((1, "c1", "c2"))))
OTHER, HEALTHY = (Partition("flights", letter * 32) for letter in "XY")


def written(first, count, value=b"v", partition=OTHER, envelope=FRESH):
    builder = BatchBuilder(1 << 16)
    for number in range(first, first + count):
        builder.append(number, None, value, ())
    return Batch(partition, first, count, enclosed(builder.build(), first, envelope))


def with_logs(the_plan, seed, settings=REPAIRING, **logs):
    """A world in which stores have held these batches from the beginning."""
    world = SimWorld(the_plan, seed, Faults(delay_ms_max=20), settings=settings)
    for name, batches in logs.items():
        rewrite(world, name, *batches)
    return world


def rewrite(world, name, *batches):
    """A store comes back with another disk."""
    store = world.clusters[name].store
    store.crash()
    store.log = MemoryLog(f"STORE-{name}")
    store.log.append(batches)
    store.boot()


def values(world, name, partition=OTHER):
    log = world.clusters[name].store.log
    start, head, *_ = log.extents()[partition]
    found = [
        record.value
        for batch in log.read(partition, start, READ_ALL, READ_ALL)
        for record in records_of(batch)
    ]
    assert len(found) == head + 1 - start
    return found


def reported(world, source):
    return [one for link in world.links if link.link.source == source for one in link.reports]


@pytest.mark.parametrize("seed", range(10))
def test_what_retention_has_overtaken_stops_one_partition_and_drops_nothing(seed):
    whole = written(0, 10), written(10, 10), written(0, 5, partition=HEALTHY)
    world = with_logs(PAIR, seed, c1=whole, c2=[written(0, 5)])
    world.clusters["c1"].store.trim(OTHER, 10)
    world.world.run_until(40_000)
    assert reported(world, "c1") == [Stopped(OTHER, Stop(StopReason.OVERTAKEN, 5, 10))]
    assert values(world, "c2") == [b"v"] * 5
    assert len(values(world, "c2", HEALTHY)) == 5, "others go on"
    # Retention reaches the target too: nothing stands against going on.
    world.clusters["c2"].store.trim(OTHER, 5)
    world.world.run_until(90_000)
    assert reported(world, "c1")[1:] == [Resumed(OTHER)]
    assert values(world, "c2") == [b"v"] * 10


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("by_hand", [True, False])
def test_it_goes_on_behind_the_hole_by_hand_or_by_topic_and_keeps_what_lies_before(seed, by_hand):
    settings = REPAIRING
    if not by_hand:
        settings = replace(settings, link=replace(settings.link, skips=OTHER.topic.__eq__))
    whole = written(0, 10), written(10, 10), written(0, 5, partition=HEALTHY)
    world = with_logs(PAIR, seed, settings, c1=whole, c2=[written(0, 5)])
    world.clusters["c1"].store.trim(OTHER, 10)
    world.world.run_until(40_000)
    (link,) = [one for one in world.links if one.link.source == "c1"]
    if by_hand:
        assert reported(world, "c1") == [Stopped(OTHER, Stop(StopReason.OVERTAKEN, 5, 10))]
        link.post(Side.SOURCE, PassOver(OTHER.topic))
        world.world.run_until(80_000)
        assert reported(world, "c1")[1:] == [Resumed(OTHER)]
    else:
        assert reported(world, "c1") == []
    assert {(one.start, one.end) for one in link.lost} == {(5, 10)}
    log = world.clusters["c2"].store.log
    start, head, *_ = log.extents()[OTHER]
    assert (start, head) == (0, 19)
    kept = log.read(OTHER, 0, READ_ALL, READ_ALL) + log.read(OTHER, 5, READ_ALL, READ_ALL)
    sequences = [number for one in kept for number in range(one.sequence, one.end)]
    assert sequences == [*range(5), *range(10, 20)]


@pytest.mark.parametrize("seed", range(10))
def test_a_partition_that_the_target_refuses_is_set_aside_and_arrives_when_it_is_taken(
    seed, monkeypatch
):
    refused, take = {OTHER}, StoreMachine._take

    def refusing(store, message, now_ms):
        if "c2" in store._address.lower() and (message.topic, message.address) in refused:
            return [Dropped("disputed partition")]
        return take(store, message, now_ms)

    monkeypatch.setattr(StoreMachine, "_take", refusing)
    world = with_logs(PAIR, seed, c1=[written(0, 10), written(10, 10)])
    producer = world.clusters["c1"].producers[0]
    for second in range(60):
        world.world.run_until(2_000 + second * 1_000)
        producer.send("flights", 1)
    (healthy,) = producer.partitions
    stops = [one for one in reported(world, "c1") if isinstance(one, Stopped)]
    assert {(one.partition, one.stop.reason) for one in stops} == {(OTHER, StopReason.REFUSED)}
    assert world.clusters["c2"].store.log.heads()[healthy] >= 57
    refused.clear()
    world.world.run_until(120_000)
    assert values(world, "c2") == [b"v"] * 20
    assert reported(world, "c1")[-1] == Resumed(OTHER)


@pytest.mark.parametrize("seed", range(10))
def test_a_relay_that_is_gone_is_gone_round_and_both_clusters_get_everything(seed):
    world = SimWorld(PLAN, seed, Faults(delay_ms_max=20), settings=REPAIRING)
    producer = world.clusters["c1"].producers[0]
    (relay,) = [one for one in world.links if one.link.source == "c3" and one.link.level == 1]
    (link,) = [one for one in world.links if one.link.source == "c1" and one.link.level == 3]
    world.world.run_until(3_000)
    assert link.target.name == "c3"
    relay.crash()
    for second in range(4, 40):
        world.world.run_until(second * 1_000)
        producer.send("flights", 1)
    (partition,) = producer.partitions
    heads = [world.clusters[name].store.log.heads()[partition] for name in ("c3", "c4")]
    assert link.target.name == "c4"
    assert min(heads) > 30, "c4 by the link, c3 by its relay"
    assert len(link.switches) == 1, "not in circles"


@pytest.mark.parametrize("seed", range(10))
def test_a_sick_cluster_behind_a_target_keeps_the_target_waiting_ever_more_seldom(
    seed, monkeypatch
):
    take = StoreMachine._take

    def refusing(store, message, now_ms):
        if "c4" in store._address.lower():
            return [Dropped("append failed")]
        return take(store, message, now_ms)

    monkeypatch.setattr(StoreMachine, "_take", refusing)
    world = SimWorld(PLAN, seed, Faults(delay_ms_max=20), settings=REPAIRING)
    producer = world.clusters["c1"].producers[0]
    (link,) = [one for one in world.links if one.link.source == "c1" and one.link.level == 3]
    for second in range(3, 120):
        world.world.run_until(second * 1_000)
        producer.send("flights", 1)
    (partition,) = producer.partitions
    assert world.clusters["c3"].store.log.heads()[partition] > 100
    assert 2 <= len(link.switches) <= 6


@pytest.mark.parametrize("seed", range(10))
def test_what_one_source_keeps_no_more_another_brings(seed):
    everything = written(0, 10), written(10, 10)
    world = with_logs(PLAN, seed, c1=everything, c2=everything, c3=[written(0, 5)])
    world.clusters["c1"].store.trim(OTHER, 10)
    world.world.run_until(90_000)
    assert {len(values(world, name)) for name in ("c2", "c3", "c4")} == {20}
    assert Stopped(OTHER, Stop(StopReason.OVERTAKEN, 5, 10)) in reported(world, "c1")
    assert reported(world, "c1")[-1] == Resumed(OTHER)


@pytest.mark.parametrize("seed", range(10))
def test_a_partition_whose_beginning_is_gone_begins_where_it_is_kept(seed):
    world = with_logs(PAIR, seed, c1=[written(0, 10), written(10, 10)])
    world.clusters["c1"].store.trim(OTHER, 10)
    world.world.run_until(40_000)
    assert reported(world, "c1") == []
    assert [(one.start, one.end) for link in world.links for one in link.lost] == [(0, 10)]
    assert values(world, "c2") == [b"v"] * 10


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("skips", [False, True])
def test_where_a_log_starts_every_declared_store_has_to_say(seed, skips):
    settings = replace(REPAIRING, link=replace(REPAIRING.link, skips=lambda _topic: skips))
    world = SimWorld(PAIR, seed, Faults(delay_ms_max=20), settings=settings, stores=2)
    partial, whole = world.clusters["c1"].stores
    for store in (partial, whole):
        store.crash()
    # What the one has lost with its disk, the other has, and is down for long.
    partial.log.append([written(10, 10)], skips={OTHER: 10})
    whole.log.append([written(0, 10), written(10, 10)])
    partial.boot()
    world.world.run_until(60_000)
    assert OTHER not in world.clusters["c2"].store.log.heads()
    assert reported(world, "c1") == [Stopped(OTHER, Stop(StopReason.OVERTAKEN, 0, 10, unsure=True))]
    whole.boot()
    world.world.run_until(120_000)
    assert values(world, "c2") == [b"v"] * 20
    assert not any(link.lost for link in world.links)


@pytest.mark.parametrize("seed", range(10))
def test_retention_in_the_middle_of_copying_loses_nothing_unsaid(seed):
    world = with_logs(PAIR, seed, c1=[written(first, 10) for first in range(0, 5_000, 10)])
    source, target = (world.clusters[name].store for name in ("c1", "c2"))
    while target.log.heads().get(OTHER, -1) < 10 and world.world.now_ms < 40_000:
        world.world.run_until(world.world.now_ms + 1)
    assert 10 <= target.log.heads()[OTHER] < 4_999, "in the middle"
    source.trim(OTHER, 4_000)
    world.world.run_until(world.world.now_ms + 40_000)
    start, head, *_ = target.log.extents()[OTHER]
    assert start == 0
    assert len(values(world, "c2")) == head + 1, "without a hole"
    if head < 4_999:
        assert reported(world, "c1") == [
            Stopped(OTHER, Stop(StopReason.OVERTAKEN, head + 1, 4_000))
        ]
    assert not any(link.lost for link in world.links)


@pytest.mark.parametrize("seed", range(10))
def test_another_history_is_found_whenever_it_comes_and_stops_one_partition(seed):
    same = written(0, 10), written(0, 5, partition=HEALTHY)
    world = with_logs(PAIR, seed, c1=same, c2=same)
    world.world.run_until(10_000)
    assert reported(world, "c1") == []
    # The source comes back with a producer that has begun anew under its old address.
    anew = written(0, 5, b"other"), written(0, 8, partition=HEALTHY)
    rewrite(world, "c1", *anew)
    world.world.run_until(20_000)
    assert reported(world, "c1") == [Stopped(OTHER, Stop(StopReason.DIVERGED, 4, 5))]
    rewrite(world, "c1", *anew, written(5, 10, b"other"))
    world.world.run_until(60_000)
    assert values(world, "c2") == [b"v"] * 10
    assert len(values(world, "c2", HEALTHY)) == 8, "others go on"
    # One of the two is given up.
    rewrite(world, "c2")
    world.world.run_until(100_000)
    assert values(world, "c2") == [b"other"] * 15
    assert Resumed(OTHER) in reported(world, "c1")


@pytest.mark.parametrize("seed", range(10))
def test_what_several_links_could_pull_one_of_them_pulls(seed):
    stray = Envelope(copy_flags=EVERY_FLAG)
    whole = written(0, 10, envelope=stray), written(10, 10, envelope=stray)
    world = with_logs(PLAN, seed, c1=whole, c2=whole, c3=whole[:1], c4=whole)
    world.world.run_until(90_000)
    assert len(values(world, "c3")) == 20
    assert sum(link.target.name == "c3" for link in world.links) == 3
    assert sum(link.pulled for link in world.links) == 10
