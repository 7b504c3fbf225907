from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.groups.events import Answered, Ask, AskOffsets, OffsetsAnswered
from dafka.groups.membership import Accept, Ballot, Beat, Member, Membership, Prepare, encode
from dafka.model import Partition
from dafka.node import store_lines
from dafka.node.store_lines import StoreLines
from dafka.query import messages

pytestmark = pytest.mark.net

FIRST = Ballot(1, "A")
MEMBERSHIP = encode(Membership(1, 1, {"A": Member((b"orders",), 10_000)}))
PLACE = Partition("orders", "A1")


@pytest.fixture
def lines(stored, until):
    lines = StoreLines("g", [stored.query, "tcp://127.0.0.1:9"])

    def connected():
        lines.ask(Ask(0, 99, Beat("other", "A", 0)))
        return lines._asked[0]

    until(connected)
    assert events(lines, until, 1)[0].token == 99
    yield lines
    lines.close()


def events(lines, until, count):
    (handler, *_) = lines.pollable().values()
    found = []

    def enough():
        found.extend(event for _, event in handler())
        return len(found) >= count

    until(enough)
    return found


def test_every_question_has_its_answer(lines, until):
    asked = [Prepare("g", FIRST), Accept("g", FIRST, MEMBERSHIP), Beat("g", "A", 1)]
    for token, request in enumerate(asked):
        lines.ask(Ask(0, token, request))
    lines.ask(AskOffsets(0, 3, None))
    lines.ask(AskOffsets(0, 4, PLACE))
    promise, accepted, roster, first, second = events(lines, until, 5)
    assert promise == Answered(0, 0, promise.reply)
    assert promise.reply.promised == FIRST
    assert accepted.reply == (True, FIRST)
    assert roster.reply.renewed
    assert roster.reply.membership == MEMBERSHIP
    assert (first, second) == (OffsetsAnswered(0, 3, (), False), OffsetsAnswered(0, 4, (), False))


def test_a_refusal_is_no_answer(lines, until, caplog):
    lines.ask(Ask(0, 1, Accept("g", FIRST, b"[]")))
    lines.ask(Ask(0, 2, Beat("g", "A", 1)))
    (event,) = events(lines, until, 1)
    assert event.token == 2
    assert "store does not help" in caplog.text


def test_a_store_that_is_away_is_asked_in_vain(lines, monkeypatch):
    monkeypatch.setattr(store_lines, "ASKED_MAX", 3)
    for token in range(10):
        lines.ask(Ask(1, token, Beat("g", "A", 1)))
    assert len(lines._asked[1]) <= 3


def test_an_endpoint_that_is_none():
    with pytest.raises(MisuseError):
        StoreLines("g", ["nonsense"])


def test_all_requests_have_a_question():
    for request in (Prepare("g", FIRST), Accept("g", FIRST, b""), Beat("g", "A", 1)):
        assert store_lines._request(request).request is request
    assert isinstance(store_lines._request(Beat("g", "A", 1)), messages.Beat)
