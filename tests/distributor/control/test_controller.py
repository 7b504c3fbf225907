"""A controller and its replica."""

from __future__ import annotations

import pytest

from dafka.protocol.events import Woke
from distributor.control.controller import (
    CONTROLLER_STATES,
    ControllerMachine,
    ControllerState,
)
from distributor.control.events import (
    EndStream,
    OpenStream,
    PeekAnswered,
    ResponseCame,
    SendCommands,
    SessionEnd,
    SessionSettings,
    StreamEnded,
    StreamReady,
    Superseded,
    Want,
    Writable,
)
from distributor.control.messages import (
    AllowCompaction,
    Canceled,
    CancelPeek,
    FlowDropped,
    FlowState,
    FlowStatus,
    Frontiers,
    HelloOk,
    Peek,
    PeekResponse,
    Ping,
    Pong,
    Positions,
    Schedule,
    UnknownMessage,
    UpdateConfiguration,
)
from tests.support.control_commands import COMPLETE, INSTANCE, SETTINGS, A, create, hello
from tests.support.lifecycles import assert_follows

WISH = INSTANCE, create(1), Schedule(1), create(2)


class Office:
    """A controller, and what it sends when its stream takes everything."""

    def __init__(self, settings=SETTINGS):
        self.machine = ControllerMachine("c1", 1, "r1", settings)
        self.sent = []

    def handle(self, event, now_ms=0):
        effects = self.machine.handle(event, now_ms)
        self.machine.check()
        for effect in effects:
            if isinstance(effect, SendCommands):
                self.sent += effect.commands
        return [one for one in effects if not isinstance(one, SendCommands)]

    def want(self, *commands, now_ms=0):
        return [one for command in commands for one in self.handle(Want(command), now_ms)]

    def hear(self, *responses, stream=1, now_ms=0):
        return [
            one
            for response in responses
            for one in (
                *self.handle(ResponseCame(stream, response), now_ms),
                *self.handle(Writable(stream), now_ms),
            )
        ]

    @property
    def state(self):
        return self.machine.state


def waiting():
    one = Office()
    one.want(*WISH)
    return one


def connecting():
    one = waiting()
    assert one.want(COMPLETE) == [OpenStream(1)]
    return one


def greeting():
    one = connecting()
    one.handle(StreamReady(1))
    return one


def active(settings=SETTINGS):
    one = Office(settings)
    one.want(*WISH, COMPLETE)
    one.handle(StreamReady(1))
    one.handle(Writable(1))
    one.hear(HelloOk(1, "r1"))
    return one


def stopped():
    one = greeting()
    one.handle(StreamEnded(1, SessionEnd.STALE, 5))
    return one


def test_it_connects_once_it_knows_all_that_is_wanted():
    one = waiting()
    assert one.machine.wakeup_ms() is None
    assert one.handle(Woke(), 10**6) == []
    assert one.want(COMPLETE) == [OpenStream(1)]


def test_it_says_who_it_is_and_then_all_that_is_wanted():
    one = greeting()
    assert one.sent == [hello()]
    one.handle(Writable(1))
    one.hear(HelloOk(1, "r1"))
    assert one.sent == [hello(), INSTANCE, create(1), Schedule(1), create(2), COMPLETE, Ping(1)]


def test_what_is_wanted_before_the_answer_is_part_of_it():
    one = greeting()
    one.want(create(3))
    one.handle(Writable(1))
    one.hear(HelloOk(1, "r1"))
    assert one.sent.count(create(3)) == 1
    assert one.sent.index(create(3)) < one.sent.index(COMPLETE)


def test_what_is_wanted_later_is_said_at_once_and_in_order():
    one = active()
    one.want(create(3), Schedule(3))
    assert one.sent[-1] == create(3), "the rest waits until the stream takes more"
    one.handle(Writable(1))
    assert one.sent[-2:] == [create(3), Schedule(3)]


def test_what_is_wanted_without_a_connection_is_said_in_the_next_session():
    one = active()
    one.handle(StreamEnded(1), 0)
    one.want(create(3), AllowCompaction(1, None))
    one.sent.clear()
    assert one.handle(Woke(), one.machine.wakeup_ms()) == [OpenStream(2)]
    one.handle(StreamReady(2))
    one.handle(Writable(2))
    one.hear(HelloOk(1, "r1"), stream=2)
    assert one.sent[:-1] == [
        *(hello(), INSTANCE, create(1), Schedule(1), create(2), create(3)),
        *(AllowCompaction(1, None), COMPLETE),
    ]


