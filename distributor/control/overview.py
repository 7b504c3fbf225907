"""What a controller in charge knows of its flows and replicas, for people and scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.plural import counted
from distributor.control.controller import ControllerState
from distributor.control.messages import FlowStatus
from distributor.control.protocol import PAUSED_STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from distributor.control.controller import ControllerMachine
    from distributor.control.demands import Demands
    from distributor.control.grants import Wishes
    from distributor.control.messages import Flow
    from distributor.control.reports import FlowReport


PAUSED = "paused by an operator"
"""What is said of a flow that nobody may write for that."""


@dataclass(frozen=True, slots=True)
class ControlledFlowRow:
    """A flow, as `--json` tells it.

    Attributes:
        flow: Its number.
        source: Where it copies from.
        target: Its preferred target.
        level: Which it crosses.
        kind: What it copies.
        share: Which part of the link's partitions, from 0, of how many.
        writer: Which replica may write; empty if none does.
        epoch: Under which.
        state: What the writer says that it does; `paused` where there is none as an operator wants
            none; empty if it has not said.
        ready: How many others could write at once.
        why: That an operator has paused it; why the writer has failed, or does not write, as it
            says; and in how many partitions an operator lets it pass over a hole.
    """

    flow: int
    source: str
    target: str
    level: int
    kind: str
    share: str
    writer: str
    epoch: int
    state: str
    ready: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class DrivenReplicaRow:
    """A replica, as `--json` tells it.

    Attributes:
        replica: Its name.
        session: How far the controller has come with it.
        writing: How many flows it says that it writes.
        ready: How many it could write at once.
        failed: How many cannot run there.
        last_end: Why its last session has ended.
    """

    replica: str
    session: str
    writing: int
    ready: int
    failed: int
    last_end: str


def flow_rows(
    wishes: Wishes, machines: Mapping[str, ControllerMachine]
) -> Iterator[ControlledFlowRow]:
    """What is wanted, and what replicas say of it."""
    for number, wished in wishes.flows.items():
        said = {name: reports_of(machine).get(number) for name, machine in machines.items()}
        writer = said.get(wished.writer)
        link = wished.flow.link
        yield ControlledFlowRow(
            flow=number,
            source=link.source,
            target=link.target,
            level=link.level,
            kind=wished.flow.kind.value,
            share=f"{wished.flow.share}/{wished.flow.shares}",
            writer=wished.writer,
            epoch=wished.epoch,
            state=_state(wishes.demands, wished.flow, writer),
            ready=sum(one is not None and one.status is FlowStatus.WARM for one in said.values()),
            why=_why(wishes.demands, wished.flow, "" if writer is None else writer.reason),
        )


def _state(demands: Demands, flow: Flow, writer: FlowReport | None) -> str:
    if writer is not None and writer.status is not None:
        return writer.status.value
    return PAUSED_STATE if demands.pauses(flow) else ""


def _why(demands: Demands, flow: Flow, reason: str) -> str:
    """What is to be said of a flow beside its state."""
    told = [PAUSED] if demands.pauses(flow) else []
    told += [reason] if reason else []
    if flow.passes:
        told.append(f"passes over holes in {counted(len(flow.passes), 'partition')}")
    return "; ".join(told)


def replica_row(name: str, machine: ControllerMachine, last_end: str) -> DrivenReplicaRow:
    """What one replica says of all flows."""
    statuses = [one.status for one in reports_of(machine).values()]
    return DrivenReplicaRow(
        replica=name,
        session=machine.state.value,
        writing=statuses.count(FlowStatus.WRITING),
        ready=statuses.count(FlowStatus.WARM),
        failed=statuses.count(FlowStatus.FAILED),
        last_end=last_end,
    )


def reports_of(machine: ControllerMachine) -> Mapping[int, FlowReport]:
    """What a replica has said; nothing if its session is over."""
    return machine.reports.flows if machine.state is ControllerState.ACTIVE else {}
