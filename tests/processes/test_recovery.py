"""Real nodes over real sockets, after something went wrong: everybody gets everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from dafka.model import Partition
from dafka.query.client import StoreClient
from dafka.storage.lmdb_log import LmdbLog
from dafka.transport.mesh import Mesh
from dafka.wire import messages
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

SEND_AND_DIE = """
import os, signal, sys
from dafka import Producer
tower, topic, name, count = sys.argv[1:]
producer = Producer(tower)
for first in range(0, int(count), 1_000):
    numbers = range(first, min(first + 1_000, int(count)))
    producer.send_many(topic, [f"{name}-{number}".encode() for number in numbers])
producer.flush(120)
print(producer.address, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


class RecoveryCluster(SmallCluster):
    """A tower; stores A and B that come and go, each with data of its own."""

    def store(self, name="A", **settings):
        return super().store("AB".index(name), **settings)

    def dead(self, topic, name, count):
        """The partition of a producer that was killed once everything was stored."""
        done = subprocess.run(
            [sys.executable, "-c", SEND_AND_DIE, self.endpoint, topic, name, str(count)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        return Partition(topic, done.stdout.decode().strip())

    def ends(self, name):
        """What a store has, by partition."""
        with StoreClient(self.queries["AB".index(name)], 5_000) as client:
            return {partition: kept.stop for partition, kept in client.ranges().items()}


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    cluster = RecoveryCluster(tmp_path, free_ports, reopened, stores=2)
    cluster.start_tower()
    yield cluster
    cluster.close()


def values(consumer, count):
    """The values of the next records, by partition; each partition must be dense."""
    found, ends = {}, {}
    while sum(map(len, found.values())) < count:
        batch = next(consumer.batches())
        partition = Partition(batch.topic, batch.address)
        assert batch.sequence == ends.get(partition, batch.sequence)
        ends[partition] = batch.sequence + batch.count
        found.setdefault(partition, []).extend(batch.values())
    return found


def made(name, count, start=0):
    return [f"{name}-{number}".encode() for number in range(start, start + count)]


def test_a_dead_producers_partition_is_read_to_its_end(cluster, request):
    count = request.config.getoption("--dead-records")
    cluster.store()
    partition = cluster.dead("orders", "p", count)
    consumer = cluster.consumer("orders")
    end = 0
    while end < count:
        batch = next(consumer.batches())
        assert (batch.topic, batch.address, batch.sequence) == (*partition, end)
        assert batch.values() == made("p", batch.count, end)
        end += batch.count
    assert consumer.poll(0.2) is None


def test_a_slow_consumer_loses_nothing_and_holds_nobody_up(cluster):
    cluster.store()
    slow = cluster.consumer("orders", buffer_bytes_max=100_000)
    fast = cluster.consumer("orders")
    producer = cluster.producer()
    partition = Partition("orders", producer.address)
    sent = made("a record of some length, " * 5, 40_000)
    producer.send_many("orders", sent)
    # The slow one has not taken a single record yet.
    producer.flush(20)
    assert values(fast, len(sent)) == {partition: sent}
    assert values(slow, len(sent)) == {partition: sent}


def test_a_store_that_joins_late_gets_everything(cluster, until):
    early = cluster.store("A")
    producer = cluster.producer()
    producer.send_many("orders", made("p", 20_000))
    producer.flush(20)
    cluster.store("B")
    producer.send_many("orders", made("p", 5_000, 20_000))
    producer.flush(20)
    ends = {Partition("orders", producer.address): 25_000}
    until(lambda: cluster.ends("A") == cluster.ends("B") == ends)
    early.close()  # from here on only the late one can serve
    found = values(cluster.consumer("orders"), 25_000)
    assert found == {Partition("orders", producer.address): made("p", 25_000)}


def test_a_store_that_was_down_while_producers_died_gets_their_records(cluster, until):
    cluster.store("A")
    cluster.store("B").close()
    ends = {cluster.dead("orders", name, 1_000): 1_000 for name in "pq"}
    cluster.store("B")
    until(lambda: cluster.ends("B") == cluster.ends("A") == ends)


def test_two_stores_with_different_holes_repair_each_other(cluster, until):
    one = cluster.store("A")
    first = cluster.dead("orders", "p", 1_000)
    one.close()
    other = cluster.store("B")
    second = cluster.dead("orders", "q", 1_000)
    other.close()
    cluster.store("A")
    cluster.store("B")
    ends = {first: 1_000, second: 1_000}
    until(lambda: cluster.ends("A") == cluster.ends("B") == ends)
    found = values(cluster.consumer("orders"), 2_000)
    assert found == {first: made("p", 1_000), second: made("q", 1_000)}


def test_a_late_consumer_is_told_where_the_log_starts(cluster, caplog):
    store = cluster.store()
    partition = cluster.dead("orders", "p", 20_000)
    store.close()
    log = LmdbLog(cluster.data(0))
    log.append([], trims={partition: 9_000})
    start = log.extents()[partition].start
    log.close()
    assert 0 < start <= 9_000
    cluster.store()
    caplog.set_level("INFO", logger="dafka.node.turn")
    consumer = cluster.consumer("orders")
    assert values(consumer, 20_000 - start) == {partition: made("p", 20_000 - start, start)}
    (told,) = [one for one in caplog.records if "begins at its log start" in one.message]
    assert (told.start, told.end) == (0, start)


def test_a_lost_last_ack_is_said_again(cluster, monkeypatch):
    publish = Mesh.publish
    lost = []

    def losing(mesh, message):
        if isinstance(message, messages.Ack) and not lost:
            lost.append(message)
            return None
        return publish(mesh, message)

    monkeypatch.setattr(Mesh, "publish", losing)
    cluster.store()
    producer = cluster.producer()
    assert producer.send("orders", b"the only one").result(120).sequence == 0
    assert [(ack.topic, ack.address, ack.sequence) for ack in lost] == [
        ("orders", producer.address, 0)
    ]
