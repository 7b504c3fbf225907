"""What is seen of a gateway: over a node that is none, and of a whole one."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import REGISTRY

from dafka.gateway.broker import KafkaPartition, Offsets, Topic
from dafka.gateway.catalog import CHANGED, CONTROLLED
from dafka.gateway.coordinators import DescribedGroup
from dafka.gateway.effects import LagsMeasured, Shared
from dafka.gateway.meter import PartitionMeter
from dafka.gateway.sharing import node_number
from dafka.groups.commit import GATEWAYS
from dafka.groups.membership import Member
from dafka.node.gateway_observer import GatewayObserver
from dafka.node.loop import STUCK_MS
from dafka.wire.primitives import octets_of

ME = "ME"
ORDERS = [KafkaPartition("orders", number) for number in range(3)]


def told(name, **labels):
    return REGISTRY.get_sample_value(f"dafka_gateway_{name}", {"cluster": "observed", **labels})


class Node:
    """What an observer asks of a node."""

    node, cluster_id = node_number(ME), "observed"

    def __init__(self):
        about = Member((octets_of(GATEWAYS),), 3_000)
        self.meter = PartitionMeter(self.cluster_id)
        self.division = Shared(1, {f"{ME}@127.0.0.1:9092.1": about}, {}), {}
        self.shown = {}
        self.stores_away, self.stores_new = 1, 2
        self.lags = {}

    async def ask(self, make):
        return LagsMeasured(make(7).token, self.lags)


class Groups:
    def __init__(self):
        self.there = {}

    def peopled(self):
        return self.there


@pytest.fixture
def observed():
    now = [1_000]
    node, groups = Node(), Groups()
    observer = GatewayObserver(node, groups, lambda: now[0])

    def look(after_ms=0):
        now[0] += after_ms
        asyncio.run(observer.look())

    yield node, groups, observer, look, now
    node.shown, node.lags, groups.there = {}, {}, {}
    look()
    node.meter.close()


def test_partitions_by_how_far_they_are(observed):
    node, _, _, look, _ = observed
    topic = Topic("orders", 3, None, {})
    node.division = node.division[0], {"orders": topic}
    node.shown = {CONTROLLED: Offsets(0, 1), CHANGED: Offsets(0, 0), ORDERS[0]: Offsets(0, 5)}
    look()
    look(2_000)
    assert told("partitions", state="serving") == 3
    assert told("partitions", state="beginning") == 2
    assert told("cluster_partitions") == 5
    assert told("beginning_seconds") == 2
    assert (told("stores_away"), told("stores_new")) == (1, 2)
    assert told("partition_high_watermark", topic="orders", partition="0") == 5
    node.shown = dict.fromkeys([CONTROLLED, CHANGED, *ORDERS], Offsets(0, 5))
    look()
    assert told("beginning_seconds") == 0


def test_what_is_anothers_is_not_counted(observed):
    node, _, observer, look, _ = observed
    node.division = (
        Shared(2, {"OTHER@127.0.0.1:9093.1": Member((octets_of(GATEWAYS),), 3_000)}, {}),
        {},
    )
    look()
    assert told("partitions", state="serving") == 0
    assert told("cluster_partitions") == 2
    assert not observer.partitions.owned


def test_groups_by_state_and_how_far_they_are_behind(observed):
    node, groups, observer, look, _ = observed
    groups.there = {"a": DescribedGroup("Stable", members=(1, 2)), "b": DescribedGroup("Empty")}
    node.lags = {"a": 7, "b": 0}
    look()
    assert told("groups", state="Stable") == 1
    assert told("group_members") == 2
    assert told("group_lag_records", group="a") == 7
    assert observer.lags == {"a": 7, "b": 0}
    groups.there, node.lags = {}, {"b": 1}
    look()
    assert told("groups", state="Stable") == 0
    assert told("group_members") == 0
    assert told("group_lag_records", group="a") is None
    assert told("group_lag_records", group="b") == 1


def test_a_front_that_does_not_look_is_unwell(observed):
    _, _, observer, look, now = observed
    look()
    assert not observer.unwell()
    now[0] += STUCK_MS + 1
    assert observer.unwell() == "gateway's front has not turned for 30 s"
