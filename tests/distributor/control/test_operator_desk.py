"""What a controller answers operators, with a real store of its cluster."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest

from dafka.errors import QueryError
from dafka.model import Partition
from distributor.control.aims import LinkTurn
from distributor.control.controller import ControllerMachine, ControllerState
from distributor.control.demands import LevelPause
from distributor.control.events import PeekAnswered
from distributor.control.grants import Wished, Wishes
from distributor.control.messages import FlowStatus, Peek, Positions
from distributor.control.operator_desk import NotInChargeError, OperatorDesk
from distributor.control.operator_wire import RouteQuestion
from distributor.control.questions import AimedLinkRow, KnownFlows, LeftFlowRow
from distributor.control.reports import FlowReport
from distributor.control.resuming import ResumeOrder
from distributor.control.wait_desk import WaitDesk
from distributor.control.wanted import flows_of
from distributor.errors import RefusedCommandError
from tests.support.control_commands import SETTINGS

pytestmark = pytest.mark.net

A, B = (Partition("orders", one * 32) for one in "AB")


class Told(ControllerMachine):
    """A replica that has said that its flow writes, and how far its target is."""

    def __init__(self, write):
        super().__init__("c1", 1, "r1", SETTINGS)
        self.reports.flows[1] = FlowReport({}, status=FlowStatus.WRITING, write=write)

    @property
    def state(self):
        return ControllerState.ACTIVE


class FakeOffice:
    """A controller whose only replica is as far as it is told."""

    def __init__(self, topology, write, demanded):
        self.machine = Told(write)
        self.waits = WaitDesk(self._want)
        flow = flows_of(topology, "c1")[0]
        self.wishes = Wishes(1, 0, {1: Wished(flow, "r1", 9)})
        self.in_charge = True
        self.demanded = demanded

    def _want(self, replica, command):
        write = self.machine.reports.flows[1].write
        if isinstance(command, Peek) and all(
            write.get(one, 0) >= end for one, end in command.at_least.items()
        ):
            answered = PeekAnswered(command.number, Positions(dict(write)))
            asyncio.get_running_loop().call_soon(self.waits.answered, replica, answered)

    def known(self):
        return KnownFlows(self.wishes, {"r1": self.machine}) if self.in_charge else None

    async def demand(self, demand):
        self.demanded.append(demand)

    async def who(self):
        return "h:1"


@pytest.fixture
def ask(pair, make_batch):
    """A function that asks a desk of the first cluster, which has two partitions."""
    pair.fill(1, make_batch([b"x"] * 10, partition=A), make_batch([b"y"] * 4, partition=B))

    @contextmanager
    def opened(office):
        desk = OperatorDesk(pair.topology, pair.topology.clusters[0], office)
        try:
            yield desk
        finally:
            desk.close()

    def ask(question, write, *, in_charge=True, running=True):
        async def scenario():
            office = FakeOffice(pair.topology, write, ask.demanded)
            office.in_charge = in_charge
            office.waits.begun("r1", frozenset({1}))
            with opened(office) as desk:
                task = asyncio.create_task(question(desk))
                while not task.done():
                    await asyncio.sleep(0.02)
                    office.waits.look()
                return await task

        if not running:
            return asyncio.run(scenario())
        with pair.running(1):
            return asyncio.run(scenario())

    ask.demanded = []
    return ask


def wait(desk):
    return desk.waited("me", 100)


def test_what_is_there_is_said(ask):
    waited = ask(wait, {A: 10, B: 4})
    assert (waited.left, waited.flows, waited.partitions) == ((), 1, 2)


def test_what_is_not_there_in_time_is_said(ask):
    waited = ask(wait, {A: 10, B: 1})
    assert waited.left == (LeftFlowRow(1, "c2", 1, "0/1", 3, "writing"),)


def test_who_is_not_in_charge_names_who_is(ask):
    with pytest.raises(NotInChargeError, match="ask the one at h:1"):
        ask(wait, {}, in_charge=False)
    with pytest.raises(NotInChargeError):
        ask(lambda desk: desk.routes(RouteQuestion("orders")), {}, in_charge=False)


@pytest.mark.slow
def test_without_stores_there_is_no_answer(ask):
    with pytest.raises(QueryError, match="no store of c1 answers"):
        ask(wait, {}, running=False)


@pytest.mark.parametrize(
    ("question", "lacks", "partitions"),
    [
        (RouteQuestion("orders"), 3, 2),
        (RouteQuestion("BBBB"), 3, 1),
        (RouteQuestion("BBBB", 0), 3, 1),
        (RouteQuestion("BBBB", 99), 3, 1),
        (RouteQuestion("nothing"), 0, 0),
    ],
    ids=range(5),
)
def test_ways_are_told(ask, question, lacks, partitions):
    (row,) = ask(lambda desk: desk.routes(question), {A: 10, B: 1})
    assert (row.target, row.lacks, row.partitions) == ("c2", lacks, partitions)


def test_links_are_turned(ask):
    rows = ask(lambda desk: desk.demanded(LinkTurn(1, "c2")), {})
    assert rows == [AimedLinkRow("c2", 1, "")]
    with pytest.raises(NotInChargeError):
        ask(lambda desk: desk.demanded(LinkTurn(1, "c2")), {}, in_charge=False)


def test_levels_are_paused(ask):
    pause = LevelPause(1, paused=True)
    rows = ask(lambda desk: desk.demanded(pause), {})
    assert (rows, ask.demanded) == ([AimedLinkRow("c2", 1, "")], [pause])


def test_where_nothing_is_overtaken_nothing_goes_on(ask):
    resume = ResumeOrder(1, "orders")
    with pytest.raises(RefusedCommandError, match="no partition of topic 'orders' is overtaken"):
        ask(lambda desk: desk.resumed(resume), {A: 3})
    with pytest.raises(NotInChargeError):
        ask(lambda desk: desk.resumed(resume), {}, in_charge=False)


@pytest.mark.slow
def test_without_stores_nothing_goes_on(ask):
    with pytest.raises(QueryError, match="no store of c1 answers"):
        ask(lambda desk: desk.resumed(ResumeOrder(1, "orders")), {}, running=False)
