"""Kafka groups of real clients at gateways that are killed, and at clusters that go down."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from dafka import Consumer
from dafka.gateway.commits import is_row
from dafka.query.client import StoreClient
from distributor.loading import load
from distributor.local.processes import processes_of
from distributor.local.supervisor import Supervisor
from tests.support.gateway_processes import (
    WAIT_S,
    GatewayProcesses,
    GroupMember,
    Producing,
    create,
)
from tests.support.kafka_kills import read_all
from tests.support.small_cluster import take
from topology import plan

FROM_AWAY, LATER = 1_000_000, 2_000_000
"""Numbers of records that are sent at the second cluster, before and after the first is gone."""

pytestmark = [pytest.mark.net, pytest.mark.slow]

TREE = """
version: 1
name: test
control: {{directory: control}}
clusters:
  - name: c1
    id: 1
    towers: [tcp://127.0.0.1:{0}]
    stores: [{{query: "tcp://127.0.0.1:{2}", data: "{6}/c1"}}]
  - name: c2
    id: 2
    towers: [tcp://127.0.0.1:{3}]
    stores: [{{query: "tcp://127.0.0.1:{5}", data: "{6}/c2"}}]
tree: {{level: 1, children: [c1, c2]}}
offsets: {{translation: exact}}
"""


def coordinator_of(endpoint, group="billing"):
    """Where the gateway listens that coordinates a group; empty while that is not known."""
    admin = AdminClient({"bootstrap.servers": endpoint})
    with suppress(KafkaException):
        node = admin.describe_consumer_groups([group])[group].result(WAIT_S).coordinator
        return f"{node.host}:{node.port}"
    return ""


def has_topic(endpoint, topic):
    with suppress(KafkaException):
        return topic in AdminClient({"bootstrap.servers": endpoint}).list_topics(timeout=30).topics
    return False


@pytest.mark.parametrize("stores", [1, 3])
def test_a_group_goes_on_where_its_coordinator_was_killed(make_cluster, free_ports, until, stores):
    cluster = make_cluster(stores)
    first = free_ports(2)
    bootstrap = ",".join([cluster.gateway(first), cluster.gateway(first + 1)])
    create(bootstrap, "orders")
    producing = Producing(bootstrap, "orders")
    member = GroupMember(bootstrap, "orders")
    producing.start()
    member.start()
    until(lambda: len(member.read) > 300 and member.committed, WAIT_S)
    cluster.kill(until(lambda: coordinator_of(bootstrap), WAIT_S))
    known = dict(member.committed)
    until(lambda: member.committed.get(0, 0) > known[0] + 300, WAIT_S)
    producing.stop()
    until(lambda: len(set(member.values())) == producing.sent, WAIT_S)
    member.stop()
    twice = len(member.values()) - producing.sent
    told = f"{producing.sent} records, {twice} read twice, {member.refused} commits refused"
    sys.stdout.write(f"{told}\n")
    assert not member.again, "what was committed is not read again"


def test_a_group_goes_on_at_another_cluster_and_skips_nothing(tmp_path, free_ports, until):
    ports = free_ports(8)
    file = tmp_path / "topology.yaml"
    file.write_text(TREE.format(*range(ports, ports + 6), tmp_path))
    topology = load(file)
    supervisor = Supervisor(processes_of(plan(topology), file), tmp_path / "logs")
    supervisor.start()
    sides = [
        GatewayProcesses(one.name, one.towers[0], [store.query for store in one.stores], until)
        for one in topology.clusters
    ]
    try:
        home, away = (side.start(ports + 6 + number) for number, side in enumerate(sides))
        create(home, "orders")
        until(lambda: has_topic(away, "orders"), WAIT_S)
        producers = [Producing(home, "orders"), Producing(away, "orders", FROM_AWAY)]
        member = GroupMember(home, "orders")
        for one in (*producers, member):
            one.start()
        until(lambda: member.committed.get(0, 0) > 500, 2 * WAIT_S)
        member.stop()
        later = sum(one.sent for one in producers) + 300
        until(lambda: sum(one.sent for one in producers) > later, WAIT_S)
        for one in producers:
            one.stop()
        sent = sum(one.sent for one in producers)
        read_all(away, "orders", 1, sent)
        there = topology.clusters[1]
        with StoreClient(there.stores[0].query) as store:
            done = member.committed[0]
            until(lambda: sum(positions_at(store).values()) == done, WAIT_S)
            sides[0].kill(home)
            supervisor.take_down("c1")
            known = positions_at(store)
        producing = Producing(away, "orders", LATER)
        successor = GroupMember(away, "orders")
        producing.start()
        successor.start()
        until(lambda: producing.sent > 200, WAIT_S)
        producing.stop()
        until(lambda: successor.committed.get(0, 0) == sent + producing.sent, 2 * WAIT_S)
        successor.stop()
        order = [*read_all(away, "orders", 1, sent + producing.sent).values()]
        with Consumer(there.towers[0], ["orders"]) as consumer:
            records = {one.value: one for one in take(consumer, len(order))}
        is_done = [one.sequence < known.get(one.address, 0) for one in map(records.get, order)]
        begin = is_done.index(False)
        assert [offset for _, offset, _ in successor.read] == list(range(begin, len(order)))
        twice, uncommitted = is_done[begin:].count(True), len(member.read) - done
        told = f"{sent} records at two clusters, {done} processed, {twice} of them read twice"
        sys.stdout.write(f"{told}, and {uncommitted} that were not committed\n")
        assert len({*member.values()} & {*successor.values()}) == twice + uncommitted
    finally:
        for side in sides:
            side.close()
        supervisor.stop()


def positions_at(store):
    """By address, how far a cluster knows that the group has processed."""
    commits = store.offsets("billing").items()
    return {place.address: one.position or 0 for place, one in commits if not is_row(place)}
