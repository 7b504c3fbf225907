"""Nodes as those of the C implementation, in linked clusters of real processes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from dafka.errors import QueryError
from dafka.model import TowerEndpoints
from dafka.query.client import StoreClient
from distributor.verify.compare import verify
from tests.support import c_nodes
from topology import load

pytestmark = [pytest.mark.net, pytest.mark.slow]

VALUES = [b"value %d" % number for number in range(3_000)]


@pytest.fixture
def linked(topology_file):
    """Two clusters of C's dialect; the first has two stores."""
    declared = yaml.safe_load(topology_file.read_text())
    declared["clusters"] = declared["clusters"][:2]
    for cluster in declared["clusters"]:
        cluster["wire"] = "libdafka"
    (store,) = declared["clusters"][0]["stores"]
    host, port = store["query"].rsplit(":", 1)
    other = {"query": f"{host}:{int(port) + 1}", "data": f"{store['data']}-b"}
    declared["clusters"][0]["stores"].append(other)
    declared["tree"] = {"level": 1, "children": [one["name"] for one in declared["clusters"]]}
    topology_file.write_text(yaml.safe_dump(declared))
    return load(topology_file)


def records_at(query):
    try:
        with StoreClient(query, timeout_ms=1_000) as client:
            return sum(head + 1 for head in client.heads().values())
    except QueryError:
        return 0


def test_what_a_c_producer_sends_is_the_same_record_everywhere(
    linked, request, wait_until, tmp_path
):
    up = request.getfixturevalue("up")
    c1, c2 = linked.clusters
    stores = [store.query for cluster in (c1, c2) for store in cluster.stores]
    producer = c_nodes.Producer(b"orders", *TowerEndpoints.parse(c1.towers[0]))
    reader = c_nodes.Consumer(b"orders", *TowerEndpoints.parse(c2.towers[0]))
    reader.start()
    producer.start()
    try:
        # In pieces, and with the link away for some of them: it finds them with other times.
        chance = random.Random(1)
        sent = 0
        while sent < len(VALUES):
            piece = VALUES[sent : sent + chance.randint(1, 400)]
            producer.send(*piece)
            sent += len(piece)
            if chance.random() < 0.3:
                up.kill_one("run", "--cluster c1")
            wait_until(lambda sent=sent: records_at(stores[0]) >= sent, f"{sent} are stored")
        for query in stores:
            wait_until(lambda query=query: records_at(query) == sent, f"all are at {query}")
        wait_until(lambda: len(reader.delivered) == sent, "a C consumer has all")
        assert [content for _, _, content in reader.delivered] == VALUES
    finally:
        producer.stop()
        reader.stop()
    verdict = verify(linked, deep=True)
    assert verdict.equal, verdict
    logs = "".join(log.read_text() for log in Path(tmp_path / "logs").glob("*.log"))
    assert "same name, other record" not in logs
