"""The least that latency takes: bare pyzmq where our processes stand, with as many threads.

A source in which one thread sends records and another batches them, a store that syncs and says so,
a relay that passes on what is synced, the relay of the way back that only listens, a store behind,
and at either end a listener that hands over to a second thread. Nothing is checked, ordered or
remembered.
"""

from __future__ import annotations

import os
import queue
import struct
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

import zmq

from benchmarks.baseline import subscriber
from benchmarks.harness import Results, Worker, scratch, until_told
from benchmarks.latency import RATE, SECONDS, WARM_UP_S, report
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import LmdbLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

GAP_ALONE_S, GAP_HOP_S = 0.0003, 0.001
"""Between two batches: ours are at least the first apart, and beside a hop about the second."""

BARE = "bare pyzmq, our log: "
BARE_FILE = "bare pyzmq, plain files: "

FIND_S = 0.5
"""Subscriptions are on their way."""

_END = 2**63
"""The number of the message behind the last."""

_HEAD = struct.Struct(">QQ")
"""Number, and how many times of sending follow."""


def _publisher(pipe: Connection) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
    pipe.send(socket.bind_to_random_port("tcp://127.0.0.1"))
    return socket


def _number(message: bytes) -> int:
    number, _ = _HEAD.unpack_from(message)
    return int(number)


def _arrived(socket: zmq.Socket[bytes]) -> Iterator[bytes]:
    """Wait for a message, then take all there are."""
    yield socket.recv()
    while True:
        try:
            yield socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return


def _source(pipe: Connection, gap_s: float) -> None:
    publisher = _publisher(pipe)
    until_told(pipe)
    opened: list[int] = []
    lock, begun, done = threading.Lock(), threading.Event(), threading.Event()

    def batch() -> None:
        number = 0
        while not done.is_set() or opened:
            begun.wait(gap_s)
            begun.clear()
            with lock:
                times, opened[:] = opened[:], []
            if times:
                head = _HEAD.pack(number, len(times))
                publisher.send(head + struct.pack(f">{len(times)}Q", *times))
                number += 1
                time.sleep(gap_s)
        publisher.send(_HEAD.pack(_END, 0))

    batching = threading.Thread(target=batch)
    batching.start()
    began = time.monotonic_ns()
    for number in range(int(RATE * SECONDS)):
        wait_ns = began + number * 1_000_000_000 // RATE - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        with lock:
            opened.append(time.monotonic_ns())
        begun.set()
    done.set()
    batching.join()
    until_told(pipe)


def _file(path: Path) -> Callable[[Sequence[bytes]], None]:
    """A plain file that is appended to and synced."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def append(messages: Sequence[bytes]) -> None:
        os.write(descriptor, b"".join(messages))
        os.fdatasync(descriptor)

    return append


def _log(path: Path) -> Callable[[Sequence[bytes]], None]:
    """The log of our stores."""
    log, partition = LmdbLog(path), Partition("bench", "AA")

    def append(messages: Sequence[bytes]) -> None:
        first = log.heads().get(partition, -1) + 1
        log.append([Batch(partition, first + n, 1, one) for n, one in enumerate(messages)])

    return append


def _store(
    pipe: Connection, port: int, path: Path, opened: Callable[[Path], Callable[..., None]]
) -> None:
    publisher, upstream, append = _publisher(pipe), subscriber(port), opened(path)
    last = -1
    while last != _END:
        found = list(_arrived(upstream))
        append(found)
        last = _number(found[-1])
        publisher.send(_HEAD.pack(last, 0))
    until_told(pipe)


def _relay(pipe: Connection, port: int, acks_port: int) -> None:
    publisher, upstream, acks = _publisher(pipe), subscriber(port), subscriber(acks_port)
    far_acks = subscriber(pipe.recv())
    poller = zmq.Poller()
    for socket in (upstream, acks, far_acks):
        poller.register(socket, zmq.POLLIN)
    waiting: deque[bytes] = deque()
    sent = synced = -1
    while sent != _END:
        for socket, _ in poller.poll():
            if socket is upstream:
                waiting.extend(_arrived(upstream))
            elif socket is acks:
                *_, synced = map(_number, _arrived(acks))
            else:
                list(_arrived(far_acks))
        while waiting and _number(waiting[0]) <= synced:
            sent = _number(waiting[0])
            publisher.send(waiting.popleft())
    until_told(pipe)


def _way_back(pipe: Connection, ports: Sequence[int]) -> None:
    """Hears what the relay publishes, and both stores' ACKs, as the link back does."""
    poller = zmq.Poller()
    for port in ports:
        poller.register(subscriber(port), zmq.POLLIN)
    pipe.send("up")
    ended = 0
    while ended < len(ports):
        for socket, _ in poller.poll():
            ended += sum(_number(message) == _END for message in _arrived(socket))
    until_told(pipe)


def _listen(pipe: Connection, port: int) -> None:
    upstream = subscriber(port)
    handed: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def receive() -> None:
        message = b""
        while not message or _number(message) != _END:
            message = upstream.recv()
            handed.put(message)

    receiving = threading.Thread(target=receive)
    receiving.start()
    pipe.send("up")
    latencies: list[int] = []
    while True:
        message = handed.get()
        number, count = _HEAD.unpack_from(message)
        if number == _END:
            break
        times = struct.unpack_from(f">{count}Q", message, _HEAD.size)
        latencies.extend(time.monotonic_ns() - sent_ns for sent_ns in times)
    receiving.join()
    pipe.send(sorted(latencies[int(RATE * WARM_UP_S) :]))
    until_told(pipe)


def chain(results: Results) -> None:
    """From the source to a listener beside it, and to one behind the relay."""
    with scratch() as directory:
        source = Worker(_source, GAP_ALONE_S)
        port = source.hear()
        store = Worker(_store, port, directory / "alone", _log)
        store.hear()
        _measure(results, BARE, source, [store], {"in one cluster": port})
    for whose, opened in ((BARE_FILE, _file), (BARE, _log)):
        with scratch() as directory:
            source = Worker(_source, GAP_HOP_S)
            port = source.hear()
            near = Worker(_store, port, directory / "near", opened)
            near_port = near.hear()
            relay = Worker(_relay, port, near_port)
            away_port = relay.hear()
            far = Worker(_store, away_port, directory / "far", opened)
            far_port = far.hear()
            relay.tell(far_port)
            back = Worker(_way_back, [away_port, far_port, near_port])
            back.hear()
            places = {"beside a hop": port, "one hop away": away_port}
            _measure(results, whose, source, [near, relay, far, back], places)


def _measure(
    results: Results, whose: str, source: Worker, others: Sequence[Worker], places: dict[str, int]
) -> None:
    listeners = [Worker(_listen, port) for port in places.values()]
    for listener in listeners:
        listener.hear()
    time.sleep(FIND_S)
    source.tell("go")
    latencies = [listener.hear() for listener in listeners]
    report(results, whose, dict(zip(places, latencies, strict=True)))
    for worker in (source, *others, *listeners):
        worker.end()
