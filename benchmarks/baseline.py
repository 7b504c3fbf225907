"""What pyzmq does by itself, in the same minutes on the same machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import zmq

from benchmarks.harness import Results, Worker, cpu_seconds, rate, until_told

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

TOPIC, HEADER = b"M" + b"t" * 11, b"h" * 57
WARM_UP = 1_000
"""Messages before the clock starts: connections, caches, branch predictors."""


def publish(pipe: Connection, count: int, content: bytes) -> None:
    """Three plain sends a message; XPUB without dropping, so that nothing is lost."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.XPUB)
    socket.set(zmq.XPUB_NODROP, 1)
    socket.set(zmq.SNDHWM, 10_000)
    pipe.send(socket.bind_to_random_port("tcp://127.0.0.1"))
    socket.recv()
    until_told(pipe)
    send, more = socket.send, zmq.SNDMORE
    began_cpu = cpu_seconds()
    for _ in range(count + WARM_UP):
        send(TOPIC, more)
        send(HEADER, more)
        send(content)
    pipe.send((cpu_seconds() - began_cpu) / count)
    until_told(pipe)
    socket.close(0)


def subscriber(*ports: int) -> zmq.Socket[bytes]:
    """A SUB for everything that is published at some ports of this machine."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.SUB)
    socket.set(zmq.RCVHWM, 10_000)
    for port in ports:
        socket.connect(f"tcp://127.0.0.1:{port}")
    socket.subscribe(b"")
    return socket


def subscribe(pipe: Connection, port: int, count: int) -> None:
    """Three plain receives a message."""
    socket = subscriber(port)
    recv = socket.recv
    for _ in range(WARM_UP):
        recv(), recv(), recv()
    began, began_cpu = time.perf_counter(), cpu_seconds()
    for _ in range(count):
        recv(), recv(), recv()
    pipe.send((rate(count, began), (cpu_seconds() - began_cpu) / count))
    until_told(pipe)
    socket.close(0)


def raw_messages(results: Results, name: str, messages: int, per_message: int, size: int) -> None:
    """Publisher to subscriber, `per_message` records of `size` bytes in each message."""
    publisher = Worker(publish, messages, bytes(size * per_message))
    listener = Worker(subscribe, publisher.hear(), messages)
    time.sleep(0.3)  # the subscription is on its way
    publisher.tell("go")
    publisher_cpu = publisher.hear()
    message_rate, subscriber_cpu = listener.hear()
    results.add(name, "records/s", message_rate * per_message)
    results.add(f"{name}: CPU sending", "us/record", publisher_cpu / per_message * 1e6)
    results.add(f"{name}: CPU receiving", "us/record", subscriber_cpu / per_message * 1e6)
    publisher.end()
    listener.end()
