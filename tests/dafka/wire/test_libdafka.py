"""The C implementation's bytes, as captured from its programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dafka.errors import WireError
from dafka.wire import beacon, libdafka, messages
from dafka.wire.messages import MessageId

CAPTURED = json.loads((Path(__file__).parent / "dafka-vectors.json").read_text())
BEACONS = ("TOWER-WELCOME", "NODE-BEACON", "TOWER-BEACON", "XSUB-SUBSCRIPTION")

PRODUCER = "C891227C85A34397B5DB84D5AD6E3C00"
CONSUMER = "9B360C784C6648969DE199EEA58B48FB"
READER = "A87A78EF9E274AEEAC5EB17A79427A78"
WRITER_2 = "B05444025E5D454A8533725E2133CBE2"
PRODUCER_2 = "29D860CB3FBA4464AF500DD87F93FA07"
READER_2 = "2C30CBEAC8DB40C699005201014A10AF"
CONSUMER_2 = "D9832412FDB94B3BBA74166CD8FB9B99"

MEANINGS = [
    messages.RecordMessage("hello", PRODUCER, 0, b"one"),
    messages.Head("hello", PRODUCER, 2),
    messages.Ack("hello", PRODUCER, None, 0),
    messages.GetHeads("hello", CONSUMER),
    messages.StoreHello(CONSUMER, READER),
    messages.ConsumerHello(READER, CONSUMER, ()),
    messages.ConsumerHello(READER_2, CONSUMER_2, ("hello",)),
    messages.DirectHead(CONSUMER, "hello", PRODUCER, 2),
    messages.Fetch("hello", PRODUCER, CONSUMER, 0, 100_000),
    messages.Fetch("hello", PRODUCER_2, WRITER_2, 0, 100_000),
    messages.DirectRecord(CONSUMER, "hello", PRODUCER, 2, b"three"),
    messages.DirectRecord(WRITER_2, "hello", PRODUCER_2, 0, b"one"),
]
"""What some of the captured messages say, written down by hand."""


def octets(captured):
    return [bytes.fromhex(frame) for frame in captured["frames"]]


MESSAGES = [captured for captured in CAPTURED if captured["type"] not in BEACONS]


def test_every_message_of_the_rfc_was_captured():
    ours = {
        MessageId.RECORDS,
        MessageId.DIRECT_RECORDS,
        MessageId.SLOT_RECORDS,
        MessageId.STORED_RECORDS,
        MessageId.LOG_START,
    }
    named = {message_id.name.replace("_", "-") for message_id in set(MessageId) - ours}
    assert {captured["type"] for captured in MESSAGES} == named


@pytest.mark.parametrize("captured", MESSAGES, ids=lambda one: f"{one['type']}-{one['t']}")
def test_captured_messages_both_ways(captured):
    message = libdafka.decode(octets(captured))
    assert message.id.name.replace("_", "-") == captured["type"]
    assert libdafka.encode(message) == octets(captured)


@pytest.mark.parametrize("message", MEANINGS, ids=lambda one: type(one).__name__)
def test_captured_messages_mean_what_they_say(message):
    meant = [octets(one) for one in MESSAGES if libdafka.decode(octets(one)) == message]
    assert meant
    assert libdafka.encode(message) == meant[0]


@pytest.mark.parametrize(
    "captured",
    [one for one in CAPTURED if one["type"] in BEACONS],
    ids=lambda one: f"{one['type']}-{one['t']}",
)
def test_captured_beacons_both_ways(captured):
    frames = octets(captured)
    match captured["type"]:
        case "TOWER-WELCOME":
            assert beacon.decode_tower_beacon(frames) is None
            assert frames == [beacon.WELCOME]
        case "NODE-BEACON":
            assert beacon.encode_node_beacon(beacon.decode_node_beacon(frames)) == frames
        case "TOWER-BEACON":
            assert beacon.encode_tower_beacon(beacon.decode_tower_beacon(frames)) == frames
        case _:
            assert frames == [b"\x01" + beacon.BEACON]


EXTENSIONS = [
    (
        messages.Records("he", "AB", 256, 1_000, b"x"),
        ["42 6865 00 01 02 4142 02 6865 0000000000000100 000003E8", "78"],
    ),
    (
        messages.DirectRecords("CC", "he", "AB", 0, 1, b"x"),
        ["52 4343 00 01 02 4142 02 6865 0000000000000000 00000001", "78"],
    ),
    (
        messages.LogStart("CC", "he", "AB", 9, "ST"),
        ["54 4343 00 01 02 4142 02 6865 0000000000000009 02 5354"],
    ),
    (
        messages.Ack("he", "AB", "ST", 9),
        ["4B 4142 00 01 02 6865 0000000000000009 02 5354"],
    ),
    (
        messages.Fetch("he", "AB", "CC", 9, 5, "ST"),
        ["46 4142 00 01 02 4343 02 6865 0000000000000009 00000005 02 5354"],
    ),
    (
        messages.Head("he", "AB", 1, stored=True),
        ["48 6865 00 01 02 4142 02 6865 0000000000000001 53"],
    ),
    (
        messages.RecordMessage("he", "AB", 1, b"x", batched=True),
        ["4D 6865 00 01 02 4142 02 6865 0000000000000001 42", "78"],
    ),
]


@pytest.mark.parametrize(("message", "frames"), EXTENSIONS, ids=lambda v: type(v).__name__)
def test_extensions(message, frames):
    expected = [bytes.fromhex(frame) for frame in frames]
    assert libdafka.encode(message) == expected
    assert libdafka.decode(expected) == message


def test_our_subscriptions_match_one_key_only_and_those_of_c_nodes_are_understood():
    assert libdafka.prefix(MessageId.RECORD, "he") == b"Mhe\0"
    assert libdafka.prefix(MessageId.RECORD, "") == b"M"
    assert libdafka.subscription(b"Lconsumer") == (MessageId.STORE_HELLO, "consumer")
    assert libdafka.subscription(b"Lconsumer\0") == (MessageId.STORE_HELLO, "consumer")
    assert libdafka.subscription(b"H") == (MessageId.HEAD, "")
    assert libdafka.subscription(b"Ha\0b") is None


def test_bytes_behind_the_fields_are_for_others():
    frames = libdafka.encode(messages.Head("he", "AB", 9))
    assert libdafka.decode([frames[0] + b"more"]) == messages.Head("he", "AB", 9)


HEAD = "48 6865 00 01 02 4142 02 6865 0000000000000009"
RECORD = "4D 6865 00 01 02 4142 02 6865 0000000000000009"
REFUSALS = [
    ("frame count", []),
    ("frame count", [HEAD, ""]),
    ("frame count", [RECORD]),
    ("frame count", [RECORD, "78", "78"]),
    ("message id", [""]),
    ("message id", ["5A" + HEAD[2:]]),
    ("header size", [HEAD + "00" * (4 << 20)]),
    ("topic frame", ["47 68656C6C6F"]),
    ("topic frame", ["48" + "61" * 256 + HEAD[8:]]),
    ("topic frame", [HEAD.replace("48 6865", "48 686568", 1)]),
    ("version", ["48 6865 00"]),
    ("version", [HEAD.replace("00 01", "00 02", 1)]),
    ("version", [HEAD.replace("00 01", "00 31", 1)]),
    ("truncated", [HEAD[:-2]]),
    ("sequence", [HEAD[:-16] + "FF" * 8]),
    ("address", [HEAD.replace("02 4142", "00")]),
    ("address", ["4B 00 01 02 6865 0000000000000009"]),
]


@pytest.mark.parametrize(("reason", "frames"), REFUSALS, ids=lambda v: str(v)[:40])
def test_refusals(reason, frames):
    with pytest.raises(WireError) as refusal:
        libdafka.decode([bytes.fromhex(frame) for frame in frames])
    assert refusal.value.reason == reason