def test_it_tries_again_after_ever_longer_waits():
    one, now_ms, waits = connecting(), 0, []
    for stream in range(1, 7):
        one.handle(StreamEnded(stream), now_ms)
        waits.append(one.machine.wakeup_ms() - now_ms)
        now_ms = one.machine.wakeup_ms()
        assert one.handle(Woke(), now_ms) == [OpenStream(stream + 1)]
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


def test_a_session_in_which_something_was_answered_ends_that():
    one = connecting()
    for stream in (1, 2, 3):
        one.handle(StreamEnded(stream), one.machine.wakeup_ms())
        one.handle(Woke(), one.machine.wakeup_ms())
    one.handle(StreamReady(4))
    one.handle(Writable(4))
    one.hear(HelloOk(1, "r1"), Pong(1, 1), stream=4)
    one.handle(StreamEnded(4), 9_000)
    assert one.machine.wakeup_ms() == 9_100


@pytest.mark.parametrize("make", [connecting, greeting])
def test_who_does_not_answer_is_given_up(make):
    one = make()
    assert one.machine.wakeup_ms() == 3_000
    assert one.handle(Woke(), 2_999) == []
    assert one.handle(Woke(), 3_000) == [EndStream(1, SessionEnd.SILENT)]
    assert one.state is ControllerState.WAITING


def test_a_replica_that_does_not_answer_pings_is_given_up():
    one = active()
    one.hear(Pong(1, 1))
    one.handle(Woke(), 1_000)
    assert one.sent[-1] == Ping(2)
    assert one.handle(Woke(), 4_000) == [EndStream(1, SessionEnd.SILENT)]


def test_a_replica_whose_flows_stand_still_is_given_up():
    one = active()
    one.hear(Pong(1, 1))
    effects = []
    for number, now_ms in enumerate((1_000, 2_000, 3_000), 2):
        one.handle(Woke(), now_ms)
        effects += one.hear(Pong(number, 1), now_ms=now_ms)
    assert effects == [EndStream(1, SessionEnd.STALLED)]


@pytest.mark.parametrize(
    "why", [end for end in SessionEnd if end is not SessionEnd.STALE], ids=lambda end: end.value
)
def test_it_connects_again_whatever_the_replica_says(why):
    one = greeting()
    assert one.handle(StreamEnded(1, why), 50) == []
    assert one.handle(Woke(), 150) == [OpenStream(2)]


def test_one_of_a_later_epoch_stops_it_for_ever():
    one = greeting()
    assert one.handle(StreamEnded(1, SessionEnd.STALE, 5)) == [Superseded(5)]
    assert one.machine.wakeup_ms() is None
    assert one.handle(Woke(), 10**6) == []
    assert one.want(create(3)) == []


@pytest.mark.parametrize(
    "response",
    [
        HelloOk(2, "r1"),
        HelloOk(1, "r2"),
        UnknownMessage("43"),
        Pong(1, 1),
        FlowDropped(1),
    ],
)
def test_whoever_does_not_greet_is_left(response):
    one = greeting()
    (end,) = one.hear(response)
    assert (end.stream, end.why) == (1, SessionEnd.VIOLATION)
    assert one.state is ControllerState.WAITING


@pytest.mark.parametrize(
    "response",
    [
        HelloOk(1, "r1"),
        UnknownMessage("43"),
        Pong(2, 1),
        FlowDropped(1),
        FlowState(1, FlowStatus.WRITING, 1),
        Frontiers(9, {}, {}, {}),
        PeekResponse(1, Canceled()),
    ],
)
def test_who_breaks_the_protocol_is_left(response):
    one = active()
    (end,) = one.hear(response)
    assert (end.stream, end.why) == (1, SessionEnd.VIOLATION)
    assert one.hear(Frontiers(1, {A: 1}, {}, {})) == [], "nothing more comes from it"
    assert one.machine.reports.flows[1].input == {}


def test_what_flows_have_come_to_is_known():
    one = active()
    one.hear(FlowState(1, FlowStatus.WARM, 0), Frontiers(1, {A: 5}, {A: 4}, {A: 5}))
    assert one.machine.reports.flows[1].status is FlowStatus.WARM
    assert one.machine.reports.flows[1].write == {A: 4}


