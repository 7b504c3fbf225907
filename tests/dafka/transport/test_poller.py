"""Over real sockets, as what takes ZeroMQ's signs away is ZeroMQ's own affair."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import accumulate, count

import pytest
import zmq
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dafka.transport import sockets
from dafka.transport.poller import Poller

ROUNDS = 300
WIDTH = 12
"""Sockets between two processes."""

TAKEN_MAX = 3
"""Messages that a handler takes at once, of more."""

WAIT_S = 120


@pytest.fixture
def poller():
    with Poller() as poller:
        yield poller


@pytest.fixture
def pair(opened):
    one, other = (opened(sockets.monitor()) for _ in range(2))
    port = one.bind_to_random_port("tcp://127.0.0.1")
    other.connect(f"tcp://127.0.0.1:{port}")
    return one, other


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def test_the_handler_of_what_is_readable_is_called(poller, pair, pipe):
    called = []
    poller.add(pair[0], lambda: called.append(pair[0].recv()))
    poller.add(pipe[0], lambda: called.append(os.read(pipe[0], 10)))
    poller.turn(0)
    assert called == []
    os.write(pipe[1], b"pipe")
    poller.turn(5_000)
    assert called == [b"pipe"]
    pair[1].send(b"socket")
    poller.turn(5_000)
    assert called == [b"pipe", b"socket"]


def test_what_comes_to_one_that_sleeps_ends_the_wait(poller, pair, until):
    called = []
    poller.add_sleeper(pair[0], lambda: called.append(pair[0].recv()))
    assert not poller.turn(0)
    pair[1].send(b"socket")
    until(lambda: poller.turn(60_000))
    assert called == [b"socket"]


def test_a_turn_waits_no_longer_than_told(poller, pair):
    poller.add_sleeper(pair[0], int)
    assert not poller.turn(0)


def test_what_stays_readable_is_called_in_every_turn(poller, pipe):
    called = []
    poller.add(pipe[0], lambda: called.append(1))
    os.write(pipe[1], b"x")
    for _ in range(3):
        poller.turn(5_000)
    assert called == [1, 1, 1]


def test_one_that_is_closed_may_leave_its_number_to_another_before_it_is_removed(poller, opened):
    called = []
    closed = opened(sockets.monitor())
    poller.add_sleeper(closed, int)
    number = closed.get(zmq.FD)
    closed.close(0)
    while True:
        one, other = (opened(sockets.monitor()) for _ in range(2))
        if number in (one.get(zmq.FD), other.get(zmq.FD)):
            break
    if other.get(zmq.FD) == number:
        one, other = other, one
    one.bind("inproc://heir")
    other.connect("inproc://heir")
    poller.add_sleeper(one, lambda: called.append(one.recv()))
    poller.remove(closed)
    poller.turn(0)
    other.send(b"to the heir")
    poller.turn(0)
    assert called == [b"to the heir"]
    poller.remove(one)
    other.send(b"to nobody")
    assert not poller.turn(0)


class Crowd:
    """Sockets that are watched by a poller, and how many messages each has."""

    names = count()

    def __init__(self, poller):
        self.poller = poller
        self.pairs = []
        self.waiting = Counter()
        self.called = []

    def open(self, sleeper):
        one, other = sockets.monitor(), sockets.monitor()
        name = f"inproc://poller.{next(self.names)}"
        one.bind(name)
        other.connect(name)
        self.pairs.append((one, other))
        (self.poller.add_sleeper if sleeper else self.poller.add)(one, partial(self.take, one))

    def take(self, one):
        self.called.append(one)
        self.receive(one, TAKEN_MAX)

    def receive(self, one, number):
        for _ in range(min(number, self.waiting[one])):
            one.recv(zmq.NOBLOCK)
            self.waiting[one] -= 1

    def send(self, place, number):
        for one, other in self.pairs[place : place + 1]:
            for _ in range(number):
                other.send(b"")
            self.waiting[one] += number

    def use(self, place, number):
        """Receive some outside the handler."""
        for one, _ in self.pairs[place : place + 1]:
            self.receive(one, number)
            self.poller.used([one] if one in self.poller._descriptors else [])

    def end(self, place, removed_first):
        for one, other in self.pairs[place : place + 1]:
            if removed_first:
                self.poller.remove(one)
            one.close(0)
            other.close(0)
            if not removed_first:
                self.poller.remove(one)
            del self.pairs[place]

    def turn(self):
        expected = [one for one, _ in self.pairs if self.waiting[one]]
        self.called = []
        assert self.poller.turn(0) == bool(expected)
        assert self.called == expected

    def close(self):
        while self.pairs:
            self.end(0, removed_first=True)


places = st.integers(0, 2)
numbers = st.integers(0, 2 * TAKEN_MAX)
steps = st.one_of(
    st.tuples(st.just(Crowd.open), st.booleans()),
    st.tuples(st.just(Crowd.send), places, numbers),
    st.tuples(st.just(Crowd.use), places, numbers),
    st.tuples(st.just(Crowd.end), places, st.booleans()),
)
turns = st.integers(0, 2)
"""After each step."""
LEFT = [((Crowd.send, 0, 2 * TAKEN_MAX), 2)]
USED = [((Crowd.send, 0, 2), 0), ((Crowd.use, 0, 1), 1)]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.booleans(), min_size=1, max_size=5), st.lists(st.tuples(steps, turns)))
@example([True], LEFT)
@example([True, True], [((Crowd.turn,), 0), *USED])
def test_each_turn_calls_all_that_have_something_once_and_in_order(opened, done):
    with Poller() as poller:
        crowd = Crowd(poller)
        try:
            for sleeper in opened:
                crowd.open(sleeper)
            for (step, *arguments), number in [*done, ((Crowd.turn,), 1)]:
                step(crowd, *arguments)
                for _ in range(number):
                    crowd.turn()
        finally:
            crowd.close()


class Talk:
    """One of two processes that send each other messages by sockets drawn by lot."""

    def __init__(self, poller, seed, answers):
        self.arrived = 0
        self.lots = random.Random(seed)
        self.sockets = [sockets.monitor() for _ in range(WIDTH)]
        self._poller = poller
        self._answers = answers
        for socket in self.sockets:
            poller.add_sleeper(socket, partial(self._take, socket))

    def send(self, number):
        drawn = self.lots.choices(self.sockets, k=number)
        for socket in drawn:
            socket.send(b"")
        self._poller.used(drawn)

    def wait(self, number):
        """Turn until so many have arrived; nothing else comes that would make up for a miss."""
        deadline = time.monotonic() + WAIT_S
        while self.arrived < number:
            self._poller.turn(WAIT_S * 1_000)
            assert time.monotonic() < deadline, f"of {number} messages {self.arrived} are heard of"
        assert self.arrived == number

    def _take(self, socket):
        taken = 0
        with suppress(zmq.Again):
            while taken < TAKEN_MAX:
                socket.recv(zmq.NOBLOCK)
                taken += 1
        self.arrived += taken
        if self._answers:
            self.send(taken)

    def close(self):
        for socket in self.sockets:
            socket.close(1_000)


def answer(ports, number):
    with Poller() as poller:
        talk = Talk(poller, 2, answers=True)
        for socket, port in zip(talk.sockets, ports, strict=True):
            socket.connect(f"tcp://127.0.0.1:{port}")
        talk.wait(number)
        talk.close()


@pytest.mark.net
@pytest.mark.slow
def test_two_processes_that_send_at_random_miss_nothing(poller, opened):
    talk = opened(Talk(poller, 1, answers=False))
    ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in talk.sockets]
    bursts = [talk.lots.randint(1, 2 * WIDTH) for _ in range(ROUNDS)]
    process = multiprocessing.get_context("spawn").Process(target=answer, args=(ports, sum(bursts)))
    process.start()
    for total in accumulate(bursts):
        talk.send(total - talk.arrived)
        talk.wait(total)
    process.join(WAIT_S)
    assert process.exitcode == 0
