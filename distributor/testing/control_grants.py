"""Controllers that decide which replica writes, as replicas, streams and stores fail.

The machine is that of `distributor.control.grants`, in front of those that `testing.control` has.
Replicas and controllers die, freeze and get stuck, stores are away; a controller that is not in
charge any more goes on until it hears of that. Nothing is said before the stores have it, and no
epoch of a writer comes twice. In the end each flow is written by a replica that is there, who takes
office then disturbs nobody, and without controllers copying goes on. Where an operator was told
that links are to aim elsewhere, to pause or to pass over a hole they do, whoever is in charge
later; what is paused nobody writes, until he says that it goes on. Who is superseded writes no
more within two seconds, also without a controller, for as long as the other one lives.

python -m distributor.testing.control_grants --seed 17 --count 100
"""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from typing import TYPE_CHECKING, assert_never

from dafka.groups.writers import HEARD_MS
from dafka.model import replace
from dafka.protocol.events import Woke
from dafka.testing.seeds import run_seeds
from distributor.control.aims import LinkTurn, place_of
from distributor.control.controller import ControllerMachine, ControllerState
from distributor.control.demands import HolePass, LevelPause
from distributor.control.events import EndStream, SessionEnd, StreamEnded
from distributor.control.grants import (
    NO_WISHES,
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
)
from distributor.control.messages import AllowWrites, FlowStatus
from distributor.link.events import Hole
from distributor.testing.control import ControlRun
from distributor.testing.control_controllers import INSTANCE, SimController
from distributor.testing.control_replicas import (
    LINK,
    PARTITIONS,
    SUPERSEDED_MS_MAX,
    SimReplica,
    flow_of,
)
from topology.model import ClusterName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from distributor.control.demands import Demand
    from distributor.control.events import ControllerEffect, ControllerEvent
    from distributor.control.grants import GrantEffect, GrantEvent, Wishes
    from distributor.control.messages import Flow, StateCommand
    from distributor.testing.control_streams import SimStream

AGAIN_MS = 300
"""When stores are asked again that were away."""

GRANTS = GrantSettings(gone_ms=200, unseen_ms=1_000, rest_ms=3_000)

REPLACED_MS_MAX = 4_000
"""How long it may take until another replica writes: sessions are lost after a second."""

TROUBLES = (
    *("cut", "cut", "freeze", "thaw", "thaw", "stick", "free", "free", "crash", "boot", "boot"),
    *("depose", "die", "suspend", "wake", "wake", "away", "back", "back", "turn", "turn", "turn"),
    *("pause", "pause", "go on", "pass"),
)

TARGETS = ClusterName("south"), ClusterName("east")
AIMED = dataclasses.replace(LINK, targets=TARGETS, beyond=TARGETS)


class SimStores:
    """What controllers have had kept."""

    def __init__(self) -> None:
        self.away = False
        self.latest = NO_WISHES
        self._of_epoch: dict[int, Wishes] = {}
        self.given: dict[int, tuple[int, str]] = {}
        """Of every epoch of a writer, the flow and the replica."""

    def keep(self, wishes: Wishes) -> None:
        """Take something in; what is older than what is there is kept, too, and never read."""
        for number, wished in wishes.flows.items():
            if wished.epoch:
                what = number, wished.writer
                known = self.given.setdefault(wished.epoch, what)
                assert known == what, f"epoch {wished.epoch} is given for {known} and {what}"
        self._of_epoch[wishes.epoch] = wishes
        if (wishes.epoch, wishes.version) > (self.latest.epoch, self.latest.version):
            self.latest = wishes

    def before(self, epoch: int) -> Wishes:
        """The last of the latest epoch before one."""
        earlier = max((one for one in self._of_epoch if one < epoch), default=0)
        return self._of_epoch.get(earlier, NO_WISHES)


class SimOperator:
    """Who wants something of links, and remembers what he was told."""

    def __init__(self) -> None:
        self._asked: list[Demand] = []
        self._answered: dict[type, int] = {}
        """Of each kind of demands, the last one that is kept, counted from 1."""

    def ask(self, demand: Demand) -> int:
        """Want something; returns the number of the command, counted from 1."""
        self._asked.append(demand)
        return len(self._asked)

    def told(self, number: int) -> None:
        """A command is kept, a controller says."""
        kind = type(self._asked[number - 1])
        self._answered[kind] = max(number, self._answered.get(kind, 0))

    def judge(self, kept: Wishes) -> None:
        """Assert that what was said last to be kept is, or what was wanted after it."""
        demands, place = kept.demands, place_of(AIMED)
        is_so: dict[type, object] = {
            LinkTurn: demands.aims.get(place, ""),
            LevelPause: AIMED.level in demands.paused,
            HolePass: [hole.end for hole in demands.passed.get(place, ())],
        }
        for kind, number in self._answered.items():
            later = [one for one in self._asked[number - 1 :] if isinstance(one, kind)]
            possible = [*map(_wanted_by, later)]
            assert is_so[kind] in possible, f"{is_so[kind]!r} holds, not one of {possible}"


