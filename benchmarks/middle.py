"""The least that a process in the middle costs: bare pyzmq where a distributor or a store stands.

Neither orders or remembers anything, or checks more than one checksum where it is told to. What
they cost is the kernel's share of ours.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import zmq

from benchmarks.baseline import WARM_UP, publish, subscribe, subscriber
from benchmarks.harness import Results, Worker, cpu_seconds, scratch, until_told
from dafka.records.batch import BatchBuilder, checked_count, enclosed
from dafka.records.envelope import Envelope, stamped

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

PASSED = Envelope(1, 1)
"""Of what has crossed a level."""

LISTENERS = 2
"""Of a distributor: the target's store and the target's own distributor."""


def _pass_on(pipe: Connection, port: int, count: int, shaped: bool) -> None:
    """Receive from one, send to two; what is shaped like a batch under new flags."""
    publisher: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.XPUB)
    publisher.set(zmq.XPUB_NODROP, 1)
    publisher.set(zmq.SNDHWM, 10_000)
    publisher.set(zmq.XPUB_VERBOSE, 1)
    pipe.send(publisher.bind_to_random_port("tcp://127.0.0.1"))
    for _ in range(LISTENERS):
        publisher.recv()
    upstream = subscriber(port)
    pipe.send("up")

    def pass_one_on() -> None:
        publisher.send_multipart(upstream.recv_multipart())

    def stamp_one() -> None:
        topic, header, content = upstream.recv_multipart()
        checked_count(content, 0)
        publisher.send_multipart((topic, header, stamped(content, PASSED)))

    _count(pipe, count, stamp_one if shaped else pass_one_on)
    publisher.close(0)
    upstream.close(0)


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
        shaped: Whether they are batches, each summed up once and sent under new flags.
    """
    content = bytes(size * per_message)
    if shaped:
        builder = BatchBuilder(2 * len(content))
        builder.extend(0, [bytes(size)] * per_message, 0)
        content = enclosed(builder.parts(), 0)
    publisher = Worker(publish, messages, content)
    middle = Worker(_pass_on, publisher.hear(), messages, shaped)
    port = middle.hear()
    listeners = [Worker(subscribe, port, messages) for _ in range(LISTENERS)]
    middle.hear()
    time.sleep(0.3)  # the subscription is on its way
    publisher.tell("go")
    seconds = middle.hear()
    results.add(name, "us/record", seconds / per_message * 1e6)
    results.add(f"{name}: per core", "MB/s of its CPU", per_message * size / seconds / 1e6)
    for worker in (publisher, middle, *listeners):
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
