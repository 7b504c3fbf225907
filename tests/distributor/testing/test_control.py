"""The simulator of controllers and replicas, and that it finds faults put into their machines."""

from __future__ import annotations

from collections import Counter

import pytest

from dafka.model import replace
from distributor.control import flow_table, outbox
from distributor.control import replica as replica_module
from distributor.control.controller import ControllerMachine, ControllerState
from distributor.control.events import ResponseCame, SessionEnd
from distributor.control.flow_table import Fate, FlowTable
from distributor.control.history import CommandHistory, FlowWish
from distributor.control.liveness import Liveness
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    Canceled,
    CreateFlow,
    Peek,
    PeekError,
    Positions,
    Schedule,
)
from distributor.control.replica import ReplicaMachine, ReplicaStage
from distributor.testing.control import TROUBLES, WANTS, run
from tests.support.seeds import assert_all_pass, broken_by, shown_by

pytestmark = pytest.mark.sim

SEEDS_MAX = 100
"""Of which one has to show a fault."""


def test_what_is_wanted_comes_to_be(seeds):
    assert_all_pass(run, "distributor.testing.control", seeds)


@pytest.mark.parametrize("seed", [1052, 1516])
def test_what_was_said_in_a_session_that_has_ended_is_heard_by_nobody(seed):
    run(seed)


def test_the_same_seed_gives_the_same_run():
    first, second = run(3), run(3)
    assert first.desired == second.desired
    assert first.world.events == second.world.events


def test_runs_have_every_trouble_and_every_end_of_a_session():
    runs = [run(seed) for seed in range(12)]
    assert {what for one in runs for what in one.happened} == {*WANTS, *TROUBLES}
    assert sum(one.usurped for one in runs) > 5
    ends = {end for one in runs for end in one.ends}
    # Versions and instances are the same in all of them, and nobody breaks the protocol.
    never = {SessionEnd.VERSION, SessionEnd.INCOMPATIBLE, SessionEnd.WRONG_REPLICA}
    assert ends == {*SessionEnd} - never - {SessionEnd.VIOLATION}
    fates = sum((replica.fates for one in runs for replica in one.replicas), Counter())
    assert all(fates[fate] > 5 for fate in Fate)
    answers = sum((peer.answered for one in runs for peer in one.controllers), Counter())
    assert all(answers[kind] > 5 for kind in (Positions, PeekError, Canceled))


def of_any_epoch(greet):
    def greeted(self, stream, hello, now_ms):
        self.epoch, self._controller = 0, ""
        return greet(self, stream, hello, now_ms)

    return greeted


def applied_at_once(obey):
    def obeyed(self, command):
        effects = obey(self, command)
        if self.stage is ReplicaStage.INITIALIZATION and isinstance(command, CreateFlow):
            effects += self.table.reconcile(self._wanted.flows)
        return effects

    return obeyed


def with_what_was_there(reconcile):
    """What is not wanted any more stays."""

    def reconciled(self, wishes):
        there = {number: FlowWish(run.flow, run.wanted) for number, run in self.runs.items()}
        return reconcile(self, {**there, **wishes})

    return reconciled


def without(*kinds):
    """A history gives none of these."""

    def reduced(commands):
        return lambda self: [one for one in commands(self) if not isinstance(one, kinds)]

    return reduced


def without_drops(commands):
    def reduced(self):
        flows = self.flows
        self.flows = {number: wish for number, wish in flows.items() if not wish.dropped}
        found = [
            one for one in commands(self) if not isinstance(one, Peek) or one.flow in self.flows
        ]
        self.flows = flows
        return found

    return reduced


def drops_before_peeks(commands):
    def reduced(self):
        found = commands(self)
        return sorted(found, key=lambda one: isinstance(one, Peek))

    return reduced


def from_the_first_start(commands):
    """What a flow need not have any more is asked for again in every session."""

    def reduced(self):
        return [
            replace(one, start={}) if isinstance(one, CreateFlow) else one for one in commands(self)
        ]

    return reduced


def only_while_connected(want):
    """What is wanted while nothing is connected is forgotten."""

    def wanted(self, command):
        forgets = self.history.complete and self.state is not ControllerState.ACTIVE
        return [] if forgets else want(self, command)

    return wanted


def responses_of_any_session(handle):
    def handled(self, event, now_ms):
        if isinstance(event, ResponseCame):
            event = replace(event, stream=self._stream)
        return handle(self, event, now_ms)

    return handled


def commands_of_any_session(command):
    def commanded(self, stream, one, now_ms):
        stream = stream if stream in self._greeting or self._stream < 0 else self._stream
        return command(self, stream, one, now_ms)

    return commanded


def never_stopped(lose):
    def lost(self, event, now_ms):
        return lose(self, replace(event, why=SessionEnd.CLOSED), now_ms)

    return lost


def with_what_was_granted(reconcile):
    """What was granted before is not taken back."""

    def reconciled(self, wishes):
        kept = {}
        for number, wish in wishes.items():
            epoch = self.runs[number].wanted.epoch if number in self.runs else 0
            terms = replace(wish.terms, epoch=max(epoch, wish.terms.epoch))
            kept[number] = replace(wish, terms=terms)
        return reconcile(self, kept)

    return reconciled


def merged(configure):
    def configured(self):
        self._wanted.configuration = self._configuration | self._wanted.configuration
        return configure(self)

    return configured