def _wanted_by(demand: Demand) -> object:
    match demand:
        case LinkTurn():
            return demand.to
        case LevelPause():
            return demand.paused
        case HolePass():
            return [hole.end for hole in demand.holes[place_of(AIMED)]]
        case _:
            assert_never(demand)


class SimGovernor(SimController):
    """A controller that decides by itself."""

    stores: SimStores
    flows: Sequence[Flow]
    operator: SimOperator
    grants: GrantMachine
    _known: Wishes
    """What the stores had when it took office."""
    _looked_again = False
    """Whether it knows what was kept since, so that it may be told something."""

    def take_office(self) -> None:
        """Start, with an epoch of its own, and go on from what the stores keep."""
        self._desired.epoch += 1
        self.epoch = self._desired.epoch
        self.machines = {}
        self._streams.clear()
        self._active: set[str] = set()
        self._missed: set[str] = set()
        self._ends: dict[str, SessionEnd] = {}
        now_ms = self.world.now_ms
        self._known, self._looked_again = self.stores.latest, False
        self.grants = GrantMachine(
            self.epoch, INSTANCE, self.flows, [*self._replicas], self._known, GRANTS, now_ms
        )
        self.start()
        self._perform(self.grants.begin())

    def turn(self) -> None:
        """Let the machines do what is due."""
        super().turn()
        due_ms = self.grants.wakeup_ms()
        if self.alive and due_ms is not None and due_ms <= self.world.now_ms:
            self._hear(Woke())

    def told(self, stream: SimStream, event: ControllerEvent) -> None:
        """Something comes from a replica; not of what was before it was begun with anew."""
        if stream is self._streams.get(stream.replica.name):
            super().told(stream, event)

    def _handle(self, replica: str, event: ControllerEvent) -> None:
        if isinstance(event, StreamEnded):
            self._ends[replica] = event.why
        super()._handle(replica, event)
        machine = self.machines[replica]
        if not self.alive:
            return
        if machine.state is ControllerState.ACTIVE:
            if replica not in self._active:
                self._active.add(replica)
                self._missed.discard(replica)
                self._hear(ReplicaFound(replica))
            return
        in_vain = machine.state is ControllerState.WAITING and machine.history.complete
        if replica in self._active or (in_vain and replica not in self._missed):
            self._active.discard(replica)
            self._missed.add(replica)
            self._hear(ReplicaLost(replica, self._ends.get(replica, SessionEnd.CLOSED)))

    def _do(self, replica: str, effect: ControllerEffect) -> None:
        if isinstance(effect, EndStream):
            self._ends[replica] = effect.why
        super()._do(replica, effect)

    def _hear(self, event: GrantEvent) -> None:
        self._perform(self.grants.handle(event, self.world.now_ms))
        self.grants.check()

    def _perform(self, effects: Sequence[GrantEffect]) -> None:
        for effect in effects:
            match effect:
                case KeepWishes():
                    self._later(partial(self._write, effect.wishes))
                case BeginReplica():
                    self._begin(effect)
                case TellReplica():
                    self._say(effect.replica, effect.command)
                case DemandKept():
                    self._later(partial(self._awake, partial(self._confirm, effect.number)))
                case _:
                    assert_never(effect)

    def _begin(self, effect: BeginReplica) -> None:
        name = effect.replica
        before = self._streams.pop(name, None)
        if before is not None:
            before.to_replica(StreamEnded(before.there))
        self._active.discard(name)
        self.machines[name] = ControllerMachine(self.name, self.epoch, name, self._settings)
        for command in effect.window:
            self._say(name, command)

    def _say(self, replica: str, command: StateCommand) -> None:
        if isinstance(command, AllowWrites):
            kept = self.stores.given.get(command.epoch)
            assert kept == (command.flow, replica), "a grant is said that is not kept"
        self.want(replica, command)

    def _later(self, action: Callable[[], None], wait_ms: int = 0) -> None:
        """Do something after a while, whether awake or not: it is on its way, and may be lost."""
        self.world.after(wait_ms + self.world.delay_ms(), action)

    def _write(self, wishes: Wishes) -> None:
        if self.stores.away:
            if self.alive and wishes.epoch == self.epoch:
                self._later(partial(self._write, wishes), AGAIN_MS)
            return
        self.stores.keep(wishes)
        incarnation = self.incarnation

        def kept() -> None:
            if self.incarnation == incarnation and self.grants.wishes == wishes:
                self._hear(WishesKept())
                if not self._looked_again:
                    self._later(partial(self._awake, self._look_again))

        self._later(partial(self.when_awake, kept))

    def demand(self, demand: Demand) -> None:
        """An operator wants something of the links."""
        if self._looked_again:
            self._hear(DemandAsked(self.operator.ask(demand), demand))

    def _awake(self, action: Callable[[int], None]) -> None:
        """Do something once it is awake, if it is still the same."""
        self.when_awake(partial(action, self.incarnation))

    def _look_again(self, incarnation: int) -> None:
        """Take over what was kept since it has looked."""
        if self.incarnation != incarnation or self._looked_again:
            return
        if self.stores.away:
            self._later(partial(self.when_awake, partial(self._look_again, incarnation)), AGAIN_MS)
            return
        self._looked_again = True
        found = self.stores.before(self.epoch)
        if (found.epoch, found.version) > (self._known.epoch, self._known.version):
            self._hear(DemandsFound(found.demands))

    def _confirm(self, number: int, incarnation: int) -> None:
        """Tell an operator that what he wants is kept, if nobody else is in charge."""
        if self.incarnation != incarnation:
            return
        if self.stores.away:
            again = partial(self._confirm, number, incarnation)
            self._later(partial(self.when_awake, again), AGAIN_MS)
        elif self.stores.latest.epoch <= self.epoch:
            self.operator.told(number)


