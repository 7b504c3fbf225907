"""What peers that read nothing, and name what is not there, cost a real store, and cost others."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from dafka.model import TowerEndpoints
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.query import messages as query
from dafka.query.client import StoreClient
from dafka.transport import sockets
from dafka.wire import messages, rfc46
from topology import load

pytestmark = [pytest.mark.net, pytest.mark.slow]

RECORDS = 48
GROWTH_MIB_MAX = 100
MANY = 40


def resident_mib(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [one for one in lines if one.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


class Greedy:
    """Connects to a node as often as it likes, asks for everything and reads nothing."""

    def __init__(self, tower, stack):
        self._tower = TowerEndpoints.parse(tower)
        self._stack = stack
        self._publisher = stack.enter_context(sockets.publisher())
        port = self._publisher.bind_to_random_port("tcp://127.0.0.1")
        self._beacon = [b"B", b"GREEDY", b"127.0.0.1", str(port).encode()]
        self._beacons = self._socket(zmq.XPUB, self._tower.inbound)

    def _socket(self, kind, endpoint):
        """A socket that takes as little as it can."""
        socket = self._stack.enter_context(zmq.Context.instance().socket(kind))
        socket.set(zmq.RCVHWM, 1)
        socket.set(zmq.RCVBUF, 4_096)
        socket.connect(endpoint)
        return socket

    def endpoints(self):
        """Where the nodes of the mesh publish."""
        heard = self._socket(zmq.SUB, self._tower.outbound)
        heard.subscribe(b"B")
        found = set()
        while heard.poll(2_500):
            _, address, *where = heard.recv_multipart()
            if address != b"GREEDY" and where[0].decode() in found:
                break
            found.add(where[0].decode())
        return found

    def asks(self, endpoint, question):
        for _ in range(MANY):
            dealer = self._socket(zmq.DEALER, endpoint)
            for number in range(12):
                dealer.send_multipart((number.to_bytes(8, "big"), question))

    def subscribes(self):
        for endpoint in self.endpoints():
            for _ in range(MANY // 4):
                self._socket(zmq.SUB, endpoint).subscribe(b"")

    def joins(self, wait_until):
        """Let the nodes of the mesh hear what it says."""
        subscribed = []

        def heard():
            self._beacons.send_multipart(self._beacon)
            while self._publisher.poll(100):
                subscribed.append(self._publisher.recv())
            return b"\1F" in subscribed  # a store listens for FETCH

        wait_until(heard, "the store listens to whoever comes")

    def says(self, message):
        self._publisher.send_multipart(rfc46.encode(message))


def test_who_reads_nothing_and_names_what_is_not_there_costs_little(topology_file, up, wait_until):
    cluster = load(topology_file).clusters[0]
    (tower,), (spec,) = cluster.towers, cluster.stores
    with ExitStack() as stack, Producer(tower) as producer:
        for number in range(RECORDS):
            producer.send("flights", bytes([number]) * (1 << 20))
        producer.flush(60)
        with StoreClient(spec.query) as client:
            ((place, held),) = client.ranges("flights").items()
            assert sum(1 for _ in client.scan(place, 0, held.stop))
        (store,) = [
            pid for words, pid in up.children().items() if "store" in words and spec.query in words
        ]
        before = resident_mib(store)

        greedy = Greedy(tower, stack)
        names = (place.topic.encode(), place.address.encode())
        greedy.asks(spec.query, query.encode(query.ReadRequest(*names, 0, 1_000, 8 << 20)))
        greedy.joins(wait_until)
        greedy.subscribes()
        for number in range(20_000):
            greedy.says(messages.Head("flights", f"{number:032}", 1 << 40))
            if not number % 20:
                greedy.says(messages.Fetch(*place, f"{number:032}", 0, 1_000))

        # Others are served meanwhile.
        with StoreClient(spec.query, timeout_ms=60_000) as client:
            assert client.health().records == RECORDS
        with Consumer(tower, topics=["orders"], start="earliest") as consumer:
            producer.send("orders", b"fresh")
            assert consumer.poll(120).value == b"fresh"
        producer.flush(20)
        assert resident_mib(store) - before < GROWTH_MIB_MAX, "and it is the same process"
