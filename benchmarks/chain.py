"""The least that latency takes: bare pyzmq where our processes stand, with as many threads.

A source in which one thread sends records and another, woken through a pipe, batches them and hears
what is stored; a store that syncs and says so, a relay that passes on what is synced, the relay of
the way back that only listens, a store behind, and at either end a listener that hands over to a
second thread. Nothing is checked, ordered or remembered. Of the same shape as ours, times of
sending are records of a Kafka batch, which the source builds, who receives sums up, and the relay
passes on under new flags.
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

from benchmarks.baseline import subscriber
from benchmarks.harness import Worker, scratch, until_told
from benchmarks.loads import BARE_FILE, RATES, SECONDS, PacedLoad, report, settled
from benchmarks.middle import PASSED
from benchmarks.publisher import BATCH_BYTES
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, checked_count, enclosed, values_of
from dafka.records.envelope import stamped
from dafka.storage.lmdb_log import LmdbLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

    from benchmarks.harness import Results

GAP_ALONE_S, GAP_HOP_S = 0.0003, 0.001
"""Between two batches: ours are at least the first apart, and beside a hop about the second."""

FIND_S = 0.5
"""Subscriptions are on their way."""

_END = 2**63
"""The number of the message behind the last."""

_SOURCE = struct.Struct(">H")

_HEAD = struct.Struct(">HQQ")
"""Which source, number, and how many times of sending follow."""

_PLACE = Partition("bench", "AA")


def _packed(times: list[int], _number: int) -> bytes:
    return struct.pack(f">{len(times)}Q", *times)


def _unpacked(octets: bytes, _number: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f">{count}Q", octets)


def _unchecked(octets: bytes, number: int) -> None:
    pass


def _as_it_is(octets: bytes) -> bytes:
    return octets


def _flagged(octets: bytes) -> bytes:
    return stamped(octets, PASSED)


def _built(times: list[int], number: int) -> bytes:
    builder = BatchBuilder(BATCH_BYTES)
    values = [sent_ns.to_bytes(8, "big") for sent_ns in times]
    builder.extend(time.time_ns() // 1_000_000, values, 0)
    return enclosed(builder.parts(), number)


def _read(octets: bytes, number: int, count: int) -> list[int]:
    batch = Batch(_PLACE, number, count, octets)
    return [int.from_bytes(value or b"", "big") for value in values_of(batch, checked=True)]


class Form(NamedTuple):
    """What a message's times look like, given its number."""

    write: Callable[[list[int], int], bytes]
    check: Callable[[bytes, int], object]
    flag: Callable[[bytes], bytes]
    read: Callable[[bytes, int, int], Sequence[int]]


PLAIN = Form(_packed, _unchecked, _as_it_is, _unpacked)
SHAPED = Form(_built, checked_count, _flagged, _read)


def _publisher(pipe: Connection) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
    pipe.send(socket.bind_to_random_port("tcp://127.0.0.1"))
    return socket


def _number(message: bytes) -> int:
    _, number, _ = _HEAD.unpack_from(message)
    return int(number)


def _checked(message: bytes, form: Form) -> bool:
    """Check a message; False behind the last."""
    number = _number(message)
    if number == _END:
        return False
    form.check(message[_HEAD.size :], number)
    return True


def _arrived(socket: zmq.Socket[bytes]) -> Iterator[bytes]:
    """Wait for a message, then take all there are."""
    yield socket.recv()
    while True:
        try:
            yield socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return


def _source(pipe: Connection, source: int, rate: int, gap_s: float, form: Form) -> None:
    publisher = _publisher(pipe)
    acks = subscriber(pipe.recv())
    acks.unsubscribe(b"")
    acks.subscribe(_SOURCE.pack(source))
    bell_read, bell_write = os.pipe()
    poller = zmq.Poller()
    for readable in (bell_read, acks):
        poller.register(readable, zmq.POLLIN)
    until_told(pipe)
    opened: list[int] = []
    lock, done = threading.Lock(), threading.Event()

    def batch() -> None:
        number = 0
        while not done.is_set() or opened:
            for readable, _ in poller.poll():
                if readable is acks:
                    list(_arrived(acks))
                else:
                    os.read(bell_read, 4_096)
            with lock:
                times, opened[:] = opened[:], []
            if times:
                publisher.send(_HEAD.pack(source, number, len(times)) + form.write(times, number))
                number += 1
                time.sleep(gap_s)
        publisher.send(_HEAD.pack(source, _END, 0))

    batching = threading.Thread(target=batch)
    batching.start()
    began = time.monotonic_ns()
    for number in range(int(rate * SECONDS)):
        wait_ns = began + number * 1_000_000_000 // rate - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        with lock:
            opened.append(time.monotonic_ns())
            first = len(opened) == 1
        if first:
            os.write(bell_write, b"\0")
    done.set()
    os.write(bell_write, b"\0")
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
    log = LmdbLog(path)

    def append(messages: Sequence[bytes]) -> None:
        first = log.heads().get(_PLACE, -1) + 1
        log.append([Batch(_PLACE, first + n, 1, one) for n, one in enumerate(messages)])

    return append


