"""A producer with a spool dies as processes do, and the next one goes on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from dafka.errors import (
    AddressInUseError,
    BufferFullError,
    MisuseError,
    NotStoredError,
    StorageError,
)
from dafka.model import Partition
from dafka.node.producer import Producer
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

SEND_FOR_EVER = """
import sys
from itertools import count
from dafka import Producer
tower, spool, name = sys.argv[1:]
producer = Producer(tower, spool=spool, linger_ms=1)
for number in count():
    producer.send("orders", f"{name}-{number}".encode())
    if number % 7 == 0:
        producer.persist()
        print(number, flush=True)
"""


class SpoolCluster(SmallCluster):
    """A tower, a store when it is asked for, and the spool of its one producer after another."""

    def __init__(self, directory, *rest):
        super().__init__(directory, *rest)
        self.spool = directory / "spool"

    def producer(self, **settings):
        return super().producer(spool=self.spool, **settings)

    def killed_while_sending(self, name, seconds):
        """Run a producer, kill -9 it after a while; returns the last number known to be safe."""
        child = subprocess.Popen(
            [sys.executable, "-c", SEND_FOR_EVER, self.endpoint, str(self.spool), name],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        said = (first + child.stdout.read()).split(b"\n")[:-1]
        child.wait()
        child.stdout.close()
        return int(said[-1])

    def records(self, count, topic="orders"):
        """The first records of a topic, then whatever else comes within half a second."""
        with self.consumer(topic) as consumer:
            found = []
            deadline = time.monotonic() + 120
            while len(found) < count and time.monotonic() < deadline:
                record = consumer.poll(0.5)
                found += [] if record is None else [record]
            while (record := consumer.poll(0.5)) is not None:
                found.append(record)
        return found


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    cluster = SpoolCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    yield cluster
    cluster.close()


def check_lives(records, safe):
    """One partition, dense; of each life a prefix in order that reaches what was safe."""
    assert len({record.address for record in records}) == 1
    assert [record.sequence for record in records] == list(range(len(records)))
    lives = {}
    for record in records:
        name, number = record.value.decode().split("-")
        lives.setdefault(name, []).append(int(number))
    assert list(lives) == list(safe)
    for name, numbers in lives.items():
        assert numbers == list(range(len(numbers)))
        assert numbers[-1] >= safe[name]


def test_kill_9_without_a_store_loses_nothing_spooled_and_repeats_nothing(cluster):
    safe = {name: cluster.killed_while_sending(name, 0.1) for name in ("a", "b")}
    with cluster.store():
        producer = cluster.producer()
        assert producer.resumed >= sum(number + 1 for number in safe.values())
        producer.send("orders", b"c-0")
        producer.close(20)
        records = cluster.records(producer.resumed + 1)
    assert {record.address for record in records} == {producer.address}
    check_lives(records, safe | {"c": 0})


def test_kill_9_with_a_store_loses_nothing_spooled_and_repeats_nothing(cluster):
    chance = random.Random(1)
    with cluster.store():
        safe = {
            name: cluster.killed_while_sending(name, chance.uniform(0, 0.4)) for name in "abcde"
        }
        producer = cluster.producer()
        producer.send("orders", b"end-0")
        producer.close(20)
        records = cluster.records(sum(safe.values()) + len(safe) + 1)
    check_lives(records, safe | {"end": 0})


def test_closing_says_what_stays_in_the_spool_and_the_next_one_sends_it(cluster):
    producer = cluster.producer()
    for number in range(3):
        future = producer.send("orders", str(number).encode())
    producer.send("payments", b"x")
    with pytest.raises(NotStoredError) as caught:
        producer.close(0.1)
    text = str(caught.value)
    assert "no store has acknowledged 3 records of 'orders', 1 records of 'payments'" in text
    assert f"stay in the spool at '{cluster.spool}'" in text
    address = producer.address
    assert caught.value.unstored == {
        Partition("orders", address): 3,
        Partition("payments", address): 1,
    }
    with pytest.raises(NotStoredError):
        future.result(1)
    with cluster.store():
        again = cluster.producer()
        assert (again.address, again.resumed) == (address, 4)
        assert again.send("orders", b"3").result(120).sequence == 3
        again.close(20)
        third = cluster.producer()
        assert third.resumed == 0
        third.close()
        assert [record.value for record in cluster.records(4)] == [b"0", b"1", b"2", b"3"]


def test_one_producer_has_a_spool_at_a_time(cluster):
    said = r"cannot open spool .* in use by process"
    with cluster.producer(), pytest.raises(StorageError, match=said):
        cluster.producer()
    with pytest.raises(MisuseError, match="cannot bind"):
        cluster.producer(host="192.0.2.1")
    cluster.producer().close()


def test_what_was_left_fills_the_buffer_of_the_next_one(cluster):
    first = cluster.producer()
    first.send("orders", bytes(5_000))
    with pytest.raises(NotStoredError):
        first.close(0)
    second = cluster.producer(buffer_bytes_max=4_000, max_block_ms=50)
    with pytest.raises(BufferFullError, match="1 records of 'orders'"):
        second.send("orders", b"x")
    with cluster.store():
        second.flush(20)
        assert second.send("orders", b"x").result(120).sequence == 1
        second.close()


def test_a_copied_spool_is_found_out_and_nothing_of_it_is_stored(cluster, tmp_path):
    copy = tmp_path / "copy"
    command = [sys.executable, "-m", "dafka", "produce", "orders", "--tower", cluster.endpoint]
    with cluster.store(), cluster.producer() as first:
        first.send("orders", b"first").result(120)
        shutil.copytree(cluster.spool, copy)
        first.send("orders", b"second").result(120)
        rival = subprocess.run(
            [*command, "--spool", str(copy)], input=b"rival\n", capture_output=True, check=False
        )
        assert rival.returncode == 1
        assert b"another producer publishes under address" in rival.stderr
        assert f"spool at '{copy}'".encode() in rival.stderr
        assert first.address.encode() in rival.stderr
        again = Producer(cluster.endpoint, spool=copy)
        with pytest.raises(AddressInUseError):
            again.send("orders", b"rival").result(120)
        for use in (again.flush, again.persist, again.close, lambda: again.send("orders", b"x")):
            with pytest.raises(AddressInUseError):
                use()
        assert [record.value for record in cluster.records(2)] == [b"first", b"second"]


def test_persisting_takes_a_spool(cluster):
    producer = Producer(cluster.endpoint)
    with pytest.raises(MisuseError, match="no spool"):
        producer.persist()
    producer.close()


def test_a_spool_that_cannot_be_written_is_said_by_name(cluster, monkeypatch):
    producer = cluster.producer()

    def refuse(self, batches):
        raise StorageError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("dafka.storage.lmdb_spool.LmdbSpool.append", refuse)
        producer.send("orders", b"x")
        with pytest.raises(NotStoredError, match="has not taken 1 records of 'orders'"):
            producer.persist(0.2)
    producer.persist(20)  # tried again, now there is room
    with pytest.raises(NotStoredError, match="stay in the spool"):
        producer.close(0)


def test_the_command_sends_first_what_an_earlier_one_has_left(cluster):
    command = [sys.executable, "-m", "dafka", "produce", "orders", "--tower", cluster.endpoint]
    command += ["--spool", str(cluster.spool)]
    left = subprocess.run(
        [*command, "--timeout", "0.1"], input=b"1\n2\n", capture_output=True, check=False
    )
    assert left.returncode == 1
    assert b"2 records of 'orders'" in left.stderr
    assert b"stay in the spool" in left.stderr
    with cluster.store():
        done = subprocess.run(command, input=b"3\n", capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr == b"1 record stored\n2 records from the spool stored\n"
        records = cluster.records(3)
    assert [(record.sequence, record.value) for record in records] == [
        (0, b"1"),
        (1, b"2"),
        (2, b"3"),
    ]
