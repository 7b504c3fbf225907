from __future__ import annotations

import random
import time
from functools import partial

import pytest
import zmq

from dafka.errors import MisuseError
from dafka.model import TowerEndpoints
from dafka.transport import sockets
from dafka.transport.access import Access, Rights
from dafka.transport.curve import prove
from dafka.transport.keys import Credentials, new_keys
from dafka.transport.tower import TowerSockets
from dafka.wire.beacon import (
    BEACON,
    WELCOME,
    NodeBeacon,
    TowerBeacon,
    encode_node_beacon,
    encode_tower_beacon,
)
from tests.support import flood

pytestmark = pytest.mark.net

WAIT_MS = 60_000


@pytest.fixture
def endpoints(free_ports):
    return TowerEndpoints.parse(f"tcp://127.0.0.1:{free_ports(2)}")


@pytest.fixture
def tower(endpoints, opened):
    return opened(TowerSockets(endpoints))


@pytest.fixture
def speaker(tower, endpoints, opened, until):
    """A socket the tower hears: it has subscribed."""
    speaker = opened(zmq.Context.instance().socket(zmq.XPUB))
    speaker.connect(endpoints.inbound)
    # The tower's subscription goes out when it looks at its sockets.
    until(lambda: tower.relay() == ([], []) and speaker.poll(5))
    assert speaker.recv() == b"\x01" + BEACON
    return speaker


@pytest.fixture
def listener(tower, endpoints, opened, until):
    """A socket that hears the tower: it has been welcomed."""
    listener = opened(sockets.subscriber())
    listener.subscribe(BEACON)
    listener.subscribe(WELCOME)
    listener.connect(endpoints.outbound)
    until(lambda: tower.relay() == ([], []) and listener.poll(5))
    assert heard(listener) == [WELCOME]
    return listener


def heard(listener):
    assert listener.poll(WAIT_MS)
    return listener.recv_multipart()


def relayed(tower):
    assert tower.pollable[0].poll(WAIT_MS)
    return tower.relay()


def test_a_beacon_goes_out_to_everybody(tower, speaker, listener):
    speaker.send_multipart(encode_node_beacon(NodeBeacon("AB", "10.0.0.1", 7)))
    beacon = TowerBeacon("AB", "tcp://10.0.0.1:7")
    assert relayed(tower) == ([beacon], [])
    assert heard(listener) == encode_tower_beacon(beacon)


def test_an_empty_host_is_where_the_beacon_came_from(tower, speaker, listener):
    speaker.send_multipart(encode_node_beacon(NodeBeacon("AB", "", 7)))
    beacon = TowerBeacon("AB", "tcp://127.0.0.1:7")
    assert relayed(tower) == ([beacon], [])
    assert heard(listener)[2] == b"tcp://127.0.0.1:7"


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([b"B"], "beacon"),
        ([b"B", b"AB", b"h"], "beacon"),
        ([b"B", b"AB", b"h", b"7", b"more"], "beacon key"),
        ([b"BB", b"AB", b"h", b"7"], "beacon"),
        ([b"B", b"", b"h", b"7"], "beacon address"),
        ([b"B", b"A" * 256, b"h", b"7"], "beacon address"),
        ([b"B", b"AB", b"h", b""], "beacon endpoint"),
        ([b"B", b"AB", b"h", b"0"], "beacon endpoint"),
        ([b"B", b"AB", b"h", b"-7"], "beacon endpoint"),
        ([b"B", b"AB", b"h", b"65536"], "beacon endpoint"),
        ([b"B", b"AB", b"h" * 256, b"7"], "beacon endpoint"),
        ([b"B", b"AB", b"a b", b"7"], "beacon endpoint"),
        ([b"B", b"AB", b"\xff", b"7"], "beacon endpoint"),
        ([b"B", b"AB", b"h;tcp", b"7"], "beacon endpoint"),
        ([b"B", b"AB", b"h:1;tcp", b"7"], "beacon endpoint"),
    ],
    ids=range(15),
)
def test_what_is_no_beacon_is_dropped_with_a_reason(tower, speaker, frames, reason):
    speaker.send_multipart(frames)
    assert relayed(tower) == ([], [reason])


def test_a_bad_beacon_does_not_keep_the_next_from_going_out(tower, speaker, listener):
    speaker.send_multipart([b"B", b"bad"])
    speaker.send_multipart(encode_node_beacon(NodeBeacon("AB", "::1", 7)))
    beacons, dropped = relayed(tower)
    while not beacons:
        more, others = relayed(tower)
        beacons, dropped = beacons + more, dropped + others
    assert beacons == [TowerBeacon("AB", "tcp://[::1]:7")]
    assert dropped == ["beacon"]
    assert heard(listener) == [b"B", b"AB", b"tcp://[::1]:7"]


def test_nothing_to_relay(tower):
    assert tower.relay() == ([], [])


def test_an_endpoint_that_is_taken_is_refused(tower, endpoints):
    with pytest.raises(MisuseError, match=f"cannot open tower at {endpoints.inbound}"):
        TowerSockets(endpoints)


def test_with_keys_a_beacon_is_passed_on_only_with_the_key_that_was_proved(
    endpoints, opened, until
):
    cluster, (public, secret) = new_keys(), new_keys()
    access = Access(cluster[0], {public: Rights()})
    tower = opened(TowerSockets(endpoints, Credentials(access, *cluster)))
    speaker = zmq.Context.instance().socket(zmq.XPUB)
    opened(speaker)
    prove(speaker, Credentials(access, public, secret))
    speaker.connect(endpoints.inbound)
    until(lambda: tower.relay() == ([], []) and speaker.poll(5))
    for key in (cluster[0], ""):
        speaker.send_multipart(encode_node_beacon(NodeBeacon("AB", "10.0.0.1", 7, key)))
        assert relayed(tower) == ([], ["beacon key"])
    speaker.send_multipart(encode_node_beacon(NodeBeacon("AB", "10.0.0.1", 7, public)))
    assert relayed(tower) == ([TowerBeacon("AB", "tcp://10.0.0.1:7", public)], [])


def test_who_subscribes_to_a_long_name_is_disconnected(tower, endpoints, listener):
    name = partial(flood.names, random.Random(1), 100, 1)
    assert flood.pour(endpoints.outbound, b"SUB", name, time.monotonic() + 10)
    assert tower.relay() == ([], [])
    assert not listener.poll(0)


def test_with_keys_whoever_has_one_comes_in(endpoints, opened, until):
    cluster, (public, secret) = new_keys(), new_keys()
    access = Access(cluster[0], {public: Rights()})
    tower = opened(TowerSockets(endpoints, Credentials(access, *cluster)))
    listener = opened(sockets.subscriber())
    prove(listener, Credentials(access, public, secret))
    listener.subscribe(WELCOME)
    listener.connect(endpoints.outbound)
    until(lambda: tower.relay() == ([], []) and listener.poll(5))
    assert heard(listener) == [WELCOME]
