"""A replica and those who want to be its controllers."""

from __future__ import annotations

import pytest

from dafka.model import replace
from dafka.protocol.events import Woke
from distributor.control.events import (
    CommandCame,
    Configure,
    EndProcess,
    EndStream,
    FlowChanged,
    FlowMoved,
    FlowStopped,
    FlowsTurned,
    FlowTerms,
    SendResponses,
    SessionEnd,
    SessionSettings,
    StartFlow,
    SteerFlow,
    StopFlow,
    StreamEnded,
    StreamOpened,
    Writable,
)
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    Canceled,
    CancelPeek,
    CreateInstance,
    FlowDropped,
    FlowState,
    FlowStatus,
    Frontiers,
    HelloOk,
    Peek,
    PeekError,
    PeekResponse,
    Ping,
    Pong,
    Positions,
    Schedule,
    UnknownMessage,
    UpdateConfiguration,
)
from distributor.control.replica import REPLICA_STAGES, ReplicaMachine, ReplicaStage
from distributor.testing.control_replicas import flow_of
from tests.support.control_commands import (
    COMPLETE,
    INSTANCE,
    SETTINGS,
    A,
    B,
    Driven,
    create,
    hello,
)
from tests.support.lifecycles import assert_follows

WINDOW = INSTANCE, create(1), Schedule(1), AllowWrites(1, 3), create(2, {A: 5})
TERMS = FlowTerms({}, scheduled=True, epoch=3)


def running(settings=SETTINGS):
    one = Driven(settings=settings)
    one.connect()
    one.tell(*WINDOW, COMPLETE)
    return one


def ended(effects):
    """Why and where a session was ended."""
    return [(one.why, one.stream) for one in effects if isinstance(one, EndStream)]


def test_it_answers_who_says_who_it_is():
    one = Driven()
    assert one.connect() == []
    assert one.responses == [HelloOk(1, "r1")]
    assert one.machine.stage is ReplicaStage.CREATION


def test_who_does_not_is_cut():
    one = Driven()
    assert ended(one.connect(INSTANCE)) == [(SessionEnd.VIOLATION, 0)]
    assert one.machine.stage is ReplicaStage.DETACHED


def test_who_says_nothing_is_cut():
    one = Driven()
    one.handle(StreamOpened(0), 100)
    assert one.machine.wakeup_ms() == 3_100
    assert one.handle(Woke(), 3_099) == []
    assert ended(one.handle(Woke(), 3_100)) == [(SessionEnd.SILENT, 0)]
    assert one.machine.wakeup_ms() is None


def test_a_stream_that_is_gone_is_not_waited_for():
    one = Driven()
    one.handle(StreamOpened(0), 100)
    one.handle(StreamEnded(0), 200)
    assert one.machine.wakeup_ms() is None


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        (hello(epoch=4), SessionEnd.STALE),
        (hello(epoch=5, controller="c2"), SessionEnd.STALE),
        (hello(epoch=9, replica="r2"), SessionEnd.WRONG_REPLICA),
    ],
)
def test_who_is_not_in_charge_is_refused_and_disturbs_nobody(greeting, why):
    one = Driven()
    one.connect(hello(epoch=5))
    one.tell(*WINDOW, COMPLETE)
    first, before = one.stream, one.state
    assert one.connect(greeting) == [
        EndStream(1, why, 5, "this is r1" if why is SessionEnd.WRONG_REPLICA else "c1 is in charge")
    ]
    one.tell(INSTANCE, COMPLETE)
    assert one.state == before
    one.handle(CommandCame(first, create(7)))
    assert 7 in one.state, "the one in charge goes on"


def test_an_older_epoch_is_refused_for_ever():
    one = Driven()
    one.connect(hello(epoch=5))
    one.handle(StreamEnded(0))
    assert ended(one.connect(hello(epoch=4), now_ms=10**9)) == [(SessionEnd.STALE, 1)]


@pytest.mark.parametrize(
    "greeting", [hello(epoch=5), hello(epoch=6, controller="c2")], ids=["again", "newer"]
)
def test_a_newer_session_takes_the_place_of_the_one_before(greeting):
    one = Driven()
    one.connect(hello(epoch=5))
    one.tell(*WINDOW, COMPLETE)
    before = one.state
    assert ended(one.connect(greeting)) == [(SessionEnd.SUPERSEDED, 0)]
    one.handle(CommandCame(0, create(9)))
    assert one.state == before, "what comes from the one before changes nothing"
    assert one.responses == [HelloOk(1, "r1")]


