"""Which replica writes which flow, as the controller in charge decides it.

All replicas have all flows, and are ready to write each; of each flow one may. What is decided is
kept by the stores before it is said: the next controller goes on from there, and disturbs nobody.
Numbers of flows and epochs of writers begin with the epoch of the controller that gives them, so
none comes again, whatever an older controller still does.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, assert_never

from dafka.model import Value, replace
from dafka.protocol.events import Woke
from dafka.protocol.machine import earliest
from distributor.control.aims import place_of
from distributor.control.demands import Demands, begun_anew
from distributor.control.events import SessionEnd
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    CreateFlow,
    InitializationComplete,
    Schedule,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distributor.control.aims import LinkPlace
    from distributor.control.demands import Demand
    from distributor.control.messages import CreateInstance, Flow, StateCommand

NUMBERS = 1 << 20
"""How many numbers of flows, and epochs of writers, a controller has to give."""


class Wished(Value, frozen=True):
    """A flow that is wanted.

    Attributes:
        flow: What it is.
        writer: Which replica may write; empty if none does yet.
        epoch: Under which; 0 if none does yet.
    """

    flow: Flow
    writer: str = ""
    epoch: int = 0


class Wishes(Value, frozen=True):
    """What a controller has decided, as the stores keep it.

    Attributes:
        epoch: The controller's.
        version: How many times it has changed its mind.
        flows: By number, in order.
        place: Where operators reach it, `HOST:PORT`; empty for nowhere.
        demands: What operators want of links.
    """

    epoch: int
    version: int
    flows: Mapping[int, Wished]
    place: str = ""
    demands: Demands = Demands()


NO_WISHES = Wishes(0, 0, {})
"""Before the first controller."""


class GrantSettings(Value, frozen=True):
    """When a grant moves.

    Attributes:
        gone_ms: So long after its connection has ended a replica is taken for gone.
        unseen_ms: So long a replica may take to be there when a controller begins.
        rest_ms: So long one that was stuck is given nothing new, while another one is there.
        levels_epoch: Of the levels of the file: what was paused in another one is not.
    """

    gone_ms: int = 500
    unseen_ms: int = 3_000
    rest_ms: int = 30_000
    levels_epoch: int = 0


class ReplicaFound(Value, frozen=True):
    """Event: a replica has answered, and its session goes on."""

    replica: str


class ReplicaLost(Value, frozen=True):
    """Event: a replica's session is over, or none could be begun.

    Attributes:
        replica: Whose.
        why: If it is because of the replica it is taken for gone at once, and if its flows stood
            still, it rests. A connection alone may come back, and to what is written does nothing.
    """

    replica: str
    why: SessionEnd = SessionEnd.CLOSED


class WishesKept(Value, frozen=True):
    """Event, answers `KeepWishes`: enough stores have them."""


class DemandAsked(Value, frozen=True):
    """Event: an operator wants something of links.

    Attributes:
        number: Names the command; it does not come again.
        demand: What is wanted; there is no objection to it.
    """

    number: int
    demand: Demand


class DemandsFound(Value, frozen=True):
    """Event: a controller before has had these kept, and that was not read in time."""

    demands: Demands


GrantEvent = ReplicaFound | ReplicaLost | WishesKept | DemandAsked | DemandsFound | Woke


class KeepWishes(Value, frozen=True):
    """Effect: let the stores keep this; nothing of it is said before they do."""

    wishes: Wishes


class BeginReplica(Value, frozen=True):
    """Effect: begin anew towards a replica, with this and nothing else."""

    replica: str
    window: tuple[StateCommand, ...]


class TellReplica(Value, frozen=True):
    """Effect: want this of a replica, too."""

    replica: str
    command: StateCommand


class DemandKept(Value, frozen=True):
    """Effect: what an operator wants is kept, if this controller is still in charge."""

    number: int


GrantEffect = KeepWishes | BeginReplica | TellReplica | DemandKept


def moved(before: Wishes, after: Wishes) -> Counter[tuple[str, str]]:
    """Count the grants that have moved, by who wrote before and who does now; empty is nobody."""
    found: Counter[tuple[str, str]] = Counter()
    for number, wished in after.flows.items():
        old = before.flows.get(number)
        writer = "" if old is None else old.writer
        if (old is None or old.epoch != wished.epoch) and wished.writer:
            found[writer, wished.writer] += 1
    return found


def _whole(flow: Flow) -> Flow:
    """What a flow is a share of."""
    return replace(flow, share=0)


def _undemanded(flow: Flow) -> Flow:
    """What a flow is whatever operators want of its link: its targets are in one order."""
    targets = tuple(sorted(flow.link.targets))
    return replace(flow, link=dataclasses.replace(flow.link, targets=targets), passes=())


class GrantMachine:
    """One controller in charge.

    Args:
        epoch: In which it is.
        instance: Whose flows these are.
        flows: Those that are wanted.
        replicas: Those that there are.
        kept: What the stores have kept.
        settings: Times.
        now_ms: When it begins.
        place: Where operators reach it; kept, for those who ask another one.
    """

    def __init__(
        self,
        epoch: int,
        instance: CreateInstance,
        flows: Sequence[Flow],
        replicas: Sequence[str],
        kept: Wishes,
        settings: GrantSettings,
        now_ms: int,
        place: str = "",
    ) -> None:
        self._epoch, self._instance, self._place = epoch, instance, place
        self._settings = settings
        self._there: set[str] = set()
        self._gone_ms = dict.fromkeys(replicas, now_ms + settings.unseen_ms)
        """Of those that are not there, when they are taken for gone."""
        self._unseen = {*replicas}
        """Those that have not been there yet: what nobody writes waits for them for a while, as it
        is spread over those that are there."""
        self._spread_ms = now_ms + settings.unseen_ms
        self._rests_ms: dict[str, int] = {}
        """Until when those that were stuck are given nothing."""
        self._begun: set[str] = set()
        """Replicas that are told what is wanted."""
        self._flows = (*flows,)
        self._demands = kept.demands.lasting(settings.levels_epoch)
        """What operators want; not kept yet where it is not what the stores have."""
        self._anew: set[LinkPlace] = set()
        """Links that are to begin anew, as their replicas may have left the target that is wanted;
        of what is wanted that is not kept yet."""
        self._asked: list[int] = []
        """Commands that have been taken in since what is being kept."""
        self._asked_kept: list[int] = []
        """Those that are in it."""
        self._given = 0
        """How many numbers and epochs it has given."""
        self.kept = kept
        """What the stores have."""
        self.wishes = self._beginning(kept, replicas)
        """What it wants; not said yet where it is not what the stores have."""
        self._keeping = True

    def begin(self) -> list[GrantEffect]:
        """What to do first: to say in whose epoch this is."""
        return [KeepWishes(self.wishes)]

    def handle(self, event: GrantEvent, now_ms: int) -> list[GrantEffect]:
        """Take one event in; see `Machine`."""
        effects: list[GrantEffect] = []
        match event:
            case ReplicaFound():
                self._there.add(event.replica)
                self._unseen.discard(event.replica)
                self._gone_ms.pop(event.replica, None)
            case ReplicaLost():
                self._lose(event, now_ms)
            case WishesKept():
                effects = self._say()
            case DemandAsked():
                self._demands = self._demands.after(event.demand, self._flows)
                self._anew |= begun_anew(event.demand, self._flows)
                self._asked.append(event.number)
            case DemandsFound():
                self._demands = event.demands.lasting(self._settings.levels_epoch)
            case Woke():
                pass
            case _:
                assert_never(event)
        return effects + self._decide(now_ms)

    def wakeup_ms(self) -> int | None:
        """When a replica that is not there is taken for gone, or one has rested."""
        writers = {one.writer for one in self.wishes.flows.values() if not self._pauses(one)}
        needy = writers & {"", *self._gone_ms}
        if self._keeping or not needy or not self._there:
            return None
        times = [self._spread_ms] if "" in needy else []
        if self._there - self._rests_ms.keys():
            return earliest(*times, *(self._gone_ms[name] for name in needy if name))
        times += [self._gone_ms[name] for name in needy - self._rests_ms.keys() if name]
        return earliest(*times, *(self._rests_ms[name] for name in self._there))

    def check(self) -> None:
        """Assert that numbers rise, and that what is said is what the stores have."""
        assert list(self.wishes.flows) == sorted(self.wishes.flows)
        epochs = [wished.epoch for wished in self.wishes.flows.values() if wished.writer]
        assert len(epochs) == len({*epochs})
        assert all(epochs)
        assert self._keeping == (self.kept != self.wishes)
        assert self._keeping or not self._asked
        assert not any(one.writer for one in self.wishes.flows.values() if self._pauses(one))

    def _beginning(self, kept: Wishes, replicas: Sequence[str]) -> Wishes:
        """What was wanted, without what is not any more, and with what is new."""
        known = {
            number: wished if wished.writer in replicas else Wished(wished.flow)
            for number, wished in kept.flows.items()
        }
        return Wishes(self._epoch, 0, self._wanted(known), self._place, self._demands)

    def _wanted(self, flows: Mapping[int, Wished]) -> dict[int, Wished]:
        """What is wanted of these and what is new, which keeps its writer; who pauses has none."""
        left = dict.fromkeys(map(self._demands.shaped, self._flows))
        writers = {_undemanded(wished.flow): wished.writer for wished in flows.values()}
        wanted: dict[int, Wished] = {}
        for number, wished in flows.items():
            if wished.flow in left and place_of(wished.flow.link) not in self._anew:
                del left[wished.flow]
                wanted[number] = wished
        for flow in left:
            writer, number = writers.get(_undemanded(flow), ""), self._number()
            wanted[number] = Wished(flow, writer, self._number() if writer else 0)
        return {
            number: Wished(wished.flow) if self._demands.pauses(wished.flow) else wished
            for number, wished in wanted.items()
        }

    def _pauses(self, wished: Wished) -> bool:
        """Whether nobody may write a flow, by what is wanted."""
        return self.wishes.demands.pauses(wished.flow)

    def _number(self) -> int:
        self._given += 1
        assert self._given < NUMBERS
        return self._epoch * NUMBERS + self._given

    def _lose(self, lost: ReplicaLost, now_ms: int) -> None:
        self._there.discard(lost.replica)
        if lost.why is SessionEnd.STALLED:
            self._rests_ms[lost.replica] = now_ms + self._settings.rest_ms
        at_once = lost.why in (SessionEnd.STALLED, SessionEnd.SILENT)
        wait_ms = 0 if at_once else self._settings.gone_ms
        gone_ms = now_ms + wait_ms
        self._gone_ms[lost.replica] = min(self._gone_ms.get(lost.replica, gone_ms), gone_ms)

    def _decide(self, now_ms: int) -> list[GrantEffect]:
        """Decide what is wanted now, if it is not what is being kept."""
        if self._keeping:
            return []
        flows = dict(self.wishes.flows)
        if self._anew or self._demands != self.wishes.demands:
            flows = self._wanted(flows)
            self._anew.clear()
        flows = self._granted(flows, now_ms)
        asked, self._asked = self._asked, []
        if flows == self.wishes.flows and self._demands == self.wishes.demands:
            return [DemandKept(number) for number in asked]
        version = self.wishes.version + 1
        self.wishes = replace(self.wishes, version=version, flows=flows, demands=self._demands)
        self._keeping, self._asked_kept = True, asked
        return [KeepWishes(self.wishes)]

    def _granted(self, flows: dict[int, Wished], now_ms: int) -> dict[int, Wished]:
        """Give what nobody writes to somebody who is there, but for what is paused."""
        self._rests_ms = {one: at for one, at in self._rests_ms.items() if now_ms < at}
        rested = self._there - self._rests_ms.keys()
        gone = {name for name, at_ms in self._gone_ms.items() if now_ms >= at_ms}
        spreads = not self._unseen or now_ms >= self._spread_ms
        loads = Counter(wished.writer for wished in flows.values())
        siblings = Counter((wished.writer, _whole(wished.flow)) for wished in flows.values())
        for number, wished in flows.items():
            if self._demands.pauses(wished.flow):
                continue
            # Who rests is better than nobody, but not than another one who does.
            able = rested or (self._there if wished.writer not in self._rests_ms else set())
            if able and (wished.writer in gone or (not wished.writer and spreads)):
                whole = _whole(wished.flow)
                # Shares of one link are there to be copied by several processes.
                costs = {name: (siblings[name, whole], loads[name], name) for name in able}
                writer = min(able, key=costs.__getitem__)
                loads[writer] += 1
                siblings[writer, whole] += 1
                flows[number] = replace(wished, writer=writer, epoch=self._number())
        return flows

    def _say(self) -> list[GrantEffect]:
        """Say what the stores have now: what is given, and to whom nothing is given any more."""
        before, self.kept, self._keeping = self.kept, self.wishes, False
        effects: list[GrantEffect] = []
        stripped: set[str] = set()
        given: list[TellReplica] = []
        for number, wished in self.kept.flows.items():
            old = before.flows.get(number)
            if wished == old:
                continue
            if wished.writer:
                given.append(TellReplica(wished.writer, AllowWrites(number, wished.epoch)))
            if old is not None and old.writer:
                stripped.add(old.writer)
        fresh = (stripped & self._begun) | ({*self._gone_ms, *self._there} - self._begun)
        changes = self._changes(before)
        effects += [
            TellReplica(name, change) for name in sorted(self._begun - fresh) for change in changes
        ]
        for name in sorted(fresh):
            self._begun.add(name)
            effects.append(BeginReplica(name, self._window(name)))
        asked, self._asked_kept = self._asked_kept, []
        told = [one for one in given if one.replica not in fresh]
        return [*effects, *told, *(DemandKept(number) for number in asked)]

    def _changes(self, before: Wishes) -> list[StateCommand]:
        """What is said to all as other flows are wanted: what ends first."""
        ended = [one for one in before.flows if one not in self.kept.flows]
        changes: list[StateCommand] = [AllowCompaction(number, None) for number in ended]
        for number, wished in self.kept.flows.items():
            if number not in before.flows:
                changes += [CreateFlow(number, wished.flow, {}), Schedule(number)]
        return changes

    def _window(self, replica: str) -> tuple[StateCommand, ...]:
        commands: list[StateCommand] = [self._instance]
        for number, wished in self.kept.flows.items():
            commands += [CreateFlow(number, wished.flow, {}), Schedule(number)]
            if wished.writer == replica:
                commands.append(AllowWrites(number, wished.epoch))
        return (*commands, InitializationComplete())
