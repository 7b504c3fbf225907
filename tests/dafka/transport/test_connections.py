from __future__ import annotations

import pytest
import zmq

from dafka.transport import sockets
from dafka.transport.connections import Connections

pytestmark = pytest.mark.net


@pytest.fixture
def subscriber(opened):
    return opened(sockets.subscriber())


@pytest.fixture
def connections(subscriber):
    connections = Connections(subscriber)
    yield connections
    connections.close()


def bound(opened, endpoint):
    publisher = opened(sockets.publisher())
    sockets.bind(publisher, endpoint)
    return publisher


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_connection_comes_and_goes_and_comes_again(connections, subscriber, opened, until, host):
    publisher = bound(opened, f"tcp://{host}:*")
    _, _, port = publisher.get_string(zmq.LAST_ENDPOINT).rpartition(":")
    endpoint = f"tcp://{host}:{port}"
    subscriber.connect(endpoint)
    assert until(lambda: list(connections.changes())) == [(endpoint, True)]
    publisher.close(0)
    assert until(lambda: list(connections.changes())) == [(endpoint, False)]
    bound(opened, endpoint)
    assert until(lambda: list(connections.changes())) == [(endpoint, True)]


def test_of_what_is_not_there_nothing_is_reported(connections, subscriber, free_ports):
    subscriber.connect(f"tcp://127.0.0.1:{free_ports(1)}")
    assert not subscriber.poll(200)
    assert list(connections.changes()) == []
