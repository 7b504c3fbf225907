from __future__ import annotations

import pytest

from dafka.errors import QueryError
from dafka.model import Partition
from dafka.query.client import StoreClient
from dafka.records.envelope import Envelope
from distributor.operations.draining import QUIET_S, READ_MAX, Draining
from tests.support.batches import unreadable_from
from tests.support.shares import also_shared
from topology.diff import Action, Step

pytestmark = pytest.mark.net

ORDERS = Partition("orders", "AB" * 16)
COPIED = Envelope(origin=1, copy_flags=1)
LACKING = "c2, which lacks records of 1 partition"


def step(action, cluster, topics=""):
    return Step(action=action, text="", cluster=cluster, topics=topics)


def unanswered(*_):
    raise QueryError("late")


@pytest.fixture
def draining():
    return Draining(lambda: 0.0)


def test_whoever_publishes_is_not_silent(pair, make_batch):
    pair.fill(1, make_batch([b"1"]))
    seconds = 0.0
    draining, silence = Draining(lambda: seconds), step(Action.SILENCE, "c1")
    with pair.running():
        assert draining.silence(pair.topology, silence) == "3 s of silence"
    pair.fill(1, make_batch([b"2"], 1))
    with pair.running():
        publishes = "the producer ABABABAB of 'orders' to be stopped"
        assert draining.silence(pair.topology, silence) == publishes
        assert draining.silence(pair.topology, silence) == "3 s of silence"
    pair.fill(1, make_batch([b"3"], 2, envelope=COPIED))
    with pair.running():
        seconds = QUIET_S
        assert draining.silence(pair.topology, silence) == "", "no link's copy is published there"
    assert draining.silence(pair.topology, silence) == "c1 to answer"


@also_shared("pair")
def test_a_cluster_is_drained_when_the_others_have_what_it_had(draining, pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]))
    drain, fill = step(Action.DRAIN, "c1"), step(Action.FILL, "c2")
    other = step(Action.DRAIN, "c1", topics="eu-*")
    with pair.running():
        assert draining.drain(pair.topology, drain) == LACKING
        assert draining.fill(pair.topology, fill) == LACKING
        assert draining.drain(pair.topology, other) == ""
    pair.fill(2, make_batch([b"1", b"2"], envelope=COPIED))
    pair.fill(1, make_batch([b"3"], 2))
    with pair.running():
        assert draining.fill(pair.topology, fill) == "", "what has come since is on its way as ever"
        goes = "but nobody brings it when the cluster is gone"
        assert draining.drain(pair.topology, drain) == LACKING, goes
    pair.fill(2, make_batch([b"3"], 2, envelope=COPIED))
    with pair.running():
        assert draining.drain(pair.topology, drain) == ""
    assert draining.drain(pair.topology, drain) == "c1 to answer"
    assert draining.fill(pair.topology, step(Action.FILL, "c1")) == "c1, c2 to answer"


def test_copies_that_come_while_a_cluster_is_drained_are_not_waited_for(draining, pair, make_batch):
    """While records flow there are always some that it has before the others."""
    many = [Partition("orders", f"{number:032X}") for number in range(READ_MAX + 1)]
    pair.fill(1, *(make_batch([b"1"], partition=one, envelope=COPIED) for one in many))
    drain = step(Action.DRAIN, "c1")
    lacking = f"c2, which lacks records of {len(many)} partitions"
    with pair.running():
        assert draining.drain(pair.topology, drain) == lacking, "they may have come before it went"
    pair.fill(2, *(make_batch([b"1"], partition=one, envelope=COPIED) for one in many))
    pair.fill(1, *(make_batch([b"2"], 1, partition=one, envelope=COPIED) for one in many))
    with pair.running():
        assert draining.drain(pair.topology, drain) == lacking, "not all were looked at"
        assert draining.drain(pair.topology, drain) == ""
    pair.fill(1, *(make_batch([b"3"], 2, partition=one, envelope=COPIED) for one in many))
    with pair.running():
        assert draining.drain(pair.topology, drain) == "", "of all it is known whose they were"


def test_a_partition_of_another_cluster_that_goes_too_is_looked_at_there(
    draining, pair, make_batch
):
    """The first has but copies of it, and says nothing of where it is published."""
    first, second = (step(Action.DRAIN, name) for name in ("c1", "c2"))
    with pair.running():
        assert draining.drain(pair.topology, first) == draining.drain(pair.topology, second) == ""
    pair.fill(1, make_batch([b"1", b"2"], envelope=COPIED))
    pair.fill(2, make_batch([b"1"]))
    with pair.running():
        assert draining.drain(pair.topology, first) == ""
    pair.fill(2, make_batch([b"2", b"3"], 1))
    with pair.running():
        lacking = "c1, which lacks records of 1 partition"
        assert draining.drain(pair.topology, second) == lacking


def test_where_only_topics_go_copies_are_waited_for_as_links_still_serve_the_cluster(
    draining, pair, make_batch
):
    """It may be the one that passes them on to a third."""
    drain = step(Action.DRAIN, "c1", topics="orders")
    with pair.running():
        assert draining.drain(pair.topology, drain) == ""
    pair.fill(1, make_batch([b"1"], envelope=COPIED))
    with pair.running():
        assert draining.drain(pair.topology, drain) == LACKING


def test_of_whom_the_last_record_is_gone_may_be_published_there(draining, pair, make_batch):
    drain = step(Action.DRAIN, "c1")
    with pair.running():
        assert draining.drain(pair.topology, drain) == ""
    pair.fill(1, make_batch([b"1"]))
    pair.trim(1, {ORDERS: 1})
    with pair.running():
        assert draining.drain(pair.topology, drain) == LACKING
    pair.fill(2, make_batch([b"1"], envelope=COPIED))
    pair.fill(1, make_batch([b"2"], 1))
    with pair.running():
        assert draining.drain(pair.topology, drain) == LACKING


def test_who_publishes_where_copies_came_before_is_found(draining, pair, make_batch):
    """As a producer that comes back on another cluster, with its spool."""
    drain = step(Action.DRAIN, "c1")
    with pair.running():
        assert draining.drain(pair.topology, drain) == ""
    pair.fill(1, make_batch([b"1"], envelope=COPIED))
    with pair.running():
        assert draining.drain(pair.topology, drain) == ""
    pair.fill(1, make_batch([b"2"], 1))
    with pair.running():
        assert draining.drain(pair.topology, drain) == LACKING


@pytest.mark.parametrize("action", [Action.SILENCE, Action.DRAIN])
def test_records_that_nobody_can_read_are_copies_all_the_same(draining, pair, make_batch, action):
    look, about = getattr(draining, action.value), step(action, "c1")
    with pair.running():
        look(pair.topology, about)
    pair.fill(1, unreadable_from(make_batch([b"1"], envelope=COPIED), 0))
    with pair.running():
        assert look(pair.topology, about) in ("", f"{QUIET_S:g} s of silence")


@pytest.mark.parametrize("action", [Action.SILENCE, Action.DRAIN])
def test_who_does_not_say_who_publishes_is_waited_for(
    draining, pair, make_batch, monkeypatch, action
):
    look, about = getattr(draining, action.value), step(action, "c1")
    with pair.running():
        look(pair.topology, about)
    pair.fill(1, make_batch([b"1"], envelope=COPIED))
    monkeypatch.setattr(StoreClient, "scan", unanswered)
    with pair.running():
        assert look(pair.topology, about) == "c1 to answer: late"
