"""Peers that try all that fills a cluster's memory, drawn by a seed: a process of its own.

Source: what `docs/security.md` says a peer can cost.
"""

from __future__ import annotations

import argparse
import os
import random
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import zmq

from dafka.model import TowerEndpoints
from dafka.query import messages as query
from dafka.transport.curve import guard, prove
from dafka.transport.keys import load_credentials
from dafka.transport.sockets import context
from dafka.wire import messages, rfc46
from dafka.wire.messages import MessageId
from tests.support import flood

FIRST_TOPIC = "flights"
MANY = 20


class Mix:
    """Everything one hostile peer does, for as long as it is let.

    Args:
        tower: Of the cluster.
        port: The query port of its store.
        place: A partition that is there: its topic and address.
        credentials: A key of the cluster that may read and write this topic; None without keys.
        seed: Decides what is done, though not when it arrives.
    """

    def __init__(self, tower, port, place, credentials, seed):
        self._tower = TowerEndpoints.parse(tower)
        self._port, self._place, self._credentials = port, place, credentials
        self._chance = random.Random(seed)
        self._context = context()
        self._publishers = self._found()

    def attack(self, until_s):
        """Do one thing after the other."""
        attacks = [self._subscribes, self._asks, self._fetches, self._names, self._endless]
        attacks += [self._churns, self._babbles]
        while time.monotonic() < until_s:
            end_s = min(until_s, time.monotonic() + self._chance.uniform(0.2, 1.5))
            with ExitStack() as stack, suppress(OSError, zmq.ZMQError):
                self._chance.choice(attacks)(stack, end_s)

    def _socket(self, stack, kind, endpoint):
        """A socket that takes as little as it can, and gives as much."""
        socket = stack.enter_context(self._context.socket(kind))
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.RCVHWM, 1),
            (zmq.RCVBUF, 4_096),
            (zmq.SNDHWM, 100_000),
            (zmq.SNDTIMEO, 1_000),
        ):
            socket.set(option, value)
        prove(socket, self._credentials)
        socket.connect(endpoint)
        return socket

    def _found(self):
        """Where nodes publish that prove the cluster's key: stores, if there are keys."""
        expected = None if self._credentials is None else self._credentials.access.cluster
        found = set()
        with ExitStack() as stack:
            heard = self._socket(stack, zmq.SUB, self._tower.outbound)
            heard.subscribe(b"B")
            until_s = time.monotonic() + 2.5
            while time.monotonic() < until_s and heard.poll(500):
                _, _, endpoint, *key = (frame.decode() for frame in heard.recv_multipart())
                if expected is None or key == [expected]:
                    found.add(endpoint)
        return sorted(found)

    def _subscribes(self, stack, until_s):
        target = self._chance.choice([self._tower.outbound, *self._publishers])
        if self._credentials is None:
            length = flood.TOWER_NAME if target == self._tower.outbound else 250
            flood.flood(target, b"SUB", lambda: flood.names(self._chance, length), until_s)
            return
        while time.monotonic() < until_s:
            with ExitStack() as own:
                socket = self._socket(own, zmq.SUB, target)
                for _ in range(10_000):
                    socket.subscribe(b"B" + self._chance.randbytes(120).hex().encode())
                socket.poll(200)

    def _endless(self, stack, until_s):
        kind, target = self._chance.choice(
            [(zmq.PUB, self._tower.inbound), (zmq.DEALER, self._port)]
        )
        length = self._chance.choice([0, 1_000])
        if self._credentials is None:
            chunk = flood.frame(b"B", flood.MORE) + flood.parts(length)
            flood.flood(target, b"PUB" if kind == zmq.PUB else b"DEALER", lambda: chunk, until_s)
            return
        part = bytes(max(1, length))
        while time.monotonic() < until_s:
            with ExitStack() as own:
                socket = self._socket(own, kind, target)
                socket.poll(2_000, zmq.POLLOUT)
                for _ in range(30_000):
                    socket.send(part, zmq.SNDMORE)
                socket.send(part)
                socket.poll(200)

    def _asks(self, stack, until_s):
        topic, address = self._place
        question = query.encode(
            query.ReadRequest(topic.encode(), address.encode(), 0, 1_000, 8 << 20)
        )
        sockets = [self._socket(stack, zmq.DEALER, self._port) for _ in range(MANY)]
        number = 0
        while time.monotonic() < until_s:
            for socket in sockets:
                number += 1
                with suppress(zmq.Again):
                    socket.send_multipart((number.to_bytes(8, "big"), question), zmq.NOBLOCK)
            time.sleep(0.001)

    def _joined(self, stack):
        """A publisher that the nodes of the mesh listen to, and its address."""
        publisher = stack.enter_context(self._context.socket(zmq.XPUB))
        publisher.set(zmq.LINGER, 0)
        guard(publisher, self._credentials)
        port = publisher.bind_to_random_port("tcp://127.0.0.1")
        digits = f"{self._chance.randrange(1 << 128):032X}"
        known = self._credentials
        address = digits if known is None else known.own_address(digits)
        beacons = self._socket(stack, zmq.XPUB, self._tower.inbound)
        key = [] if known is None else [known.public.encode()]
        beacon = [b"B", address.encode(), b"127.0.0.1", str(port).encode(), *key]
        until_s = time.monotonic() + 5
        while not publisher.poll(200) and time.monotonic() < until_s:
            beacons.send_multipart(beacon)
        return publisher, address

    def _fetches(self, stack, until_s):
        topic, address = self._place
        publisher, own = self._joined(stack)
        for target in self._publishers:
            reader = self._socket(stack, zmq.SUB, target)
            reader.subscribe(rfc46.prefix(MessageId.DIRECT_RECORDS, own))
        fetch = rfc46.encode(messages.Fetch(topic, address, own, 0, 1_000))
        while time.monotonic() < until_s:
            for _ in range(100):
                publisher.send_multipart(fetch)
            time.sleep(0.001)

    def _names(self, stack, until_s):
        publisher, own = self._joined(stack)
        while time.monotonic() < until_s:
            for _ in range(100):
                made_up = own[:16] + f"{self._chance.randrange(1 << 64):016X}"
                publisher.send_multipart(rfc46.encode(messages.Head(FIRST_TOPIC, made_up, 1 << 40)))
            time.sleep(0.001)

    def _churns(self, stack, until_s):
        while time.monotonic() < until_s:
            target = self._chance.choice(self._doors())
            with suppress(OSError):  # some doors are not for this kind
                flood.met(target, b"SUB", 0.2).close()

    def _babbles(self, stack, until_s):
        while time.monotonic() < until_s:
            target = self._chance.choice(self._doors())
            greeting = self._chance.choice([b"", flood.GREETING])
            with flood.reached(target, 0.2) as connection, suppress(OSError):
                connection.sendall(greeting + self._chance.randbytes(10_000))
                connection.recv(1)

    def _doors(self):
        return [self._tower.inbound, self._tower.outbound, self._port, *self._publishers]


def main():
    """Attack until the time is over, or whoever started it closes its input."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("tower", "port", "topic", "address"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--access", type=Path)
    parser.add_argument("--key", type=Path)
    given = parser.parse_args()
    os.nice(19)  # its work is its own machine's, as a rule
    until_s = time.monotonic() + given.seconds
    credentials = None if given.access is None else load_credentials(given.access, given.key)
    place = given.topic, given.address

    def run(number):
        Mix(given.tower, given.port, place, credentials, f"{given.seed}/{number}").attack(until_s)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(given.at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
