"""A controller towards one replica: it says what is wanted, and hears how far that is.

Whether the replica is there makes no difference to what is wanted: that is remembered, and said in
every session from the beginning.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, assert_never

from dafka.protocol.events import Woke
from dafka.protocol.machine import Lifecycle
from distributor.control.events import (
    EndStream,
    OpenStream,
    PeekAnswered,
    ResponseCame,
    SendCommands,
    SessionEnd,
    StreamEnded,
    StreamReady,
    Superseded,
    Want,
    Writable,
)
from distributor.control.history import CommandHistory
from distributor.control.liveness import Deadline, Liveness
from distributor.control.messages import (
    VERSIONS,
    Canceled,
    CancelPeek,
    FlowDropped,
    Hello,
    HelloOk,
    PeekResponse,
    Pong,
    UnknownMessage,
)
from distributor.control.reports import Reports

if TYPE_CHECKING:
    from distributor.control.events import ControllerEffect, ControllerEvent, SessionSettings
    from distributor.control.messages import Command, Response, StateCommand

RETRY_MS_MIN = 100


class ControllerState(Enum):
    """How far a controller has come with its replica."""

    WAITING = "waiting"
    """It will connect, in a while or once it knows all that is wanted."""
    CONNECTING = "connecting"
    GREETING = "greeting"
    """It has said who it is."""
    ACTIVE = "active"
    """The replica has agreed, and is told what is wanted."""
    STOPPED = "stopped"
    """Another controller is in charge."""


CONTROLLER_STATES = {
    ControllerState.WAITING: {ControllerState.CONNECTING},
    ControllerState.CONNECTING: {ControllerState.GREETING, ControllerState.WAITING},
    ControllerState.GREETING: {
        ControllerState.ACTIVE,
        ControllerState.WAITING,
        ControllerState.STOPPED,
    },
    ControllerState.ACTIVE: {ControllerState.WAITING},
    ControllerState.STOPPED: set(),
}


class ControllerMachine:
    """One replica, as its controller sees it.

    Args:
        name: The controller's member id.
        epoch: The generation in which it is in charge.
        replica: Whom it drives.
        settings: Times.
    """

    def __init__(self, name: str, epoch: int, replica: str, settings: SessionSettings) -> None:
        self._hello = Hello(name, epoch, VERSIONS[0], VERSIONS[-1], replica)
        self._settings = settings
        self._lifecycle = Lifecycle(CONTROLLER_STATES)
        self.history = CommandHistory()
        """What is wanted of the replica."""
        self._stream = 0
        self._due_ms = 0
        """When to connect."""
        self._patience = Deadline(0)
        """Until when the replica may take to be reached, and to agree."""
        self._retry_ms = RETRY_MS_MIN
        self._waiting: list[Command] = []
        """What is to be said in this session."""
        self._writable = False
        self._liveness = Liveness(settings, 0)
        self.reports = Reports()
        """What the replica has said in the last session."""

    @property
    def state(self) -> ControllerState:
        """How far it has come."""
        return self._lifecycle.state

    def handle(self, event: ControllerEvent, now_ms: int) -> list[ControllerEffect]:
        """Take one event in; see `Machine`."""
        effects = self._want(event.command) if isinstance(event, Want) else []
        if self.state is ControllerState.STOPPED:
            return effects
        match event:
            case Want() | Woke():
                pass
            case _ if event.stream != self._stream or self.state is ControllerState.WAITING:
                return effects  # of a session that is over
            case StreamReady():
                self._lifecycle.become(ControllerState.GREETING)
                self._waiting, self._writable = [self._hello], True
            case Writable():
                self._writable = True
            case StreamEnded():
                effects += self._lose(event, now_ms)
            case ResponseCame():
                effects += self._hear(event.response, now_ms)
            case _:
                assert_never(event)
        return effects + self._look(now_ms) + self._flush()

    def wakeup_ms(self) -> int | None:
        """When to connect, to ask whether the replica is there, or to give up on it."""
        match self.state:
            case ControllerState.STOPPED:
                return None
            case ControllerState.WAITING:
                return self._due_ms if self.history.complete else None
            case ControllerState.ACTIVE:
                return self._liveness.due_ms
            case _:
                return self._patience.due_ms

    def check(self) -> None:
        """Assert that what is remembered and what waits is bounded."""
        assert len(self.history.commands()) <= self.history.size_max
        assert len(self._waiting) <= self._waiting_max

    @property
    def _waiting_max(self) -> int:
        return 2 * self.history.size_max + self._settings.waiting_max

    def _want(self, command: StateCommand) -> list[ControllerEffect]:
        objection = self.history.objection(command)
        assert objection is None, objection
        is_open = not isinstance(command, CancelPeek) or command.peek in self.history.peeks
        self.history.take(command)
        if self.state is ControllerState.ACTIVE and is_open:
            self._waiting.append(command)
        if isinstance(command, CancelPeek) and is_open:
            return [PeekAnswered(command.peek, Canceled())]
        return []

    def _hear(self, response: Response, now_ms: int) -> list[ControllerEffect]:
        match response:
            case HelloOk():
                return self._begin(response, now_ms)
            case UnknownMessage():
                return self._end(SessionEnd.VIOLATION, now_ms, f"no response {response.kind}")
            case _ if self.state is not ControllerState.ACTIVE:
                return self._end(SessionEnd.VIOLATION, now_ms, "nothing was asked yet")
            case Pong():
                objection = self._liveness.objection(response)
                if objection is None:
                    self._liveness.take(response, now_ms)
                    self._retry_ms = RETRY_MS_MIN
            case _:
                objection = self.reports.objection(response)
                if objection is None:
                    self.reports.take(response)
                    return self._learn(response)
        return [] if objection is None else self._end(SessionEnd.VIOLATION, now_ms, objection)

    def _begin(self, response: HelloOk, now_ms: int) -> list[ControllerEffect]:
        fits = response.version in VERSIONS and response.replica == self._hello.replica
        if self.state is not ControllerState.GREETING or not fits:
            return self._end(SessionEnd.VIOLATION, now_ms, f"this was not asked: {response}")
        self._lifecycle.become(ControllerState.ACTIVE)
        self._waiting = [*self.history.commands()]
        self.reports = Reports()
        self._liveness = Liveness(self._settings, now_ms)
        return []

    def _learn(self, response: Response) -> list[ControllerEffect]:
        match response:
            case FlowDropped():
                self.history.forget(response.flow)
            case PeekResponse() if response.peek in self.history.peeks:
                self.history.answered(response.peek)
                return [PeekAnswered(response.peek, response.answer)]
            case _:
                pass
        return []

    def _lose(self, event: StreamEnded, now_ms: int) -> list[ControllerEffect]:
        if event.why is SessionEnd.STALE and self.state is ControllerState.GREETING:
            self._lifecycle.become(ControllerState.STOPPED)
            self._waiting.clear()
            return [Superseded(event.epoch)]
        self._retry(now_ms)
        return []

    def _end(self, why: SessionEnd, now_ms: int, detail: str = "") -> list[ControllerEffect]:
        self._retry(now_ms)
        return [EndStream(self._stream, why, detail=detail)]

    def _retry(self, now_ms: int) -> None:
        self._lifecycle.become(ControllerState.WAITING)
        self._waiting.clear()
        self._due_ms = now_ms + self._retry_ms
        self._retry_ms = min(2 * self._retry_ms, self._settings.retry_ms_max)

    def _look(self, now_ms: int) -> list[ControllerEffect]:
        """Do what is due."""
        match self.state:
            case ControllerState.STOPPED:
                return []
            case ControllerState.WAITING:
                if not self.history.complete or now_ms < self._due_ms:
                    return []
                self._lifecycle.become(ControllerState.CONNECTING)
                self._stream += 1
                self._patience = Deadline(now_ms + self._settings.silence_ms)
                return [OpenStream(self._stream)]
            case ControllerState.ACTIVE:
                return self._look_after(now_ms)
            case _:
                late = self._patience.is_over(now_ms)
                return self._end(SessionEnd.SILENT, now_ms) if late else []

    def _look_after(self, now_ms: int) -> list[ControllerEffect]:
        why = self._liveness.end(now_ms)
        whole = (
            len(self.history.commands()) if len(self._waiting) > self._settings.waiting_max else 0
        )
        if why is None and len(self._waiting) > 2 * whole + self._settings.waiting_max:
            why = SessionEnd.BEHIND
        if why is not None:
            return self._end(why, now_ms)
        ping = self._liveness.ping(now_ms)
        self._waiting += [ping] if ping is not None else []
        return []

    def _flush(self) -> list[ControllerEffect]:
        if not self._writable or not self._waiting:
            return []
        commands = (*self._waiting,)
        self._waiting.clear()
        self._writable = False
        for command in commands:
            self.reports.sent(command)
        return [SendCommands(self._stream, commands)]