@pytest.mark.parametrize(
    ("oldest", "newest", "version"), [(1, 1, 1), (1, 9, 1), (0, 1, 1), (2, 9, None), (0, 0, None)]
)
def test_both_speak_the_newest_version_that_both_know(oldest, newest, version):
    one = Driven()
    effects = one.connect(hello(oldest=oldest, newest=newest))
    if version is None:
        assert effects == [EndStream(0, SessionEnd.VERSION, 1, "this replica speaks 1 to 1")]
    else:
        assert one.responses == [HelloOk(version, "r1")]


def test_one_that_cannot_be_understood_puts_the_one_before_out_of_office():
    one = running()
    effects = one.connect(hello(epoch=2, oldest=7, newest=9))
    assert ended(effects) == [(SessionEnd.SUPERSEDED, 0), (SessionEnd.VERSION, 1)]
    assert ended(one.connect(hello(epoch=1))) == [(SessionEnd.STALE, 2)]


def test_nothing_is_done_and_said_before_all_is_known():
    one = Driven()
    one.connect()
    for command in (*WINDOW, UpdateConfiguration({"rate": 1})):
        assert one.tell(command) == []
    assert one.responses == [HelloOk(1, "r1")]
    assert one.machine.stage is ReplicaStage.INITIALIZATION
    assert one.tell(COMPLETE) == [
        Configure({"rate": 1}),
        StartFlow(1, flow_of(1), TERMS),
        StartFlow(2, flow_of(2), FlowTerms({A: 5})),
    ]
    assert one.said(FlowState) == [
        FlowState(1, FlowStatus.SUSPENDED, 0),
        FlowState(2, FlowStatus.SUSPENDED, 0),
    ]


@pytest.mark.parametrize("heard", range(1, len(WINDOW) + 1))
def test_half_a_window_applies_nothing(heard):
    one = running()
    before = one.state
    one.connect()
    window = INSTANCE, create(4), Schedule(4), create(5), AllowWrites(5, 9)
    one.tell(*window[:heard])
    one.handle(StreamEnded(1))
    assert one.effects == []
    assert one.state == before


def test_flows_go_on_without_a_controller():
    one = running()
    one.handle(StreamEnded(0))
    assert one.machine.stage is ReplicaStage.DETACHED
    assert one.handle(FlowMoved(1, {A: 5}, {A: 4}, {A: 5})) == []
    assert one.handle(FlowChanged(1, FlowStatus.WRITING, 3)) == []
    one.connect()
    assert one.tell(*WINDOW, COMPLETE) == []
    assert one.said(FlowState)[0] == FlowState(1, FlowStatus.WRITING, 3)
    assert one.said(Frontiers) == [Frontiers(1, {A: 5}, {A: 4}, {A: 5})]


def test_a_grant_that_is_not_repeated_is_taken_back():
    one = running()
    one.handle(FlowChanged(1, FlowStatus.WRITING, 3))
    one.connect()
    window = [command for command in WINDOW if not isinstance(command, AllowWrites)]
    assert one.tell(*window, COMPLETE) == [SteerFlow(1, replace(TERMS, epoch=0))]
    assert one.said(FlowState)[0] == FlowState(1, FlowStatus.DRAINING, 3)


def test_settings_that_are_not_repeated_are_gone():
    one = running()
    assert one.tell(UpdateConfiguration({"rate": 1})) == [Configure({"rate": 1})]
    assert one.tell(UpdateConfiguration({"margin": 2})) == [Configure({"rate": 1, "margin": 2})]
    assert one.tell(UpdateConfiguration({"rate": 1})) == []
    one.connect()
    assert one.tell(*WINDOW, UpdateConfiguration({"rate": 3}), COMPLETE) == [Configure({"rate": 3})]


def test_what_is_wanted_later_counts_at_once():
    one = running()
    assert one.tell(create(3)) == [StartFlow(3, flow_of(3), FlowTerms({}))]
    assert one.tell(Schedule(3)) == [SteerFlow(3, FlowTerms({}, scheduled=True))]
    assert one.tell(Schedule(3)) == []
    assert one.tell(AllowCompaction(3, {A: 4})) == [SteerFlow(3, FlowTerms({A: 4}, scheduled=True))]
    terms = FlowTerms({A: 4}, scheduled=True, epoch=8)
    assert one.tell(AllowWrites(3, 8)) == [SteerFlow(3, terms)]


