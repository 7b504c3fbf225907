"""What a replica may say, by what it was told (I9, I10, I11, I12)."""

from __future__ import annotations

import pytest

from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    Canceled,
    CancelPeek,
    FlowDropped,
    FlowState,
    FlowStatus,
    Frontiers,
    Peek,
    PeekError,
    PeekResponse,
    Positions,
    Schedule,
)
from distributor.control.reports import Reports
from tests.support.control_commands import INSTANCE, A, B, create


def reports():
    one = Reports()
    for command in (
        INSTANCE,
        create(1, {A: 5}),
        Schedule(1),
        AllowWrites(1, 3),
        create(2),
        AllowCompaction(1, {A: 9}),
        Peek(1, 1, {A: 7}),
        Peek(2, 1, {A: 7}),
        AllowCompaction(2, None),
        CancelPeek(2),
    ):
        one.sent(command)
    return one


@pytest.mark.parametrize(
    "report",
    [
        Frontiers(1, {A: 5}, {A: 5, B: 1}, {A: 5}),
        Frontiers(1, {}, {A: 99}, {}),
        FlowState(1, FlowStatus.WRITING, 3),
        FlowState(1, FlowStatus.DRAINING, 2),
        FlowState(2, FlowStatus.WARM, 0),
        FlowDropped(2),
        PeekResponse(1, Positions({A: 7})),
        PeekResponse(1, PeekError("why")),
        PeekResponse(2, Positions({A: 8, B: 1})),
        PeekResponse(2, Canceled()),
    ],
)
def test_what_may_be_said(report):
    one = reports()
    assert one.objection(report) is None
    one.take(report)


@pytest.mark.parametrize(
    ("report", "objection"),
    [
        (Frontiers(3, {}, {}, {}), "there is no flow 3"),
        (FlowState(3, FlowStatus.WARM, 0), "there is no flow 3"),
        (FlowDropped(3), "there is no flow 3"),
        (FlowDropped(1), "flow 1 was not dropped"),
        (FlowState(1, FlowStatus.WRITING, 4), "flow 1 may not write"),
        (FlowState(1, FlowStatus.WRITING, 0), "flow 1 may not write"),
        (FlowState(2, FlowStatus.WRITING, 1), "flow 2 may not write"),
        (Frontiers(1, {A: 4}, {}, {}), f"input of flow 1 goes back to 4 in {A}"),
        (Frontiers(1, {A: 6}, {A: 4}, {}), f"write of flow 1 goes back to 4 in {A}"),
        (Frontiers(1, {A: 6}, {}, {A: 7}), f"output of flow 1 is ahead of its input in {A}"),
        (Frontiers(1, {}, {}, {B: 1}), f"output of flow 1 is ahead of its input in {B}"),
        (PeekResponse(3, PeekError("why")), "peek 3 is not open"),
        (PeekResponse(1, Canceled()), "nobody has cancelled peek 1"),
        (PeekResponse(1, Positions({A: 6})), "the answer to peek 1 is not what was waited for"),
    ],
)
def test_what_may_not_be_said(report, objection):
    assert reports().objection(report) == objection


@pytest.mark.parametrize(
    ("first", "second", "objection"),
    [
        (FlowDropped(2), FlowDropped(2), "there is no flow 2"),
        (FlowDropped(2), Frontiers(2, {}, {}, {}), "there is no flow 2"),
        (PeekResponse(2, Canceled()), PeekResponse(2, Canceled()), "peek 2 is not open"),
        (
            Frontiers(1, {A: 9}, {}, {}),
            Frontiers(1, {A: 8}, {}, {}),
            f"input of flow 1 goes back to 8 in {A}",
        ),
        (Frontiers(1, {A: 9}, {}, {}), Frontiers(1, {}, {}, {A: 9}), None),
    ],
)
def test_what_may_be_said_after_something_else(first, second, objection):
    one = reports()
    one.take(first)
    assert one.objection(second) == objection


def test_what_is_known_of_a_flow():
    one = reports()
    one.take(Frontiers(1, {A: 9}, {A: 6}, {A: 8}))
    one.take(Frontiers(1, {B: 2}, {A: 7}, {}))
    one.take(FlowState(1, FlowStatus.WRITING, 3))
    flow = one.flows[1]
    assert (flow.input, flow.write, flow.output) == ({A: 9, B: 2}, {A: 7}, {A: 8})
    assert flow.status is FlowStatus.WRITING
