from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.groups.events import Answered, Ask, AskOffsets, OffsetsAnswered
from dafka.groups.membership import (
    SESSION_MS_MIN,
    Accept,
    Ballot,
    Beat,
    Member,
    Membership,
    Prepare,
    encode,
)
from dafka.model import Partition
from dafka.node import group_client
from dafka.node.group_client import StoreLines
from dafka.process.clock import Clock, now_ms
from dafka.query import messages
from dafka.query.client import StoreClient

pytestmark = pytest.mark.net

FIRST = Ballot(1, "A")
MEMBERSHIP = encode(Membership(1, 1, {"A": Member((b"orders",), SESSION_MS_MIN)}))
PLACE = Partition("orders", "A1")


class Time:
    """The time that lines know; to be put forward."""

    now_ms = 0

    @property
    def clock(self):
        return Clock(now_ms=lambda: self.now_ms)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def lines(stored, until, time):
    there = Cluster(stores=[stored.query, "tcp://127.0.0.1:9"])
    lines = StoreLines("g", there, clock=time.clock)

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
    opened_ms = now_ms()
    until(lambda: now_ms() > opened_ms + SESSION_MS_MIN)  # a store on a new disk waits for leases
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


def test_that_a_store_waits_for_links_is_told_once(cluster, until, caplog):
    caplog.set_level("INFO")
    with StoreClient(cluster.query) as client:
        with cluster.store():
            client.tell_link("1 at level 2", in_sync=True)
        cluster.store()
        lines = StoreLines("g", Cluster(stores=[cluster.query]))
        until(lambda: lines.ask(Ask(0, 0, Beat("g", "A", 0))) or lines._asked[0])
        assert events(lines, until, 1)
        for token in (1, 2):
            lines.ask(AskOffsets(0, token, None))
            assert not events(lines, until, 1)[0].in_sync
        assert sum("what the group did on other clusters" in line for line in said(caplog)) == 1
        client.tell_link("1 at level 2", in_sync=True)
    lines.ask(AskOffsets(0, 3, None))
    assert events(lines, until, 1)[0].in_sync
    lines.close()


def test_a_refusal_is_no_answer(lines, until, caplog):
    lines.ask(Ask(0, 1, Accept("g", FIRST, b"[]")))
    lines.ask(Ask(0, 2, Beat("g", "A", 1)))
    (event,) = events(lines, until, 1)
    assert event.token == 2
    assert "store does not help" in caplog.text


def test_a_store_that_is_away_is_asked_in_vain(lines):
    for token in range(group_client.ASKED_MAX + 10):
        lines.ask(Ask(1, token, Beat("g", "A", 1)))
    assert len(lines._asked[1]) <= group_client.ASKED_MAX


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def test_a_store_that_is_away_is_told_once(time, caplog):
    nobody = ["tcp://127.0.0.1:9", "tcp://127.0.0.1:10", "tcp://127.0.0.1:11"]
    lines = StoreLines("g", Cluster(stores=nobody), clock=time.clock)
    for time.now_ms in range(0, 20_000, 1_000):
        for store in (0, 1):
            lines.ask(Ask(store, 1, Beat("g", "A", 1)))
        if time.now_ms < group_client.SILENCE_MS_MAX:
            assert not caplog.records
    lines.close()
    assert [record.store for record in caplog.records] == nobody[:2]
    first, second = said(caplog)
    assert "does not answer: the group goes on with the others; start it or correct" in first
    assert "does not answer: the group stands still until more than half" in second


def test_a_store_that_answers_again_is_told_and_so_is_its_next_outage(lines, time, caplog, until):
    for _ in range(2):
        time.now_ms += 1
        lines.ask(Ask(0, 1, Beat("g", "A", 1)))
        time.now_ms += group_client.SILENCE_MS_MAX
        lines.ask(Ask(0, 2, Beat("g", "A", 1)))
        events(lines, until, 2)
    assert [text.partition(":")[0] for text in said(caplog)] == [
        "store does not answer",
        "store answers",
    ] * 2


def test_a_store_that_answers_is_not_spoken_of(lines, time, caplog, until):
    for _ in range(10):
        lines.ask(Ask(0, 1, Beat("g", "A", 1)))
        events(lines, until, 1)
        time.now_ms += 1_000
    assert not caplog.records


def test_an_endpoint_that_is_none():
    with pytest.raises(MisuseError):
        StoreLines("g", Cluster(stores="nonsense"))


def test_all_requests_have_a_question():
    for request in (Prepare("g", FIRST), Accept("g", FIRST, b""), Beat("g", "A", 1)):
        assert group_client._request(request).request is request
    assert isinstance(group_client._request(Beat("g", "A", 1)), messages.HeartbeatRequest)
