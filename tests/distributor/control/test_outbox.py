"""What waits to be said to a controller."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributor.control.frontiers import joined
from distributor.control.messages import (
    Canceled,
    FlowDropped,
    FlowState,
    FlowStatus,
    Frontiers,
    HelloOk,
    PeekResponse,
    Pong,
)
from distributor.control.outbox import Outbox
from tests.support.control_commands import A, B, frontiers

WARM = FlowState(1, FlowStatus.WARM, 0)
WRITING = FlowState(1, FlowStatus.WRITING, 3)


def test_it_says_one_thing_after_the_other_while_the_stream_takes_it():
    outbox = Outbox()
    assert outbox.take() == ()
    outbox.put(HelloOk(1, "r1"))
    outbox.put(WARM)
    assert outbox.take() == (HelloOk(1, "r1"), WARM)
    outbox.put(Pong(1, 1))
    assert outbox.take() == (), "the stream has not taken the last yet"
    outbox.writable()
    assert outbox.take() == (Pong(1, 1),)


def test_of_each_thing_it_says_the_last_word():
    outbox = Outbox()
    outbox.put(Frontiers(1, {A: 5}, {}, {A: 1}))
    outbox.put(WARM)
    outbox.put(Pong(1, 1))
    outbox.put(Frontiers(2, {}, {B: 1}, {}))
    outbox.put(Frontiers(1, {B: 7}, {A: 2}, {A: 4}))
    outbox.put(WRITING)
    outbox.put(Pong(2, 1))
    assert len(outbox) == 4
    assert outbox.take() == (
        Frontiers(1, {A: 5, B: 7}, {A: 2}, {A: 4}),
        WRITING,
        Pong(2, 1),
        Frontiers(2, {}, {B: 1}, {}),
    )


def test_every_answer_is_said():
    outbox = Outbox()
    answers = tuple(PeekResponse(peek, Canceled()) for peek in range(3))
    for answer in answers:
        outbox.put(answer)
    assert outbox.take() == answers


def test_of_a_dropped_flow_only_its_end_is_said():
    outbox = Outbox()
    outbox.put(WARM)
    outbox.put(Frontiers(1, {A: 5}, {}, {}))
    outbox.put(Frontiers(2, {A: 5}, {}, {}))
    outbox.leave_out(1)
    outbox.put(FlowDropped(1))
    assert outbox.take() == (Frontiers(2, {A: 5}, {}, {}), FlowDropped(1))


@given(st.lists(st.tuples(st.integers(0, 3), frontiers), max_size=50))
def test_a_peer_that_does_not_read_costs_no_more_than_flows(moves):
    outbox, known = Outbox(), {}
    for flow, frontier in moves:
        outbox.put(Frontiers(flow, frontier, {}, {}))
        known[flow] = joined(known.get(flow, {}), frontier)
    assert len(outbox) <= 4
    assert {said.flow: said.input for said in outbox.take()} == known