def test_the_end_of_a_dropped_flow_is_told_once_and_after_its_last_effect():
    machine = ReplicaMachine("r1", SETTINGS)
    machine.handle(StreamOpened(0), 0)
    for command in (hello(), *WINDOW, COMPLETE):
        machine.handle(CommandCame(0, command), 0)
    machine.handle(Writable(0), 0)
    assert StopFlow(1) in machine.handle(CommandCame(0, AllowCompaction(1, None)), 0)
    machine.handle(Writable(0), 0)
    assert machine.handle(FlowMoved(1, {A: 9}, {}, {}), 0) == []
    assert machine.handle(FlowStopped(1), 0) == [SendResponses(0, (FlowDropped(1),))]
    assert machine.handle(Writable(0), 0) == []


def test_a_flow_that_is_dropped_in_the_window_ends_and_that_is_told():
    one = running()
    one.connect()
    one.tell(*WINDOW, create(3), AllowCompaction(3, None), AllowCompaction(1, None), COMPLETE)
    assert one.effects == [StopFlow(1)]
    assert one.said(FlowDropped) == [FlowDropped(3), FlowDropped(1)]
    assert [said.flow for said in one.said(FlowState)] == [2]


def test_a_flow_that_is_not_wanted_any_more_ends_without_a_word():
    one = running()
    one.connect()
    one.tell(INSTANCE, create(2, {A: 5}), COMPLETE)
    assert one.effects == [StopFlow(1)]
    assert one.said(FlowDropped) == []


def test_what_is_before_the_start_is_not_told():
    one = running()
    one.handle(FlowMoved(2, {A: 4, B: 1}, {A: 5}, {A: 4}))
    assert one.said(Frontiers) == [Frontiers(2, {B: 1}, {A: 5}, {})]
    one.handle(FlowMoved(2, {A: 4}, {}, {}))
    one.handle(FlowMoved(2, {A: 6}, {}, {A: 6}))
    assert one.said(Frontiers)[1:] == [Frontiers(2, {A: 6}, {}, {A: 6})]


def test_a_peek_is_answered_once_when_the_target_is_that_far():
    one = running()
    one.tell(Peek(1, 1, {A: 5}))
    one.handle(FlowMoved(1, {A: 9}, {A: 4}, {A: 9}))
    assert one.said(PeekResponse) == []
    one.handle(FlowMoved(1, {}, {A: 6}, {}))
    one.handle(FlowMoved(1, {}, {A: 7}, {}))
    one.tell(CancelPeek(1))
    assert one.said(PeekResponse) == [PeekResponse(1, Positions({A: 6}))]
    one.tell(Peek(2, 1, {A: 7}))
    assert one.said(PeekResponse)[1:] == [PeekResponse(2, Positions({A: 7}))]


def test_a_peek_that_is_cancelled_or_whose_flow_is_dropped_is_answered_too():
    one = running()
    one.tell(Peek(1, 1, {A: 5}), Peek(2, 1, {A: 5}), CancelPeek(1), AllowCompaction(1, None))
    assert one.said(PeekResponse) == [
        PeekResponse(1, Canceled()),
        PeekResponse(2, PeekError("flow 1 was dropped")),
    ]


def test_peeks_of_the_window_are_answered_when_it_is_complete():
    one = running()
    one.handle(FlowMoved(1, {A: 9}, {A: 9}, {A: 9}))
    one.connect()
    one.tell(*WINDOW, Peek(1, 1, {A: 9}), Peek(2, 2, {}), AllowCompaction(2, None))
    assert one.said(PeekResponse) == []
    one.tell(COMPLETE)
    assert one.said(PeekResponse) == [
        PeekResponse(1, Positions({A: 9})),
        PeekResponse(2, PeekError("flow 2 was dropped")),
    ]


def test_peeks_of_a_session_end_with_it():
    one = running()
    one.tell(Peek(1, 1, {A: 9}))
    one.connect()
    one.tell(*WINDOW, COMPLETE)
    one.handle(FlowMoved(1, {A: 9}, {A: 9}, {A: 9}))
    assert one.said(PeekResponse) == []


def test_pings_are_answered_at_any_time_and_show_whether_flows_turn():
    one = Driven()
    one.connect()
    one.tell(Ping(1))
    one.handle(FlowsTurned())
    one.tell(INSTANCE, Ping(2), COMPLETE, Ping(3))
    assert one.said(Pong) == [Pong(1, 0), Pong(2, 1), Pong(3, 1)]


