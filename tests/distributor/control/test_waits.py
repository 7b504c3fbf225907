"""Questions of those who wait: one answer each, whoever answers, dies or goes away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.protocol.events import Woke
from distributor.control.messages import Canceled, CancelPeek, Peek, PeekError, Positions
from distributor.control.waits import (
    AskReplica,
    FlowsChanged,
    OfficeLeft,
    PeekCame,
    ReplicaBegun,
    WaitAsked,
    WaitFailed,
    WaitLeft,
    WaitMachine,
    WaitOver,
    WaitSettings,
)
from tests.support.control_commands import A, B

BOTH = frozenset({1, 2})
FEW = WaitSettings(asker_max=1, waits_max=2, flows_max=3)


class Waits:
    """The machine, and replicas that remember what they are asked."""

    def __init__(self, settings=FEW, replicas=("r1", "r2")):
        self.machine = WaitMachine(settings)
        self.open = {}
        """By replica and number, what it was asked and has not answered."""
        for name in replicas:
            self.handle(ReplicaBegun(name, BOTH))

    def handle(self, event, now_ms=0):
        """What comes of it, but for what replicas are asked."""
        if isinstance(event, ReplicaBegun):
            self.open = {key: one for key, one in self.open.items() if key[0] != event.replica}
        elif isinstance(event, OfficeLeft):
            self.open.clear()
        told = []
        for effect in self.machine.handle(event, now_ms):
            match effect:
                case AskReplica(replica, Peek() as peek):
                    self.open[replica, peek.number] = peek
                case AskReplica(replica, CancelPeek(peek)):
                    del self.open[replica, peek]
                case _:
                    told.append(effect)
        self.machine.check()
        return told

    def ask(self, wait=1, asker="a", flows=(1,), until_ms=1_000):
        return self.handle(WaitAsked(wait, asker, {one: {A: 3} for one in flows}, until_ms))

    def answer(self, replica, flow, answer=None):
        """Let a replica answer what it was asked about a flow."""
        key = next(key for key, one in self.open.items() if (key[0], one.flow) == (replica, flow))
        peek = self.open.pop(key)
        return self.handle(PeekCame(*key, answer or Positions(peek.at_least)))


def test_all_replicas_are_asked_and_the_first_answer_counts():
    waits = Waits()
    assert waits.ask(flows=(1, 2)) == []
    assert sorted((key[0], one.flow) for key, one in waits.open.items()) == [
        ("r1", 1),
        ("r1", 2),
        ("r2", 1),
        ("r2", 2),
    ]
    assert waits.answer("r2", 1) == []
    assert sorted(one.flow for one in waits.open.values()) == [2, 2], "nobody else is asked"
    assert waits.answer("r1", 2) == [WaitOver(1, ())]
    assert waits.open == {}
    assert waits.machine.wakeup_ms() is None


def test_nothing_to_wait_for_is_there():
    assert Waits().ask(flows=()) == [WaitOver(1, ())]


def test_what_is_not_there_when_time_is_up_is_named():
    waits = Waits()
    waits.ask(flows=(1, 2))
    waits.answer("r1", 1)
    assert waits.machine.wakeup_ms() == 1_000
    assert waits.handle(Woke(), 999) == []
    assert waits.handle(Woke(), 1_000) == [WaitOver(1, (2,))]
    assert waits.open == {}


def test_who_goes_away_is_not_answered_and_nobody_is_asked_for_him():
    waits = Waits()
    waits.ask()
    assert waits.handle(WaitLeft(1)) == []
    assert waits.open == {}
    assert waits.handle(WaitLeft(1)) == []


def test_a_replica_that_begins_anew_is_asked_again():
    waits = Waits()
    waits.ask()
    before = {*waits.open}
    assert waits.handle(ReplicaBegun("r1", BOTH)) == []
    ((replica, number),) = waits.open.keys() - before
    assert replica == "r1"
    assert number > max(number for _, number in before)
    assert waits.answer("r1", 1) == [WaitOver(1, ())]


def test_with_no_replica_yet_it_is_waited_for_one():
    waits = Waits(replicas=())
    waits.ask()
    waits.handle(ReplicaBegun("r1", BOTH))
    assert waits.answer("r1", 1) == [WaitOver(1, ())]


def test_a_flow_that_is_not_wanted_any_more_ends_the_wait():
    waits = Waits()
    waits.ask(flows=(1, 2))
    (failed,) = waits.handle(ReplicaBegun("r1", frozenset({1, 3})))
    assert (failed.wait, failed.busy) == (1, False)
    assert "flow 2" in failed.why
    assert waits.open == {}
    (failed,) = waits.ask(2, flows=(2,))
    assert "flow 2" in failed.why


def test_a_flow_that_is_dropped_ends_the_wait():
    waits = Waits()
    waits.ask(flows=(1,))
    assert waits.handle(FlowsChanged("r1", frozenset({1, 3}))) == []
    (failed,) = waits.handle(FlowsChanged("r1", frozenset({3})))
    assert "flow 1" in failed.why
    assert waits.open == {}
    waits.handle(FlowsChanged("r2", frozenset({3})))
    assert waits.ask(2, flows=(3,)) == []


def test_an_error_ends_the_wait():
    waits = Waits()
    waits.ask(flows=(1, 2))
    assert waits.answer("r2", 1, PeekError("dropped")) == [WaitFailed(1, "dropped")]
    assert waits.open == {}


def test_who_is_in_charge_no_more_says_so():
    waits = Waits()
    waits.ask()
    (failed,) = waits.handle(OfficeLeft())
    assert failed.wait == 1
    assert waits.machine.wakeup_ms() is None


def test_answers_that_nobody_waits_for_are_passed_over():
    waits = Waits()
    waits.ask()
    ((replica, number), *_) = waits.open
    waits.handle(WaitLeft(1))
    assert waits.handle(PeekCame(replica, number, Canceled())) == []
    assert waits.handle(PeekCame(replica, number, Positions({A: 3}))) == []


@pytest.mark.parametrize(
    ("asker", "flows", "why"),
    [("a", (1,), "1 of them as you"), ("b", (1, 2), "2 flows are waited for")],
)
def test_too_much_is_refused(asker, flows, why):
    waits = Waits()
    waits.ask(flows=(1, 2))
    (failed,) = waits.ask(2, asker, flows)
    assert failed.busy
    assert why in failed.why


def test_too_many_are_refused():
    waits = Waits()
    assert [waits.ask(number, f"a{number}") for number in (1, 2)] == [[], []]
    (failed,) = waits.ask(3, "c")
    assert failed.busy


steps = st.lists(
    st.tuples(
        st.sampled_from(("ask", "leave", "begin", "answer", "office", "wait")),
        st.integers(0, 9),
        st.sampled_from(("r1", "r2", "r3")),
    ),
    max_size=40,
)


@given(steps)
def test_whatever_happens_each_question_has_one_answer_at_most_and_one_in_the_end(given_steps):
    waits, now_ms = Waits(WaitSettings(3, 4, 6)), 0
    answered, gone, asked = [], set(), 0
    for kind, number, replica in given_steps:
        told = []
        match kind:
            case "ask":
                asked += 1
                due = {flow: {A: number, B: 1} for flow in sorted(BOTH)[: number % 3]}
                told = waits.handle(WaitAsked(asked, replica, due, now_ms + 50 * number), now_ms)
            case "leave":
                open_ones = {*range(1, asked + 1)} - {*answered}
                gone |= {number} & open_ones
                told = waits.handle(WaitLeft(number), now_ms)
            case "begin":
                told = waits.handle(ReplicaBegun(replica, BOTH), now_ms)
            case "answer":
                mine = [one for key, one in waits.open.items() if key[0] == replica]
                if mine:
                    told = waits.answer(replica, mine[0].flow)
            case "office":
                told = waits.handle(OfficeLeft(), now_ms)
            case "wait":
                now_ms += 20 * number
                told = waits.handle(Woke(), now_ms)
        answered += [one.wait for one in told]
        assert not gone & {one.wait for one in told}
    answered += [one.wait for one in waits.handle(Woke(), now_ms + 1_000)]
    assert sorted(answered) == sorted({*range(1, asked + 1)} - gone)
    assert waits.open == {}
