"""Positions between real stores of this process."""

import threading
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from dafka.node.committer import Committer
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.query.client import StoreClient
from distributor.offsets.distributor import OffsetsDistributor, OffsetsRound
from distributor.offsets.node import OffsetsNode
from tests.support.shares import also_shared
from topology import plan
from topology.model import OffsetSettings

pytestmark = [pytest.mark.net, pytest.mark.slow]


def counted(result):
    labels = {"source": "c1", "target": "c2", "level": "1", "result": result}
    return REGISTRY.get_sample_value("distributor_offsets_total", labels) or 0


@pytest.fixture
def node(pair):
    """Both clusters, each with ten records of one partition, and the way from c1 to c2."""

    def start(offsets):
        topology = replace(pair.topology, offsets=offsets)
        started.append(OffsetsNode(topology, plan(topology).links[0]))
        return started[-1]

    started = []
    yield start
    for one in started:
        one.close()


def commit(cluster, *commits):
    committer = Committer(Cluster.declared(cluster))
    committer.write(commits)
    committer.close()


def position(cluster, key):
    with StoreClient(cluster.stores[0].query) as client:
        held = client.offsets(key.group).get(key.partition)
    return None if held is None else held.position


@also_shared("pair")
def test_a_position_comes_across_by_time(pair, node, make_batch, until):
    batch = make_batch([b""] * 10)
    for number in (1, 2):
        pair.fill(number, batch)
    key = CommitKey("by-time", batch.partition)
    first, second = pair.topology.clusters
    with pair.running():
        started = node(OffsetSettings(translation="timestamp", margin_ms=0))
        commit(first, (key, Commit(7, 1, 1)))
        until(lambda: position(second, key) == 0)  # all are of one time
        assert started.unwell() == ""
        started.check()


def test_a_group_that_is_alive_at_the_target_is_left_alone_and_counted(pair, node, until):
    first, second = pair.topology.clusters
    before = counted("live")
    with pair.running():
        with Producer(first.towers[0]) as producer, Producer(second.towers[0]) as other:
            producer.send("orders", b"")
            other.send("orders", b"")
            producer.flush(5)
            other.flush(5)
            key = CommitKey("alive", Partition("orders", producer.address))
            there = Cluster(second.towers[0], second.stores[0].query)
            member = Consumer(there, "orders", group="alive", session_timeout_ms=2_000)
            with member:
                assert member.poll(120) is not None
                node(OffsetSettings(translation="exact"))
                commit(first, (key, Commit(2, 1, 1)))
                until(lambda: counted("live") == before + 1)
                assert position(second, key) is None
        until(lambda: position(second, key) == 2)


def test_a_target_that_does_not_answer_is_tried_again(pair, node, until):
    first, second = pair.topology.clusters
    key = CommitKey("later", ("orders", "PRODUCER"))
    with pair.running(1):
        commit(first, (key, Commit(2, 1, 1)))
        started = node(OffsetSettings(translation="exact"))
        labels = {"source": "c1", "target": "c2", "level": "1", "group": "later"}
        until(lambda: REGISTRY.get_sample_value("distributor_position_age_seconds", labels))
        with pair.running(2):
            until(lambda: position(second, key) == 2)
        assert started.unwell() == ""


def test_a_round_that_does_not_end_holds_nobody_up_who_closes_it(node, monkeypatch, until, caplog):
    begun, let_go = threading.Event(), threading.Event()

    def never_ends(_distributor, _now_ms):
        begun.set()
        let_go.wait()
        return OffsetsRound()

    monkeypatch.setattr(OffsetsDistributor, "round", never_ends)
    started = node(OffsetSettings())
    until(begun.is_set)
    started.close(timeout_s=0.01)
    assert "positions, which stores of c1 or c2 tell or take" in caplog.text
    let_go.set()
