"""What a replica says in one session: whether it may say it, and what has come of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from distributor.control.frontiers import reaches
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    Canceled,
    CancelPeek,
    CreateFlow,
    FlowDropped,
    FlowState,
    FlowStatus,
    Frontiers,
    Peek,
    PeekResponse,
    Positions,
)

if TYPE_CHECKING:
    from dafka.model import Partition
    from distributor.control.frontiers import Frontier
    from distributor.control.messages import Command

Report = Frontiers | FlowState | FlowDropped | PeekResponse
"""What a replica says of flows and peeks."""


@dataclass(slots=True)
class FlowReport:
    """One flow as the replica knows it in this session, and as it has told of it.

    Attributes:
        start: Where it was created to begin.
        epoch: The highest under which it may write.
        dropped: Whether it shall end.
        status: What it does; None until it is told.
        reason: Why it has failed, or does not write though it may.
        input: See `Frontiers`, as the other two.
        write: At the target.
        output: The replica's own.
    """

    start: Frontier
    epoch: int = 0
    dropped: bool = False
    status: FlowStatus | None = None
    reason: str = ""
    input: dict[Partition, int] = field(default_factory=dict)
    write: dict[Partition, int] = field(default_factory=dict)
    output: dict[Partition, int] = field(default_factory=dict)


class Reports:
    """Those of one session."""

    def __init__(self) -> None:
        self.flows: dict[int, FlowReport] = {}
        self._peeks: dict[int, Peek] = {}
        self._canceled: set[int] = set()

    def sent(self, command: Command) -> None:
        """A command is on its way: from now on there may be responses to it."""
        match command:
            case CreateFlow():
                self.flows[command.number] = FlowReport(command.start)
            case AllowWrites():
                self.flows[command.flow].epoch = command.epoch
            case AllowCompaction(before=None):
                self.flows[command.flow].dropped = True
            case Peek():
                self._peeks[command.number] = command
            case CancelPeek() if command.peek in self._peeks:
                self._canceled.add(command.peek)
            case _:
                pass

    def objection(self, report: Report) -> str | None:
        """Return why this may not be said, for people; None if it may."""
        if isinstance(report, PeekResponse):
            return self._objection_to_answer(report)
        flow = self.flows.get(report.flow)
        if flow is None:
            return f"there is no flow {report.flow}"
        match report:
            case Frontiers():
                return _objection_to_frontiers(flow, report)
            case FlowState():
                writes = report.status is FlowStatus.WRITING
                allowed = not writes or 0 < report.epoch <= flow.epoch
                return None if allowed else f"flow {report.flow} may not write"
            case FlowDropped():
                return None if flow.dropped else f"flow {report.flow} was not dropped"
            case _:
                assert_never(report)

    def take(self, report: Report) -> None:
        """Take in what there is no objection to."""
        match report:
            case PeekResponse():
                del self._peeks[report.peek]
                self._canceled.discard(report.peek)
            case Frontiers():
                flow = self.flows[report.flow]
                flow.input.update(report.input)
                flow.write.update(report.write)
                flow.output.update(report.output)
            case FlowState():
                said = self.flows[report.flow]
                said.status, said.reason = report.status, report.reason
            case FlowDropped():
                del self.flows[report.flow]
            case _:
                assert_never(report)

    def _objection_to_answer(self, response: PeekResponse) -> str | None:
        peek = self._peeks.get(response.peek)
        if peek is None:
            return f"peek {response.peek} is not open"
        answer = response.answer
        if isinstance(answer, Canceled) and response.peek not in self._canceled:
            return f"nobody has cancelled peek {response.peek}"
        if isinstance(answer, Positions) and not reaches(answer.write, peek.at_least):
            return f"the answer to peek {response.peek} is not what was waited for"
        return None


def _objection_to_frontiers(flow: FlowReport, report: Frontiers) -> str | None:
    kinds = {
        "input": (report.input, flow.input),
        "write": (report.write, flow.write),
        "output": (report.output, flow.output),
    }
    for kind, (told, before) in kinds.items():
        for partition, end in told.items():
            if end < before.get(partition, flow.start.get(partition, 0)):
                return f"{kind} of flow {report.flow} goes back to {end} in {partition}"
    for partition, end in report.output.items():
        if end > report.input.get(partition, flow.input.get(partition, 0)):
            return f"output of flow {report.flow} is ahead of its input in {partition}"
    return None
