"""Members of a group die as processes do, and the others take over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from dafka.cluster import Cluster
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

RECORDS = 300
PARTITIONS = 8

CONSUME = """
import sys
from dafka import Cluster, Consumer
tower, *stores = sys.argv[1:]
with Consumer(
    Cluster(tower, stores), "orders", group="billing", session_timeout_ms=1000, auto_commit_ms=100
) as consumer:
    for record in consumer:
        print(record.address, record.sequence, flush=True)
"""


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    cluster = SmallCluster(tmp_path, free_ports, reopened, stores=3)
    cluster.start_tower()
    yield cluster.endpoint, cluster.queries, [cluster.store(number) for number in range(3)]
    cluster.close()


@pytest.fixture
def processes(tmp_path, free_ports, reopened):
    """A tower's endpoint, and three stores that are processes, by their query ports."""
    cluster = SmallCluster(tmp_path, free_ports, reopened, stores=3)
    cluster.start_tower()
    stores = {}
    for number, query in enumerate(cluster.queries):
        words = ("--data", str(tmp_path / f"own-{number}"), "--query", query)
        command = [sys.executable, "-m", "dafka", "store", *words, "--tower", cluster.endpoint]
        with (tmp_path / f"own-{number}.log").open("wb") as log:
            stores[query] = subprocess.Popen(command, stderr=log)
    yield cluster.endpoint, stores
    for store in stores.values():
        store.kill()
        store.wait()
    cluster.close()


def test_a_frozen_store_of_three_stops_nobody(processes, until):
    tower, stores = processes
    there = Cluster(tower, tuple(stores))
    seen, sent = set(), 0

    def member():
        return Consumer(there, "orders", group="g", session_timeout_ms=5_000, auto_commit_ms=100)

    def all_arrive():
        nonlocal sent
        for producer in producers:
            producer.send("orders", b"").result(120)
            sent += 1
        until(lambda: taken() == sent)

    def taken():
        for consumer in members:
            while (record := consumer.poll(0.01)) is not None:
                seen.add((record.address, record.sequence))
        return len(seen)

    with ExitStack() as opened:
        producers = [opened.enter_context(Producer(tower)) for _ in range(PARTITIONS)]
        members = [opened.enter_context(member()) for _ in range(2)]
        until(lambda: all_arrive() or all(one.positions() for one in members))
        frozen = next(iter(stores.values()))
        frozen.send_signal(signal.SIGSTOP)
        owned = [one.positions().keys() for one in members]
        frozen_at = time.monotonic()
        while time.monotonic() < frozen_at + 7:
            all_arrive()
        # Nobody's lease ended, though that is longer than a session: nothing was given back.
        assert [one.positions().keys() for one in members] == owned
        members.append(opened.enter_context(member()))
        until(lambda: all_arrive() or all(one.positions() for one in members))
        members[0].close()
        del members[0]
        all_arrive()
        frozen.send_signal(signal.SIGCONT)
        all_arrive()


def test_a_member_that_is_killed_is_replaced_and_nothing_is_unseen(cluster, tmp_path, until):
    tower, queries, stores = cluster
    producers = [Producer(tower) for _ in range(PARTITIONS)]

    def send(numbers):
        for producer in producers:
            for number in numbers:
                producer.send("orders", str(number).encode())
            producer.flush(20)

    outputs = [tmp_path / f"member-{number}" for number in range(2)]

    def seen(output):
        return [tuple(line.split()) for line in output.read_text().splitlines() if " " in line]

    send(range(RECORDS // 3))
    members = []
    for output in outputs:
        with output.open("w") as file:
            members.append(
                subprocess.Popen([sys.executable, "-c", CONSUME, tower, *queries], stdout=file)
            )
    try:
        until(lambda: len({*seen(outputs[0]), *seen(outputs[1])}) == PARTITIONS * RECORDS // 3)
        shared = 0

        def both_work():
            nonlocal shared
            before = [len(seen(output)) for output in outputs]
            for producer in producers:
                producer.send("orders", b"more")
                producer.flush(20)
            shared += PARTITIONS
            total = PARTITIONS * RECORDS // 3 + shared
            until(lambda: len({*seen(outputs[0]), *seen(outputs[1])}) == total)
            return all(len(seen(output)) > old for output, old in zip(outputs, before, strict=True))

        until(both_work)
        stores[2].close()  # of three stores one may be away
        os.kill(members[0].pid, signal.SIGKILL)
        members[0].wait()
        send(range(RECORDS // 3))
        total = 2 * (PARTITIONS * RECORDS // 3) + shared
        until(lambda: len({*seen(outputs[0]), *seen(outputs[1])}) == total)
        members[1].send_signal(signal.SIGINT)
        members[1].wait(120)
    finally:
        for member in members:
            member.kill()
            member.wait()
        for producer in producers:
            producer.close()
    # Whoever comes next finds everything committed.
    with Consumer(
        Cluster(tower, queries[:2] + queries[2:]),
        "orders",
        group="billing",
        session_timeout_ms=1_000,
    ) as consumer:
        until(lambda: consumer.poll(0.2) is None and len(consumer.positions()) == PARTITIONS)
        assert sum(consumer.positions().values()) == total
