"""Three groups consume at c1, it is killed at a random moment, they go on at c4: real processes."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest

from dafka.cluster import Cluster
from dafka.errors import DafkaError
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.query.client import StoreClient
from distributor.loading import load
from distributor.local.processes import processes_of
from distributor.local.supervisor import Supervisor
from topology import plan

pytestmark = [pytest.mark.net, pytest.mark.slow]

GROUPS = ("billing", "audit", "search")
COMMIT_MS = 200
RATE = 500
MARGIN_MS = 1_000


class Member(Thread):
    """Reads for a group at one cluster until told to stop; notes the numbers it has seen."""

    def __init__(self, cluster, group):
        super().__init__(daemon=True)
        self._cluster = cluster
        self._group = group
        self.stopping = Event()
        self.seen: list[int] = []

    def run(self):
        consumer = Consumer(
            Cluster(self._cluster.towers, [store.query for store in self._cluster.stores]),
            "orders",
            group=self._group,
            auto_commit_ms=COMMIT_MS,
            session_timeout_ms=2_000,
        )
        while not self.stopping.is_set():
            record = consumer.poll(0.1)
            if record is not None:
                self.seen.append(int(record.value))
        with suppress(DafkaError):  # its cluster may be gone: that is what is tested
            consumer.close()


@contextmanager
def running(topology, file, logs):
    supervisor = Supervisor(processes_of(plan(topology), file), logs)
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


@pytest.mark.parametrize("translation", ["timestamp", "exact"])
def test_groups_go_on_at_another_cluster_and_miss_nothing(
    topology_file, tmp_path, wait_until, translation
):
    with topology_file.open("a") as file:
        file.write(f"offsets: {{translation: {translation}, margin_ms: {MARGIN_MS}}}\n")
    topology = load(topology_file)
    first, *_, fourth = topology.clusters
    chance = random.Random(translation)
    with running(topology, topology_file, tmp_path / "logs") as supervisor:
        members = [Member(first, group) for group in GROUPS]
        for member in members:
            member.start()
        # At c2: what it publishes is not lost with c1, so every number must be seen.
        with Producer(Cluster.declared(topology.clusters[1])) as producer:
            total, known = publish(producer, members, chance, supervisor, wait_until, fourth)
            for member in members:
                member.stopping.set()
            successors = [Member(fourth, group) for group in GROUPS]
            for member in successors:
                member.start()
            for one, other in zip(members, successors, strict=True):
                wait_until(
                    lambda one=one, other=other: (
                        set(one.seen) | set(other.seen) == set(range(total))
                    ),
                    f"every record seen by {one._group}",
                )
            for member in (*members, *successors):
                member.stopping.set()
                member.join(120)
    for successor in successors:
        # Nothing is read again of what c4 knew to be done when c1 went.
        assert successor.seen[0] >= known[successor._group]
        assert successor.seen == sorted(successor.seen)


def publish(producer, members, chance, supervisor, wait_until, fourth):
    """Publish numbers at a steady rate; kill c1 at a random moment, while positions come across.

    Returns how many, and from which on each group had to go on at c4 at that moment.
    """
    producer.send("orders", b"0")
    producer.flush(20)
    wait_until(lambda: all(member.seen for member in members), "members read")
    count = 1
    end_s = time.monotonic() + 3 + 2 * chance.random()
    while time.monotonic() < end_s:
        count = send_one(producer, count)
    followed_to = count
    with StoreClient(fourth.stores[0].query) as client:
        known = dict.fromkeys(GROUPS, 0)
        deadline_s = time.monotonic() + 30
        while min(known.values()) < followed_to:
            assert time.monotonic() < deadline_s, f"positions at c4: {known}, not {followed_to}"
            for _ in range(RATE // 10):
                count = send_one(producer, count)
            known = {group: position_of(client, group) for group in GROUPS}
    assert supervisor.take_down("c1") == 4
    for _ in range(RATE):
        count = send_one(producer, count)
    producer.flush(20)
    return count, known


def position_of(client, group):
    """From which number on a cluster would have the group go on; 0 before it knows of any."""
    return sum(commit.position or 0 for commit in client.offsets(group).values())


def send_one(producer, count):
    producer.send("orders", str(count).encode())
    time.sleep(1 / RATE)
    return count + 1


def test_a_group_that_returns_with_its_cluster_goes_on_where_it_was_elsewhere(
    topology_file, tmp_path, wait_until
):
    topology = load(topology_file)
    first, second, *_, fourth = topology.clusters
    with (
        running(topology, topology_file, tmp_path / "logs") as supervisor,
        Producer(Cluster.declared(second)) as producer,
    ):
        done = consumed(first, producer, 0, wait_until)
        with StoreClient(fourth.stores[0].query) as client:
            wait_until(lambda: position_of(client, "billing") == done, "known at c4")
        supervisor.take_down("c1")
        done = consumed(fourth, producer, done, wait_until)
        # c4 has left c1 for c2 by then, however busy the machine is: a store waits for links that
        # bring what is known beside it, and not for ever for what is still on its way to them.
        with StoreClient(second.stores[0].query) as client:
            wait_until(lambda: position_of(client, "billing") == done, "known at c2")
        supervisor.bring_back("c1")
        # At once: as a service that starts with its machine.
        returned = Member(first, "billing")
        returned.start()
        producer.send("orders", str(done).encode())
        wait_until(lambda: supervisor.watch() or done in returned.seen, "the last record")
        returned.stopping.set()
        returned.join(120)
    assert returned.seen == [done], "nothing is read again"


def consumed(cluster, producer, count, wait_until):
    """Let a member consume some records more at a cluster, and end; returns how many there are."""
    member = Member(cluster, "billing")
    member.start()
    for _ in range(RATE):
        count = send_one(producer, count)
    wait_until(lambda: member.seen and member.seen[-1] == count - 1, "consumed")
    member.stopping.set()
    member.join(120)
    return count
