from __future__ import annotations

from functools import partial

import pytest

from dafka.groups.membership import NO_BALLOT, Accepted, Ballot, Member, Membership, Promise, encode
from dafka.groups.proposer import PROPOSER_STATES, Proposer, ProposerState
from dafka.limits import GROUP_NUMBER_MAX
from tests.support.lifecycles import assert_follows

SESSION_MS = 5_000
OFFERED = Membership(1, 3, {"A": Member((), 1_000)})


def promise(ballot, accepted=NO_BALLOT):
    return Promise(ballot, accepted, b"", 0, ())


@pytest.fixture
def proposer():
    return Proposer("g", 3, SESSION_MS)


@pytest.mark.parametrize(
    ("stores", "majority", "blocking"), [(1, 1, 1), (2, 2, 1), (3, 2, 2), (5, 3, 3)]
)
def test_how_many_stores_are_needed(stores, majority, blocking):
    proposer = Proposer("g", stores, SESSION_MS)
    assert (proposer.majority, proposer.blocking) == (majority, blocking)


def test_a_round(proposer):
    prepare = proposer.begin("A", 0)
    assert prepare.ballot == proposer.ballot == Ballot(1, "A")
    assert not proposer.promised(0, prepare.ballot, promise(prepare.ballot), 1)
    assert len(proposer.promised(2, prepare.ballot, promise(prepare.ballot), 2)) == 2
    accept = proposer.offer(OFFERED)
    assert accept == ("g", Ballot(1, "A"), encode(OFFERED))
    assert not proposer.promised(1, prepare.ballot, promise(prepare.ballot), 3)
    granted = Accepted(True, accept.ballot)
    assert proposer.accepted(0, accept.ballot, granted, 3, 4) is None
    assert proposer.accepted(0, accept.ballot, granted, 3, 4) is None
    assert proposer.accepted(1, accept.ballot, granted, 3, 5) == (OFFERED, {0: 3, 1: 3})
    assert proposer.ballot is None
    assert proposer.due_ms == 5


@pytest.mark.parametrize(
    ("stores", "known", "blank", "enough"),
    [
        (3, 2, 0, True),
        (3, 1, 1, False),
        (3, 1, 2, True),
        (3, 0, 2, True),
        (5, 2, 2, False),
        (5, 3, 0, True),
        (2, 1, 1, True),
        (1, 0, 1, True),
    ],
)
def test_a_blank_store_says_nothing_of_what_was_chosen(stores, known, blank, enough):
    proposer = Proposer("g", stores, SESSION_MS)
    ballot = proposer.begin("B", 0).ballot
    found = ()
    for store in range(known + blank):
        accepted = Ballot(1, "A") if store < known else NO_BALLOT
        found = proposer.promised(store, ballot, promise(ballot, accepted), 1)
    assert bool(found) == enough


def test_promises_that_come_when_the_round_is_over_do_not_count(proposer):
    ballot = proposer.begin("A", 0).ballot
    for store in range(3):
        assert not proposer.promised(store, ballot, promise(ballot), proposer.due_ms)


def test_one_store_that_refuses_is_not_enough_to_give_up(proposer):
    ballot = proposer.begin("A", 0).ballot
    assert not proposer.promised(0, ballot, promise(Ballot(9, "B")), 1)
    assert proposer.ballot == ballot
    assert not proposer.promised(1, ballot, promise(Ballot(9, "B")), 1)
    assert proposer.ballot is None
    assert proposer.begin("A", 2).ballot == Ballot(10, "A")


def test_a_number_that_nobody_reaches_is_not_believed(proposer):
    proposer.met(Ballot(GROUP_NUMBER_MAX + 1, "Z"))
    assert proposer.begin("A", 0).ballot == Ballot(1, "A")


def test_a_membership_that_is_refused_is_given_up(proposer):
    ballot = proposer.begin("A", 0).ballot
    for store in (0, 1):
        proposer.promised(store, ballot, promise(ballot), 1)
    proposer.offer(OFFERED)
    for store in (0, 1):
        assert proposer.accepted(store, ballot, Accepted(False, Ballot(5, "C")), 1, 2) is None
    assert proposer.ballot is None
    assert proposer.begin("A", 2).ballot.number == 6


def test_answers_to_another_round_do_not_count(proposer):
    old = proposer.begin("A", 0).ballot
    proposer.fail(1)
    new = proposer.begin("A", 2).ballot
    for store in (0, 1):
        assert not proposer.promised(store, old, promise(old), 3)
    assert proposer.accepted(0, old, Accepted(True, old), 2, 3) is None
    assert proposer.ballot == new


def test_it_rests_longer_every_time_but_not_for_ever(proposer):
    rests = []
    for now_ms in range(0, 20_000_000, 1_000_000):
        proposer.begin("A", now_ms)
        proposer.fail(now_ms)
        rests.append(proposer.due_ms - now_ms)
    assert 1 <= rests[0] <= 40
    assert max(rests) <= 40 << 5
    assert max(rests) > 100


def test_a_round_may_take_longer_every_time_but_no_longer_than_a_session(proposer):
    waits = []
    for now_ms in range(0, 20_000_000, 1_000_000):
        proposer.begin("A", now_ms)
        waits.append(proposer.due_ms - now_ms)
        proposer.fail(now_ms)
    assert waits[:3] == [200, 400, 800]
    assert waits[-1] == SESSION_MS


def test_two_that_fail_together_do_not_come_back_together():
    rests = set()
    for name in "ABCDEF":
        proposer = Proposer("g", 3, SESSION_MS)
        proposer.begin(name, 0)
        proposer.fail(0)
        rests.add(proposer.due_ms)
    assert len(rests) > 3


FIRST = Ballot(1, "A")


def begins(proposer):
    proposer.begin("A", 0)


def offers(proposer):
    proposer.offer(OFFERED)


def is_accepted(proposer):
    for store in range(2):
        proposer.accepted(store, FIRST, Accepted(True, FIRST), 0, 1)


def gives_up(proposer):
    proposer.fail(1)


INTO = {
    ProposerState.IDLE: [],
    ProposerState.PREPARING: [begins],
    ProposerState.ACCEPTING: [begins, offers],
}
CHANGES = {
    (ProposerState.IDLE, ProposerState.PREPARING): begins,
    (ProposerState.PREPARING, ProposerState.ACCEPTING): offers,
    (ProposerState.PREPARING, ProposerState.IDLE): gives_up,
    (ProposerState.ACCEPTING, ProposerState.IDLE): is_accepted,
}


@pytest.mark.parametrize("state", ProposerState)
@pytest.mark.parametrize("following", ProposerState)
def test_its_states_follow_each_other_as_the_table_says(proposer, state, following):
    for happens in INTO[state]:
        happens(proposer)
    assert proposer._lifecycle.state is state
    change = CHANGES.get((state, following))
    given = change and partial(change, proposer)
    assert_follows(proposer._lifecycle, PROPOSER_STATES, following, given)
    proposer.check()
