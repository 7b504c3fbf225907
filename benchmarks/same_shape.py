"""What a byte costs at least: bare pyzmq that does with it what ours must, and nothing else.

A source builds Kafka batches with our builder, which sums each up once, and hands them to a thread
that sends them to two and hears what is stored; a store receives, sums up once, appends to a
segment with an index, syncs and acknowledges; a listener receives and sums up once in one thread,
and takes the values out in another. No machine, metric, retry or order. Raw, the same processes
move bytes as many that are there already, look into none, have no second thread, and append to a
plain file.
"""

from __future__ import annotations

import os
import queue
import struct
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import zmq

from benchmarks.bare_logs import BareSegment, PlainFile
from benchmarks.baseline import subscriber
from benchmarks.harness import Worker, cpu_seconds, scratch, until_told
from benchmarks.publisher import BATCH_BYTES, CHUNK
from dafka.model import Batch, Partition
from dafka.process.memory import keep_freed_memory
from dafka.records.batch import BatchBuilder, checked_count, enclosed, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from benchmarks.bare_logs import BareLog
    from benchmarks.harness import Results

TOPIC = b"M" + b"t" * 11
LISTENERS = 2
WARM_UP = 50
"""Batches before the clock starts."""

UNDER_WAY_BYTES = 32 * 1024 * 1024
"""Sent and not acknowledged at most, as with ours."""

_HEAD = struct.Struct(">QI")
"""Sequence of the first record, and how many there are; none behind the last."""

_PLACE = Partition("bench", "AA")


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


class Outlet:
    """Sends batches, and hears how far they are stored, when it is asked."""

    def __init__(self, publisher: zmq.Socket[bytes], acks: zmq.Socket[bytes]) -> None:
        self._send = publisher.send
        self._acks = acks
        self._acked = 0

    def send(self, sequence: int, count: int, content: bytes) -> None:
        """Send a batch."""
        self._send(TOPIC, zmq.SNDMORE)
        self._send(_HEAD.pack(sequence, count), zmq.SNDMORE)
        self._send(content)

    def wait(self, acked: int) -> None:
        """Wait until so many records are stored."""
        while self._acked < acked:
            self._acked, _ = _HEAD.unpack(self._acks.recv())


class ThreadedOutlet(Outlet):
    """The same in a thread of its own, which is woken through a pipe."""

    def __init__(self, publisher: zmq.Socket[bytes], acks: zmq.Socket[bytes]) -> None:
        super().__init__(publisher, acks)
        self._handed: deque[tuple[int, int, bytes]] = deque()
        self._stored = threading.Condition()
        self._bell_read, self._bell_write = os.pipe()
        threading.Thread(target=self._main, daemon=True).start()

    def send(self, sequence: int, count: int, content: bytes) -> None:
        """Have it sent."""
        self._handed.append((sequence, count, content))
        os.write(self._bell_write, b"\0")

    def wait(self, acked: int) -> None:
        """Wait until so many records are stored."""
        with self._stored:
            self._stored.wait_for(lambda: self._acked >= acked)

    def _main(self) -> None:
        poller = zmq.Poller()
        for readable in (self._bell_read, self._acks):
            poller.register(readable, zmq.POLLIN)
        while True:
            for readable, _ in poller.poll():
                if readable is self._acks:
                    with self._stored:
                        self._acked, _ = _HEAD.unpack(self._acks.recv())
                        self._stored.notify_all()
                else:
                    os.read(self._bell_read, 4_096)
            while self._handed:
                super().send(*self._handed.popleft())


def _source(pipe: Connection, freight: Freight) -> None:
    publisher: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.XPUB)
    for option, value in ((zmq.XPUB_NODROP, 1), (zmq.SNDHWM, 10_000), (zmq.XPUB_VERBOSE, 1)):
        publisher.set(option, value)
    pipe.send(publisher.bind_to_random_port("tcp://127.0.0.1"))
    acks = subscriber(pipe.recv())
    for _ in range(LISTENERS):
        publisher.recv()
    until_told(pipe)
    outlet = Outlet(publisher, acks) if freight.raw else ThreadedOutlet(publisher, acks)
    sequence = began_at = 0
    began_cpu = cpu_seconds()
    for number, (count, content) in enumerate(_batches(freight)):
        if number == WARM_UP:
            began_cpu, began_at = cpu_seconds(), sequence
        outlet.send(sequence, count, content)
        sequence += count
        outlet.wait(sequence - UNDER_WAY_BYTES // freight.size)
    outlet.wait(sequence)
    pipe.send((cpu_seconds() - began_cpu) / (sequence - began_at))
    outlet.send(sequence, 0, b"")
    until_told(pipe)


def _arrived(upstream: zmq.Socket[bytes], raw: bool) -> Iterator[Batch]:
    """Batches until the last."""
    recv = upstream.recv
    while True:
        recv()
        sequence, count = _HEAD.unpack(recv())
        content = recv()
        if not count:
            return
        if not raw:
            assert checked_count(content, sequence) == count
        yield Batch(_PLACE, sequence, count, content)


def _taken(pipe: Connection, batches: Iterable[Batch], take: Callable[[Batch], object]) -> None:
    """Take batches, and tell what a record costs."""
    pipe.send("up")
    began_cpu, began_at, end = cpu_seconds(), 0, 0
    for number, batch in enumerate(batches):
        if number == WARM_UP:
            began_cpu, began_at = cpu_seconds(), batch.sequence
        take(batch)
        end = batch.end
    pipe.send((cpu_seconds() - began_cpu) / (end - began_at))
    until_told(pipe)


def _store(pipe: Connection, port: int, raw: bool, directory: Path) -> None:
    acks: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
    pipe.send(acks.bind_to_random_port("tcp://127.0.0.1"))
    keep_freed_memory()  # as ours does
    log: BareLog = PlainFile(directory) if raw else BareSegment(directory)

    def append(batch: Batch) -> None:
        log.append([batch])
        acks.send(_HEAD.pack(batch.end, 0))

    _taken(pipe, _arrived(subscriber(port), raw), append)
    log.close()


def _listen(pipe: Connection, port: int, raw: bool) -> None:
    arrived = _arrived(subscriber(port), raw)
    if raw:
        _taken(pipe, arrived, lambda batch: None)
        return
    handed: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()

    def receive() -> None:
        for batch in arrived:
            handed.put(batch)
        handed.put(None)

    threading.Thread(target=receive, daemon=True).start()
    _taken(pipe, iter(handed.get, None), lambda batch: values_of(batch, checked=True))


def same_shape(results: Results, name: str, freight: Freight) -> None:
    """CPU of source, store and listener for a record."""
    with scratch() as directory:
        source = Worker(_source, freight)
        port = source.hear()
        store = Worker(_store, port, freight.raw, directory)
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
