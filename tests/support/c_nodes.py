"""Nodes that behave on the wire as those of the C implementation do, their oddities included.

Written from what its programs were seen to do, with a codec of their own, so that they cannot share
a mistake with ours: prefix subscriptions without a NUL, FETCH counts rounded up to the next 100,000
and asked at most once a second, stores of two nodes that answer count + 1 records, acknowledge
duplicates never and say so once per batch; consumers that keep nothing ahead of a gap; two hellos.
Only the intervals are shorter.
"""

from __future__ import annotations

import struct
import threading
import time
from uuid import uuid4

import zmq

BEACON_S = 0.1
EXPIRY_S = 4.0
HEAD_S = 0.2
FETCH_S = 0.2
"""A second in C: how seldom the same block is asked for."""
CHUNK = 100_000
SETTLE_S = 0.4
"""A producer waits so long after the last node it found: a C consumer whose first FETCH nobody
hears does not ask again, and people start one program after the other."""


def string(text):
    return bytes((len(text),)) + text


def header(letter, topic, *fields):
    return letter + topic + b"\0\1" + b"".join(fields)


def number_8(value):
    return struct.pack(">Q", value)


def number_4(value):
    return struct.pack(">I", value)


class Fields:
    """A received header frame; what follows the last field that is read is ignored."""

    def __init__(self, frame):
        self.letter, (self.topic, rest) = frame[:1], frame[1:].split(b"\0", 1)
        assert rest[0] == 1
        self.rest = rest[1:]

    def take(self, size):
        taken, self.rest = self.rest[:size], self.rest[size:]
        assert len(taken) == size
        return taken

    def string(self):
        return self.take(self.take(1)[0])

    def number_8(self):
        return struct.unpack(">Q", self.take(8))[0]

    def number_4(self):
        return struct.unpack(">I", self.take(4))[0]


class Node(threading.Thread):
    """Beacons, connections, and a publishing socket."""

    publisher_kind = zmq.XPUB
    subscriptions = ()

    def __init__(self, tower_inbound, tower_outbound):
        super().__init__(daemon=True)
        self.uuid = uuid4().hex.upper().encode()
        self._towers = tower_inbound, tower_outbound
        self._stopping = threading.Event()
        self._peers = {}
        self.found_at = time.monotonic()
        """When it last found another node."""
        self.error = None

    def stop(self):
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error

    def run(self):
        try:
            self._run()
        except Exception as error:  # noqa: BLE001
            self.error = error
        finally:
            for socket in (self.pub, self.sub, self.beacons_out, self.beacons_in):
                socket.close(100)

    def _run(self):
        port = self._open()
        while self.beacons_in.recv_multipart() != [b"W"]:
            pass  # a C node does not begin without a tower's welcome
        for prefix in self.begin():
            self.sub.subscribe(prefix)
        beacon = [b"B", self.uuid, b"", str(port).encode()]
        poller = zmq.Poller()
        for socket in (self.sub, self.beacons_in, self.pub):
            if socket.type != zmq.PUB:
                poller.register(socket, zmq.POLLIN)
        due = 0.0
        while not self._stopping.is_set():
            now = time.monotonic()
            if now >= due:
                due = now + BEACON_S
                self._sweep(now)
                self.beacons_out.send_multipart(beacon)
            self._receive(dict(poller.poll(20)), beacon)
            self.turn(now)

    def _open(self):
        context = zmq.Context.instance()
        self.pub, self.sub = context.socket(self.publisher_kind), context.socket(zmq.SUB)
        if self.publisher_kind == zmq.XPUB:
            self.pub.set(zmq.XPUB_VERBOSE, 1)
        for socket in (self.pub, self.sub):
            socket.set(zmq.SNDHWM, 1_000_000)
            socket.set(zmq.RCVHWM, 1_000_000)
        self.beacons_out, self.beacons_in = context.socket(zmq.PUB), context.socket(zmq.SUB)
        self.beacons_in.subscribe(b"W")
        self.beacons_in.subscribe(b"B")
        self.beacons_out.connect(self._towers[0])
        self.beacons_in.connect(self._towers[1])
        return self.pub.bind_to_random_port("tcp://127.0.0.1")

    def _sweep(self, now):
        for endpoint in [one for one, expiry in self._peers.items() if expiry < now]:
            self.sub.disconnect(endpoint)
            del self._peers[endpoint]

    def _receive(self, ready, beacon):
        if self.beacons_in in ready:
            self._heard(self.beacons_in.recv_multipart(), beacon)
        if self.pub in ready:
            frame = self.pub.recv()
            if frame[:1] == b"\1":
                self.subscribed(frame[1:])
        if self.sub in ready:
            self._drain()

    def _heard(self, frames, beacon):
        if frames == [b"W"]:
            return
        letter, uuid, endpoint = frames
        assert letter == b"B"
        if uuid == self.uuid:
            return
        endpoint = endpoint.decode()
        if endpoint not in self._peers:
            self.sub.connect(endpoint)
            self.found_at = time.monotonic()
            self.beacons_out.send_multipart(beacon)
        self._peers[endpoint] = time.monotonic() + EXPIRY_S

    def _drain(self):
        for _ in range(1_000):
            try:
                frames = self.sub.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            fields = Fields(frames[0])
            assert len(frames) == (2 if fields.letter in (b"M", b"D") else 1), frames
            self.received(fields, frames[1] if len(frames) == 2 else None)

    def begin(self):
        return ()

    def turn(self, now):
        pass

    def subscribed(self, prefix):
        pass

    def received(self, fields, content):
        pass


