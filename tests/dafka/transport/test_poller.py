from __future__ import annotations

import os

import pytest
import zmq

from dafka.transport.poller import Poller


@pytest.fixture
def pair(opened):
    one, other = (opened(zmq.Context.instance().socket(zmq.PAIR)) for _ in range(2))
    port = one.bind_to_random_port("tcp://127.0.0.1")
    other.connect(f"tcp://127.0.0.1:{port}")
    return one, other


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def test_the_handler_of_what_is_readable_is_called(pair, pipe):
    called = []
    poller = Poller()
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


def test_a_turn_waits_no_longer_than_told():
    Poller().turn(0)


def test_what_stays_readable_is_called_in_every_turn(pipe):
    called = []
    poller = Poller()
    poller.add(pipe[0], lambda: called.append(1))
    os.write(pipe[1], b"x")
    for _ in range(3):
        poller.turn(5_000)
    assert called == [1, 1, 1]
