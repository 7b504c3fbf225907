"""A cluster of four stores that keep each slot twice, linked to one of a single store; kill -9."""

from __future__ import annotations

import time

import pytest

from dafka.cluster import Cluster
from dafka.model import Slots, slot_of
from dafka.query.client import StoreClient
from dafka.query.cluster_client import ClusterClient
from distributor.survey import survey
from distributor.verify.compare import verify
from topology import load

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture
def topology_file(declared_shares):
    shares = ("0-2047", "0-2047", "2048-4095", "2048-4095")
    return declared_shares("topology", *shares, copies=2)


def test_kill_9_of_stores_that_share_slots_loses_nothing_and_both_clusters_are_equal(
    up, topology_file, wait_until, traffic_at
):
    topology = load(topology_file)
    shared, whole = topology.clusters
    wait_until(lambda: all(one.store for one in survey(topology, 300)), "all stores answer")
    traffic = [traffic_at(shared.towers[0]) for _ in range(6)]
    traffic += [traffic_at(whole.towers[0]) for _ in range(2)]
    for words in (
        ("dafka store", "c1-0 "),
        ("dafka store", "c1-3 "),
        ("distributor run", "c1"),
        ("distributor run", "c2"),
        ("dafka store", "c1-1 "),
    ):
        time.sleep(1.0)
        up.kill_one(*words)
    time.sleep(1.0)
    for thread in traffic:
        thread.finish()

    def lacking():
        heads = [
            {one: head for one, head in holding.heads.items() if one.topic == "orders"}
            for holding in survey(topology)
        ]
        sent = {thread.address: thread.sent - 1 for thread in traffic}
        return any({one.address: head for one, head in held.items()} != sent for held in heads)

    wait_until(
        lambda: not lacking(), "all is on both clusters", evidence=lambda: up.log("c1-level-1")
    )
    verdict = verify(topology, deep=True, settle_s=30)
    assert verdict.equal, verdict
    partitions = _partitions(shared)
    assert {one.address for one in partitions} == {thread.address for thread in traffic}
    for store in shared.stores:
        with StoreClient(store.query) as client:
            client.part = client.health().slots
            own = set(client.partitions("orders"))
        slots = Slots.of(store.slots)
        assert own == {one for one in partitions if slots.has(slot_of(one.address))}
    assert up.stop() == 0


def _partitions(cluster):
    with ClusterClient(Cluster.declared(cluster)) as stores:
        return stores.first(lambda store: store.partitions("orders"))
