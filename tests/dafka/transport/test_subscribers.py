from __future__ import annotations

import subprocess
import sys

import pytest

from dafka.limits import SENDERS_MAX
from dafka.transport import subscribers as module
from dafka.transport.access import ANYBODY, Access, Rights, Sender, fingerprint
from dafka.transport.curve import guard
from dafka.transport.keys import Credentials, new_keys
from dafka.transport.sockets import ConnectionChange
from dafka.transport.subscribers import Subscribers

WRITER = Rights(("orders",), ("orders",))
READER = Rights(("orders",))


@pytest.fixture
def pairs():
    return {name: new_keys() for name in ("cluster", "ann", "bob", "reader", "other")}


@pytest.fixture
def credentials(pairs):
    rights = {pairs["ann"][0]: WRITER, pairs["bob"][0]: WRITER}
    rights |= {pairs["reader"][0]: READER, pairs["other"][0]: READER}
    return Credentials(Access(pairs["cluster"][0], rights), *pairs["cluster"])


@pytest.fixture
def subscribers(credentials):
    found = Subscribers(credentials)
    yield found
    found.close()


def test_without_keys_one_is_enough():
    found = Subscribers(None)
    assert found.connect("tcp://127.0.0.1:9", "") is None
    assert found.connect("tcp://127.0.0.1:10", "") is None
    (socket,) = found.sockets
    assert found.sender(socket) == Sender(ANYBODY)
    found.disconnect("tcp://127.0.0.1:9")
    found.disconnect("tcp://127.0.0.1:9")
    assert found.sockets == [socket]
    found.close()
    assert socket.closed


def test_who_writes_is_told_apart_and_who_reads_is_not(subscribers, pairs):
    for port, name in enumerate(("cluster", "ann", "bob", "reader", "other"), 9):
        assert subscribers.connect(f"tcp://127.0.0.1:{port}", pairs[name][0]) is None
    senders = [subscribers.sender(socket) for socket in subscribers.sockets]
    assert senders == [
        Sender(ANYBODY),
        Sender(WRITER, fingerprint(pairs["ann"][0])),
        Sender(WRITER, fingerprint(pairs["bob"][0])),
        Sender(READER),
    ]


def test_an_unknown_key_is_not_connected(subscribers):
    assert subscribers.connect("tcp://127.0.0.1:9", new_keys()[0]) == "beacon key"


def test_a_sender_is_forgotten_with_its_last_peer(subscribers, pairs):
    key = pairs["ann"][0]
    before = subscribers.changed
    for port in (9, 10):
        assert subscribers.connect(f"tcp://127.0.0.1:{port}", key) is None
    assert subscribers.changed == before + 2
    _, socket = subscribers.sockets
    subscribers.disconnect("tcp://127.0.0.1:9")
    assert not socket.closed
    subscribers.disconnect("tcp://127.0.0.1:10")
    assert socket.closed
    assert len(subscribers.sockets) == 1
    assert subscribers.changed == before + 4


def test_who_is_told_of_connections_reads_what_came_before_from_the_subscriber(subscribers):
    before = subscribers.changed
    (socket,), (report,) = subscribers.sockets, subscribers.reports
    assert subscribers.reported(socket) is None
    assert subscribers.changed == before
    assert subscribers.reported(report) == (socket, [])
    assert subscribers.changed == before + 1, "for it is used otherwise than when it is readable"


def test_what_is_reported_of_a_key_that_is_not_tried_any_more_is_nothing(
    subscribers, credentials, pairs, opened, until
):
    """Attempts of a wrong key were taken for the end of the right one's connection."""
    publisher = opened(module.sockets.publisher())
    guard(publisher, credentials)
    module.sockets.bind(publisher, "tcp://127.0.0.1:*")
    endpoint = module.sockets.unmapped(publisher.last_endpoint.decode())
    for one in ("tcp://127.0.0.1:9", endpoint):
        assert subscribers.connect(one, pairs["ann"][0]) is None
    right, wrong = subscribers.reports
    gone = [(endpoint, ConnectionChange.GONE)]
    assert until(lambda: subscribers.reported(wrong)[1])[:1] == gone
    until(lambda: wrong.poll(0))
    subscribers.disconnect(endpoint)
    assert subscribers.connect(endpoint, pairs["cluster"][0]) is None
    alive = [(endpoint, ConnectionChange.ALIVE)]
    assert until(lambda: subscribers.reported(right)[1]) == alive
    assert subscribers.reported(wrong)[1] == []


def test_there_is_a_bound_and_room_again(pairs, credentials, opened):
    assert SENDERS_MAX >= 100
    subscribers = opened(Subscribers(credentials, senders_max=2))
    assert subscribers.connect("tcp://127.0.0.1:9", pairs["ann"][0]) is None
    assert subscribers.connect("tcp://127.0.0.1:10", pairs["bob"][0]) == "too many peers"
    subscribers.disconnect("tcp://127.0.0.1:9")
    assert subscribers.connect("tcp://127.0.0.1:10", pairs["bob"][0]) is None


NEAR_THE_LIMIT = """
import os, resource
from dafka.transport.access import Access, Rights
from dafka.transport.keys import Credentials, new_keys
from dafka.transport.subscribers import Subscribers

writer, cluster, keys = Rights(("orders",), ("orders",)), new_keys(), [new_keys(), new_keys()]
credentials = Credentials(Access(cluster[0], {public: writer for public, _ in keys}), *cluster)
found = Subscribers(credentials)
found.connect("tcp://127.0.0.1:9", keys[0][0])
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40, hard))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for free in range(40):  # what was closed is free a moment later
    told = found.connect("tcp://127.0.0.1:10", keys[1][0])
    print(free, told, len(found.sockets))
    if told is None:
        break
    os.close(taken.pop())
"""


def test_a_key_for_which_no_file_is_left_is_left_out():
    """With one or two files left a node ended, and what had been opened was polled for ever."""
    words = [sys.executable, "-c", NEAR_THE_LIMIT]
    told = subprocess.check_output(words, text=True, timeout=60).splitlines()
    *left_out, last = told
    assert left_out == [f"{free} too many peers 2" for free in range(len(left_out))]
    assert len(left_out) > 1
    assert last == f"{len(left_out)} None 3"


def test_a_socket_that_is_opened_late_listens_to_the_same(pairs, subscribers, opened):
    publisher = opened(module.sockets.publisher(10))
    module.sockets.bind(publisher, "tcp://127.0.0.1:*")
    endpoint = publisher.last_endpoint.decode()
    found = opened(Subscribers(None))
    found.subscribe(b"a")
    found.subscribe(b"b")
    found.unsubscribe(b"b")
    found.connect(endpoint, "")
    assert publisher.poll(5_000)
    assert publisher.recv() == b"\1a"
    found._open(Sender(READER))
    late = found.sockets[1]
    late.connect(endpoint)
    assert publisher.poll(5_000)
    assert publisher.recv() == b"\1a"
