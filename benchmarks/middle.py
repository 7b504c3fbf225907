"""The least that a process in the middle costs: bare pyzmq where a distributor or a store stands.

Neither orders anything. Of the same shape as ours, what passes messages on checks each, waits until
the store beside its source says that it has it, sends it under new flags, and keeps it until the
store behind has it, too. Else nothing is looked into. What they cost is the kernel's share of ours.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING

import zmq

from benchmarks.baseline import HEADER, WARM_UP, publish, subscribe, subscriber
from benchmarks.harness import Results, Worker, cpu_seconds, scratch, until_told
from dafka.process.memory import keep_freed_memory
from dafka.records.batch import BatchBuilder, checked_count, enclosed
from dafka.records.envelope import Envelope, stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

PASSED = Envelope(1, 1)
"""Of what has crossed a level."""

LISTENERS = 2
"""Of a distributor: the target's store and the target's own distributor."""


def _publisher(pipe: Connection) -> zmq.Socket[bytes]:
    """What all listeners are sent to, without dropping; says where it is."""
    publisher: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.XPUB)
    publisher.set(zmq.XPUB_NODROP, 1)
    publisher.set(zmq.SNDHWM, 10_000)
    publisher.set(zmq.XPUB_VERBOSE, 1)
    pipe.send(publisher.bind_to_random_port("tcp://127.0.0.1"))
    return publisher


def _pass_on(pipe: Connection, port: int, count: int) -> None:
    """Receive from one, send to two."""
    keep_freed_memory()  # as ours does
    publisher = _publisher(pipe)
    for _ in range(LISTENERS):
        publisher.recv()
    upstream = subscriber(port)
    pipe.send("up")

    def pass_one_on() -> None:
        publisher.send_multipart(upstream.recv_multipart())

    _count(pipe, count, pass_one_on)
    publisher.close(0)
    upstream.close(0)


def _pass_stored_on(pipe: Connection, port: int, count: int, near_port: int) -> None:
    """The same with batches, once they are stored here, until they are stored there."""
    keep_freed_memory()
    publisher = _publisher(pipe)
    upstream, near, far = subscriber(port), subscriber(near_port), subscriber(pipe.recv())
    for _ in range(LISTENERS):
        publisher.recv()
    poller = zmq.Poller()
    for socket in (upstream, near, far):
        poller.register(socket, zmq.POLLIN)
    waiting: deque[list[bytes]] = deque()
    kept: deque[list[bytes]] = deque()
    stored = 0
    pipe.send("up")

    def take_in() -> None:
        nonlocal stored
        for socket, _ in poller.poll():
            for frames in _arrived(socket):
                if socket is upstream:
                    checked_count(frames[-1], 0)
                    waiting.append(frames)
                elif socket is near:
                    stored += 1
                else:
                    kept.popleft()

    def pass_one_on() -> None:
        nonlocal stored
        while not (waiting and stored):
            take_in()
        stored -= 1
        topic, header, content = waiting.popleft()
        kept.append([topic, header, stamped(content, PASSED)])
        publisher.send_multipart(kept[-1])

    _count(pipe, count, pass_one_on)


def _arrived(socket: zmq.Socket[bytes]) -> Iterator[list[bytes]]:
    """Take all there are."""
    while True:
        try:
            yield socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return


def _acknowledge(pipe: Connection, port: int, count: int) -> None:
    """Say of each message that it is stored, as a store does."""
    acks: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
    acks.set(zmq.SNDHWM, 10_000)
    pipe.send(acks.bind_to_random_port("tcp://127.0.0.1"))
    upstream = subscriber(port)
    for _ in range(WARM_UP + count):
        upstream.recv_multipart()
        acks.send(HEADER)
    until_told(pipe)


def _write_down(pipe: Connection, port: int, count: int, directory: Path) -> None:
    """Receive, append to a plain file, `fdatasync`."""
    upstream = subscriber(port)
    descriptor = os.open(directory / "plain", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    pipe.send("up")

    def write_one_down() -> None:
        os.write(descriptor, upstream.recv_multipart()[-1])
        os.fdatasync(descriptor)

    _count(pipe, count, write_one_down)
    os.close(descriptor)
    upstream.close(0)


def _count(pipe: Connection, count: int, step: Callable[[], None]) -> None:
    """Report the CPU time of a step."""
    for _ in range(WARM_UP):
        step()
    began_cpu = cpu_seconds()
    for _ in range(count):
        step()
    pipe.send((cpu_seconds() - began_cpu) / count)
    until_told(pipe)


def relay(
    results: Results,
    name: str,
    messages: int,
    per_message: int,
    size: int,
    *,
    shaped: bool = False,
) -> None:
    """CPU of a process that passes messages on to two others.

    Args:
        results: Where to.
        name: Of the quantity.
        messages: How many.
        per_message: Records in each.
        size: Bytes of a record.
        shaped: Whether they are batches, each summed up once, sent under new flags, and
            acknowledged on both sides.
    """
    content = bytes(size * per_message)
    if shaped:
        builder = BatchBuilder(2 * len(content))
        builder.extend(0, [bytes(size)] * per_message, 0)
        content = enclosed(builder.parts(), 0)
    publisher = Worker(publish, messages, content)
    port = publisher.hear()
    if shaped:
        near = Worker(_acknowledge, port, messages)
        middle = Worker(_pass_stored_on, port, messages, near.hear())
        port = middle.hear()
        far = Worker(_acknowledge, port, messages)
        middle.tell(far.hear())
        others = [near, far, Worker(subscribe, port, messages)]
    else:
        middle = Worker(_pass_on, port, messages)
        port = middle.hear()
        others = [Worker(subscribe, port, messages) for _ in range(LISTENERS)]
    middle.hear()
    time.sleep(0.3)  # subscriptions are on their way
    publisher.tell("go")
    seconds = middle.hear()
    results.add(name, "us/record", seconds / per_message * 1e6)
    results.add(f"{name}: per core", "MB/s of its CPU", per_message * size / seconds / 1e6)
    for worker in (publisher, middle, *others):
        worker.end()


def writer(results: Results, name: str, messages: int, per_message: int, size: int) -> None:
    """CPU of a process that writes messages into a plain file."""
    publisher = Worker(publish, messages, bytes(size * per_message))
    with scratch() as directory:
        middle = Worker(_write_down, publisher.hear(), messages, directory)
        middle.hear()
        time.sleep(0.3)
        publisher.tell("go")
        results.add(name, "us/record", middle.hear() / per_message * 1e6)
        for worker in (publisher, middle):
            worker.end()
