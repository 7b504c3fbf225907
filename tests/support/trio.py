"""Three clusters with native links between them, in this process."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

from dafka.cluster import Cluster
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.query.client import StoreClient
from dafka.records.batch import records_of
from dafka.storage.lmdb_log import Durability
from distributor.demo.dataset import rows
from distributor.link.node import LinkNode
from topology import load, plan


def some_flights():
    """Every 50th of a month."""
    month = (row for row in rows(27_000) if row.topic == "flights")
    return list(islice(month, 0, None, 50))


class Trio:
    """c1 and c2 under level 1, and c3 beside them under level 2."""

    def __init__(self, directory, first):
        lines = ["version: 1", "name: trio", "clusters:"]
        for number in (1, 2, 3):
            port = first + 3 * number - 3
            stores = f'[{{query: "tcp://127.0.0.1:{port + 2}", data: "{directory}/{number}"}}]'
            towers = f'["tcp://127.0.0.1:{port}"]'
            lines.append(
                f"  - {{name: c{number}, id: {number}, towers: {towers}, stores: {stores}}}"
            )
        lines.append("tree: {level: 2, children: [{level: 1, children: [c1, c2]}, c3]}")
        self.file = str(directory / "trio.yaml")
        Path(self.file).write_text("\n".join(lines))
        self.topology = load(self.file)

    @contextmanager
    def running(self, flights, until):
        """All of it runs, and c2 has these flights."""
        with ExitStack() as stack:
            self._run(stack)
            self.publish(flights)
            until(lambda: self.held("c2", "flights") == len(flights))
            yield self

    def _run(self, stack):
        for cluster in self.topology.clusters:
            stack.enter_context(Tower(cluster.towers[0]))
            (spec,) = cluster.stores
            stack.enter_context(
                Store(
                    Path(spec.data),
                    Cluster.declared(cluster),
                    query=spec.query,
                    durability=Durability.OS,
                )
            )
        for link in plan(self.topology).links:
            stack.callback(LinkNode(self.topology, link).close)

    def publish(self, flights):
        with Producer(self.topology.cluster("c1").towers[0]) as producer:
            for row in flights:
                producer.send(row.topic, row.value, key=row.key)

    def held(self, cluster, topic):
        with StoreClient(self.topology.cluster(cluster).stores[0].query) as client:
            return sum(head + 1 for head in client.heads(topic).values())

    def records(self, cluster, topic):
        with StoreClient(self.topology.cluster(cluster).stores[0].query) as client:
            return [
                record
                for partition, head in client.heads(topic).items()
                for batch in client.scan(partition, 0, head + 1)
                for record in records_of(batch)
            ]