def test_a_dropped_flow_is_remembered_until_its_end_is_told():
    one = active()
    one.want(AllowCompaction(1, None))
    assert 1 in one.machine.history.flows
    one.handle(Writable(1))
    one.hear(FlowDropped(1))
    assert 1 not in one.machine.history.flows


def test_a_peek_has_one_answer():
    one = active()
    one.want(Peek(1, 1, {A: 4}))
    one.handle(Writable(1))
    answer = Positions({A: 5})
    assert one.hear(PeekResponse(1, answer)) == [PeekAnswered(1, answer)]
    assert one.want(CancelPeek(1)) == []


def test_a_cancelled_peek_is_answered_at_once_and_what_comes_later_is_not_told():
    one = active()
    one.want(Peek(1, 1, {A: 4}))
    one.handle(Writable(1))
    assert one.want(CancelPeek(1)) == [PeekAnswered(1, Canceled())]
    one.handle(Writable(1))
    assert one.hear(PeekResponse(1, Positions({A: 5}))) == []
    assert one.state is ControllerState.ACTIVE


def test_an_open_peek_is_asked_again_in_the_next_session():
    one = active()
    one.want(Peek(1, 1, {A: 4}), Peek(2, 1, {A: 4}))
    one.handle(StreamEnded(1), 0)
    assert one.want(CancelPeek(2)) == [PeekAnswered(2, Canceled())]
    one.handle(Woke(), 100)
    one.handle(StreamReady(2))
    one.handle(Writable(2))
    one.sent.clear()
    one.hear(HelloOk(1, "r1"), stream=2)
    assert [command for command in one.sent if isinstance(command, Peek)] == [Peek(1, 1, {A: 4})]


def test_responses_of_a_session_before_are_not_heard():
    one = active()
    one.want(Peek(1, 1, {A: 4}))
    one.handle(StreamEnded(1), 0)
    assert one.hear(PeekResponse(1, Positions({A: 5}))) == []
    one.handle(Woke(), 100)
    assert one.hear(PeekResponse(1, Positions({A: 5}))) == []
    assert 1 in one.machine.history.peeks


def test_where_more_waits_than_a_new_session_would_need_there_is_a_new_one():
    one = active(SessionSettings(waiting_max=5))
    one.handle(StreamEnded(1, SessionEnd.CLOSED))
    one.handle(Woke(), 100)
    one.handle(StreamReady(2), 100)
    one.handle(Writable(2), 100)
    one.handle(ResponseCame(2, HelloOk(1, "r1")), 100)
    ends = []
    for rate in range(50):
        ends += one.want(UpdateConfiguration({"rate": rate}), now_ms=100)
    assert ends == [EndStream(2, SessionEnd.BEHIND)]
    assert len(one.machine.history.commands()) == 6


MAKERS = {
    ControllerState.WAITING: waiting,
    ControllerState.CONNECTING: connecting,
    ControllerState.GREETING: greeting,
    ControllerState.ACTIVE: active,
    ControllerState.STOPPED: stopped,
}


def lost(one):
    return one.handle(StreamEnded(1))


CHANGES = {
    (ControllerState.WAITING, ControllerState.CONNECTING): lambda one: one.want(COMPLETE),
    (ControllerState.CONNECTING, ControllerState.GREETING): lambda one: one.handle(StreamReady(1)),
    (ControllerState.CONNECTING, ControllerState.WAITING): lost,
    (ControllerState.GREETING, ControllerState.ACTIVE): lambda one: one.hear(HelloOk(1, "r1")),
    (ControllerState.GREETING, ControllerState.WAITING): lost,
    (ControllerState.GREETING, ControllerState.STOPPED): lambda one: one.handle(
        StreamEnded(1, SessionEnd.STALE, 5)
    ),
    (ControllerState.ACTIVE, ControllerState.WAITING): lost,
}


@pytest.mark.parametrize("state", CONTROLLER_STATES)
@pytest.mark.parametrize("following", CONTROLLER_STATES)
def test_every_change_of_state(state, following):
    one = MAKERS[state]()
    change = CHANGES.get((state, following))
    lifecycle = one.machine._lifecycle
    assert_follows(lifecycle, CONTROLLER_STATES, following, change and (lambda: change(one)))
