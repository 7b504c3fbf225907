"""Our nodes in one mesh with nodes that behave as those of the C implementation do."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress

import pytest
import zmq
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.model import Batch, Partition, TowerEndpoints
from dafka.node.consumer import Consumer
from dafka.node.loop import NodeFailedError
from dafka.node.mirror import Mirror
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.process.clock import wall_ms
from dafka.query.client import StoreClient
from dafka.records.batch import BatchBuilder, enclosed, records_of
from dafka.storage.lmdb_log import Durability
from tests.support import c_nodes, c_tower

pytestmark = pytest.mark.net

WAIT_S = 120
"""For a loaded machine."""

VALUES = [f"value {number}".encode() for number in range(300)] + [b""]
"""An empty one, and more than what a C producer keeps together."""


class Mixed:
    """A tower, and what a test asks for, by make: `c` or `py`."""

    def __init__(self, directory, free_ports, reopened, until, tower="py"):
        self._directory = directory
        self._until = until
        self._reopened = reopened
        self._c_stores = []
        self._stack = ExitStack()
        first = free_ports(3)
        self.endpoint = f"tcp://127.0.0.1:{first}"
        self.query = f"tcp://127.0.0.1:{first + 2}"
        self._towers = tuple(TowerEndpoints.parse(self.endpoint))
        if tower == "py":
            self._stack.enter_context(Tower(self.endpoint))
        else:
            self._started(c_tower.Tower(*self._towers))

    def close(self):
        self._stack.close()

    def _started(self, node):
        node.start()
        self._stack.callback(node.stop)
        return node

    def store(self, make):
        if make == "c":
            self._c_stores.append(c_nodes.Store(*self._towers))
            return self._started(self._c_stores[-1])
        data = self._directory / "store"
        settings = {"query": self.query, "durability": Durability.OS}
        there = Cluster(self.endpoint, wire="libdafka")
        store = self._reopened(lambda: Store(data, there, **settings))
        return self._stack.enter_context(store)

    def listener(self, topic="hello"):
        return self._started(HeadsHeard(topic.encode(), *self._towers))

    def pretender(self):
        return self._started(Pretender(*self._towers))

    def publish(self, make, values, topic="hello", heard=lambda: True, **settings):
        """Publish, wait until a store has everything and it was heard; the producer's address.

        A C consumer that connects too late to hear a producer hears of it by its next HEAD.
        """
        if make == "c":
            node = self._started(c_nodes.Producer(topic.encode(), *self._towers))
            node.send(*values)
            self._until(lambda: self._has_all_of(node) and heard(), WAIT_S)
            node.stop()
            return node.uuid.decode()
        began = time.monotonic()
        with Producer(Cluster(self.endpoint, wire="libdafka"), **settings) as producer:
            for store in self._c_stores:  # it acknowledges once, see below
                self._until(lambda store=store: store.has_met_someone_since(began), WAIT_S)
            producer.send_many(topic, values)
            producer.flush(WAIT_S)
            self._until(heard, WAIT_S)
            return producer.address

    def _has_all_of(self, producer):
        """A C store acknowledges once: a producer that connects to it later never learns of it."""
        return producer.all_acknowledged or any(
            store.has_all_of(producer) for store in self._c_stores
        )

    def consumer(self, make, topic="hello", **settings):
        """A function that returns what has been consumed so far."""
        if make == "c":
            node = self._started(c_nodes.Consumer(topic.encode(), *self._towers, **settings))
            return lambda: [content for _, _, content in node.delivered]
        consumer = self._stack.enter_context(
            Consumer(Cluster(self.endpoint, wire="libdafka"), topic)
        )
        found = []

        def taken():
            while (record := consumer.poll(0.05)) is not None:
                found.append(record.value)
            return found

        return taken


@pytest.fixture
def cluster(request, tmp_path, free_ports, reopened, until):
    cluster = Mixed(tmp_path, free_ports, reopened, until, getattr(request, "param", "py"))
    yield cluster
    cluster.close()


MAKES = ("c", "py")


@pytest.mark.parametrize("consumer", MAKES)
@pytest.mark.parametrize("store", MAKES)
@pytest.mark.parametrize("producer", MAKES)
def test_every_role_reads_what_every_other_wrote(cluster, until, producer, store, consumer):
    cluster.store(store)
    early = cluster.consumer(consumer)
    cluster.publish(producer, VALUES, heard=lambda: early() == VALUES)
    late = cluster.consumer(consumer)  # when the producer is gone
    until(lambda: late() == VALUES, WAIT_S)
    assert early() == VALUES


@pytest.mark.parametrize("cluster", ["c"], indirect=True)
def test_our_nodes_find_each_other_and_c_nodes_through_a_c_tower(cluster, until):
    cluster.store("py")
    ours, theirs = cluster.consumer("py"), cluster.consumer("c")
    cluster.publish("py", VALUES)
    until(lambda: ours() == theirs() == VALUES, WAIT_S)


@pytest.mark.parametrize("content", ["classic", "raw"])
@pytest.mark.parametrize("make", MAKES)
def test_whatever_a_producer_sends_a_consumer_gets_the_values(cluster, until, make, content):
    cluster.store("py")
    early = cluster.consumer(make)
    cluster.publish("py", VALUES, content=content)
    late = cluster.consumer(make)
    until(lambda: early() == late() == VALUES, WAIT_S)


def test_a_c_consumer_fetches_what_is_sent_in_batches_only(cluster, until):
    cluster.store("py")
    theirs = cluster.consumer("c")
    with Producer(Cluster(cluster.endpoint, wire="libdafka"), content="batches") as producer:
        sent = []

        def all_there():
            # Its FETCH may be lost while connections are being made; the next batch repeats it.
            sent.append(f"value {len(sent)}".encode())
            producer.send("hello", sent[-1])
            producer.flush(10)
            return len(sent) > 20 and len(theirs()) > 20

        until(all_there)
        assert theirs() == sent[: len(theirs())]


def test_a_classic_record_keeps_its_key_for_those_who_know_batches(cluster, until):
    cluster.store("py")
    theirs = cluster.consumer("c")
    with (
        Consumer(Cluster(cluster.endpoint, wire="libdafka"), "hello") as ours,
        Producer(Cluster(cluster.endpoint, wire="libdafka"), content="classic") as producer,
    ):
        producer.send("hello", b"value", key=b"key", headers=[("name", b"x")], timestamp_ms=7)
        producer.flush(10)
        record = ours.poll(120)
        assert (record.key, record.value, record.timestamp_ms) == (b"key", b"value", 7)
        assert record.headers == (("name", b"x"),)
        assert ours.poll(0.3) is None
    until(lambda: theirs() == [b"value"])


def test_bare_values_become_records_of_the_time_they_arrive(cluster, until):
    cluster.store("py")
    before = wall_ms()
    address = cluster.publish("c", VALUES[:3])
    with StoreClient(cluster.query) as client:
        batches = client.read(Partition("hello", address), 0)
    records = [record for batch in batches for record in records_of(batch)]
    assert [(record.sequence, record.key, record.value) for record in records] == [
        (number, None, value) for number, value in enumerate(VALUES[:3])
    ]
    assert all(before <= record.timestamp_ms <= wall_ms() for record in records)


def test_two_stores_of_different_make_both_store_and_both_serve(cluster, until):
    c_store = cluster.store("c")
    cluster.store("py")
    # A C store that lacks something learns of it by the next HEAD only.
    cluster.publish("c", VALUES, heard=lambda: list(c_store.log.values()) == [VALUES])
    for make in MAKES:
        until(cluster_reads(cluster.consumer(make)), WAIT_S)


def cluster_reads(taken):
    return lambda: taken() == VALUES


def test_our_store_takes_from_a_c_store_what_it_missed(cluster, until):
    cluster.store("c")
    address = cluster.publish("c", VALUES)  # and is gone
    cluster.store("py")
    with StoreClient(cluster.query) as client:
        until(lambda: client.heads().get(("hello", address)) == len(VALUES) - 1)


def test_a_c_consumer_far_behind_gets_everything(cluster, until):
    large = [b"%07d" % number + bytes(1_000_000) for number in range(40)]
    cluster.store("py")
    cluster.publish("py", large, content="raw")
    late = cluster.consumer("c")
    until(lambda: len(late()) == len(large), WAIT_S)
    assert late() == large


@pytest.mark.parametrize("make", [Consumer, Producer])
def test_a_node_of_the_other_dialect_does_not_start_and_breaks_nobody(cluster, until, make):
    cluster.store("c")
    theirs = cluster.consumer("c")
    cluster.publish("c", VALUES)
    topics = ["hello"] if make is Consumer else []
    with (
        pytest.raises(NodeFailedError, match="would break at what this one sends: say wire lib"),
        make(cluster.endpoint, *topics) as ours,
    ):
        until(lambda: act(ours), WAIT_S)
    until(lambda: theirs() == VALUES)  # and no node of C's has seen a frame that it does not know


def test_a_store_that_says_nothing_among_others_goes_on_and_breaks_nobody(
    cluster, until, tmp_path, free_ports
):
    cluster.store("c")
    theirs = cluster.consumer("c")
    query = f"tcp://127.0.0.1:{free_ports(1)}"
    with Store(tmp_path / "ours", cluster.endpoint, query=query, durability=Durability.OS) as store:
        until(lambda: unread(store) == 1, WAIT_S)
        cluster.publish("c", VALUES)
        until(lambda: theirs() == VALUES)
        assert store.unwell() == ""


def test_a_stranger_who_writes_as_c_does_ends_no_store(cluster, until, tmp_path, free_ports):
    query = f"tcp://127.0.0.1:{free_ports(1)}"
    tmp_path /= "ours"
    with Store(tmp_path, cluster.endpoint, query=query, durability=Durability.OS) as store:
        cluster.pretender()  # the first to come
        until(lambda: unread(store) == 1, WAIT_S)
        with Producer(cluster.endpoint) as producer, StoreClient(query) as client:
            producer.send_many("hello", VALUES)
            producer.flush(WAIT_S)
            assert client.heads()[("hello", producer.address)] == len(VALUES) - 1
        until(lambda: unread(store) == 0, WAIT_S)
        assert store.unwell() == ""


def unread(store):
    labels = {"role": "store", "address": store.address}
    return REGISTRY.get_sample_value("dafka_unread_meshes", labels)


def act(ours):
    if isinstance(ours, Consumer):
        ours.poll(0.05)
    else:
        ours.send("hello", b"value")


def test_topics_that_begin_alike_stay_apart_for_our_consumers(cluster, until):
    cluster.store("c")
    ours = cluster.consumer("py", topic="he")
    cluster.publish("c", [b"other"], topic="hello")
    cluster.publish("c", [b"mine"], topic="he")
    until(lambda: ours() == [b"mine"])


def test_a_c_consumer_that_wants_only_what_is_new_gets_that(cluster, until):
    cluster.store("py")
    cluster.publish("py", [b"old"])
    theirs = cluster.consumer("c", earliest=False)
    with Producer(Cluster(cluster.endpoint, wire="libdafka"), content="classic") as producer:

        def heard():
            producer.send("hello", b"new")
            producer.flush(10)
            return b"new" in theirs()

        until(heard)
    assert set(theirs()) == {b"new"}


class Pretender(c_nodes.Node):
    """A stranger that subscribes as a C consumer does, and breaks at nothing."""

    def begin(self):
        yield b"D" + self.uuid

    def _drain(self):
        with suppress(zmq.Again):
            while True:
                self.sub.recv_multipart(zmq.NOBLOCK)


class HeadsHeard(c_nodes.Node):
    """A C node that only listens for HEAD."""

    def __init__(self, topic, *towers):
        super().__init__(*towers)
        self._topic = topic
        self.sequence = -1

    def begin(self):
        yield b"H" + self._topic

    def received(self, fields, content):
        _, _, self.sequence = fields.string(), fields.string(), fields.number_8()


def test_c_nodes_hear_heads_of_what_a_mirror_has_brought_though_it_is_stored(cluster, until):
    cluster.store("py")
    node = cluster.listener()

    def brought(sequence):
        builder = BatchBuilder(1_000)
        builder.append(0, None, b"copied", ())
        content = enclosed(builder.build(), sequence)
        mirror.publish(Batch(Partition("hello", "AB" * 16), sequence, 1, content), WAIT_S)
        mirror.flush(WAIT_S)

    mirror = Mirror(Cluster(cluster.endpoint, wire="libdafka"))
    try:
        brought(0)
        until(lambda: node.sequence == 0, WAIT_S)
        brought(1)  # everybody is connected, so it is stored long before a HEAD is due
        until(lambda: node.sequence == 1)
    finally:
        mirror.close()
