"""Reduced histories come to the same as whole ones (I1, I2, I3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributor.control.events import Configure, StartFlow
from distributor.control.history import CommandHistory
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    CancelPeek,
    FlowDropped,
    Peek,
    PeekResponse,
    Schedule,
    UpdateConfiguration,
)
from tests.support.control_commands import (
    COMPLETE,
    INSTANCE,
    A,
    B,
    Driven,
    create,
    histories,
    reduced,
)


def heard_at_once(commands):
    """A replica that hears all of it as it happens."""
    one = Driven()
    one.connect()
    one.tell(INSTANCE, COMPLETE, *commands[1:])
    return one


def heard_reduced(commands, one=None):
    """A replica that hears it in the beginning of a session, reduced."""
    one = one or Driven()
    one.connect()
    one.tell(*reduced([*commands, COMPLETE]).commands())
    return one


def what_it_came_to(one, history):
    """Flows, settings, which drops were told, and the answers of peeks that are not cancelled."""
    machine = one.machine
    answers = {said.peek: said.answer for said in one.said(PeekResponse)}
    configuration = next((e.values for e in one.effects[::-1] if isinstance(e, Configure)), {})
    return (
        one.state,
        configuration,
        sorted(said.flow for said in one.said(FlowDropped)),
        {peek: answers.get(peek) for peek in history.peeks},
        machine.stage,
    )


@pytest.mark.slow
@given(histories())
def test_a_reduced_history_comes_to_the_same(commands):
    history = reduced(commands)
    whole, short = heard_at_once(commands), heard_reduced(commands)
    assert what_it_came_to(whole, history) == what_it_came_to(short, history)


@pytest.mark.slow
@given(histories())
def test_it_is_valid_bounded_and_reduced_no_further(commands):
    history = reduced([*commands, COMPLETE])
    short = history.commands()
    assert len(short) <= 3 + 4 * len(history.flows) + len(history.peeks)
    assert reduced(short).commands() == short


@pytest.mark.slow
@given(st.data())
def test_a_replica_that_missed_some_comes_to_the_same(data):
    commands = data.draw(histories())
    seen = data.draw(st.integers(1, len(commands)))
    one = heard_at_once(commands[:seen])
    running = one.state
    heard_reduced(commands, one)
    assert one.state == heard_reduced(commands).state
    begun = [effect for effect in one.effects if isinstance(effect, StartFlow)]
    assert len(begun) == len(one.state.keys() - running.keys()), "I3: what was there goes on"
    heard_reduced(commands, one)
    assert one.effects == [], "I3: what is wanted again is not touched"


@pytest.mark.slow
@given(histories(), histories())
def test_a_replica_of_another_controller_becomes_what_this_one_wants(before, commands):
    one = heard_reduced(before)
    heard_reduced(commands, one)
    assert one.state == heard_reduced(commands).state


def test_an_example():
    history = reduced(
        [
            INSTANCE,
            UpdateConfiguration({"rate": 1, "margin": 5}),
            create(1, {A: 2}),
            create(2),
            create(3),
            UpdateConfiguration({"rate": 2}),
            Schedule(1),
            AllowWrites(1, 7),
            AllowWrites(1, 9),
            AllowCompaction(1, {B: 3}),
            AllowCompaction(1, {B: 1}),
            Peek(1, 2, {A: 5}),
            Peek(2, 1, {A: 5}),
            CancelPeek(2),
            AllowCompaction(2, None),
            COMPLETE,
        ]
    )
    assert history.commands() == [
        INSTANCE,
        UpdateConfiguration({"rate": 2, "margin": 5}),
        create(1, {A: 2, B: 3}),
        Schedule(1),
        AllowWrites(1, 9),
        create(2),
        create(3),
        Peek(1, 2, {A: 5}),
        AllowCompaction(2, None),
        COMPLETE,
    ]
    history.answered(1)
    history.forget(2)
    assert len(history.commands()) == 7


def test_nothing_is_wanted_at_first():
    assert CommandHistory().commands() == []


@pytest.mark.parametrize(
    ("command", "objection"),
    [
        (INSTANCE, "there is an instance"),
        (create(1), "flow 1 is not new"),
        (create(0), "flow 0 is not new"),
        (Schedule(3), "there is no flow 3"),
        (Schedule(2), "there is no flow 2"),
        (AllowCompaction(2, None), "there is no flow 2"),
        (AllowWrites(1, 4), "epochs go up: 4, 5"),
        (AllowWrites(1, 0), "epochs go up: 0, 5"),
        (Peek(8, 2, {}), "there is no flow 2"),
        (Peek(7, 1, {}), "peek 7 is not new"),
        (CancelPeek(8), "there was no peek 8"),
        (COMPLETE, "it is complete already"),
    ],
)
def test_what_may_not_come_now(command, objection):
    history = reduced(
        [
            INSTANCE,
            create(1),
            create(2),
            AllowWrites(1, 5),
            Peek(7, 1, {}),
            AllowCompaction(2, None),
            COMPLETE,
        ]
    )
    assert history.objection(command) == objection


def test_first_of_all_comes_the_instance():
    assert CommandHistory().objection(create(1)) == "there is no instance yet"
    assert CommandHistory().objection(COMPLETE) == "there is no instance yet"


def test_to_say_the_same_again_is_allowed():
    history = reduced([INSTANCE, create(1), Schedule(1), AllowWrites(1, 5), Peek(1, 1, {})])
    for command in (Schedule(1), AllowWrites(1, 5), CancelPeek(1), CancelPeek(1)):
        assert history.objection(command) is None
        history.take(command)
