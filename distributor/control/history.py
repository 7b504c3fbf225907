"""What a controller wants of one replica, reduced: the commands that still matter.

A history is what its commands come to, and gives the few that come to the same. Controllers keep
one to replay it in every session, replicas one of each session, to know what is wanted of them.
"""

from __future__ import annotations

from typing import assert_never

from dafka.model import Value, replace
from distributor.control.events import FlowTerms
from distributor.control.frontiers import joined
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    CancelPeek,
    CreateFlow,
    CreateInstance,
    Flow,
    InitializationComplete,
    Peek,
    Schedule,
    StateCommand,
    UpdateConfiguration,
)


class FlowWish(Value, frozen=True):
    """What is wanted of one flow.

    Attributes:
        flow: What it is.
        terms: What it may do.
        dropped: It shall end, and its end shall be told.
    """

    flow: Flow
    terms: FlowTerms
    dropped: bool = False


class CommandHistory:
    """Commands of one controller to one replica, as far as they matter still."""

    def __init__(self) -> None:
        self.instance: CreateInstance | None = None
        self.configuration: dict[str, int] = {}
        self.flows: dict[int, FlowWish] = {}
        """By number, in order; dropped ones until they are forgotten."""
        self.peeks: dict[int, Peek] = {}
        """Those that are neither answered nor cancelled, by number, in order."""
        self.complete = False
        """Whether it is all that is wanted."""
        self._newest_flow = -1
        self._newest_peek = -1

    def objection(self, command: StateCommand) -> str | None:
        """Return why a command may not come now, for people; None if it may."""
        if isinstance(command, CreateInstance):
            return None if self.instance is None else "there is an instance"
        if self.instance is None:
            return "there is no instance yet"
        match command:
            case UpdateConfiguration():
                return None
            case InitializationComplete():
                return "it is complete already" if self.complete else None
            case CreateFlow():
                new = command.number > self._newest_flow
                return None if new else f"flow {command.number} is not new"
            case CancelPeek():
                old = command.peek <= self._newest_peek
                return None if old else f"there was no peek {command.peek}"
            case _:
                return self._objection_for_flow(command)

    def take(self, command: StateCommand) -> None:
        """Take in a command to which there is no objection."""
        match command:
            case CreateInstance():
                self.instance = command
            case UpdateConfiguration():
                self.configuration |= command.values
            case CreateFlow():
                self._newest_flow = command.number
                self.flows[command.number] = FlowWish(command.flow, FlowTerms(command.start))
            case Peek():
                self._newest_peek = command.number
                self.peeks[command.number] = command
            case CancelPeek():
                self.peeks.pop(command.peek, None)
            case InitializationComplete():
                self.complete = True
            case Schedule() | AllowWrites() | AllowCompaction():
                self.flows[command.flow] = _changed(self.flows[command.flow], command)
            case _:
                assert_never(command)

    def live(self) -> frozenset[int]:
        """The flows that are wanted and not dropped."""
        return frozenset(number for number, wish in self.flows.items() if not wish.dropped)

    def answered(self, peek: int) -> None:
        """A peek has its answer."""
        self.peeks.pop(peek, None)

    def forget(self, flow: int) -> None:
        """A dropped flow has ended, and this has been told."""
        del self.flows[flow]

    @property
    def size_max(self) -> int:
        """How many commands come to the same, at most."""
        return 3 + 4 * len(self.flows) + len(self.peeks)

    def commands(self) -> list[StateCommand]:
        """Return the least that comes to the same, in an order in which it may be sent.

        Drops come behind peeks, which may be of what is dropped.
        """
        commands: list[StateCommand] = [] if self.instance is None else [self.instance]
        if self.configuration:
            commands.append(UpdateConfiguration(dict(self.configuration)))
        for number, wish in self.flows.items():
            commands.append(CreateFlow(number, wish.flow, wish.terms.start))
            if wish.terms.scheduled:
                commands.append(Schedule(number))
            if wish.terms.epoch:
                commands.append(AllowWrites(number, wish.terms.epoch))
        commands += self.peeks.values()
        commands += [AllowCompaction(one, None) for one, wish in self.flows.items() if wish.dropped]
        return commands + [InitializationComplete()] * self.complete

    def _objection_for_flow(
        self, command: Schedule | AllowWrites | AllowCompaction | Peek
    ) -> str | None:
        wish = self.flows.get(command.flow)
        if wish is None or wish.dropped:
            return f"there is no flow {command.flow}"
        match command:
            case Schedule() | AllowCompaction():
                return None
            case AllowWrites():
                allowed = 0 < command.epoch >= wish.terms.epoch
                return None if allowed else f"epochs go up: {command.epoch}, {wish.terms.epoch}"
            case Peek():
                new = command.number > self._newest_peek
                return None if new else f"peek {command.number} is not new"
            case _:
                assert_never(command)


def _changed(wish: FlowWish, command: Schedule | AllowWrites | AllowCompaction) -> FlowWish:
    match command:
        case Schedule():
            return replace(wish, terms=replace(wish.terms, scheduled=True))
        case AllowWrites():
            return replace(wish, terms=replace(wish.terms, epoch=command.epoch))
        case AllowCompaction():
            if command.before is None:
                return replace(wish, dropped=True)
            return replace(
                wish, terms=replace(wish.terms, start=joined(wish.terms.start, command.before))
            )
        case _:
            assert_never(command)
