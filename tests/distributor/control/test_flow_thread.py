"""Flows at work: what a link is made to do by its terms, and what of that is told."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest

from dafka.errors import MisuseError
from dafka.model import replace
from dafka.node.loop import NodeFailedError
from distributor.control import flow_thread as module
from distributor.control.agent import SteeredLink
from distributor.control.events import (
    Configure,
    FlowChanged,
    FlowMoved,
    FlowStopped,
    FlowTerms,
    StartFlow,
    SteerFlow,
    StopFlow,
)
from distributor.control.flow_thread import FlowThread, FlowThreads
from distributor.control.flow_work import LinkAndBeats, OffsetsFlow
from distributor.control.messages import Flow, FlowKind, FlowStatus
from distributor.errors import PlanError
from distributor.link.progress import LinkProgress
from tests.support.control_commands import A, flow_of
from tests.support.control_sessions import Works
from topology import plan

SUSPENDED = FlowTerms({})
READY = FlowTerms({}, scheduled=True)
ALLOWED = replace(READY, epoch=3)
FLOW = flow_of(1)
WARM = FlowChanged(1, FlowStatus.WARM, 0)
WRITING = FlowChanged(1, FlowStatus.WRITING, 3)


class Told(list):
    """What flows have told, in order."""

    @property
    def statuses(self):
        return [one for one in self if isinstance(one, FlowChanged)]


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def works():
    return Works()


@pytest.fixture
def flows(works, told):
    """Flows that tell how far they are very often."""
    threads = FlowThreads(works, told.append)
    threads.perform(Configure({"report_interval_ms": 50}))
    yield threads
    threads.close()


def test_a_flow_becomes_what_its_terms_say(flows, works, told, until):
    flows.perform(StartFlow(1, FLOW, SUSPENDED))
    until(lambda: told == [FlowChanged(1, FlowStatus.SUSPENDED, 0)])
    assert works.opened == []
    flows.perform(SteerFlow(1, READY))
    until(lambda: told.statuses[-1] == WARM)
    assert (works.last.flow, works.last.permitted) == (FLOW, False)
    flows.perform(SteerFlow(1, ALLOWED))
    until(lambda: told.statuses[-1] == WRITING)
    assert works.last.permitted
    flows.perform(SteerFlow(1, replace(ALLOWED, epoch=4)))
    until(lambda: told.statuses[-1] == replace(WRITING, epoch=4))
    assert len(works.opened) == 1
    flows.perform(SteerFlow(1, SUSPENDED))
    until(lambda: told.statuses[-1] == FlowChanged(1, FlowStatus.SUSPENDED, 0))
    assert works.last.closed
    flows.perform(StopFlow(1))
    until(lambda: told[-1] == FlowStopped(1))
    flows.ended(1)


def test_a_grant_that_is_taken_back_ends_the_link_that_writes(flows, works, told, until):
    flows.perform(StartFlow(1, FLOW, ALLOWED))
    until(lambda: told == [WRITING])
    flows.perform(SteerFlow(1, READY))
    until(lambda: told.statuses[-1] == WARM)
    assert FlowChanged(1, FlowStatus.DRAINING, 0) in told
    assert [(one.permitted, one.closed) for one in works.opened] == [(True, True), (False, False)]


def test_what_is_taken_back_and_given_again_is_told_again(works, told, until):
    thread = FlowThread(StartFlow(1, FLOW, ALLOWED), works, told.append, 60_000)
    until(lambda: told == [WRITING])
    thread.steer(ALLOWED)
    until(lambda: told == [WRITING, WRITING])
    thread.stop()
    thread.join()
    assert told[-1] == FlowStopped(1)


def test_how_far_it_is_is_told_when_it_is_further(flows, works, told, until):
    flows.perform(StartFlow(1, FLOW, ALLOWED))
    until(lambda: works.opened)
    works.last.progress = LinkProgress({A: 3}, {A: 2}, {A: 1})
    until(lambda: told[-1] == FlowMoved(1, {A: 3}, {A: 2}, {A: 1}))
    count = len(told)
    works.last.progress = LinkProgress({A: 3}, {A: 2}, {A: 1})
    turns = works.last.turned_ms = 5
    assert not flows.turned_since(turns)
    assert flows.turned_since(turns - 1)
    flows.perform(SteerFlow(1, ALLOWED))
    until(lambda: len(told) == count + 1)
    assert told[-1] == WRITING


def test_a_flow_that_cannot_run_says_why_and_is_tried_again(works, told, until, caplog):
    works.refusal = PlanError("no such cluster")
    thread = FlowThread(StartFlow(1, FLOW, ALLOWED), works, told.append, 10, retry_ms=30)
    failed = FlowChanged(1, FlowStatus.FAILED, 0, "no such cluster")
    until(lambda: told == [failed])
    assert thread.unready() == "no such cluster"
    assert thread.unwell() == ""
    assert thread.turned_since(2**62), "what has no loop does not stand still"
    works.refusal = None
    until(lambda: told == [failed, WRITING])
    works.last.failure = MisuseError("port taken")
    until(lambda: told[2:] == [replace(failed, reason="port taken"), WRITING])
    assert works.opened[0].closed
    assert "flow cannot run" in caplog.text
    thread.stop()
    thread.join()


class Said:
    """What is said at the targets of one flow: under which epoch it is written, while it is."""

    def __init__(self):
        self.epochs = []

    def __call__(self, flow, epoch, changed):
        self.epochs.append(epoch)
        self.epoch, self.later, self.changed = epoch, 0, changed
        return self

    def supersede(self, later):
        self.later = later
        self.changed()

    def end(self):
        self.epochs.append(0)


@pytest.fixture
def said():
    return Said()


@pytest.fixture
def watched(works, told, said):
    """A flow that may write, told of nothing but what happens at its targets."""
    thread = FlowThread(StartFlow(1, FLOW, ALLOWED), works, told.append, 60_000, 30, said)
    yield thread
    thread.stop()
    thread.join()


def test_who_is_superseded_at_the_target_writes_no_more(watched, works, told, said, until, caplog):
    until(lambda: told == [WRITING])
    said.supersede(4)
    superseded = replace(WARM, reason="another replica writes under epoch 4")
    until(lambda: told[-1] == superseded)
    assert [(one.permitted, one.closed) for one in works.opened] == [(True, True), (False, False)]
    assert "flow writes no more: another replica writes under epoch 4" in caplog.text
    watched.steer(ALLOWED)
    until(lambda: told[-2:] == [superseded, superseded])
    assert said.epochs == [3], "it goes on to ask"
    watched.steer(replace(ALLOWED, epoch=5))
    until(lambda: told[-1] == replace(WRITING, epoch=5))
    assert works.last.permitted
    until(lambda: said.epochs == [3, 0, 5])
    assert len(works.opened) == 2


def test_who_was_superseded_goes_on_once_the_other_is_gone(watched, works, told, said, until):
    until(lambda: told == [WRITING])
    said.supersede(4)
    until(lambda: not works.last.permitted)
    said.supersede(0)
    until(lambda: told[-1] == WRITING)
    assert works.last.permitted


def test_who_may_not_write_or_cannot_says_nothing_at_targets(watched, works, told, said, until):
    until(lambda: told == [WRITING])
    works.refusal = PlanError("no such cluster")
    works.last.failure = MisuseError("port taken")
    watched.steer(ALLOWED)
    until(lambda: said.epochs == [3, 0])
    works.refusal = None
    watched.interval_ms = 10
    watched.steer(ALLOWED)
    until(lambda: said.epochs == [3, 0, 3])
    watched.steer(READY)
    until(lambda: said.epochs == [3, 0, 3, 0])
    watched.steer(ALLOWED)
    until(lambda: said.epochs == [3, 0, 3, 0, 3])
    watched.steer(SUSPENDED)
    until(lambda: said.epochs == [3, 0, 3, 0, 3, 0])


def test_what_is_not_scheduled_any_more_has_not_failed(works, told, until):
    works.refusal = PlanError("no such cluster")
    thread = FlowThread(StartFlow(1, FLOW, ALLOWED), works, told.append, 10)
    until(lambda: told)
    thread.steer(SUSPENDED)
    until(lambda: told[-1] == FlowChanged(1, FlowStatus.SUSPENDED, 0))
    thread.stop()
    thread.join()


def test_what_must_not_be_is_complained_of(flows, works, told, until):
    works.refusal = RuntimeError("broken")
    flows.perform(StartFlow(1, FLOW, ALLOWED))

    def complains():
        try:
            return flows.check()
        except NodeFailedError as error:
            return "broken" in str(error)

    until(complains)


def test_it_says_what_is_wrong_with_any_flow(flows, works, until):
    assert (flows.unwell(), flows.unready()) == ("", "")
    flows.perform(StartFlow(1, FLOW, READY))
    until(lambda: flows.unready() == "it may not write")
    assert flows.unwell() == ""


@pytest.mark.parametrize(("wanted", "interval_ms"), [(None, 500), (1, 50), (10**6, 60_000)])
def test_how_often_it_is_told_is_bounded(flows, works, wanted, interval_ms):
    flows.perform(StartFlow(1, FLOW, SUSPENDED))
    flows.perform(Configure({} if wanted is None else {"report_interval_ms": wanted}))
    flows.perform(StartFlow(2, FLOW, SUSPENDED))
    assert {one.interval_ms for one in flows._threads.values()} == {interval_ms}


def test_which_flows_can_run(pair):
    (link, _) = plan(pair.topology).links
    for flow, why in (
        (Flow(dataclasses.replace(link, source="c9"), FlowKind.RECORDS), "has no cluster 'c9'"),
    ):
        with pytest.raises(PlanError, match=why):
            module.opened(pair.topology, no_beats, flow, permitted=False)


@pytest.mark.net
def test_a_flow_is_a_link(pair, until):
    (link, _) = plan(pair.topology).links
    with pair.running():
        work = module.opened(pair.topology, no_beats, Flow(link, FlowKind.RECORDS), permitted=False)
        try:
            until(lambda: work.unready() == "")
        finally:
            work.close()


def no_beats(_topology, _link):
    """Beside no link."""


class Heard:
    """Heartbeats that are not sent, or cannot be."""

    failure = None

    def __init__(self, _topology, cluster, interval_ms):
        if self.failure is not None:
            raise self.failure
        assert (cluster, interval_ms) == ("c1", 100)

    def close(self):
        pass


@pytest.mark.net
def test_heartbeats_go_on_beside_one_flow_of_a_cluster(pair, monkeypatch):
    (link, _) = plan(pair.topology).links
    topology = dataclasses.replace(pair.topology, heartbeat_ms=100)

    def beats(topology, link):
        return partial(Heard, topology, link.source, topology.heartbeat_ms)

    for share, kind in ((0, LinkAndBeats), (1, SteeredLink)):
        flow = Flow(link, FlowKind.RECORDS, share, 2)
        work = module.opened(topology, beats, flow, permitted=True)
        assert type(work) is kind
        work.close()
    monkeypatch.setattr(Heard, "failure", MisuseError("port taken"))
    with pytest.raises(MisuseError, match="port taken"):
        module.opened(topology, beats, Flow(link, FlowKind.RECORDS), permitted=True)


@pytest.mark.net
def test_positions_and_schemas_are_flows(pair):
    (link, _) = plan(pair.topology).links
    work = module.opened(pair.topology, no_beats, Flow(link, FlowKind.OFFSETS), permitted=False)
    assert isinstance(work, OffsetsFlow)
    work.close()
    flow = Flow(link, FlowKind.SCHEMAS)
    module.opened(pair.topology, no_beats, flow, permitted=False).close()
    with pytest.raises(PlanError, match="has no registry"):
        module.opened(pair.topology, no_beats, flow, permitted=True)
