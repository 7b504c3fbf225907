"""A node that keeps to no rule, and machines in a node without sockets."""

from __future__ import annotations

from itertools import count

import google_crc32c
import zmq

from dafka.model import Batch, Partition
from dafka.node.loop import Node
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.events import Received
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.records.batch import BatchBuilder, enclosed
from dafka.transport import sockets
from dafka.wire import messages, rfc46
from distributor.link.events import HeadsRead, Side
from distributor.link.machine import LinkMachine
from distributor.link.settings import LinkSettings

BODY_FROM = 41
"""Where in a content the part begins that the batch's checksum covers."""


def content(records: int = 1, sequence: int = 0, value: bytes = b"value") -> bytes:
    builder = BatchBuilder(1 << 16)
    for number in range(records):
        builder.append(1_000 + number, None, value, ())
    return enclosed(builder.build(), sequence)


def garbled(octets: bytes, position: int, written: bytes, *, mended: bool = True) -> bytes:
    """A content with some bytes written over, under a checksum that says so."""
    changed = bytearray(octets)
    changed[position : position + len(written)] = written
    if mended:
        checksum = google_crc32c.value(bytes(changed[BODY_FROM:]))
        changed[BODY_FROM - 4 : BODY_FROM] = checksum.to_bytes(4, "big")
    return bytes(changed)


class Stranger:
    """A publisher that a store is connected to, and whatever else it likes to send where."""

    def __init__(self, tower, store, query, until, directories, free_ports):
        self.store, self.role, self.query = store.address, store._role, query
        self.until, self.directory, self.free_ports = until, directories, free_ports
        self._numbers = count()
        self._publisher = sockets.publisher()
        port = self._publisher.bind_to_random_port("tcp://127.0.0.1")
        self._beacons = zmq.Context.instance().socket(zmq.XPUB)
        self._beacons.connect(tower)
        assert self._beacons.poll(5_000), "the tower has not subscribed"
        self._beacons.recv()
        heard = set()
        own = b"\1W" + self.store.encode()

        def subscribed():
            self.announces([b"B", b"STRANGER", b"127.0.0.1", str(port).encode()])
            while self._publisher.poll(20):
                heard.add(self._publisher.recv())
            return own in heard

        until(subscribed)

    def new_address(self) -> str:
        """A producer nobody has heard of."""
        return f"STRANGER-{next(self._numbers)}"

    def sends(self, *frames: bytes) -> None:
        self._publisher.send_multipart(frames)

    def says(self, message) -> None:
        self.sends(*rfc46.encode(message))

    def announces(self, frames) -> None:
        self._beacons.send_multipart(frames)

    def asks(self, endpoint: str, frames) -> None:
        dealer = zmq.Context.instance().socket(zmq.DEALER)
        dealer.connect(endpoint)
        dealer.send_multipart(frames)
        dealer.close(2_000)

    def close(self) -> None:
        self._publisher.close(0)
        self._beacons.close(0)


class _Silent:
    """A mesh in which nobody listens."""

    peers = 0

    def publish(self, _message):
        return None

    def listen(self, *_):
        return None

    def unlisten(self, *_):
        return None

    def close(self, _linger_ms):
        return None


class Bare:
    """A role that is nothing but its machine."""

    def __init__(self, name, machine):
        self.name, self._machine = name, machine

    def handle(self, side, event, now_ms):
        if side is None:
            return [(None, effect) for effect in self._machine.handle(event, now_ms)]
        return self._machine.handle((side, event), now_ms)

    def perform(self, _side, _effect):
        return None

    def wakeup_ms(self):
        return None

    def pollable(self):
        return {}

    def close(self):
        return None


def fed(name, machine, *heard, sides=(None,)):
    """Give a machine in a node messages and other events, as its thread would."""
    node = Node(Bare(name, machine), "ME", {side: _Silent() for side in sides})
    for one in heard:
        side, event = one if isinstance(one, tuple) else (sides[0], Received(one))
        node._turn.feed(side, event)
    node.start()
    node.stop()


def diverge() -> None:
    """A link that is given a batch of a partition which is another one at its target."""
    partition = Partition("flights", "AA")
    batches = [Batch(partition, number, 1, content(1, number)) for number in (0, 1)]
    machine = LinkMachine(
        level=1,
        origin=7,
        source=ConsumerMachine("ME", ConsumerSettings(start=Start.ASSIGNED, committed=True)),
        mirror=MirrorMachine(MirrorSettings()),
        settings=LinkSettings(),
    )
    found = HeadsRead({}, {})
    diverged = HeadsRead({}, {}, {partition: 0})
    acked = messages.Ack(*partition, "S1", 0)
    live = [messages.Records(*partition, one.sequence, 1, one.content) for one in batches]
    fed(
        "link",
        machine,
        *((Side.SOURCE, Received(one)) for one in (live[0], acked)),
        (Side.TARGET, found),
        (Side.TARGET, diverged),
        *((Side.SOURCE, Received(one)) for one in (live[0], live[1])),
        sides=tuple(Side),
    )
