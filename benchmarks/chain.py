"""The least that a hop takes: bare pyzmq and plain files where our processes stand.

A source, a store that appends and syncs and says so, a relay that passes on what is synced, a store
behind it, and a listener at either end. Nothing is checked, ordered or remembered.
"""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from typing import TYPE_CHECKING

import zmq

from benchmarks.baseline import subscriber
from benchmarks.harness import Results, Worker, scratch, until_told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

RATE = 1_000
"""Messages a second: ten records each, about as our producer makes them at 10,000 records/s."""

SECONDS = 4.0
CONTENT = bytes(700)
FIND_S = 0.5
"""Subscriptions are on their way."""

_STAMP = struct.Struct(">QQ")
"""Number and time, in front of the content."""


def _publisher(pipe: Connection) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
    pipe.send(socket.bind_to_random_port("tcp://127.0.0.1"))
    return socket


def _source(pipe: Connection, count: int) -> None:
    publisher = _publisher(pipe)
    until_told(pipe)
    began = time.monotonic_ns()
    for number in range(count):
        wait_ns = began + number * 1_000_000_000 // RATE - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        publisher.send(_STAMP.pack(number, time.monotonic_ns()) + CONTENT)
    until_told(pipe)


def _arrived(socket: zmq.Socket[bytes]) -> Iterator[bytes]:
    """Wait for a message, then take all there are."""
    yield socket.recv()
    while True:
        try:
            yield socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return


def _store(pipe: Connection, port: int, file: Path, count: int) -> None:
    publisher, upstream = _publisher(pipe), subscriber(port)
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    last = -1
    while last < count - 1:
        found = list(_arrived(upstream))
        os.write(descriptor, b"".join(found))
        os.fdatasync(descriptor)
        last, _ = _STAMP.unpack_from(found[-1])
        publisher.send(_STAMP.pack(last, 0))
    os.close(descriptor)
    until_told(pipe)


def _relay(pipe: Connection, port: int, acks_port: int, count: int) -> None:
    publisher, upstream, acks = _publisher(pipe), subscriber(port), subscriber(acks_port)
    poller = zmq.Poller()
    poller.register(upstream, zmq.POLLIN)
    poller.register(acks, zmq.POLLIN)
    waiting: deque[bytes] = deque()
    sent, synced = 0, -1
    while sent < count:
        for socket, _ in poller.poll():
            if socket is upstream:
                waiting.extend(_arrived(upstream))
            else:
                *_, (synced, _) = map(_STAMP.unpack, _arrived(acks))
        while waiting and _STAMP.unpack_from(waiting[0])[0] <= synced:
            publisher.send(waiting.popleft())
            sent += 1
    until_told(pipe)


def _listen(pipe: Connection, port: int, count: int) -> None:
    upstream = subscriber(port)
    pipe.send("up")
    latencies = []
    for _ in range(count):
        _, sent_ns = _STAMP.unpack_from(upstream.recv())
        latencies.append(time.monotonic_ns() - sent_ns)
    pipe.send(sorted(latencies[RATE:]))  # the first second is not counted
    until_told(pipe)


def chain(results: Results) -> None:
    """From the source to a listener beside it, and to one behind the relay."""
    count = int(RATE * SECONDS)
    with scratch() as directory:
        source = Worker(_source, count)
        port = source.hear()
        near = Worker(_store, port, directory / "near", count)
        relay = Worker(_relay, port, near.hear(), count)
        far_port = relay.hear()
        far = Worker(_store, far_port, directory / "far", count)
        far.hear()
        listeners = [Worker(_listen, each, count) for each in (port, far_port)]
        for listener in listeners:
            listener.hear()
        time.sleep(FIND_S)
        source.tell("go")
        home, away = (listener.hear() for listener in listeners)
        for percent in (50, 99):
            ours, theirs = (each[len(each) * percent // 100] / 1e6 for each in (home, away))
            results.add(f"bare pyzmq, latency at home, p{percent}", "ms", ours)
            results.add(f"bare pyzmq, one hop away, p{percent}", "ms", theirs)
        for worker in (source, near, relay, far, *listeners):
            worker.end()
