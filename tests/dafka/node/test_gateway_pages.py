"""What people are shown of a whole gateway in this process, with a client of Kafka's."""

from __future__ import annotations

import confluent_kafka
import pytest
from prometheus_client import REGISTRY

from dafka.node.kafka_server import KafkaServer
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

WAIT_S = 120
ASKED = {"topic": "orders"}


@pytest.fixture
def there(tmp_path, free_ports, reopened, until):
    cluster = SmallCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    cluster.store()
    place = cluster.place(None, {"stores": cluster.queries})[0]
    port = free_ports(1)
    with KafkaServer(place, "127.0.0.1", port) as server:
        until(lambda: not server.unready())
        settings = {"bootstrap.servers": f"127.0.0.1:{port}", "client.id": "me"}
        producer = confluent_kafka.Producer(settings)
        for value in (b"a", b"b", b"c"):
            producer.produce("orders", value)
        assert producer.flush(WAIT_S) == 0
        yield server, settings, f"127.0.0.1:{port}"
    cluster.close()


def test_topics_ledgers_groups_and_clients(there, until):
    server, settings, endpoint = there
    pages = server.pages
    assert pages["/topics"]({}) == {"orders": 1}
    assert pages["/topics"](ASKED)["partitions"][0] | {"epoch": 0} == {
        "partition": 0,
        "leader": endpoint,
        "epoch": 0,
        "state": "serving",
        "start": 0,
        "end": 3,
    }
    ledger = pages["/ledger"](ASKED | {"partition": "0"})
    assert (ledger["start"], ledger["end"], ledger["runs"]) == (0, 3, len(ledger["last"]))
    assert sum(one["records"] for one in ledger["last"]) == 3
    assert pages["/ledger"](ASKED | {"partition": "7"}) == {"error": "not_leader_or_follower"}

    before = REGISTRY.get_sample_value("dafka_gateway_group_rebalances_total")
    group = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings | group)
    consumer.subscribe(["orders"])
    first = consumer.consume(1, WAIT_S)[0]
    consumer.commit(first, asynchronous=False)
    assert REGISTRY.get_sample_value("dafka_gateway_group_rebalances_total") == before + 1
    shown = pages["/groups"]({"group": "g"})
    assert (shown["state"], shown["protocol"]) == ("Stable", "range")
    assert shown["members"][0]["client_id"] == "me"
    committed = {"topic": "orders", "partition": 0, "offset": 1, "lag_records": 2}
    assert shown["commits"] == [committed]
    until(lambda: pages["/groups"]({})["g"]["lag_records"] == 2)
    assert pages["/groups"]({})["g"] == {"state": "Stable", "members": 1, "lag_records": 2}
    assert {one["client_id"] for one in pages["/connections"]({})} == {"me"}
    consumer.close()
    assert pages["/groups"]({"group": "x"}) == {"error": "group_id_not_found"}


@pytest.mark.parametrize(
    ("path", "asked", "says"),
    [
        ("/topics", {"topic": "x"}, "no topic 'x'"),
        ("/ledger", {}, "topic and the number of a partition are needed"),
        ("/ledger", {"topic": "orders", "partition": "-1"}, "are needed"),
    ],
)
def test_what_cannot_be_shown_is_said(there, path, asked, says):
    with pytest.raises(ValueError, match=says):
        there[0].pages[path](asked)
