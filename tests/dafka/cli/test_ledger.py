"""`dafka gateway ledger check`, over real stores and a gateway."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID

import pytest
from typer.testing import CliRunner

from dafka.cli.main import app
from dafka.errors import MisuseError, QueryError
from dafka.gateway.broker import Topic
from dafka.gateway.catalog import CATALOG, encoded_topic
from dafka.gateway.lines import LEDGER, chain_address, encoded
from dafka.gateway.share import batches_of
from dafka.model import Partition
from dafka.node.gateway import GatewayNode
from dafka.storage.lmdb_log import Durability, LmdbLog
from tests.support.gateways import ORDERS, appended, batch_of, made
from tests.support.ledger_chains import chain
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    cluster = SmallCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    cluster.store()
    yield cluster
    cluster.close()


def check(cluster, *words):
    return CliRunner().invoke(
        app, ["gateway", "ledger", "check", *words, "--store", cluster.query, "--timeout", "5"]
    )


def serve(cluster, port):
    """Let a gateway take in three records."""

    async def scenario(broker):
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a", b"b", b"c"))

    place, _ = cluster.place(None, {"stores": cluster.queries})
    with GatewayNode(place, "127.0.0.1", port) as broker:
        asyncio.run(scenario(broker))


def test_what_gateways_have_written_is_told_and_found_right(cluster, free_ports):
    serve(cluster, free_ports(1))
    done = check(cluster, "--all", "--json")
    assert done.exit_code == 0, done.output
    rows = {row["topic"]: row for row in map(json.loads, done.output.splitlines())}
    assert rows.keys() == {"__changes", "__topics", "orders"}
    orders = rows["orders"]
    assert (orders["start"], orders["stored"], orders["end"], orders["holes"]) == (0, 3, 3, 0)
    assert orders["problems"] == []
    assert "none" in check(cluster, "orders").output


def test_what_is_wrong_is_said_and_is_exit_code_1(tmp_path, free_ports, reopened):
    cluster = SmallCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    lines = chain(9, ("C" * 32, 0, 4))
    log = LmdbLog(cluster.data(), durability=Durability.OS)
    told = batches_of(
        Partition(CATALOG, "A" * 32), 0, [encoded_topic(Topic("orders", 1, UUID(int=7), {}))]
    )
    place = Partition(LEDGER, chain_address("A" * 32, ORDERS, 9))
    log.append([*told, *batches_of(place, 0, [encoded(line, ORDERS) for line in lines])])
    log.close()
    cluster.store()
    done = check(cluster, "orders", "--json")
    assert done.exit_code == 1
    (row,) = map(json.loads, done.output.splitlines())
    assert (row["epoch"], row["stored"], row["end"]) == (9, 0, 4)
    assert "records of CCC" in row["problems"][0]
    cluster.close()


def test_without_gateways_there_is_nothing_to_check(cluster):
    for words, says in ((["--all"], "no gateway has served"), (["x"], "of topic 'x'")):
        done = check(cluster, *words)
        assert isinstance(done.exception, MisuseError)
        assert says in str(done.exception)
    assert "name a topic, or --all" in str(check(cluster).exception)


def test_stores_that_do_not_answer_are_no_ledger(free_ports):
    query = f"tcp://127.0.0.1:{free_ports(1)}"
    done = CliRunner().invoke(
        app, ["gateway", "ledger", "check", "--all", "--store", query, "--timeout", "0.2"]
    )
    assert isinstance(done.exception, QueryError)
