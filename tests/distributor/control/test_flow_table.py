"""What becomes of flows when a controller says which are wanted."""

from __future__ import annotations

from dafka.model import replace
from distributor.control.events import (
    FlowChanged,
    FlowMoved,
    FlowTerms,
    StartFlow,
    SteerFlow,
    StopFlow,
)
from distributor.control.flow_table import Fate, FlowTable
from distributor.control.history import FlowWish
from distributor.control.messages import FlowKind, FlowStatus, Frontiers
from distributor.testing.control_replicas import flow_of
from tests.support.control_commands import A, B

TERMS = FlowTerms({A: 2}, scheduled=True, epoch=3)
READ_ONLY = replace(TERMS, epoch=0)
WISHES = {number: FlowWish(flow_of(number), TERMS) for number in (1, 2)}


def table():
    one = FlowTable()
    one.reconcile(WISHES)
    return one


def test_what_is_not_there_is_begun():
    one = FlowTable()
    assert one.reconcile(WISHES) == [
        StartFlow(1, flow_of(1), TERMS),
        StartFlow(2, flow_of(2), TERMS),
    ]
    assert one.fates == {Fate.CREATED: 2}


def test_what_is_wanted_again_goes_on_undisturbed():
    one = table()
    assert one.reconcile(WISHES) == []
    assert one.fates == {Fate.CREATED: 2, Fate.KEPT: 2}


def test_new_terms_are_told_to_whom_they_concern():
    one = table()
    terms = FlowTerms({A: 2, B: 1}, scheduled=True, epoch=4)
    assert one.reconcile({**WISHES, 2: FlowWish(flow_of(2), terms)}) == [SteerFlow(2, terms)]
    assert one.fates[Fate.KEPT] == 2


def test_what_is_not_wanted_ends_before_anything_begins():
    one = table()
    wishes = {2: WISHES[2], 3: FlowWish(flow_of(3), TERMS)}
    assert one.reconcile(wishes) == [StopFlow(1), StartFlow(3, flow_of(3), TERMS)]
    assert one.fates == {Fate.CREATED: 3, Fate.KEPT: 1, Fate.DROPPED: 1}


def test_what_is_to_be_dropped_is_not_begun():
    one = FlowTable()
    assert one.reconcile({1: replace(WISHES[1], dropped=True)}) == []
    assert one.is_gone(1)


def test_another_flow_takes_the_place_and_writes_when_the_first_has_ended():
    one = table()
    other = flow_of(1, FlowKind.OFFSETS)
    wishes = {**WISHES, 1: FlowWish(other, TERMS)}
    assert one.reconcile(wishes) == [StopFlow(1), StartFlow(3, other, READ_ONLY)]
    assert one.fates[Fate.REPLACED] == 1
    assert not one.is_gone(1)
    assert one.stopped(1) == (1, [SteerFlow(3, TERMS)])
    one.check()


def test_one_that_is_wanted_from_an_earlier_start_is_begun_anew():
    one = table()
    earlier = replace(TERMS, start={A: 1})
    effects = one.reconcile({**WISHES, 1: FlowWish(flow_of(1), earlier)})
    assert effects == [StopFlow(1), StartFlow(3, flow_of(1), replace(earlier, epoch=0))]


def test_of_three_runs_the_last_waits_for_both():
    one = table()
    for number in (FlowKind.OFFSETS, FlowKind.SCHEMAS):
        one.reconcile({**WISHES, 1: FlowWish(flow_of(1, number), TERMS)})
    assert one.stopped(1) == (1, [])
    assert one.stopped(3) == (1, [SteerFlow(4, TERMS)])


def test_a_flow_is_gone_when_its_last_run_has_ended():
    one = table()
    assert one.drop(1) == [StopFlow(1)]
    assert not one.is_gone(1)
    assert one.stopped(1) == (1, [])
    assert one.is_gone(1)


def test_what_is_news_of_a_run():
    one = table()
    assert one.moved(FlowMoved(1, {A: 5}, {A: 3}, {A: 4})) == Frontiers(1, {A: 5}, {A: 3}, {A: 4})
    news = one.moved(FlowMoved(1, {A: 4, B: 1}, {A: 3}, {A: 5}))
    assert news == Frontiers(1, {B: 1}, {}, {A: 5}), "what goes back is no news"
    one.drop(1)
    assert one.moved(FlowMoved(1, {A: 9}, {}, {})) is None
    assert one.changed(FlowChanged(1, FlowStatus.WARM, 0)) is None


def test_who_has_not_heard_of_its_new_terms_is_draining():
    one = table()
    assert one.changed(FlowChanged(1, FlowStatus.WRITING, 3)) == 1
    one.steer(1, READ_ONLY)
    assert (one.runs[1].status, one.runs[1].epoch) == (FlowStatus.DRAINING, 3)
    assert one.changed(FlowChanged(1, FlowStatus.WRITING, 3)) is None, "that was before"
    assert one.changed(FlowChanged(1, FlowStatus.WARM, 0)) == 1
    assert one.runs[1].status is FlowStatus.WARM