def said_twice(answer):
    def answered(self, peek, response):
        open_peek = self._wanted.peeks.get(peek)
        answer(self, peek, response)
        if open_peek is not None and isinstance(response, Positions):
            self._wanted.peeks[peek] = open_peek

    return answered


def dropped_with_the_session(detach):
    def detached(self):
        detach(self)
        self.table.runs.clear()

    return detached


def the_last_delta(_joined):
    return lambda before, now: dict(now)


def still_writing(steer):
    """Who has new terms, and has not heard of them, is said to write under the old ones."""

    def steered(self, number, terms):
        run = self.runs[number]
        before = run.status
        effects = steer(self, number, terms)
        run.status = before
        return effects

    return steered


def of_what_comes_again(_waiting_max):
    """Who asks much at once is cut for the answers, asks again, and is cut again."""
    return property(lambda self: 2 * len(self.table.runs) + self._settings.waiting_max)


History, Replica, Controller = CommandHistory, ReplicaMachine, ControllerMachine

FAULTS = {
    "any epoch": (
        0,
        lambda patch: patch.setattr(Replica, "_greet", of_any_epoch(Replica._greet)),
    ),
    "half a window": (
        0,
        lambda patch: patch.setattr(Replica, "_obey", applied_at_once(Replica._obey)),
    ),
    "all begun anew": (
        1,
        lambda patch: patch.setattr(flow_table, "reaches", lambda *_: False),
    ),
    "all kept": (
        0,
        lambda patch: patch.setattr(flow_table, "reaches", lambda *_: True),
    ),
    "what is not wanted stays": (
        0,
        lambda patch: patch.setattr(
            FlowTable, "reconcile", with_what_was_there(FlowTable.reconcile)
        ),
    ),
    "grants stay": (
        5,
        lambda patch: patch.setattr(
            FlowTable, "reconcile", with_what_was_granted(FlowTable.reconcile)
        ),
    ),
    "grants not repeated": (
        1,
        lambda patch: patch.setattr(History, "commands", without(AllowWrites)(History.commands)),
    ),
    "schedules not repeated": (
        1,
        lambda patch: patch.setattr(History, "commands", without(Schedule)(History.commands)),
    ),
    "peeks not repeated": (
        1,
        lambda patch: patch.setattr(History, "commands", without(Peek)(History.commands)),
    ),
    "drops not repeated": (
        8,
        lambda patch: patch.setattr(
            History, "commands", without(AllowCompaction)(History.commands)
        ),
    ),
    "drops forgotten": (
        8,
        lambda patch: patch.setattr(History, "commands", without_drops(History.commands)),
    ),
    "drops before peeks": (
        8,
        lambda patch: patch.setattr(History, "commands", drops_before_peeks(History.commands)),
    ),
    "the first start": (
        1,
        lambda patch: patch.setattr(History, "commands", from_the_first_start(History.commands)),
    ),
    "only while connected": (
        0,
        lambda patch: patch.setattr(Controller, "_want", only_while_connected(Controller._want)),
    ),
    "responses of any session": (
        1,
        lambda patch: patch.setattr(
            Controller, "handle", responses_of_any_session(Controller.handle)
        ),
    ),
    "commands of any session": (
        5,
        lambda patch: patch.setattr(Replica, "_command", commands_of_any_session(Replica._command)),
    ),
    "never stopped": (
        0,
        lambda patch: patch.setattr(Controller, "_lose", never_stopped(Controller._lose)),
    ),
    "silence not noticed": (
        18,
        lambda patch: patch.setattr(Liveness, "end", lambda self, now_ms: None),
    ),
    "configuration merged": (
        4,
        lambda patch: patch.setattr(Replica, "_configure", merged(Replica._configure)),
    ),
    "peeks answered at once": (
        0,
        lambda patch: patch.setattr(replica_module, "reaches", lambda *_: True),
    ),
    "peeks answered twice": (
        0,
        lambda patch: patch.setattr(Replica, "_answer", said_twice(Replica._answer)),
    ),
    "not told again": (
        1,
        lambda patch: patch.setattr(Replica, "_tell_all", lambda self, number: None),
    ),
    "dropped before the end": (
        0,
        lambda patch: patch.setattr(
            FlowTable,
            "is_gone",
            lambda self, number: number not in self.runs,
        ),
    ),
    "two runs write": (
        0,
        lambda patch: patch.setattr(
            FlowTable,
            "_permitted",
            lambda self, number, terms: terms,
        ),
    ),
    "still writing": (
        5,
        lambda patch: patch.setattr(FlowTable, "steer", still_writing(FlowTable.steer)),
    ),
    "cut for answers": (
        11,
        lambda patch: patch.setattr(
            Replica, "_waiting_max", of_what_comes_again(Replica._waiting_max)
        ),
    ),
    "the last delta": (
        1,
        lambda patch: patch.setattr(outbox, "joined", the_last_delta(outbox.joined)),
    ),
    "flows end with the session": (
        0,
        lambda patch: patch.setattr(Replica, "_detach", dropped_with_the_session(Replica._detach)),
    ),
}
"""Each with a seed that has shown it, and what puts it in."""


@pytest.mark.parametrize(("seed", "put_in"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(seed, put_in, monkeypatch):
    put_in(monkeypatch)
    assert broken_by(run, shown_by(seed, SEEDS_MAX))
