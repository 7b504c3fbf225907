"""Gateways and stores that are killed with signal 9 while clients of two makes write."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter, defaultdict
from contextlib import closing

import pytest

from dafka import Consumer
from tests.support.gateway_processes import WAIT_S, create, owner_of
from tests.support.kafka_kills import (
    KafkaPythonProducer,
    KillableCluster,
    LibrdkafkaProducer,
    Watcher,
    by_partition,
    lines_about,
    numbers_of,
    read_all,
)

pytestmark = [pytest.mark.net, pytest.mark.slow]

TOPIC = "orders"
PARTITIONS = 3
STEADY_RECORDS = 300
"""So many of each producer are acknowledged between two kills."""

QUIET_S = 2.0
"""What a Dafka consumer has not been given for so long is not there."""


@pytest.fixture
def cluster(tmp_path, free_ports, reopened, until):
    with closing(KillableCluster(tmp_path, free_ports, reopened, until)) as cluster:
        yield cluster


def test_kills_lose_nothing_and_show_nothing_twice(cluster, until, request):
    rounds = request.config.getoption("--kill-rounds")
    if not rounds:
        pytest.skip("--kill-rounds kills gateways and stores under load")
    bootstrap = ",".join(cluster.endpoints)
    create(bootstrap, TOPIC, PARTITIONS)
    producers = [
        LibrdkafkaProducer("librdkafka", bootstrap, TOPIC, PARTITIONS),
        KafkaPythonProducer("kafka-python", bootstrap, TOPIC, PARTITIONS),
    ]
    watcher = Watcher(bootstrap, TOPIC, PARTITIONS)
    for client in (*producers, watcher):
        client.start()

    def go_on():
        known = [len(one.placed) for one in producers]
        until(
            lambda: all(
                len(one.placed) > before + STEADY_RECORDS
                for one, before in zip(producers, known, strict=True)
            ),
            WAIT_S,
        )

    go_on()
    draw = random.Random(0)
    kills = []
    for number in range(rounds):
        owner = until(lambda: owner_of(bootstrap, TOPIC, draw.randrange(PARTITIONS)), WAIT_S)
        store = draw.choice(cluster.stores)
        killed_s = time.monotonic()
        if number % 2:
            cluster.kill_store(store)  # who takes over has to do without it
        cluster.kill_gateway(owner)
        go_on()
        kills.append((killed_s, time.monotonic()))
        if not number % 2:
            cluster.kill_store(store)
            go_on()
        cluster.start_store(store)
        cluster.start_gateway(owner)
        go_on()
    for producer in producers:
        producer.stop()
    acknowledged = {value: place for one in producers for value, place in one.placed.items()}
    deadline_s = time.monotonic() + WAIT_S
    while len(watcher.shown) < len(acknowledged) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    watcher.stop()
    found = read_all(bootstrap, TOPIC, PARTITIONS, len(acknowledged))
    _is_there_once(cluster, found, acknowledged)
    assert watcher.lost == []
    assert watcher.changed == []
    assert watcher.shown == found
    _owned_by_each_alone(cluster, watcher.shown)
    _read_as_dafka(cluster, acknowledged.keys())
    sys.stdout.write(f"{rounds} rounds, {len(acknowledged)} records\n")
    _tell_silences(producers, kills)


def _tell_silences(producers, kills):
    """For how long a partition was not answered for, each time its owner was killed."""
    for producer in producers:
        for number, what in enumerate(("a gateway", "a gateway and a store")):
            silent = sorted(producer.silent_s(*kill) for kill in kills[number::2])
            told = " ".join(f"{one:.1f}" for one in silent)
            sys.stdout.write(f"{what} killed, {producer.name} is not answered for: {told} s\n")


def _is_there_once(cluster, shown, acknowledged):
    """Every acknowledged record, and nothing else, where its client was told that it is."""
    places = {value: place for place, value in shown.items()}
    assert sorted(acknowledged.keys() - places.keys()) == []
    assert sorted(places.keys() - acknowledged.keys()) == []
    often = Counter(shown.values())
    twice = {place: value for place, value in shown.items() if often[value] > 1}
    assert twice == {}, lines_about(cluster.stores, TOPIC, twice)
    for value, (partition, offset) in acknowledged.items():
        # librdkafka takes what lies before a stored batch for stored, and does not know where.
        assert (partition, offset) in (places[value], (places[value][0], None))


def _owned_by_each_alone(cluster, shown):
    """Each gateway says the same of all partitions, also as the only one there is."""
    for endpoint in cluster.endpoints:
        (other,) = set(cluster.endpoints) - {endpoint}
        cluster.kill_gateway(other)
        found = read_all(endpoint, TOPIC, PARTITIONS, len(shown))
        cluster.start_gateway(other)
        assert found == shown
        for values in by_partition(found).values():
            for numbers in numbers_of(values).values():
                assert numbers == sorted(numbers)


def _read_as_dafka(cluster, acknowledged):
    """A record is twice at most where it was under way as its partition changed its owner."""
    copies = defaultdict(list)
    logs = defaultdict(list)
    with Consumer(cluster.tower, [TOPIC]) as consumer:
        deadline_s = time.monotonic() + WAIT_S
        while (record := consumer.poll(QUIET_S)) is not None or len(copies) < len(acknowledged):
            assert time.monotonic() < deadline_s, f"{len(copies)} of {len(acknowledged)} records"
            if record is not None:
                copies[record.value].append(record.address)
                logs[record.address].append(record.value)
    assert copies.keys() == acknowledged
    for addresses in copies.values():
        assert len(set(addresses)) == len(addresses)
    for values in logs.values():
        for numbers in numbers_of(values).values():
            assert numbers == sorted(numbers)
    sys.stdout.write(
        f"{sum(map(len, copies.values())) - len(acknowledged)} twice for Dafka consumers\n"
    )
