from __future__ import annotations

import json

import pytest

from dafka.groups.commit import TOPIC, Commit, CommitKey, encode
from dafka.model import Partition
from dafka.node.producer import Producer

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture(scope="module")
def filled(cluster):
    """Two groups, one of which is two records behind."""
    with Producer(cluster.tower) as producer:
        for number in range(5):
            producer.send("orders", f"value-{number}".encode())
        place = Partition("orders", producer.address)
    with Producer(cluster.tower) as producer:
        for group, position in (("billing", 3), ("audit", 5)):
            key, value = encode(CommitKey(group, place), Commit(position, 4, 1_000, metadata="m"))
            producer.send(TOPIC, value, key=key)
    cluster.address = place.address
    return cluster


def test_groups(filled, dafka):
    done = dafka("groups", "--store", filled.query, "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows == [{"group": "audit"}, {"group": "billing"}]
    assert "billing" in dafka("groups", "--store", filled.query).stdout.decode()


def test_how_far_a_group_is_and_how_far_behind(filled, dafka):
    done = dafka("groups", "billing", "--store", filled.query, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert row.pop("age_s") > 1_000_000
    assert row == {
        "group": "billing",
        "topic": "orders",
        "address": filled.address,
        "position": 3,
        "end": 5,
        "lag": 2,
        "epoch": 4,
        "metadata": "m",
    }


def test_how_far_a_group_is_as_a_table(filled, dafka):
    text = dafka("groups", "billing", "--store", filled.query).stdout.decode()
    assert "group billing" in text
    assert filled.address[:8] in text


def test_a_group_that_nobody_knows(filled, refused):
    assert "group 'nobody' has no position" in refused(2, "groups", "nobody", *store(filled))


def test_a_name_that_no_group_can_have(filled, refused):
    assert "1 to 249 bytes" in refused(2, "groups", "g" * 250, *store(filled))


def store(filled):
    return "--store", filled.query