class Fetching(Node):
    """What consumers and stores share: when to ask, and for how many."""

    def __init__(self, *towers):
        super().__init__(*towers)
        self.asked = {}
        self.counts = []

    def fetch(self, subject, address, sequence):
        key = subject, address, sequence // CHUNK
        now = int(time.monotonic() / FETCH_S)
        if self.asked.get(key) == now:
            return
        self.asked[key] = now
        count = (sequence // CHUNK + 1) * CHUNK - sequence
        self.counts.append(count)
        fields = string(self.uuid), string(subject), number_8(sequence), number_4(count)
        self.pub.send(header(b"F", address, *fields))


class Producer(Node):
    publisher_kind = zmq.PUB

    def __init__(self, topic, *towers):
        super().__init__(*towers)
        self.topic = topic
        self.kept = {}
        self._todo = []
        self._count = 0
        self._head_due = None

    def send(self, *contents):
        self._todo.extend(contents)

    @property
    def sent(self):
        """How many records, once that is all of them; else 0."""
        return 0 if self._todo else self._count

    @property
    def all_acknowledged(self):
        return self.sent > 0 and not self.kept

    def begin(self):
        return b"K" + self.uuid, b"F" + self.uuid

    def turn(self, now):
        while self._todo and now >= self.found_at + SETTLE_S:
            content = self.kept[self._count] = self._todo[0]
            frame = header(b"M", self.topic, self._place(self._count))
            self.pub.send_multipart([frame, content])
            self._count += 1
            self._head_due = self._head_due or now + HEAD_S
            del self._todo[0]
        if self._head_due is not None and now >= self._head_due:
            self._head_due = now + HEAD_S
            self.pub.send(header(b"H", self.topic, self._place(self._count - 1)))

    def _place(self, sequence):
        return string(self.uuid) + string(self.topic) + number_8(sequence)

    def received(self, fields, content):
        if fields.letter == b"K":
            fields.string()
            acknowledged = fields.number_8()
            self.kept = {at: value for at, value in self.kept.items() if at > acknowledged}
        elif fields.letter == b"F":
            requester, _, first, count = (
                fields.string(),
                fields.string(),
                fields.number_8(),
                fields.number_4(),
            )
            if self.kept and first >= min(self.kept):
                for at in sorted(self.kept):
                    if first <= at < first + count:
                        frame = header(b"D", requester, self._place(at))
                        self.pub.send_multipart([frame, self.kept[at]])


class Consumer(Fetching):
    def __init__(self, topic, *towers, earliest=True):
        super().__init__(*towers)
        self.topic = topic
        self.earliest = earliest
        self.last = {}
        self.delivered = []

    def begin(self):
        for letter in (b"D", b"E", b"L"):
            yield letter + self.uuid
        yield b"M" + self.topic
        yield b"H" + self.topic
        if self.earliest:
            self.pub.send(header(b"G", self.topic, string(self.uuid)))

    def subscribed(self, prefix):
        if prefix[:1] == b"W":
            self._hello(prefix[1:].split(b"\0")[0])

    def _hello(self, store):
        topics = [self.topic] if self.earliest else []
        listed = b"".join(number_4(len(topic)) + topic for topic in topics)
        self.pub.send(header(b"W", store, string(self.uuid), number_4(len(topics)), listed))

    def received(self, fields, content):
        if fields.letter == b"L":
            self._hello(fields.string())
            return
        address, subject, sequence = fields.string(), fields.string(), fields.number_8()
        key = subject, address
        new = key not in self.last
        if new:
            self.last[key] = -1 if self.earliest else sequence - 1
        last = self.last[key]
        if fields.letter in (b"M", b"D"):
            if sequence == last + 1:
                self.last[key] = sequence
                self.delivered.append((subject, address, content))
            elif sequence > last:
                self.fetch(subject, address, last + 1)
        elif new or (last >= 0 and sequence > last):  # -1 is the largest number in C
            self.fetch(subject, address, last + 1)


class StoreWriter(Fetching):
    publisher_kind = zmq.PUB

    def __init__(self, log, *towers):
        super().__init__(*towers)
        self.log = log
        self._touched = {}

    def begin(self):
        return b"D" + self.uuid, b"M", b"H"

    def received(self, fields, content):
        address, subject, sequence = fields.string(), fields.string(), fields.number_8()
        kept = self.log.setdefault((subject, address), [])
        if fields.letter == b"H":
            if len(kept) <= sequence:
                self.fetch(subject, address, len(kept))
        elif sequence == len(kept):
            kept.append(content)
            self._touched[subject, address] = sequence
        elif sequence > len(kept):
            self.fetch(subject, address, len(kept))

    def turn(self, now):
        for (subject, address), sequence in self._touched.items():
            self.pub.send(header(b"K", address, string(subject), number_8(sequence)))
        self._touched.clear()


class StoreReader(Node):
    def __init__(self, log, writer, *towers):
        super().__init__(*towers)
        self.log = log
        self.writer = writer

    def begin(self):
        return b"F", b"G", b"W" + self.uuid

    def subscribed(self, prefix):
        if prefix[:1] == b"L":
            self.pub.send(header(b"L", prefix[1:].split(b"\0")[0], string(self.uuid)))

    def received(self, fields, content):
        if fields.letter == b"G":
            self._heads(fields.string(), fields.topic)
        elif fields.letter == b"W":
            consumer, count = fields.string(), fields.number_4()
            for _ in range(count):
                self._heads(consumer, fields.take(fields.number_4()))
        else:
            requester, subject = fields.string(), fields.string()
            first, count = fields.number_8(), fields.number_4()
            kept = self.log.get((subject, fields.topic), [])
            if requester != self.writer.uuid:
                for at in range(first, min(first + count + 1, len(kept))):
                    place = string(fields.topic) + string(subject) + number_8(at)
                    self.pub.send_multipart([header(b"D", requester, place), kept[at]])

    def _heads(self, consumer, beginning):
        for (subject, address), kept in list(self.log.items()):
            if kept and subject.startswith(beginning):
                place = string(address) + string(subject) + number_8(len(kept) - 1)
                self.pub.send(header(b"E", consumer, place))


class Store:
    """Two nodes over one log."""

    def __init__(self, *towers):
        self.log = {}
        self.writer = StoreWriter(self.log, *towers)
        self.reader = StoreReader(self.log, self.writer, *towers)

    def has_met_someone_since(self, moment):
        return moment < self.writer.found_at < time.monotonic() - SETTLE_S

    def has_all_of(self, producer):
        kept = self.log.get((producer.topic, producer.uuid), ())
        return 0 < producer.sent == len(kept)

    def start(self):
        self.writer.start()
        self.reader.start()

    def stop(self):
        self.writer.stop()
        self.reader.stop()
