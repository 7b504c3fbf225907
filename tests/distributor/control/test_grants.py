"""Which replica writes which flow: kept before it is said, moved from who is gone, never twice."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from dafka.model import Partition, replace
from dafka.protocol.events import Woke
from distributor.control.aims import LinkTurn, place_of
from distributor.control.demands import Demands, HolePass, LevelPause
from distributor.control.events import SessionEnd
from distributor.control.grants import (
    NO_WISHES,
    NUMBERS,
    BeginReplica,
    DemandAsked,
    DemandKept,
    DemandsFound,
    GrantMachine,
    GrantSettings,
    KeepWishes,
    ReplicaFound,
    ReplicaLost,
    TellReplica,
    WishesKept,
    moved,
)
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    CreateFlow,
    FlowKind,
    InitializationComplete,
    Schedule,
)
from distributor.link.events import Hole
from distributor.testing.control_replicas import LINK, flow_of
from tests.support.control_commands import INSTANCE

FLOWS = [flow_of(number) for number in range(3)]
REPLICAS = ("r1", "r2", "r3")
SETTINGS = GrantSettings()
FIRST = NUMBERS + 1
"""The first number that the first controller gives."""


class Office:
    """A controller in charge, and what it has had kept and said."""

    def __init__(
        self, epoch=1, kept=NO_WISHES, flows=FLOWS, replicas=REPLICAS, now_ms=0, levels_epoch=0
    ):
        self.now_ms = now_ms
        self.keeping = []
        self.kept = [kept]
        self.windows = {}
        self.told = []
        self.turned = []
        settings = replace(SETTINGS, levels_epoch=levels_epoch)
        self.machine = GrantMachine(epoch, INSTANCE, flows, replicas, kept, settings, now_ms)
        self._do(self.machine.begin())

    def _do(self, effects):
        for effect in effects:
            match effect:
                case KeepWishes():
                    assert not self.keeping, "one at a time"
                    self.keeping.append(effect.wishes)
                case BeginReplica():
                    self.windows[effect.replica] = effect.window
                    self._judge(effect.replica, effect.window)
                case TellReplica():
                    self.told.append((effect.replica, effect.command))
                    self._judge(effect.replica, [effect.command])
                case DemandKept():
                    assert self.machine.kept == self.kept[-1], "not kept"
                    self.turned.append(effect.number)
        self.machine.check()

    def _judge(self, replica, commands):
        for command in commands:
            if isinstance(command, AllowWrites):
                wished = self.kept[-1].flows[command.flow]
                assert (wished.writer, wished.epoch) == (replica, command.epoch), "not kept"

    def hear(self, *events, later_ms=0):
        self.now_ms += later_ms
        for event in events:
            self._do(self.machine.handle(event, self.now_ms))
        return self

    def keep(self):
        """Let the stores keep what is to be kept, until nothing is."""
        while self.keeping:
            self.kept.append(self.keeping.pop())
            self.hear(WishesKept())
        return self

    @property
    def writers(self):
        return [wished.writer for wished in self.kept[-1].flows.values()]


def running(*replicas):
    """A controller with these replicas, of which the first writes all."""
    office = Office(replicas=replicas).keep().hear(ReplicaFound(replicas[0]))
    office.hear(Woke(), later_ms=SETTINGS.unseen_ms).keep()
    office.hear(*map(ReplicaFound, replicas[1:])).keep()
    office.start_ms = office.now_ms
    return office


def test_all_replicas_have_all_flows_and_none_writes_before_the_stores_know():
    office = Office()
    assert office.windows == {}
    assert office.keeping[0].epoch == 1
    office.keep()
    created = [CreateFlow(FIRST + one, flow, {}) for one, flow in enumerate(FLOWS)]
    expected = [INSTANCE]
    for one in created:
        expected += [one, Schedule(one.number)]
    assert office.windows == dict.fromkeys(REPLICAS, (*expected, InitializationComplete()))
    office.hear(ReplicaFound("r1"))
    office.hear(Woke(), later_ms=SETTINGS.unseen_ms)
    assert office.told == []
    office.keep()
    assert [replica for replica, _ in office.told] == ["r1"] * 3


def test_flows_are_spread_over_those_that_are_there_within_the_time_for_that():
    office = Office().keep().hear(*map(ReplicaFound, REPLICAS)).keep()
    assert office.writers == ["r1", "r2", "r3"]
    office = Office().keep().hear(ReplicaFound("r1"), ReplicaFound("r3")).keep()
    assert office.writers == ["", "", ""]
    assert office.machine.wakeup_ms() == SETTINGS.unseen_ms
    office.hear(Woke(), later_ms=SETTINGS.unseen_ms).keep()
    assert office.writers == ["r1", "r3", "r1"]


def test_shares_of_a_link_are_written_by_different_replicas():
    """Also where others have as much to do."""
    first, second = flow_of(0), flow_of(1)
    other = replace(first, link=dataclasses.replace(first.link, level=2))
    office = Office(flows=[first, other, second], replicas=("r1", "r2")).keep()
    office.hear(ReplicaFound("r1"), ReplicaFound("r2")).keep()
    assert office.writers == ["r1", "r2", "r2"]
    office.hear(ReplicaLost("r2", SessionEnd.SILENT)).keep()
    assert office.writers == ["r1", "r1", "r1"]


def test_one_that_is_gone_loses_what_it_may_write_to_one_that_is_there():
    office = running("r1", "r2")
    assert office.writers == ["r1"] * 3
    office.hear(ReplicaLost("r1")).keep()
    assert office.machine.wakeup_ms() == office.start_ms + SETTINGS.gone_ms
    office.hear(Woke(), later_ms=SETTINGS.gone_ms - 1).keep()
    assert office.writers == ["r1"] * 3
    office.told.clear()
    office.windows.clear()
    office.hear(Woke(), later_ms=1).keep()
    assert office.writers == ["r2"] * 3
    assert {replica for replica, _ in office.told} == {"r2"}
    assert [*office.windows] == ["r1"], "who has lost them is told so when it is back"
    assert not any(isinstance(one, AllowWrites) for one in office.windows["r1"])
    assert office.machine.wakeup_ms() is None
    office.hear(ReplicaFound("r1")).keep()
    assert office.writers == ["r2"] * 3, "what works is left alone"


def test_one_that_is_back_in_time_goes_on():
    office = running("r1", "r2").hear(ReplicaLost("r1")).hear(ReplicaFound("r1"), later_ms=400)
    assert office.machine.wakeup_ms() is None
    office.hear(Woke(), later_ms=10_000).keep()
    assert office.writers == ["r1"] * 3


def test_who_takes_office_does_not_wait_for_who_is_known_not_to_be_there():
    second = Office(epoch=5, kept=running("r1", "r2").kept[-1], replicas=("r1", "r2")).keep()
    second.hear(ReplicaFound("r2"), ReplicaLost("r1")).keep()
    assert second.machine.wakeup_ms() == SETTINGS.gone_ms
    second.hear(ReplicaLost("r1"), later_ms=300)
    second.hear(Woke(), later_ms=200).keep()
    assert second.writers == ["r2"] * 3


def test_what_nobody_writes_waits_for_those_that_are_late():
    office = Office().keep().hear(ReplicaFound("r1"), ReplicaLost("r2"), ReplicaLost("r3"))
    office.hear(Woke(), later_ms=SETTINGS.unseen_ms - 1).keep()
    assert office.writers == ["", "", ""]
    office.hear(ReplicaFound("r2"), Woke(), later_ms=1).keep()
    assert office.writers == ["r1", "r2", "r1"]


def test_one_that_is_silent_loses_them_at_once():
    office = running("r1", "r2").hear(ReplicaLost("r1", SessionEnd.SILENT)).keep()
    assert office.writers == ["r2"] * 3
    office.hear(ReplicaFound("r1"), ReplicaLost("r2", SessionEnd.SILENT)).keep()
    assert office.writers == ["r1"] * 3


def test_one_that_is_stuck_loses_them_at_once_and_rests():
    office = running("r1", "r2").hear(ReplicaLost("r1", SessionEnd.STALLED)).keep()
    assert office.writers == ["r2"] * 3
    office.hear(ReplicaFound("r1"), ReplicaLost("r2", SessionEnd.STALLED), Woke(), later_ms=1_000)
    office.hear(Woke(), later_ms=1_000).keep()
    assert office.writers == ["r2"] * 3, "who rests takes nothing over from who does"
    assert office.machine.wakeup_ms() == office.start_ms + SETTINGS.rest_ms
    office.hear(Woke(), later_ms=SETTINGS.rest_ms).keep()
    assert office.writers == ["r1"] * 3


def test_one_that_rests_is_better_than_none():
    office = running("r1", "r2").hear(ReplicaLost("r1", SessionEnd.STALLED)).keep()
    office.hear(ReplicaFound("r1"), ReplicaLost("r2"))
    assert office.machine.wakeup_ms() == office.now_ms + SETTINGS.gone_ms
    office.hear(Woke(), later_ms=SETTINGS.gone_ms).keep()
    assert office.writers == ["r1"] * 3
    office.hear(ReplicaFound("r2")).keep()
    assert office.writers == ["r1"] * 3, "what works is left alone"


def test_also_where_nobody_writes_yet():
    office = Office(replicas=("r1", "r2")).keep()
    office.hear(ReplicaFound("r1"), ReplicaLost("r1", SessionEnd.STALLED), ReplicaFound("r1"))
    assert office.machine.wakeup_ms() == SETTINGS.unseen_ms
    office.hear(Woke(), later_ms=SETTINGS.unseen_ms)
    assert office.keep().writers == ["r1"] * 3


def test_who_takes_office_goes_on_from_what_is_kept_and_disturbs_nobody():
    first = running("r1", "r2")
    second = Office(epoch=5, kept=first.kept[-1], replicas=("r1", "r2")).keep()
    assert second.writers == first.writers
    assert [one for one in second.windows["r1"] if isinstance(one, AllowWrites)] == [
        command for _, command in first.told
    ]
    assert second.machine.wakeup_ms() is None, "nobody is there who could write instead"
    second.hear(ReplicaFound("r2"))
    assert second.machine.wakeup_ms() == SETTINGS.unseen_ms
    second.hear(Woke(), later_ms=SETTINGS.unseen_ms).keep()
    assert second.writers == ["r2"] * 3


def test_what_is_not_wanted_any_more_is_not_said_and_what_is_new_is():
    kept = running("r1").kept[-1]
    office = Office(epoch=2, kept=kept, flows=[*FLOWS[1:], flow_of(9)]).keep()
    assert [wished.flow for wished in office.kept[-1].flows.values()] == [*FLOWS[1:], flow_of(9)]
    assert [*office.kept[-1].flows] == [FIRST + 1, FIRST + 2, 2 * NUMBERS + 1]
    assert office.writers == ["r1", "r1", ""]


def test_a_replica_that_is_not_named_any_more_writes_nothing():
    office = Office(epoch=2, kept=running("r1").kept[-1], replicas=("r2",)).keep()
    assert office.writers == ["", "", ""]
    assert [*office.windows] == ["r2"]


def test_what_happens_while_the_stores_keep_something_is_decided_then():
    office = Office(replicas=("r1", "r2")).keep().hear(ReplicaFound("r1"), ReplicaFound("r2"))
    office.hear(ReplicaLost("r1"), Woke())
    office.hear(Woke(), later_ms=5_000)
    assert len(office.keeping) == 1
    assert office.machine.wakeup_ms() is None
    office.keep()
    assert office.writers == ["r2"] * 3


def test_without_flows_there_is_nothing_to_decide():
    office = Office(flows=[]).keep().hear(ReplicaFound("r1"))
    assert office.keeping == []
    assert office.windows["r1"] == (INSTANCE, InitializationComplete())


happenings = st.lists(
    st.tuples(
        st.sampled_from(["found", "lost", "stuck", "silent", "wait", "keep", "office"]),
        st.sampled_from(REPLICAS),
        st.integers(0, 4_000),
    ),
    max_size=60,
)


ENDS = {"lost": SessionEnd.CLOSED, "stuck": SessionEnd.STALLED, "silent": SessionEnd.SILENT}


class Offices:
    """Controllers one after the other, and which replicas the last one has."""

    def __init__(self):
        self.all = [Office()]
        self.there = set()

    @property
    def last(self):
        return self.all[-1]

    def happen(self, what, replica, wait_ms):
        match what:
            case "found":
                self.there.add(replica)
                self.last.hear(ReplicaFound(replica))
            case "lost" | "stuck" | "silent" if replica in self.there:
                self.there.discard(replica)
                self.last.hear(ReplicaLost(replica, ENDS[what]))
            case "keep":
                self.last.keep()
            case "office":  # what the one before has still to keep is not kept any more
                before = self.last
                epoch = len(self.all) + 1
                self.all.append(Office(epoch, before.kept[-1], now_ms=before.now_ms))
                self.there = set()
            case _:
                self.last.hear(Woke(), later_ms=wait_ms)

    def epochs(self):
        """All that were given, each with what it was given for."""
        for office in self.all:
            for wishes in office.kept:
                for number, wished in wishes.flows.items():
                    if wished.epoch:
                        yield wished.epoch, (number, wished)


@given(happenings)
def test_in_the_end_somebody_who_is_there_writes_and_no_epoch_comes_twice(happenings):
    offices = Offices()
    for one in happenings:
        offices.happen(*one)
    offices.last.keep().hear(Woke(), later_ms=60_000).keep()
    if offices.there:
        assert {*offices.last.writers} <= offices.there
        assert offices.last.machine.wakeup_ms() is None
    given = {}
    for epoch, what in offices.epochs():
        assert given.setdefault(epoch, what) == what


def test_grants_that_have_moved_are_counted_by_who_wrote_and_who_does():
    office = Office().keep().hear(*map(ReplicaFound, REPLICAS)).keep()
    nobody, spread = office.kept[-2:]
    assert moved(nobody, spread) == {("", "r1"): 1, ("", "r2"): 1, ("", "r3"): 1}
    office.hear(ReplicaLost("r2", SessionEnd.SILENT)).keep()
    assert moved(spread, office.kept[-1]) == {("r2", "r1"): 1}
    assert moved(spread, spread) == {}
    assert moved(NO_WISHES, NO_WISHES) == {}


EAST = dataclasses.replace(LINK, targets=("south", "east"), beyond=("south", "east"))
TURNABLE = [replace(flow, link=EAST) for flow in FLOWS]
TURN = LinkTurn(1, "east")
AIM = {place_of(EAST): "east"}


def turnable(**given):
    """A controller of links with two targets, whose two replicas write them."""
    office = Office(flows=TURNABLE, replicas=("r1", "r2"), **given).keep()
    return office.hear(ReplicaFound("r1"), ReplicaFound("r2")).keep()


def targets(office):
    return {wished.flow.link.target for wished in office.kept[-1].flows.values()}


def test_a_link_that_is_turned_is_kept_before_it_is_said():
    office = turnable()
    before, writers = office.kept[-1], office.writers
    office.told.clear()
    office.hear(DemandAsked(7, TURN))
    (keeping,) = office.keeping
    assert (keeping.demands.aims, office.told, office.turned) == (AIM, [], [])
    office.keep()
    assert targets(office) == {"east"}
    assert office.writers == writers, "who wrote goes on to write"
    assert office.turned == [7]
    after = office.kept[-1].flows
    assert min(after) > max(before.flows), "numbers never come again"
    for name in ("r1", "r2"):
        told = [command for replica, command in office.told if replica == name]
        ended = [AllowCompaction(number, None) for number in before.flows]
        begun = [
            one
            for number, wished in after.items()
            for one in (CreateFlow(number, wished.flow, {}), Schedule(number))
        ]
        allowed = [
            AllowWrites(number, wished.epoch)
            for number, wished in after.items()
            if wished.writer == name
        ]
        assert told == [*ended, *begun, *allowed]


def test_the_next_controller_goes_on_with_it():
    office = turnable().hear(DemandAsked(7, TURN)).keep()
    other = turnable(epoch=2, kept=office.kept[-1])
    assert other.kept[-1].flows == office.kept[-1].flows
    assert other.kept[-1].demands.aims == AIM
    back = other.hear(DemandAsked(8, LinkTurn(1, ""))).keep()
    assert (targets(back), back.kept[-1].demands.aims) == ({"south"}, {})


def test_a_link_that_aims_there_already_begins_anew():
    # Its replica may have left that target by itself.
    office = turnable().hear(DemandAsked(7, TURN)).keep()
    before, writers = office.kept[-1], office.writers
    office.hear(DemandAsked(8, TURN)).keep()
    after = office.kept[-1]
    assert after.demands == before.demands
    assert min(after.flows) > max(before.flows)
    assert (office.writers, office.turned) == (writers, [7, 8])
    office.hear(DemandAsked(9, LinkTurn(2, "east")))
    assert (office.keeping, office.turned) == ([], [7, 8, 9]), "no link crosses that level"


def test_a_turn_while_something_is_kept_waits_for_its_own():
    office = turnable()
    office.hear(DemandAsked(7, TURN), DemandAsked(8, LinkTurn(1, "south")))
    assert office.turned == []
    office.keep()
    assert office.turned == [7, 8]
    assert targets(office) == {"south"}


def test_what_was_found_late_is_taken_over():
    office = turnable().hear(DemandsFound(Demands(aims=AIM))).keep()
    assert (targets(office), office.turned) == ({"east"}, [])


def test_a_replica_that_is_begun_anew_is_told_only_what_is_wanted():
    office = turnable().hear(DemandAsked(7, TURN)).keep()
    office.hear(ReplicaLost("r1", SessionEnd.SILENT)).keep()
    office.hear(ReplicaFound("r1")).keep()
    created = [one for one in office.windows["r1"] if isinstance(one, CreateFlow)]
    assert [one.number for one in created] == [*office.kept[-1].flows]


@given(st.lists(st.sampled_from(("east", "south", "", "lose", "find", "keep")), max_size=12))
def test_whatever_happens_a_turn_is_answered_once_it_is_kept(steps):
    office = turnable()
    for number, step in enumerate(steps):
        match step:
            case "lose":
                office.hear(ReplicaLost("r1", SessionEnd.SILENT))
            case "find":
                office.hear(ReplicaFound("r1"))
            case "keep":
                office.keep()
            case _:
                office.hear(DemandAsked(number, LinkTurn(1, step)))
    office.keep()
    asked = [number for number, step in enumerate(steps) if step in ("east", "south", "")]
    assert office.turned == asked
    if asked:
        assert targets(office) == {steps[asked[-1]] or "south"}


PAUSE, GO_ON = LevelPause(1, paused=True), LevelPause(1, paused=False)


def test_what_is_paused_nobody_writes_and_who_wrote_it_is_told_once_that_is_kept():
    office = turnable()
    before = office.kept[-1].flows
    office.windows.clear()
    office.hear(DemandAsked(7, PAUSE))
    assert (office.windows, office.turned) == ({}, []), "not before it is kept"
    office.keep()
    after = office.kept[-1].flows
    assert {number: wished.flow for number, wished in after.items()} == {
        number: wished.flow for number, wished in before.items()
    }
    assert ({*office.writers}, office.turned) == ({""}, [7])
    assert office.windows.keys() == {"r1", "r2"}
    said = [one for window in office.windows.values() for one in window]
    assert not [one for one in said if isinstance(one, AllowWrites)]
    assert office.machine.wakeup_ms() is None


def test_what_is_paused_stays_so_whoever_comes_and_goes():
    office = turnable().hear(DemandAsked(7, PAUSE)).keep()
    office.hear(ReplicaLost("r1", SessionEnd.SILENT), Woke(), later_ms=60_000).keep()
    office.hear(ReplicaFound("r1"), Woke(), later_ms=60_000).keep()
    assert {*office.writers} == {""}
    other = turnable(epoch=2, kept=office.kept[-1])
    other.hear(Woke(), later_ms=60_000).keep()
    assert {*other.writers} == {""}
    assert not [one for _, one in other.told if isinstance(one, AllowWrites)]


def test_what_goes_on_is_spread_again():
    office = turnable().hear(DemandAsked(7, PAUSE)).keep()
    office.hear(DemandAsked(8, GO_ON)).keep()
    assert (sorted(office.writers), office.turned) == (["r1", "r1", "r2"], [7, 8])
    assert sum(isinstance(one, AllowWrites) for _, one in office.told[-3:]) == 3


def test_levels_of_another_epoch_are_not_paused():
    office = turnable(levels_epoch=4).hear(DemandAsked(7, PAUSE)).keep()
    assert {*turnable(epoch=2, kept=office.kept[-1], levels_epoch=4).writers} == {""}
    other = turnable(epoch=2, kept=office.kept[-1], levels_epoch=5)
    assert {*other.writers} == {"r1", "r2"}
    assert other.kept[-1].demands.paused == frozenset()


def test_only_records_of_the_level_are_paused():
    positions = [replace(flow, kind=FlowKind.OFFSETS) for flow in TURNABLE[:1]]
    above = [replace(flow, link=dataclasses.replace(EAST, level=2)) for flow in TURNABLE]
    office = Office(flows=[*TURNABLE, *positions, *above], replicas=("r1",)).keep()
    office.hear(ReplicaFound("r1")).keep().hear(DemandAsked(7, PAUSE)).keep()
    assert office.writers == ["", "", "", "r1", "r1", "r1", "r1"]


def test_a_link_that_passes_over_a_hole_is_another_flow_of_the_same_writer():
    hole = Hole(Partition("orders", "A"), 3, 9)
    office = turnable()
    before, writers = office.kept[-1].flows, office.writers
    passing = HolePass(1, {place_of(EAST): (hole,)})
    office.hear(DemandAsked(7, passing)).keep()
    passes = [wished.flow.passes for wished in office.kept[-1].flows.values()]
    of_share = [number for number, one in enumerate(passes) if one]
    assert [passes[number] for number in of_share] == [(hole,)] * len(of_share)
    assert sorted(office.writers) == sorted(writers)
    kept = [wished for wished in before.values() if wished in office.kept[-1].flows.values()]
    assert len(kept) == len(TURNABLE) - len(of_share), "who has none of it is left alone"
    other = turnable(epoch=2, kept=office.kept[-1])
    assert other.kept[-1].flows == office.kept[-1].flows
