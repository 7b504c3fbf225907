"""The example of schemas on every cluster, as docs/schemas.md has it."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from dafka.cluster import Cluster
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.process.web import WebServer, bind
from dafka.schemas.rest import application
from dafka.schemas.schema_log import SchemaLog
from dafka.schemas.service import Service
from dafka.storage.lmdb_log import Durability
from distributor.link.node import LinkNode
from distributor.schemas.node import SchemaNode
from distributor.schemas.site import sites_of
from topology import load, plan

pytestmark = [pytest.mark.net, pytest.mark.slow]

ROOT = Path(__file__).parent.parent
PORTS = ("18100", "18102", "8081", "18110", "18112", "8082")


@pytest.fixture
def topology_file(tmp_path, free_ports):
    """The file of the example on ports of its own."""
    text = (ROOT / "config/schemas.yaml").read_text()
    first = free_ports(10)
    # A tower takes the next port too.
    for port, ours in zip(PORTS, (0, 2, 3, 4, 6, 7), strict=True):
        text = text.replace(f":{port}", f":{first + ours}")
    file = tmp_path / "schemas.yaml"
    file.write_text(text.replace("data/schemas", str(tmp_path)))
    return file


@pytest.fixture
def running(topology_file):
    """All that `distributor up` would run, in this process."""
    topology = load(topology_file)
    with ExitStack() as opened:
        for cluster in topology.clusters:
            opened.enter_context(Tower(cluster.towers[0]))
            (store,) = cluster.stores
            options = {"query": store.query, "durability": Durability.OS}
            opened.enter_context(Store(store.data, Cluster.declared(cluster), **options))
            log = SchemaLog(Cluster.declared(cluster))
            opened.callback(log.close)
            bound, _ = bind(cluster.registry.removeprefix("http://"), "the registry")
            service = Service(log, cluster.name, cluster.id)
            opened.enter_context(WebServer(application(service), bound))
        for link in plan(topology).links:
            opened.callback(LinkNode(topology, link).close)
        for cluster in topology.clusters:
            opened.callback(SchemaNode(topology, cluster.name).close)
        yield topology


def test_the_example_of_schemas_on_every_cluster_runs(running, topology_file, until, capsys):
    page = (ROOT / "docs/schemas.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (example,) = [block for block in blocks if "confluent_kafka.schema_registry" in block]
    example = example.replace("config/schemas.yaml", str(topology_file))
    with ExitStack() as opened:
        sites = sites_of(running)
        for site in sites:
            opened.callback(site.close)
        until(lambda: sites[0].read() and sites[0].primary)
        # The last loop goes on for ever, as a consumer does.
        exec(compile(f"{example}        break\n", "schemas.md", "exec"), {})
    assert capsys.readouterr().out == "hello\n"
