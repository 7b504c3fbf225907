from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import WireError
from dafka.testing.strategies import addresses
from dafka.wire.beacon import (
    KINDS,
    OF_GUEST,
    OF_GUEST_TO_OTHERS,
    OF_STORE,
    WELCOME,
    NodeBeacon,
    TowerBeacon,
    decode_node_beacon,
    decode_tower_beacon,
    echo_of,
    encode_node_beacon,
    encode_tower_beacon,
)


@given(addresses, st.just("") | addresses, st.integers(1, 65_535), st.sampled_from(KINDS))
def test_node_beacons_survive(address, host, port, kind):
    beacon = NodeBeacon(address, host, port, kind=kind)
    assert decode_node_beacon(encode_node_beacon(beacon)) == beacon


@given(
    addresses, st.integers(1, 65_535), st.sampled_from(["10.0.0.1", "[::1]", "[::ffff:10.0.0.1]"])
)
def test_tower_beacons_survive(address, port, host):
    for kind in (*KINDS, echo_of(address)):
        beacon = TowerBeacon(address, f"tcp://{host}:{port}", echo=kind.startswith(OF_GUEST))
        assert decode_tower_beacon(encode_tower_beacon(beacon, kind)) == beacon


def test_literal_frames():
    assert encode_node_beacon(NodeBeacon("AB", "", 5670)) == [b"B", b"AB", b"", b"5670"]
    guest = NodeBeacon("AB", "", 5670, kind=OF_GUEST)
    assert encode_node_beacon(guest) == [b"V", b"AB", b"", b"5670"]
    beacon = TowerBeacon("AB", "tcp://10.0.0.1:5670")
    assert encode_tower_beacon(beacon, OF_STORE)[0] == b"S"
    assert encode_tower_beacon(beacon, echo_of("AB"))[0] == b"VAB"
    marked = encode_tower_beacon(beacon, OF_GUEST_TO_OTHERS)
    assert marked[0] == b"BV"
    assert decode_tower_beacon(marked) == TowerBeacon("AB", "tcp://10.0.0.1:5670", guest=True)
    frames = [b"B", b"AB", b"tcp://10.0.0.1:5670"]
    assert encode_tower_beacon(TowerBeacon("AB", "tcp://10.0.0.1:5670")) == frames
    assert decode_tower_beacon([WELCOME]) is None


@pytest.mark.parametrize(
    ("reason", "frames"),
    [
        ("beacon", []),
        ("beacon", [b"B", b"AB", b""]),
        ("beacon", [b"X", b"AB", b"", b"1"]),
        ("beacon", [b"B", b"AB", b"", b"1", b"k" * 40, b""]),
        ("beacon key", [b"B", b"AB", b"", b"1", b""]),
        ("beacon key", [b"B", b"AB", b"", b"1", b"k" * 39]),
        ("beacon key", [b"B", b"AB", b"", b"1", b"\xff" * 40]),
        ("beacon address", [b"B", b"", b"", b"1"]),
        ("beacon address", [b"B", b"a" * 256, b"", b"1"]),
        ("beacon endpoint", [b"B", b"AB", b"h" * 256, b"1"]),
        ("beacon endpoint", [b"B", b"AB", b"", b""]),
        ("beacon endpoint", [b"B", b"AB", b"", b"-1"]),
        ("beacon endpoint", [b"B", b"AB", b"", b"0"]),
        ("beacon endpoint", [b"B", b"AB", b"ipc:///run/AB.1", b"7"]),
        ("beacon endpoint", [b"B", b"AB", b"", b"65536"]),
        ("beacon endpoint", [b"B", b"AB", b"", b"123456"]),
        ("beacon endpoint", [b"B", b"AB", b"", "\u0661".encode()]),
    ],
)
def test_refused_node_beacons(reason, frames):
    with pytest.raises(WireError) as refusal:
        decode_node_beacon(frames)
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    ("reason", "frames"),
    [
        ("beacon", []),
        ("beacon", [b"B"]),
        ("beacon", [b"W", b"AB", b"tcp://h:1"]),
        ("beacon address", [b"B", b"", b"tcp://h:1"]),
        ("beacon endpoint", [b"B", b"AB", b"ipc://relative"]),
        ("beacon endpoint", [b"B", b"AB", b"inproc://"]),
        ("beacon endpoint", [b"B", b"AB", b"udp://10.0.0.1:1"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://10.0.0.1:0"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://10.0.0.1:1\n"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://-h:1"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://h..h:1"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://" + b"h" * 64 + b":1"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://1.2.3.4.5:1"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://256.0.0.1:1"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://127.1:1"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://[1.2]:1"]),
        ("beacon endpoint", [b"B", b"AB", b"tcp://\xff:1"]),
        ("beacon endpoint", [b"B", b"AB", "tcp://10.0.0.1:\u0661".encode()]),
    ],
)
def test_refused_tower_beacons(reason, frames):
    with pytest.raises(WireError) as refusal:
        decode_tower_beacon(frames)
    assert refusal.value.reason == reason


def test_mutated_bytes_raise_nothing_else():
    chance = random.Random(46)
    node = encode_node_beacon(NodeBeacon("AB", "10.0.0.1", 5670))
    tower = encode_tower_beacon(TowerBeacon("AB", "tcp://10.0.0.1:5670"))
    refused = 0
    for case in range(5_000):
        original, decode = (node, decode_node_beacon) if case % 2 else (tower, decode_tower_beacon)
        frames = list(original)
        index = chance.randrange(len(frames))
        octets = bytearray(frames[index])
        position = chance.randint(0, len(octets))
        octets[position : position + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 3))
        frames[index] = bytes(octets)
        try:
            decode(frames)
        except WireError:
            refused += 1
    assert refused > 500


def test_a_key_travels_as_a_last_frame():
    node, tower = NodeBeacon("AB", "::1", 7, "k" * 40), TowerBeacon("AB", "tcp://[::1]:7", "k" * 40)
    assert encode_node_beacon(node)[4:] == [b"k" * 40]
    assert decode_node_beacon(encode_node_beacon(node)) == node
    assert encode_tower_beacon(tower)[3:] == [b"k" * 40]
    assert decode_tower_beacon(encode_tower_beacon(tower)) == tower


@pytest.mark.parametrize("endpoint", ["ipc:///run/dafka/AB.1", "inproc://AB.1"])
def test_endpoints_without_a_network_survive(endpoint):
    node, tower = NodeBeacon("AB", endpoint, 0), TowerBeacon("AB", endpoint)
    assert encode_node_beacon(node) == [b"B", b"AB", endpoint.encode(), b"0"]
    assert decode_node_beacon(encode_node_beacon(node)) == node
    assert decode_tower_beacon(encode_tower_beacon(tower)) == tower
