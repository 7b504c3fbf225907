from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.gateway.broker import KafkaPartition
from dafka.gateway.commits import OFFSETS, REACHED, row_of
from dafka.groups.commit import TOPIC, Commit, CommitKey, encode
from dafka.model import Partition
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.query.client import StoreClient
from tests.support.json_outputs import rows_of

pytestmark = [pytest.mark.net, pytest.mark.slow]

LIVING = {"group": "living", "auto_commit_ms": None, "session_timeout_ms": 2_000}


@pytest.fixture(scope="module")
def grouped(cluster):
    """Two groups, one of which is two records behind."""
    with Producer(cluster.tower) as producer:
        for number in range(5):
            producer.send("orders", f"value-{number}".encode())
        cluster.place = Partition("orders", producer.address)
    committed(cluster, ("billing", 3), ("audit", 5))
    return cluster


def committed(cluster, *positions):
    with Producer(cluster.tower) as producer:
        for group, position in positions:
            commit = Commit(position, 4, 1_000, metadata="m")
            key, value = encode(CommitKey(group, cluster.place), commit)
            producer.send(TOPIC, value, key=key)


@pytest.fixture
def told(dafka):
    """A function that runs a command with --json and returns what it prints."""

    def told(*words):
        done = dafka("groups", *words, "--json")
        assert done.returncode == 0, done.stderr
        return rows_of(done.stdout)

    return told


def store(cluster):
    return "--store", cluster.query


def both(cluster):
    return "--tower", cluster.tower, *store(cluster)


@pytest.mark.parametrize("words", [(), ("show",)])
def test_groups(grouped, dafka, told, words):
    found = told(*words, *store(grouped))
    assert [one for one in found if one["group"] in ("audit", "billing")] == [
        {"group": "audit", "partitions": 1, "lag": 0},
        {"group": "billing", "partitions": 1, "lag": 2},
    ]
    assert "billing" in dafka("groups", *words, *store(grouped)).stdout.decode()


@pytest.mark.parametrize("words", [("billing",), ("show", "billing")])
def test_how_far_a_group_is_and_how_far_behind(grouped, told, words):
    (row,) = told(*words, *store(grouped))
    assert row.pop("age_s") > 1_000_000
    assert row == {
        "group": "billing",
        "topic": "orders",
        "address": grouped.place.address,
        "position": 3,
        "end": 5,
        "lag": 2,
        "epoch": 4,
        "metadata": "m",
    }


def test_how_far_a_group_is_as_a_table(grouped, dafka):
    text = dafka("groups", "billing", *store(grouped)).stdout.decode()
    assert "group billing" in text
    assert grouped.place.address[:8] in text


def test_a_group_of_kafka_clients_is_shown_with_its_offsets(grouped, told, dafka):
    at = KafkaPartition("orders", 3)
    with Producer(grouped.tower) as producer:
        for name, position in ((OFFSETS, 7), (REACHED, 6)):
            key, value = encode(CommitKey("kafka", row_of(name, at)), Commit(position, 4, 1_000))
            producer.send(TOPIC, value, key=key)
    (row,) = told("kafka", *store(grouped))
    assert (row["topic"], row["address"], row["position"]) == ("orders", "orders/3", 7)
    assert (row["end"], row["lag"]) == (None, None)
    assert "Kafka 3" in dafka("groups", "kafka", *store(grouped)).stdout.decode()


def test_a_group_that_nobody_knows(grouped, refused):
    assert "group 'nobody' has no position" in refused(2, "groups", "nobody", *store(grouped))
    assert "no members" in refused(2, "groups", "members", "billing", *store(grouped))
    assert "name topics" in refused(2, "groups", "reset", "nobody", "--to-latest", *both(grouped))
    assert "no such position" in refused(2, "groups", "delete", "nobody", *both(grouped))


def test_a_name_that_no_group_can_have(grouped, refused):
    assert "1 to 249 bytes" in refused(2, "groups", "g" * 250, *store(grouped))