@pytest.mark.parametrize(
    "command",
    [
        hello(),
        UnknownMessage("43"),
        INSTANCE,
        create(1),
        Schedule(9),
        AllowWrites(1, 2),
        CancelPeek(4),
        COMPLETE,
    ],
)
def test_what_breaks_the_protocol_ends_the_session_and_disturbs_no_flow(command):
    one = running()
    before = one.state
    assert ended(one.tell(command)) == [(SessionEnd.VIOLATION, 0)]
    assert one.machine.stage is ReplicaStage.DETACHED
    assert one.state == before


def test_a_process_for_something_else_ends():
    one = running()
    one.connect()
    one.tell(CreateInstance("south", 2))
    effects = one.tell(COMPLETE)
    assert ended(effects) == [(SessionEnd.INCOMPATIBLE, 1)]
    assert effects[1:] == [EndProcess()]
    assert CreateInstance("south", 2) != INSTANCE


def test_who_is_silent_is_gone():
    one = running()
    one.tell(Ping(1), now_ms=2_000)
    assert one.machine.wakeup_ms() == 5_000
    assert one.handle(FlowsTurned(), 4_999) == []
    assert ended(one.handle(Woke(), 5_000)) == [(SessionEnd.SILENT, 0)]


def test_a_replica_that_looks_late_looks_once_more_as_it_may_not_have_read_what_came():
    one = running()
    one.tell(Ping(1), now_ms=2_000)
    assert one.handle(Woke(), 6_000) == []
    assert one.machine.wakeup_ms() == 7_000
    one.tell(Ping(2), now_ms=6_001)
    assert one.handle(Woke(), 9_002) == []
    assert one.handle(FlowsTurned(), 9_002) == []
    assert ended(one.handle(Woke(), 9_003)) == [(SessionEnd.SILENT, 0)]


def test_who_does_not_read_is_cut_before_much_waits():
    machine = ReplicaMachine("r1", SessionSettings(waiting_max=5))
    machine.handle(StreamOpened(0), 0)
    for command in (hello(), *WINDOW, COMPLETE):
        machine.handle(CommandCame(0, command), 0)
    for turn in range(100):
        assert machine.handle(FlowMoved(1, {A: turn}, {A: turn}, {A: turn}), 0) == []
    effects = [
        effect
        for number in range(100)
        for effect in machine.handle(CommandCame(0, Peek(number, 1, {})), 0)
    ]
    assert ended(effects) == [(SessionEnd.BEHIND, 0)]


def test_who_asks_much_at_once_is_not_cut_for_the_answers():
    one = Driven(settings=SessionSettings(waiting_max=5))
    one.connect()
    peeks = [Peek(number, 1, {}) for number in range(100)]
    one.tell(*WINDOW, *peeks, COMPLETE)
    assert len(one.said(PeekResponse)) == 100


def detached():
    return Driven()


def created():
    one = Driven()
    one.connect()
    return one


def initializing():
    one = created()
    one.tell(INSTANCE)
    return one


MAKERS = {
    ReplicaStage.DETACHED: detached,
    ReplicaStage.CREATION: created,
    ReplicaStage.INITIALIZATION: initializing,
    ReplicaStage.COMPUTATION: running,
}
CHANGES = {
    (ReplicaStage.DETACHED, ReplicaStage.CREATION): lambda one: one.connect(),
    (ReplicaStage.CREATION, ReplicaStage.INITIALIZATION): lambda one: one.tell(INSTANCE),
    (ReplicaStage.CREATION, ReplicaStage.DETACHED): lambda one: one.handle(StreamEnded(0)),
    (ReplicaStage.INITIALIZATION, ReplicaStage.COMPUTATION): lambda one: one.tell(COMPLETE),
    (ReplicaStage.INITIALIZATION, ReplicaStage.DETACHED): lambda one: one.handle(StreamEnded(0)),
    (ReplicaStage.COMPUTATION, ReplicaStage.DETACHED): lambda one: one.handle(StreamEnded(0)),
}


@pytest.mark.parametrize("stage", REPLICA_STAGES)
@pytest.mark.parametrize("following", REPLICA_STAGES)
def test_every_change_of_stage(stage, following):
    one = MAKERS[stage]()
    change = CHANGES.get((stage, following))
    lifecycle = one.machine._lifecycle
    assert_follows(lifecycle, REPLICA_STAGES, following, change and (lambda: change(one)))


def test_why_a_flow_has_failed_is_told_and_told_again():
    one = running()
    one.handle(FlowChanged(1, FlowStatus.FAILED, 0, "no such cluster"))
    failed = FlowState(1, FlowStatus.FAILED, 0, "no such cluster")
    assert one.said(FlowState)[-1] == failed
    one.connect()
    one.tell(*WINDOW, COMPLETE)
    assert one.said(FlowState)[0] == failed
