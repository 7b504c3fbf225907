"""Who writes, in the simulator; and that it finds faults put into what decides it."""

from __future__ import annotations

import pytest

from dafka.groups.writers import Writers
from dafka.model import replace
from distributor.control.events import SessionEnd
from distributor.control.grants import (
    NO_WISHES,
    BeginReplica,
    DemandAsked,
    DemandKept,
    GrantMachine,
    ReplicaLost,
    TellReplica,
    Wished,
    WishesKept,
)
from distributor.control.later_writers import LaterWriters
from distributor.control.messages import AllowCompaction, AllowWrites
from distributor.testing.control_grants import SimStores, judged, run
from distributor.testing.control_replicas import SimReplica
from tests.support.control_commands import flow_of
from tests.support.seeds import assert_all_pass, broken_by, shown_by

pytestmark = pytest.mark.sim

SEEDS_MAX = 40
"""Of which one has to show a fault."""


def test_somebody_who_is_there_writes(seeds):
    assert_all_pass(run, "distributor.testing.control_grants", seeds)


@pytest.mark.parametrize("seed", [194, 270])
def test_what_an_operator_has_just_asked_for_is_no_disturbance(seed):
    run(seed)


@pytest.mark.parametrize("seed", [1282, 1466, 1511])
def test_who_is_told_an_older_epoch_anew_has_time_to_hear_of_the_later_one(seed):
    run(seed)


def test_runs_have_what_can_go_wrong():
    runs = [run(seed) for seed in range(8)]
    ends = {end for one in runs for end in one.ends}
    expected = {SessionEnd.CLOSED, SessionEnd.SILENT, SessionEnd.STALLED}
    assert expected | {SessionEnd.SUPERSEDED, SessionEnd.STALE} <= ends
    assert sum(len(one.stores.given) for one in runs) > 100
    assert max(one.offices for one in runs) > 5
    summary, problems = judged(3)
    assert (problems, "controllers" in summary) == ([], True)


def test_stores_see_an_epoch_that_comes_twice():
    stores = SimStores()
    one = replace(NO_WISHES, epoch=1, flows={1: Wished(flow_of(1), "r1", 7)})
    stores.keep(one)
    stores.keep(one)
    with pytest.raises(AssertionError, match="epoch 7 is given"):
        stores.keep(replace(one, flows={1: Wished(flow_of(1), "r2", 7)}))


def said_at_once(decide=GrantMachine._decide):
    def faulty(self, now_ms):
        before = self.wishes.flows
        effects = decide(self, now_ms)
        for number, wished in self.wishes.flows.items():
            if wished != before.get(number) and wished.writer in self._begun:
                effects.append(TellReplica(wished.writer, AllowWrites(number, wished.epoch)))
        return effects

    return faulty


def numbered_from_one(self):
    self._given += 1
    return self._given


def never_gone(lose=GrantMachine._lose):
    def faulty(self, lost, now_ms):
        lose(self, lost, now_ms)
        self._gone_ms[lost.replica] = now_ms + 10**9

    return faulty


def stuck_is_as_good_as_cut(lose=GrantMachine._lose):
    return lambda self, lost, now_ms: lose(self, ReplicaLost(lost.replica), now_ms)


def nobody_is_told_what_is_lost(say=GrantMachine._say):
    def faulty(self):
        begun = {*self._begun}
        effects = say(self)
        return [e for e in effects if not isinstance(e, BeginReplica) or e.replica not in begun]

    return faulty


def nothing_is_known(beginning=GrantMachine._beginning):
    return lambda self, _kept, replicas: beginning(self, NO_WISHES, replicas)


def kept_is_not_noticed(handle=GrantMachine.handle):
    def faulty(self, event, now_ms):
        if isinstance(event, WishesKept) and self.wishes.version > 1:
            self._keeping, self.kept = False, self.wishes
            return []
        return handle(self, event, now_ms)

    return faulty


def gives_to_who_is_gone(decide=GrantMachine._decide):
    def faulty(self, now_ms):
        there = {*self._there}
        self._there |= self._gone_ms.keys() if there else set()
        effects = decide(self, now_ms)
        self._there = there
        return effects

    return faulty


def kept_is_read_without(init=GrantMachine.__init__, **nothing):
    def faulty(self, epoch, instance, flows, replicas, kept, *rest):
        kept = replace(kept, demands=replace(kept.demands, **nothing))
        init(self, epoch, instance, flows, replicas, kept, *rest)

    return faulty