def test_a_store_tells_the_lag_of_every_group(grouped, until):
    with StoreClient(grouped.query) as client:
        address = client.health().identity

    def lag(group):
        labels = {"address": address, "group": group}
        return REGISTRY.get_sample_value("dafka_store_group_lag_records", labels)

    until(lambda: (lag("billing"), lag("audit")) == (2, 0))


def position(told, group, cluster):
    return told(group, *store(cluster))[0]["position"]


def test_a_reset_is_shown_first_and_done_when_told(grouped, told, dafka, tmp_path):
    committed(grouped, ("moved", 3))
    reset = ("reset", "moved", *both(grouped))
    (shown,) = told(*reset, "--to-earliest")
    assert shown == {
        "group": "moved",
        "committed": False,
        "positions": [
            {
                "group": "moved",
                "topic": "orders",
                "address": grouped.place.address,
                "before": 3,
                "position": 0,
            }
        ],
    }
    assert position(told, "moved", grouped) == 3
    done = dafka("groups", *reset, "--shift-by", "-2")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "nothing is changed yet: give --execute to commit this" in text
    (done,) = told(*reset, "--shift-by", "-2", "--execute")
    assert done["committed"]
    assert position(told, "moved", grouped) == 1
    for way, expected in (
        (("--to-latest",), 5),
        (("--like", "billing"), 3),
        (("--by-duration", "1h"), 0),
        (("--to-datetime", "2100-01-01T00:00:00"), 5),
        (("--to-datetime", "2020-01-01T00:00:00+02:00", "--topic", "orders"), 0),
    ):
        told(*reset, *way, "--execute")
        assert position(told, "moved", grouped) == expected, way
    file = tmp_path / "positions.csv"
    file.write_text(f"orders,{grouped.place.address},4\n")
    text = dafka("groups", *reset, "--from-file", str(file), "--execute").stdout.decode()
    assert "committed" in text
    assert position(told, "moved", grouped) == 4
    assert "is there already" in dafka("groups", *reset, "--to-current").stdout.decode()


def test_a_deleted_group_is_listed_no_more_and_may_come_back(grouped, told):
    committed(grouped, ("gone", 3))
    delete = ("delete", "gone", *both(grouped))
    assert told(*delete)[0]["positions"][0]["position"] is None
    assert "gone" in [one["group"] for one in told(*store(grouped))]
    assert told(*delete, "--execute")[0]["committed"]
    assert "gone" not in [one["group"] for one in told(*store(grouped))]
    told("reset", "gone", *both(grouped), "--to-latest", "--topic", "orders", "--execute")
    assert position(told, "gone", grouped) == 5


@pytest.mark.parametrize(
    ("way", "complaint"),
    [
        ((), "say where to go on by one of --to-earliest"),
        (("--to-earliest", "--to-latest"), "say where to go on by one of"),
        (("--by-duration", "2w"), "duration '2w' is none"),
        (("--to-datetime", "yesterday"), "time 'yesterday' is none"),
        (("--from-file", "/nowhere"), "cannot read '/nowhere'"),
    ],
)
def test_what_cannot_be_meant_is_said(grouped, refused, way, complaint):
    assert complaint in refused(2, "groups", "reset", "billing", *both(grouped), *way)


def test_members_are_shown_and_keep_their_positions_while_they_live(grouped, told, dafka, refused):
    there = Cluster(grouped.tower, stores=grouped.query)
    with Consumer(there, "orders", **LIVING) as consumer:
        assert consumer.poll(120) is not None
        consumer.commit()
        (row,) = told("members", "living", *store(grouped))
        assert row.pop("member")
        assert row.pop("silent_s") < 10
        assert row == {
            "group": "living",
            "topics": ["orders"],
            "partitions": 1,
            "alive": True,
            "generation": 1,
        }
        for command in (("reset", "living", "--to-latest"), ("delete", "living")):
            words = ("groups", *command, *both(grouped), "--execute")
            assert "has 1 live member, which would go on" in refused(2, *words)
    told("reset", "living", *both(grouped), "--to-latest", "--execute")
    assert position(told, "living", grouped) == 5
    with Consumer(there, "orders", **LIVING) as consumer:
        assert consumer.poll(1.5) is None, "it begins where it was told to"
