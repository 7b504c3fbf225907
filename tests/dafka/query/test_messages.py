from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import WireError
from dafka.groups import membership
from dafka.limits import OPENING_CHARACTERS_MAX, QUERY_BYTES_MAX
from dafka.query import messages
from dafka.query.messages import decode_answer, decode_question, encode

names = st.binary(max_size=255)
places = st.tuples(names, names)
sequences = st.integers(0, 2**63 - 1)
counts = st.integers(1, 2**63 - 1)

ballots = st.builds(membership.Ballot, sequences, st.text())
alive = st.tuples(
    st.tuples(
        st.text(), st.builds(membership.Member, st.lists(names).map(tuple), st.integers(0, 99))
    )
)
pulses = st.lists(
    st.builds(membership.Pulse, st.text(), sequences, st.booleans(), sequences), max_size=3
).map(tuple)
moments = st.tuples(st.text(max_size=OPENING_CHARACTERS_MAX), sequences)

questions = st.one_of(
    st.builds(messages.TopicsRequest, st.none() | names),
    st.builds(messages.PartitionsRequest, st.none() | names, st.none() | places),
    st.builds(messages.RangesRequest, st.none() | names, st.none() | places, st.booleans()),
    st.builds(messages.ChangesRequest, st.none() | moments, st.none() | names),
    st.builds(messages.FindRequest, names, names, sequences),
    st.builds(messages.ReadRequest, names, names, sequences, counts, counts),
    st.builds(messages.DigestRequest, names, names, sequences, counts, st.booleans()),
    st.builds(
        messages.DigestsRequest,
        st.lists(st.tuples(names, names, sequences, counts), max_size=5).map(tuple),
    ),
    st.builds(messages.DeleteRequest, names),
    st.just(messages.HolesRequest()),
    st.builds(messages.SkipRequest, names, names, sequences),
    st.just(messages.HealthRequest()),
    st.just(messages.CatchUpRequest()),
    st.builds(messages.LinkSyncRequest, names, st.booleans()),
    st.builds(
        messages.HoldRequest,
        counts,
        st.binary(max_size=64),
        st.lists(st.tuples(names, names, sequences), max_size=5).map(tuple),
    ),
    st.builds(
        messages.WritersRequest,
        st.lists(st.tuples(names, sequences, counts, counts), max_size=5).map(tuple),
    ),
    st.builds(messages.GroupsRequest, st.none() | names),
    st.builds(messages.CommitsRequest, names, st.none() | places),
    st.builds(messages.MembersRequest, names),
    st.builds(messages.PrepareRequest, st.builds(membership.Prepare, st.text(), ballots)),
    st.builds(
        messages.AcceptRequest, st.builds(membership.Accept, st.text(), ballots, st.binary())
    ),
    st.builds(
        messages.HeartbeatRequest,
        st.builds(membership.Beat, st.text(), st.text(), sequences, st.booleans()),
    ),
)
answers = st.one_of(
    st.builds(messages.TopicsResponse, st.lists(names, max_size=4).map(tuple), st.booleans()),
    st.builds(messages.PartitionsResponse, st.lists(places, max_size=4).map(tuple), st.booleans()),
    st.builds(
        messages.RangesResponse,
        st.lists(st.tuples(names, names, sequences, sequences), max_size=4).map(tuple),
        st.booleans(),
        st.lists(sequences, max_size=4).map(tuple),
    ),
    st.builds(
        messages.ChangesResponse,
        st.lists(st.tuples(names, names, sequences, sequences), max_size=4).map(tuple),
        moments,
        st.booleans(),
        st.booleans(),
    ),
    st.builds(
        messages.ReadResponse,
        st.lists(st.tuples(sequences, counts, st.binary(max_size=50)), max_size=4).map(tuple),
    ),
    st.builds(messages.DigestResponse, sequences, sequences, st.binary(max_size=16), st.text()),
    st.builds(
        messages.DigestsResponse,
        st.lists(st.tuples(sequences, sequences, st.binary(max_size=16)), max_size=5).map(tuple),
    ),
    st.builds(messages.GroupsResponse, st.lists(names, max_size=4).map(tuple), st.booleans()),
    st.builds(
        messages.CommitsResponse,
        st.lists(st.tuples(st.binary(), st.binary()), max_size=4).map(tuple),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(messages.LinkSyncResponse, st.booleans(), st.booleans()),
    st.builds(messages.HoldResponse, st.text()),
    st.builds(messages.WritersResponse, st.lists(counts, max_size=5).map(tuple)),
    st.builds(
        messages.PrepareResponse,
        st.builds(
            membership.Promise, ballots, ballots, st.binary(), sequences, st.just(()) | alive
        ),
    ),
    st.builds(messages.AcceptResponse, st.builds(membership.Accepted, st.booleans(), ballots)),
    st.builds(
        messages.MembersResponse,
        st.builds(membership.Roster, ballots, st.binary(), sequences, st.booleans(), pulses),
    ),
    st.builds(messages.DeleteResponse, sequences, st.booleans()),
    st.builds(
        messages.HolesResponse,
        st.lists(st.tuples(names, names, sequences, sequences), max_size=4).map(tuple),
    ),
    st.builds(messages.SkipResponse, sequences),
    st.builds(messages.FindResponse, st.none() | sequences),
    st.builds(messages.HealthResponse, st.text(), sequences, sequences, st.booleans()),
    st.builds(messages.ErrorResponse, st.text(), st.text()),
)


@given(questions)
def test_questions_survive(question):
    assert decode_question(encode(question)) == question


@given(answers)
def test_answers_survive(answer):
    assert decode_answer(encode(answer)) == answer


def test_literal_bytes():
    # Version, array of three, text "topics", nil, an empty array.
    assert encode(messages.TopicsRequest()) == b"\x01\x93\xa6topics\xc0\x90"
    read = messages.ReadRequest(b"he", b"AB", 1, 2, 3)
    assert encode(read) == b"\x01\x96\xa4read\xc4\x02he\xc4\x02AB\x01\x02\x03"


def test_a_later_version_may_add_fields():
    later = b"\x01" + msgspec.msgpack.encode(["read", b"t", b"A", 0, 1, 1, "new", {"a": [1]}])
    assert decode_question(later) == messages.ReadRequest(b"t", b"A", 0, 1, 1)


@pytest.mark.parametrize(
    ("reason", "frame"),
    [
        ("query version", b""),
        ("query version", b"\x02" + encode(messages.HealthRequest())[1:]),
        ("query message", b"\x01"),
        ("query message", encode(messages.HealthRequest()) + b"x"),
        ("query message", b"\x01" + msgspec.msgpack.encode(["erase"])),
        ("query message", b"\x01" + msgspec.msgpack.encode(["ranges", b"t" * 256, None])),
        ("query message", b"\x01" + msgspec.msgpack.encode(["ranges", "text", None])),
        ("query message", b"\x01" + msgspec.msgpack.encode(["changes", ["o" * 65, 0]])),
        ("query message", b"\x01" + msgspec.msgpack.encode(["changes", ["o", -1]])),
        ("query message", b"\x01" + msgspec.msgpack.encode(["read", b"t", b"A", -1, 1, 1])),
        ("query message", b"\x01" + msgspec.msgpack.encode(["read", b"t", b"A", 0, 0, 1])),
        ("query message", b"\x01" + msgspec.msgpack.encode(["read", b"t", b"A", 2**63, 1, 1])),
        ("query message", b"\x01" + msgspec.msgpack.encode(["read", b"t", b"A"])),
        ("query message", b"\x01\x91\xa4\xff\xff\xff\xff"),
        ("query message", b"\x01\xdd\xff\xff\xff\xff\xa6health"),
        ("query message", b"\x01" + b"\x91" * 100_000),
        ("query message", b"\x01\x92\xa6health" + b"\x91" * 100_000),
        ("query size", bytes(QUERY_BYTES_MAX + 1)),
    ],
    ids=lambda v: str(v)[:40],
)
def test_refusals(reason, frame):
    with pytest.raises(WireError) as refusal:
        decode_question(frame)
    assert refusal.value.reason == reason


def test_mutated_bytes_raise_nothing_else():
    chance = random.Random(46)
    frames = [
        encode(message)
        for message in (
            messages.TopicsRequest(b"he"),
            messages.RangesRequest(b"he", (b"he", b"AB")),
            messages.ChangesRequest(("opening", 7)),
            messages.ReadRequest(b"he", b"AB", 5, 10, 1_000),
            messages.RangesResponse(((b"he", b"AB", 0, 6),), True),
            messages.ReadResponse(((0, 1, b"x"),)),
            messages.HealthResponse("AB", 1, 2),
        )
    ]
    refused = 0
    for case in range(5_000):
        octets = bytearray(frames[case % len(frames)])
        for _ in range(chance.randint(1, 3)):
            position = chance.randrange(1, len(octets) + 1)
            octets[position : position + chance.randint(0, 2)] = chance.randbytes(
                chance.randint(0, 3)
            )
        for decode in (decode_question, decode_answer):
            try:
                decode(bytes(octets))
            except WireError:
                refused += 1
    assert refused > 5_000
