"""A replica: a process that runs flows as the controller of the latest epoch wants it to.

It outlives its sessions. Without one its flows go on; in a new one it collects what is wanted, and
changes nothing before it has heard all of it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, assert_never

from dafka.protocol.events import Woke
from dafka.protocol.machine import Lifecycle, earliest
from distributor.control.events import (
    CommandCame,
    Configure,
    EndProcess,
    EndStream,
    FlowChanged,
    FlowMoved,
    FlowStopped,
    FlowsTurned,
    SendResponses,
    SessionEnd,
    StreamEnded,
    StreamOpened,
    Writable,
)
from distributor.control.flow_table import FlowTable
from distributor.control.frontiers import Frontier, reaches
from distributor.control.history import CommandHistory
from distributor.control.liveness import Deadline
from distributor.control.messages import (
    VERSIONS,
    AllowCompaction,
    AllowWrites,
    Canceled,
    CancelPeek,
    CreateFlow,
    FlowDropped,
    FlowState,
    Frontiers,
    Hello,
    HelloOk,
    InitializationComplete,
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
from distributor.control.outbox import Outbox

if TYPE_CHECKING:
    from distributor.control.events import FlowEffect, ReplicaEffect, ReplicaEvent, SessionSettings
    from distributor.control.messages import Command, CreateInstance, PeekAnswer, StateCommand


class ReplicaStage(Enum):
    """How far a session has come; the third and the fourth stage of a flow are its own."""

    DETACHED = "detached"
    """There is none."""
    CREATION = "creation"
    """The controller has said who it is."""
    INITIALIZATION = "initialization"
    """It says what it wants."""
    COMPUTATION = "computation"
    """It has said all of it, and each command counts at once."""


REPLICA_STAGES = {
    ReplicaStage.DETACHED: {ReplicaStage.CREATION},
    ReplicaStage.CREATION: {ReplicaStage.INITIALIZATION, ReplicaStage.DETACHED},
    ReplicaStage.INITIALIZATION: {ReplicaStage.COMPUTATION, ReplicaStage.DETACHED},
    ReplicaStage.COMPUTATION: {ReplicaStage.DETACHED},
}

NO_STREAM = -1


class ReplicaMachine:
    """One replica, towards all controllers that connect to it.

    Args:
        name: Its name at controllers.
        settings: Times.
        instance: What it is for; None: what the first controller says.
    """

    def __init__(
        self, name: str, settings: SessionSettings, instance: CreateInstance | None = None
    ) -> None:
        self._name = name
        self._settings = settings
        self._lifecycle = Lifecycle(REPLICA_STAGES)
        self.epoch = 0
        """The highest in which a controller has come."""
        self._controller = ""
        """Whose that is."""
        self._greeting: dict[int, int] = {}
        """Streams on which nobody has said who it is, and until when they may."""
        self._stream = NO_STREAM
        self._silence = Deadline(0)
        """When the controller is taken for gone."""
        self._instance = instance
        self._configuration: dict[str, int] = {}
        self.table = FlowTable()
        self._progress = 0
        self._wanted = CommandHistory()
        """What this session's controller wants."""
        self._leaving: set[int] = set()
        """Flows that were dropped in this session, of which that is not told yet."""
        self._outbox = Outbox()
        self._asked_at_once = 0
        """How much this session began with: to end it for the answers to that would not help."""

    @property
    def stage(self) -> ReplicaStage:
        """How far the session has come."""
        return self._lifecycle.state

    def handle(self, event: ReplicaEvent, now_ms: int) -> list[ReplicaEffect]:
        """Take one event in; see `Machine`."""
        return self._take(event, now_ms) + self._end_silent(now_ms) + self._flush()

    def wakeup_ms(self) -> int | None:
        """When somebody has been silent for too long."""
        attached = self.stage is not ReplicaStage.DETACHED
        return earliest(self._silence.due_ms if attached else None, *self._greeting.values())

    def check(self) -> None:
        """Assert that what is run is what is wanted, and what waits to be said is bounded."""
        self.table.check()
        assert len(self._outbox) <= self._waiting_max
        assert (self._stream == NO_STREAM) == (self.stage is ReplicaStage.DETACHED)
        if self.stage is ReplicaStage.COMPUTATION:
            live = {
                number: one.terms for number, one in self._wanted.flows.items() if not one.dropped
            }
            assert {number: run.wanted for number, run in self.table.runs.items()} == live
            assert self._configuration == self._wanted.configuration

    def _take(self, event: ReplicaEvent, now_ms: int) -> list[ReplicaEffect]:
        match event:
            case StreamOpened():
                self._greeting[event.stream] = now_ms + self._settings.silence_ms
            case CommandCame():
                return self._command(event.stream, event.command, now_ms)
            case Writable():
                if event.stream == self._stream:
                    self._outbox.writable()
            case StreamEnded():
                self._greeting.pop(event.stream, None)
                if event.stream == self._stream:
                    self._detach()
            case FlowMoved() | FlowChanged() | FlowStopped():
                return [*self._follow(event)]
            case FlowsTurned():
                self._progress += 1
            case Woke():
                pass
            case _:
                assert_never(event)
        return []

    def _command(self, stream: int, command: Command, now_ms: int) -> list[ReplicaEffect]:
        if stream in self._greeting:
            del self._greeting[stream]
            if not isinstance(command, Hello):
                return [self._end(stream, SessionEnd.VIOLATION, "who speaks has to say who it is")]
            return self._greet(stream, command, now_ms)
        if stream != self._stream:
            return []  # it has been ended, and this was under way
        self._silence = Deadline(now_ms + self._settings.silence_ms)
        match command:
            case Ping():
                self._outbox.put(Pong(command.number, self._progress))
                return []
            case Hello():
                return self._violated("it is known already who speaks")
            case UnknownMessage():
                return self._violated(f"there is no command {command.kind}")
            case _:
                objection = self._wanted.objection(command)
                return [*self._obey(command)] if objection is None else self._violated(objection)

    def _greet(self, stream: int, hello: Hello, now_ms: int) -> list[ReplicaEffect]:
        if hello.replica != self._name:
            return [self._end(stream, SessionEnd.WRONG_REPLICA, f"this is {self._name}")]
        if hello.epoch < self.epoch or (
            hello.epoch == self.epoch and hello.controller != self._controller
        ):
            return [self._end(stream, SessionEnd.STALE, f"{self._controller} is in charge")]
        # From here on the one before is out of office, also if this one cannot be understood.
        self.epoch, self._controller = hello.epoch, hello.controller
        effects: list[ReplicaEffect] = []
        if self._stream != NO_STREAM:
            effects.append(self._end(self._stream, SessionEnd.SUPERSEDED, "there is another one"))
            self._detach()
        version = min(hello.newest, VERSIONS[-1])
        if version < max(hello.oldest, VERSIONS[0]):
            spoken = f"this replica speaks {VERSIONS[0]} to {VERSIONS[-1]}"
            return [*effects, self._end(stream, SessionEnd.VERSION, spoken)]
        self._lifecycle.become(ReplicaStage.CREATION)
        self._stream, self._silence = stream, Deadline(now_ms + self._settings.silence_ms)
        self._outbox.put(HelloOk(version, self._name))
        return effects

    def _obey(self, command: StateCommand) -> list[ReplicaEffect]:
        """Do what is wanted; until all is known, only remember it."""
        if isinstance(command, CancelPeek):
            if command.peek in self._wanted.peeks:  # else it is answered already
                self._answer(command.peek, Canceled())
            return []
        self._wanted.take(command)
        if self.stage is ReplicaStage.COMPUTATION:
            return [*self._obey_at_once(command)]
        if isinstance(command, InitializationComplete):
            return self._reconcile()
        if self.stage is ReplicaStage.CREATION:
            self._lifecycle.become(ReplicaStage.INITIALIZATION)
        return []

    def _reconcile(self) -> list[ReplicaEffect]:
        """Become what is wanted, and tell all of it anew."""
        wanted = self._wanted
        if self._instance not in (None, wanted.instance):
            end = self._end(self._stream, SessionEnd.INCOMPATIBLE, f"this is {self._instance}")
            self._detach()
            return [end, EndProcess()]
        self._lifecycle.become(ReplicaStage.COMPUTATION)
        self._instance = wanted.instance
        self._asked_at_once = wanted.size_max
        effects = [*self._configure(), *self.table.reconcile(wanted.flows)]
        for number, wish in [*wanted.flows.items()]:
            if wish.dropped:
                self._leave(number)
            else:
                self._tell_all(number)
        for flow in {peek.flow for peek in wanted.peeks.values()}:
            self._answer_peeks(flow)
        return [*effects]

    def _obey_at_once(self, command: StateCommand) -> list[FlowEffect]:
        match command:
            case UpdateConfiguration():
                return self._configure()
            case CreateFlow():
                wish = self._wanted.flows[command.number]
                effects = self.table.create(command.number, wish.flow, wish.terms)
                self._tell_all(command.number)
                return effects
            case AllowCompaction(before=None):
                effects = self.table.drop(command.flow)
                self._leave(command.flow)
                self._answer_peeks(command.flow)
                return effects
            case Schedule() | AllowWrites() | AllowCompaction():
                return self.table.steer(command.flow, self._wanted.flows[command.flow].terms)
            case Peek():
                self._answer_peeks(command.flow)
            case _:
                raise AssertionError(command)  # none of these comes now
        return []

    def _configure(self) -> list[FlowEffect]:
        if self._configuration == self._wanted.configuration:
            return []
        self._configuration = dict(self._wanted.configuration)
        return [Configure(self._wanted.configuration.copy())]

    def _follow(self, event: FlowMoved | FlowChanged | FlowStopped) -> list[FlowEffect]:
        """Something has happened to a flow; who is attached is told."""
        attached = self.stage is ReplicaStage.COMPUTATION
        match event:
            case FlowMoved():
                news = self.table.moved(event)
                if attached and news is not None:
                    self._tell(news)
                    self._answer_peeks(news.flow)
                return []
            case FlowChanged():
                number = self.table.changed(event)
                if attached and number is not None:
                    self._outbox.put(FlowState(number, event.status, event.epoch, event.reason))
                return []
            case FlowStopped():
                number, effects = self.table.stopped(event.run)
                if attached and number in self._leaving:
                    self._say_dropped(number)
                return effects
            case _:
                assert_never(event)

    def _tell_all(self, number: int) -> None:
        run = self.table.runs[number]
        self._outbox.put(FlowState(number, run.status, run.epoch, run.reason))
        self._tell(Frontiers(number, run.input, run.write, run.output))

    def _tell(self, news: Frontiers) -> None:
        """Say how far a flow is, where that is not before what anybody needs of it."""
        start = self._wanted.flows[news.flow].terms.start

        def needed(frontier: Frontier) -> Frontier:
            return {one: end for one, end in frontier.items() if end >= start.get(one, 0)}

        told = Frontiers(news.flow, needed(news.input), needed(news.write), needed(news.output))
        if told.input or told.write or told.output:
            self._outbox.put(told)

    def _leave(self, number: int) -> None:
        """A flow was dropped; say so once nothing of it happens any more."""
        self._outbox.leave_out(number)
        self._leaving.add(number)
        self._say_dropped(number)

    def _say_dropped(self, number: int) -> None:
        if self.table.is_gone(number):
            self._leaving.discard(number)
            self._wanted.forget(number)
            self._outbox.put(FlowDropped(number))

    def _answer_peeks(self, flow: int) -> None:
        run = self.table.runs.get(flow)
        for peek in [one for one in self._wanted.peeks.values() if one.flow == flow]:
            if run is None:
                self._answer(peek.number, PeekError(f"flow {peek.flow} was dropped"))
            elif reaches(run.write, peek.at_least):
                self._answer(peek.number, Positions(dict(run.write)))

    def _answer(self, peek: int, answer: PeekAnswer) -> None:
        self._wanted.answered(peek)
        self._outbox.put(PeekResponse(peek, answer))

    def _violated(self, detail: str) -> list[ReplicaEffect]:
        end = self._end(self._stream, SessionEnd.VIOLATION, detail)
        self._detach()
        return [end]

    def _end(self, stream: int, why: SessionEnd, detail: str) -> EndStream:
        return EndStream(stream, why, self.epoch, detail)

    def _detach(self) -> None:
        """The session is over; the flows go on, and what it had not said whole is forgotten."""
        self._lifecycle.become(ReplicaStage.DETACHED)
        self._stream = NO_STREAM
        self._wanted, self._outbox = CommandHistory(), Outbox()
        self._leaving.clear()

    @property
    def _waiting_max(self) -> int:
        said_again = 2 * len(self.table.runs)
        return said_again + self._asked_at_once + self._settings.waiting_max

    def _end_silent(self, now_ms: int) -> list[ReplicaEffect]:
        """End what nothing is heard of, and who does not read."""
        late = [stream for stream, due_ms in self._greeting.items() if now_ms >= due_ms]
        for stream in late:
            del self._greeting[stream]
        ended: list[ReplicaEffect] = [
            self._end(stream, SessionEnd.SILENT, "nobody has said who it is") for stream in late
        ]
        if self.stage is ReplicaStage.DETACHED:
            return ended
        if self._silence.is_over(now_ms):
            ended.append(self._end(self._stream, SessionEnd.SILENT, "nothing was heard"))
            self._detach()
        elif len(self._outbox) > self._waiting_max:
            ended.append(self._end(self._stream, SessionEnd.BEHIND, "responses are not read"))
            self._detach()
        return ended

    def _flush(self) -> list[ReplicaEffect]:
        responses = self._outbox.take()
        return [SendResponses(self._stream, responses)] if responses else []
