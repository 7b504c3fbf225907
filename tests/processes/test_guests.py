"""Stores of real processes that are killed under load, of clusters whose nodes connect to stores
only: guests, and links between the clusters."""

from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from topology import load

pytestmark = [pytest.mark.net, pytest.mark.slow]

ROUNDS = 6
SENT = 2_000


@pytest.fixture
def topology_file(topology_file, first_port, tmp_path):
    """Each cluster delivers through stores, and the first has two."""
    text = topology_file.read_text()
    for number in range(1, 5):
        line = f"    id: {number}\n"
        assert line in text
        text = text.replace(line, f"{line}    delivery: stores\n")
    stores = text.index("stores: [") + len("stores: [")
    other = f'{{query: "tcp://127.0.0.1:{first_port + 13}", data: "{tmp_path / "c1-1"}"}}, '
    topology_file.write_text(text[:stores] + other + text[stores:])
    return topology_file


def got(consumer, values, seconds):
    """Take what comes; whether all these values have come."""
    while len(values) < ROUNDS * SENT and (record := consumer.poll(seconds)) is not None:
        values.append(int(record.value))
    return len(values) == ROUNDS * SENT


def test_every_record_gets_everywhere_once_while_stores_are_killed(
    topology_file, up, wait_until, tmp_path
):
    topology = load(topology_file)
    here, there = (Cluster.declared(topology.clusters[number]) for number in (0, 3))
    queries = [store.query for store in topology.clusters[0].stores]

    def runs(query):
        return any("store" in command and query in command for command in up.children())

    with Consumer(here, "orders") as near, Consumer(there, "orders") as far:
        values = {near: [], far: []}
        with Producer(here, spool=tmp_path / "spool") as producer:
            for number in range(ROUNDS):
                for one in range(number * SENT, (number + 1) * SENT):
                    producer.send("orders", str(one).encode())
                query = queries[number % 2]
                wait_until(lambda one=query: runs(one), "the store is there again")
                first = near.poll(60)
                up.kill_one("store", query)  # the others that were sent are on their way
                values[near].append(int(first.value))
                got(near, values[near], 0.2)
            producer.flush(100)
        for consumer in (near, far):
            wait_until(lambda one=consumer: got(one, values[one], 1.0), "all has come")
            assert values[consumer] == [*range(ROUNDS * SENT)]