def _store(
    pipe: Connection,
    ports: list[int],
    path: Path,
    opened: Callable[[Path], Callable[..., None]],
    form: Form,
) -> None:
    publisher, upstream, append = _publisher(pipe), subscriber(*ports), opened(path)
    ended = 0
    while ended < len(ports):
        found = list(_arrived(upstream))
        ended += sum(not _checked(message, form) for message in found)
        append(found)
        for source, number in {
            message[: _SOURCE.size]: _number(message) for message in found
        }.items():
            publisher.send(_HEAD.pack(*_SOURCE.unpack(source), number, 0))
    until_told(pipe)


def _relay(pipe: Connection, port: int, acks_port: int, form: Form) -> None:
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
                for message in _arrived(upstream):
                    _checked(message, form)
                    waiting.append(message)
            elif socket is acks:
                *_, synced = map(_number, _arrived(acks))
            else:
                list(_arrived(far_acks))
        while waiting and _number(waiting[0]) <= synced:
            message = waiting.popleft()
            head, content = message[: _HEAD.size], message[_HEAD.size :]
            publisher.send(head + form.flag(content) if content else head)
            sent = _number(message)
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


def _listen(pipe: Connection, ports: list[int], form: Form) -> None:
    upstream = subscriber(*ports)
    handed: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def receive() -> None:
        ended = 0
        while ended < len(ports):
            message = upstream.recv()
            ended += not _checked(message, form)
            handed.put(message)

    receiving = threading.Thread(target=receive)
    receiving.start()
    pipe.send("up")
    arrived: list[tuple[int, int]] = []
    ended = 0
    while ended < len(ports):
        message = handed.get()
        _, number, count = _HEAD.unpack_from(message)
        if number == _END:
            ended += 1
            continue
        times = form.read(message[_HEAD.size :], number, count)
        arrived.extend((sent_ns, time.monotonic_ns() - sent_ns) for sent_ns in times)
    receiving.join()
    pipe.send(settled(arrived))
    until_told(pipe)


def one(load: PacedLoad, form: Form = PLAIN) -> list[int]:
    """Latencies in ns, sorted, at a listener beside the sources.

    Args:
        load: Of how many sources.
        form: Of their messages.
    """
    with scratch() as directory:
        rate = load.rate // load.producers
        sources = [
            Worker(_source, number, rate, GAP_ALONE_S, form) for number in range(load.producers)
        ]
        ports = [source.hear() for source in sources]
        store = Worker(_store, ports, directory / "alone", _log, form)
        store_port = store.hear()
        for source in sources:
            source.tell(store_port)
        (latencies,) = _measured(sources, [store], [ports], form)
    return latencies


def away(
    load: PacedLoad, form: Form = PLAIN, opened: Callable[[Path], Callable[..., None]] = _log
) -> list[list[int]]:
    """The same beside one source, and behind the relay.

    Args:
        load: Of one producer.
        form: Of its messages.
        opened: Opens what stores write to.
    """
    with scratch() as directory:
        source = Worker(_source, 0, load.rate, GAP_HOP_S, form)
        port = source.hear()
        near = Worker(_store, [port], directory / "near", opened, form)
        near_port = near.hear()
        source.tell(near_port)
        relay = Worker(_relay, port, near_port, form)
        away_port = relay.hear()
        far = Worker(_store, [away_port], directory / "far", opened, form)
        far_port = far.hear()
        relay.tell(far_port)
        back = Worker(_way_back, [away_port, far_port, near_port])
        back.hear()
        return _measured([source], [near, relay, far, back], [[port], [away_port]], form)


def plain_files(results: Results) -> None:
    """A hop whose stores write to plain files."""
    for load in map(PacedLoad, RATES):
        places = ("beside a hop", "one hop away")
        report(results, BARE_FILE, load, dict(zip(places, away(load, opened=_file), strict=True)))


def _measured(
    sources: Sequence[Worker],
    others: Sequence[Worker],
    places: Sequence[list[int]],
    form: Form,
) -> list[list[int]]:
    listeners = [Worker(_listen, ports, form) for ports in places]
    for listener in listeners:
        listener.hear()
    time.sleep(FIND_S)
    for source in sources:
        source.tell("go")
    latencies = [listener.hear() for listener in listeners]
    for worker in (*sources, *others, *listeners):
        worker.end()
    return latencies