class GrantRun(ControlRun):
    """One seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.stores = SimStores()
        self.operator = SimOperator()
        self.flows = [
            replace(flow_of(number), link=AIMED) for number in range(self.chance.randint(1, 5))
        ]
        self.replicas.append(SimReplica(self.world, "r3", self.settings, self.records))
        governors = [
            SimGovernor(self.world, name, self.settings, self.desired, self.replicas, self.records)
            for name in ("c1", "c2")
        ]
        for one in governors:
            one.stores, one.flows, one.operator = self.stores, self.flows, self.operator
        self.controllers = [*governors]

    def happen(self) -> None:
        """Let something go wrong."""
        for partition in PARTITIONS:
            self.records.source[partition] += self.chance.randint(0, 4)
        what = self.chance.choice(TROUBLES)
        match what:
            case "away" | "back":
                self.stores.away = what == "away"
            case "die":
                self.chance.choice(self.controllers).crash()
            case "turn" | "pause" | "go on" | "pass":
                self._demand(what)
            case "depose" if self.stores.away:
                pass  # what is kept cannot be read
            case _:
                self._trouble(what)

    def _demand(self, what: str) -> None:
        """An operator wants something, of who is in charge."""
        governor = self.governor
        if not isinstance(governor, SimGovernor):
            return
        match what:
            case "turn":
                governor.demand(LinkTurn(AIMED.level, self.chance.choice((*TARGETS, ""))))
            case "pass":
                hole = Hole(PARTITIONS[0], 0, self.chance.randint(1, 1_000))
                governor.demand(HolePass(AIMED.level, {place_of(AIMED): (hole,)}))
            case _:
                governor.demand(LevelPause(AIMED.level, what == "pause"))

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        self.stores.away = False
        super().heal()

    def _missing(self) -> str | None:
        governor = self.governor
        assert isinstance(governor, SimGovernor), "who is in charge has stopped"
        if governor.grants.wishes != self.stores.latest:
            return "what an operator asked for is still to be kept"
        if len(self.stores.latest.flows) < len(self.flows):
            return "not all flows are wanted"
        for number, wished in self.stores.latest.flows.items():
            able = [one for one in self.replicas if _is_well(one)]
            paused = self.stores.latest.demands.pauses(wished.flow)
            if not paused and wished.writer not in [one.name for one in able]:
                return f"nobody writes flow {number} who could"
            for replica in able:
                run = replica.machine.table.runs.get(number)
                epoch = wished.epoch if replica.name == wished.writer else 0
                status = FlowStatus.WRITING if epoch else FlowStatus.WARM
                if run is None or (run.wanted.epoch, run.status) != (epoch, status):
                    return f"{replica.name} does not do with flow {number} what is wanted"
        for replica in [one for one in self.replicas if _is_well(one)]:
            if len(replica.runs) > len(self.stores.latest.flows):
                return f"{replica.name} has not ended what is not wanted"
        return next(self._lagging(), None)

    def _lagging(self) -> Iterator[str]:
        for wished in self.stores.latest.flows.values():
            if self._lags(wished.flow) and not self.stores.latest.demands.pauses(wished.flow):
                yield f"flow {wished.flow.share} does not copy"

    def disturb_nothing(self) -> None:
        """Let another controller take office that knows what is kept."""
        before = [self._undisturbed(replica) for replica in self.replicas]
        wanted = self.stores.latest.flows
        for one in self.controllers:
            one.crash()
        self.take_office(self.chance.choice(self.controllers))
        self.world.run_until(self.world.now_ms + 2 * GRANTS.unseen_ms)
        self.settle()
        after = [self._undisturbed(replica) for replica in self.replicas]
        assert after == before, "flows were begun anew, or told the same again"
        assert self.stores.latest.flows == wanted, "what works was not left alone"

    def stay_paused(self) -> None:
        """See that nobody writes what is paused, whoever is in charge; then let it go on."""
        paused = [
            wished.flow
            for wished in self.stores.latest.flows.values()
            if self.stores.latest.demands.pauses(wished.flow)
        ]
        for office in (False, True):
            if office:
                self.disturb_nothing()
            before = [dict(self.records.target(flow)) for flow in paused]
            self._publish()
            self.world.run_until(self.world.now_ms + REPLACED_MS_MAX)
            after = [dict(self.records.target(flow)) for flow in paused]
            assert after == before, "what is paused is written"
        self._demand("go on")
        self.world.run_until(self.world.now_ms + REPLACED_MS_MAX)
        self.settle()
        assert not self.stores.latest.demands.paused, "what is to go on is paused"

    def lose(self, what: str) -> None:
        """Let a replica that writes die or get stuck for good: others write instead, soon."""
        lost = self.chance.choice(self._writers())
        self._trouble_replica(lost, what)
        before_ms = self.world.now_ms
        self.settle()
        assert self.world.now_ms - before_ms < REPLACED_MS_MAX, f"{lost.name} was replaced late"

    def _writers(self) -> list[SimReplica]:
        """Those that may write, and can."""
        names = {wished.writer for wished in self.stores.latest.flows.values()}
        return [one for one in self.replicas if _is_well(one) and one.name in names]

    def supersede(self) -> None:
        """Let a writer freeze, be replaced, and go on when no controller is there.

        It hears of the other one at the target and writes no more; once that one is gone it does
        again.
        """
        frozen = self.chance.choice(self._writers())
        mine = {
            number for number, one in self.stores.latest.flows.items() if one.writer == frozen.name
        }
        frozen.frozen = True
        self.settle()
        for controller in self.controllers:
            controller.crash()
        frozen.thaw()
        self.world.run_until(self.world.now_ms + 2 * SUPERSEDED_MS_MAX)
        beside = [one.number for one in frozen.runs.values() if frozen.writes(one)]
        assert not beside, f"I8: flows {beside} are written by two, without a controller"
        others = [one for one in self.replicas if one is not frozen]
        for one in others:
            one.crash()
        self._publish()
        self.world.run_until(self.world.now_ms + HEARD_MS + 5_000)
        for number in mine:
            behind = self._lags(self.stores.latest.flows[number].flow)
            assert not behind, f"flow {number} is not written by who was superseded by the dead"
        for one in others:
            one.boot()
        self.take_office(self.chance.choice(self.controllers))
        self.settle()

    def _publish(self) -> None:
        for partition in PARTITIONS:
            self.records.source[partition] += 100

    def _lags(self, flow: Flow) -> bool:
        return self.records.target(flow) != self.records.source

    def leave_alone(self) -> None:
        """Let all controllers die: whoever may write goes on."""
        for controller in self.controllers:
            controller.crash()
        self._publish()
        self.world.run_until(self.world.now_ms + 10_000)
        behind = next(self._lagging(), None)
        assert behind is None, f"without controllers {behind}"


def _is_well(replica: SimReplica) -> bool:
    return replica.alive and not replica.stuck and not replica.frozen


def run(seed: int) -> GrantRun:
    """Run one seed.

    Raises:
        AssertionError: An invariant of ADR 39, 41 or 43 does not hold.
    """
    one = GrantRun(seed)
    for replica in one.replicas:
        replica.boot()
    one.take_office(one.controllers[0])
    for _ in range(one.chance.randint(20, 150)):
        pause_ms = one.chance.choice((0, 10, 100, 1_000))
        one.world.run_until(one.world.now_ms + one.chance.randint(0, pause_ms))
        one.happen()
    one.heal()
    one.settle()
    one.operator.judge(one.stores.latest)
    one.disturb_nothing()
    one.stay_paused()
    one.supersede()
    one.lose("stick")
    one.lose("crash")
    one.leave_alone()
    return one


def judged(seed: int) -> tuple[str, list[str]]:
    """Run a seed; what came of it, and what was found wrong."""
    one = run(seed)
    counts = f"{len(one.flows)} flows, {one.offices} controllers, {len(one.stores.given)} grants"
    return f"{counts}, {one.ends.total()} sessions ended", []


def main() -> int:
    """Run the seeds that the command line asks for."""
    return run_seeds("distributor.testing.control_grants", "Who writes, by seed.", judged)


if __name__ == "__main__":
    sys.exit(main())