def who_wrote_is_not_asked(granted=GrantMachine._granted):
    """What is paused is written by nobody only once somebody else would write it."""

    def faulty(self, flows, now_ms):
        flows = {
            number: self.wishes.flows.get(number, wished)
            if self._demands.pauses(wished.flow)
            else wished
            for number, wished in flows.items()
        }
        return granted(self, flows, now_ms)

    return faulty


def who_pauses_is_not_told(say=GrantMachine._say):
    def faulty(self):
        before = self.kept
        begun = {*self._begun}
        effects = say(self)
        if before.demands.paused == self.kept.demands.paused:
            return effects
        return [e for e in effects if not isinstance(e, BeginReplica) or e.replica not in begun]

    return faulty


def answered_at_once(handle=GrantMachine.handle):
    def faulty(self, event, now_ms):
        effects = handle(self, event, now_ms)
        answers = [DemandKept(event.number)] if isinstance(event, DemandAsked) else []
        return [*effects, *answers]

    return faulty


def what_ends_is_not_said(changes=GrantMachine._changes):
    def faulty(self, before):
        return [one for one in changes(self, before) if not isinstance(one, AllowCompaction)]

    return faulty


def superseded_for_ever(later=LaterWriters.later):
    def faulty(self, writing, now_ms):
        known = self.__dict__.setdefault("_known", {})
        known[writing] = known.get(writing) or later(self, writing, now_ms)
        return known[writing]

    return faulty


def the_last_to_speak_counts(heard=Writers.heard):
    def faulty(self, flow, share, epoch, now_ms):
        self._flows.pop(flow, None)
        return heard(self, flow, share, epoch, now_ms)

    return faulty


FAULTS = {
    "a superseded writer never looks": lambda patch: patch.setattr(
        SimReplica, "_say_at_target", lambda self: None
    ),
    "who is superseded heeds only its controller": lambda patch: patch.setattr(
        LaterWriters, "later", lambda *_: 0
    ),
    "who was superseded never writes again": lambda patch: patch.setattr(
        LaterWriters, "later", superseded_for_ever()
    ),
    "a store knows who spoke last": lambda patch: patch.setattr(
        Writers, "heard", the_last_to_speak_counts()
    ),
    "aims that are kept are not read": lambda patch: patch.setattr(
        GrantMachine, "__init__", kept_is_read_without(aims={})
    ),
    "pauses that are kept are not read": lambda patch: patch.setattr(
        GrantMachine, "__init__", kept_is_read_without(paused=frozenset())
    ),
    "holes to pass that are kept are not read": lambda patch: patch.setattr(
        GrantMachine, "__init__", kept_is_read_without(passed={})
    ),
    "what is paused keeps its writer": lambda patch: patch.setattr(
        GrantMachine, "_granted", who_wrote_is_not_asked()
    ),
    "who writes what is paused is not told": lambda patch: patch.setattr(
        GrantMachine, "_say", who_pauses_is_not_told()
    ),
    "what ends is not said": lambda patch: patch.setattr(
        GrantMachine, "_changes", what_ends_is_not_said()
    ),
    "said before it is kept": lambda patch: patch.setattr(GrantMachine, "_decide", said_at_once()),
    "numbers begin with one": lambda patch: patch.setattr(
        GrantMachine, "_number", numbered_from_one
    ),
    "nobody is ever gone": lambda patch: patch.setattr(GrantMachine, "_lose", never_gone()),
    "who stands still is only cut off": lambda patch: patch.setattr(
        GrantMachine, "_lose", stuck_is_as_good_as_cut()
    ),
    "who has lost grants is not told": lambda patch: patch.setattr(
        GrantMachine, "_say", nobody_is_told_what_is_lost()
    ),
    "what is kept is not read": lambda patch: patch.setattr(
        GrantMachine, "_beginning", nothing_is_known()
    ),
    "what is kept later is not said": lambda patch: patch.setattr(
        GrantMachine, "handle", kept_is_not_noticed()
    ),
    "who is gone is given more": lambda patch: patch.setattr(
        GrantMachine, "_decide", gives_to_who_is_gone()
    ),
}


SHOWN = {
    "who has lost grants is not told": 3,
    "who is gone is given more": 10,
    "who writes what is paused is not told": 15,
}
"""Seeds that show what the first one does not, or at once."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault, monkeypatch):
    FAULTS[fault](monkeypatch)
    assert broken_by(run, shown_by(SHOWN.get(fault, 0), SEEDS_MAX))


def test_that_operators_are_answered_before_it_is_kept_is_found(monkeypatch):
    # It takes a controller that dies between the two.
    monkeypatch.setattr(GrantMachine, "handle", answered_at_once())
    assert broken_by(run, shown_by(5, 11))
