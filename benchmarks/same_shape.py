"""What a byte costs at least: bare pyzmq that does with it what ours must, and nothing else.

A source builds Kafka batches with our builder, which sums each up once, and sends them to two; a
store receives, sums up once, appends to a plain file, syncs and acknowledges; a listener receives,
sums up once and takes the values out. No machine, thread, metric, retry or order. Raw, the same
processes move bytes as many that are there already, and look into none.
"""

from __future__ import annotations

import os
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

import zmq

from benchmarks.baseline import subscriber
from benchmarks.harness import Worker, cpu_seconds, scratch, until_told
from benchmarks.publisher import BATCH_BYTES, CHUNK
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, checked_count, enclosed, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from benchmarks.harness import Results

TOPIC = b"M" + b"t" * 11
LISTENERS = 2
WARM_UP = 50
"""Batches before the clock starts."""

UNDER_WAY_BYTES = 32 * 1024 * 1024
"""Sent and not acknowledged at most, as with ours."""

_HEAD = struct.Struct(">QI")
"""Sequence of the first record, and how many there are; none behind the last."""


class Freight(NamedTuple):
    """What is moved.

    Attributes:
        records: How many, behind the warm-up.
        size: Bytes of each.
        raw: Whether they are only moved.
    """

    records: int
    size: int
    raw: bool

    @property
    def warm_up(self) -> int:
        """Records before the clock starts."""
        return WARM_UP * (BATCH_BYTES // self.size)


def _batches(freight: Freight) -> Iterator[tuple[int, bytes]]:
    """How many records, and the content, of each batch."""
    left = freight.warm_up + freight.records
    values, sent, sequence = [bytes(freight.size)] * CHUNK, 0, 0
    ready = _built(values, sent, sequence)
    while left > 0:
        count, content = ready if freight.raw else _built(values, sent, sequence)
        yield count, content
        left -= count
        sequence += count
        sent = (sent + count) % CHUNK


def _built(values: list[bytes], sent: int, sequence: int) -> tuple[int, bytes]:
    builder = BatchBuilder(BATCH_BYTES)
    timestamp_ms = time.time_ns() // 1_000_000
    while True:
        added = builder.extend(timestamp_ms, values, sent)
        if added < len(values):
            return builder.count, enclosed(builder.parts(), sequence)
        sent = 0


def _source(pipe: Connection, freight: Freight) -> None:
    publisher: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.XPUB)
    for option, value in ((zmq.XPUB_NODROP, 1), (zmq.SNDHWM, 10_000), (zmq.XPUB_VERBOSE, 1)):
        publisher.set(option, value)
    pipe.send(publisher.bind_to_random_port("tcp://127.0.0.1"))
    acks = subscriber(pipe.recv())
    for _ in range(LISTENERS):
        publisher.recv()
    until_told(pipe)
    send, more = publisher.send, zmq.SNDMORE
    sequence = acked = began_at = 0
    began_cpu = cpu_seconds()
    for number, (count, content) in enumerate(_batches(freight)):
        if number == WARM_UP:
            began_cpu, began_at = cpu_seconds(), sequence
        send(TOPIC, more)
        send(_HEAD.pack(sequence, count), more)
        send(content)
        sequence += count
        while (sequence - acked) * freight.size > UNDER_WAY_BYTES:
            acked, _ = _HEAD.unpack(acks.recv())
    while acked < sequence:
        acked, _ = _HEAD.unpack(acks.recv())
    pipe.send((cpu_seconds() - began_cpu) / (sequence - began_at))
    send(TOPIC, more)
    send(_HEAD.pack(sequence, 0), more)
    send(b"")
    until_told(pipe)


def _received(
    pipe: Connection, port: int, raw: bool, take: Callable[[int, int, bytes], object]
) -> None:
    """Take batches until the last, and tell what a record costs."""
    upstream = subscriber(port)
    recv = upstream.recv
    pipe.send("up")
    began_cpu, began_at, number = cpu_seconds(), 0, 0
    while True:
        recv()
        sequence, count = _HEAD.unpack(recv())
        content = recv()
        if not count:
            break
        if number == WARM_UP:
            began_cpu, began_at = cpu_seconds(), sequence
        if not raw:
            assert checked_count(content, sequence) == count
        take(sequence, count, content)
        number += 1
    pipe.send((cpu_seconds() - began_cpu) / (sequence - began_at))
    until_told(pipe)


def _store(pipe: Connection, port: int, raw: bool, path: Path) -> None:
    acks: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
    pipe.send(acks.bind_to_random_port("tcp://127.0.0.1"))
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def append(sequence: int, count: int, content: bytes) -> None:
        os.write(descriptor, content)
        os.fdatasync(descriptor)
        acks.send(_HEAD.pack(sequence + count, 0))

    _received(pipe, port, raw, append)


def _listen(pipe: Connection, port: int, raw: bool) -> None:
    partition = Partition("bench", "AA")

    def values(sequence: int, count: int, content: bytes) -> None:
        if not raw:
            values_of(Batch(partition, sequence, count, content), checked=True)

    _received(pipe, port, raw, values)


def same_shape(results: Results, name: str, freight: Freight) -> None:
    """CPU of source, store and listener for a record."""
    with scratch() as directory:
        source = Worker(_source, freight)
        port = source.hear()
        store = Worker(_store, port, freight.raw, directory / "plain")
        source.tell(store.hear())
        listener = Worker(_listen, port, freight.raw)
        for worker in (store, listener):
            worker.hear()
        time.sleep(0.3)  # the subscription to ACKs is on its way
        source.tell("go")
        for what, worker in (("producer", source), ("store", store), ("consumer", listener)):
            results.add(f"{name}: CPU {what}", "us/record", worker.hear() * 1e6)
        for worker in (source, store, listener):
            worker.end()
