"""Controllers that drive replicas through everything that can happen to either, and to streams.

An operator wants this and that of whoever is in charge, also while nothing is connected; replicas
and controllers die, freeze and get stuck, others take office with the same, a smaller or a changed
wish. In the end all is well: then everything has to be as it is wanted (I2), a controller that
starts anew disturbs nothing (I3), and without controllers copying goes on (I18).

python -m distributor.testing.control --seed 17 --count 100
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import TYPE_CHECKING

from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults, World
from distributor.control.controller import ControllerState
from distributor.control.events import FlowTerms, SessionEnd, SessionSettings
from distributor.control.flow_table import Fate
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    CancelPeek,
    CreateFlow,
    FlowKind,
    Peek,
    Schedule,
    UpdateConfiguration,
)
from distributor.control.replica import ReplicaStage
from distributor.testing.control_controllers import Desired, SimController
from distributor.testing.control_replicas import PARTITIONS, SimRecords, SimReplica, flow_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dafka.model import Partition

SETTLING_MS_MAX = 60_000
POLL_MS = 50
SCRIPT_COMMANDS = 50
"""How many commands a script gives at once."""

WANTS = (
    *("create", "create", "schedule", "schedule", "grant", "grant", "drop", "compact"),
    *("configure", "peek", "peek", "cancel", "script", "peeks"),
)
TROUBLES = (
    *("cut", "cut", "freeze", "thaw", "thaw", "stick", "free", "crash", "boot", "boot"),
    *("depose", "usurp", "usurp", "restart", "smaller", "changed", "suspend", "wake", "wake"),
)


class ControlRun:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(f"control of {seed}")
        self.world = World(seed, Faults(delay_ms_max=chance.choice((2, 30, 150))))
        self.settings = settings = SessionSettings(
            ping_ms=200,
            silence_ms=1_000,
            stall_ms=1_000,
            retry_ms_max=400,
            waiting_max=chance.choice((5, 1_000)),
        )
        self.desired = Desired()
        self.records = SimRecords()
        self.replicas = [
            SimReplica(self.world, name, settings, self.records) for name in ("r1", "r2")
        ]
        self.controllers = [
            SimController(self.world, name, settings, self.desired, self.replicas, self.records)
            for name in ("c1", "c2")
        ]
        self.offices = 0
        self.usurped = 0
        """How often one wanted something that was not in charge any more."""
        self.happened: Counter[str] = Counter()

    @property
    def governor(self) -> SimController | None:
        """Who is in charge and can be told something, if anybody."""
        return next((one for one in self.controllers if one.in_charge and not one.frozen), None)

    @property
    def ends(self) -> Counter[SessionEnd]:
        """Why sessions have ended, as controllers and replicas were told or have said."""
        ended = [one.ended for one in self.controllers] + [one.ended for one in self.replicas]
        return sum(ended, Counter())

    def take_office(self, controller: SimController) -> None:
        """A controller starts: of each flow only the writer that was chosen last stays so."""
        for grants in self.desired.grants.values():
            newest = max(grants.values(), default=0)
            for replica in [one for one, epoch in grants.items() if epoch < newest]:
                del grants[replica]
        self.offices += 1
        controller.crash()
        controller.take_office()

    def happen(self) -> None:
        """Let something be wanted, or go wrong."""
        for partition in PARTITIONS:
            self.records.source[partition] += self.chance.randint(0, 4)
        what = self.chance.choice(WANTS if self.chance.random() < 0.6 else TROUBLES)
        self.happened[what] += 1
        governor = self.governor
        if what not in WANTS:
            self._trouble(what)
        elif governor is not None:
            self._want(governor, what)

    def _want(self, governor: SimController, what: str) -> None:
        flows = sorted(self.desired.flows)
        match what:
            case "create":
                self._create(governor)
            case "script":
                for number in range(SCRIPT_COMMANDS):
                    self.desired.configuration |= {"rate": number}
                    governor.want_of_all(UpdateConfiguration({"rate": number}))
            case "configure":
                values = {self.chance.choice(("rate", "margin")): self.chance.randint(0, 9)}
                self.desired.configuration |= values
                governor.want_of_all(UpdateConfiguration(values))
            case "cancel":
                for number in sorted(governor.open_peeks)[:1]:
                    governor.want(governor.open_peeks[number][0], CancelPeek(number))
            case _ if flows:
                self._want_of_flow(governor, what, self.chance.choice(flows))
            case _:
                pass

    def _create(self, governor: SimController) -> None:
        number = self.desired.flows_begun
        self.desired.flows_begun += 1
        start = {
            partition: self.chance.randint(0, end)
            for partition, end in self.records.source.items()
            if self.chance.random() < 0.3
        }
        flow = flow_of(number)
        self.desired.flows[number] = flow, start
        governor.want_of_all(CreateFlow(number, flow, dict(start)))
        if self.chance.random() < 0.5:
            self._want_of_flow(governor, "schedule", number)
            self._want_of_flow(governor, "grant", number)

    def _want_of_flow(self, governor: SimController, what: str, number: int) -> None:
        desired = self.desired
        flow, start = desired.flows[number]
        match what:
            case "schedule":
                desired.scheduled.add(number)
                governor.want_of_all(Schedule(number))
            case "grant":
                desired.writers += 1
                writer = self.chance.choice(self.replicas)
                desired.grants.setdefault(number, {})[writer.name] = desired.writers
                governor.want(writer.name, AllowWrites(number, desired.writers))
            case "drop":
                desired.remove(number)
                governor.want_of_all(AllowCompaction(number, None))
            case "compact":
                before = self._within(self.records.target(flow))
                start |= {one: end for one, end in before.items() if end > start.get(one, 0)}
                governor.want_of_all(AllowCompaction(number, before))
            case "peek" | "peeks":
                replica = self.chance.choice(self.replicas)
                for _ in range(SCRIPT_COMMANDS if what == "peeks" else 1):
                    desired.peeks_begun += 1
                    peek = Peek(desired.peeks_begun, number, self._within(self.records.source))
                    governor.want(replica.name, peek)
            case _:
                raise AssertionError(what)

    def _within(self, frontier: dict[Partition, int]) -> dict[Partition, int]:
        return {one: self.chance.randint(end // 2, end) for one, end in frontier.items()}

    def _trouble(self, what: str) -> None:
        controller = self.chance.choice(self.controllers)
        match what:
            case "depose" | "usurp":
                self.take_office(controller)
                if what == "usurp":
                    self._usurp()
            case "restart" | "smaller" | "changed":
                self._restart(controller, what)
            case "suspend":
                controller.frozen = controller.alive
            case "wake":
                controller.thaw()
            case _:
                self._trouble_replica(self.chance.choice(self.replicas), what)

    def _usurp(self) -> None:
        """Who is not in charge any more, and does not know, wants something that nobody keeps."""
        for one in self.controllers:
            if one.alive and not one.frozen and not one.in_charge:
                self.usurped += 1
                history = one.machines[self.replicas[0].name].history
                numbers = [number for number, wish in history.flows.items() if not wish.dropped]
                for number in numbers[:1]:
                    one.want_of_all(AllowCompaction(number, None))
                one.want_of_all(UpdateConfiguration({"rate": -1}))

    def _trouble_replica(self, replica: SimReplica, what: str) -> None:
        match what:
            case "cut" if replica.streams:
                stream = self.chance.choice([*replica.streams.values()][-2:])
                stream.cut(noticed=self.chance.random() < 0.5)
            case "freeze":
                replica.frozen = replica.alive
            case "thaw":
                replica.thaw()
            case "stick" | "free":
                replica.stuck = what == "stick"
            case "crash":
                replica.crash()
            case "boot" if not replica.alive:
                replica.boot()
            case _:
                pass

    def _restart(self, controller: SimController, what: str) -> None:
        """Whoever is in charge dies, and what is wanted may have changed before another starts."""
        for one in self.controllers:
            if one.in_charge:
                one.crash()
        if what == "smaller" and self.desired.configuration:
            self.desired.configuration.popitem()
        for number in sorted(self.desired.flows):
            if what == "smaller" and self.chance.random() < 0.4:
                self.desired.remove(number)
            elif what == "changed" and self.chance.random() < 0.8:
                self._change(number)
        self.take_office(controller)

    def _change(self, number: int) -> None:
        flow, start = self.desired.flows[number]
        if self.chance.random() < 0.5:
            start.clear()  # it is needed again from its beginning
        else:
            offsets = flow.kind is FlowKind.OFFSETS
            kind = FlowKind.RECORDS if offsets else FlowKind.OFFSETS
            self.desired.flows[number] = flow_of(number, kind), start

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        for replica in self.replicas:
            if not replica.alive:
                replica.boot()
            replica.stuck = False
            replica.thaw()
        for controller in self.controllers:
            controller.thaw()
        if self.governor is None:
            self.take_office(self.chance.choice(self.controllers))
        governor = self.governor
        assert governor is not None
        for number, (asked, peek) in [*governor.open_peeks.items()]:
            if peek.flow in self.desired.flows and not self._writes(peek.flow):
                governor.want(asked, CancelPeek(number))

    def _writes(self, number: int) -> bool:
        return number in self.desired.scheduled and number in self.desired.grants

    def settle(self) -> None:
        """Wait until everything is as it is wanted."""
        end_ms = self.world.now_ms + SETTLING_MS_MAX
        while (missing := self._missing()) is not None:
            assert self.world.now_ms < end_ms, f"I2: {missing}"
            self.world.run_until(self.world.now_ms + POLL_MS)

    def _missing(self) -> str | None:
        """What is not as it is wanted, if anything."""
        governor = self.governor
        assert governor is not None, "I13: who is in charge has stopped"
        if any(one.alive and not one.in_charge for one in self.controllers):
            return "a controller goes on that is not in charge"
        if governor.open_peeks:
            return f"{len(governor.open_peeks)} peeks have no answer"
        for replica in self.replicas:
            machine = governor.machines[replica.name]
            if machine.state is not ControllerState.ACTIVE:
                return f"{replica.name} is not driven"
            if machine.history.flows.keys() != self.desired.flows.keys():
                return f"{replica.name} has not dropped what it should"
            missing = self._missing_at(replica) or self._unreported(replica, governor)
            if missing is not None:
                return missing
        return next(self._behind(), None)

    def _missing_at(self, replica: SimReplica) -> str | None:
        wanted = {
            flow: FlowTerms(
                start,
                number in self.desired.scheduled,
                self.desired.grants.get(number, {}).get(replica.name, 0),
            )
            for number, (flow, start) in self.desired.flows.items()
        }
        if replica.machine.stage is not ReplicaStage.COMPUTATION:
            return f"{replica.name} has no controller"
        if {run.flow: run.terms for run in replica.runs.values()} != wanted:
            return f"{replica.name} runs other flows, or under other terms"
        if replica.configuration != self.desired.configuration:
            return f"{replica.name} has another configuration (I16)"
        return None

    def _unreported(self, replica: SimReplica, governor: SimController) -> str | None:
        """What of flows is not as the controller was told; where nobody needs it is not told."""
        reports = governor.machines[replica.name].reports
        for number, (flow, start) in self.desired.flows.items():
            needed = {
                partition: end
                for partition, end in self.records.target(flow).items()
                if end >= max(1, start.get(partition, 0))
            }
            known = reports.flows[number]
            if needed.items() - known.write.items():
                return f"{replica.name} has not told how far flow {number} is"
            if known.status is None:
                return f"{replica.name} has not told what flow {number} does"
        return None

    def _behind(self) -> Iterator[str]:
        for number, (flow, _) in self.desired.flows.items():
            if self._writes(number) and self.records.target(flow) != self.records.source:
                yield f"flow {number} does not copy"

    def disturb_nothing(self) -> None:
        """Let controllers start anew that want the same."""
        # The first takes back what is granted to those that write no more.
        self.take_office(self.chance.choice(self.controllers))
        self.settle()
        before = [self._undisturbed(replica) for replica in self.replicas]
        fates = [replica.machine.table.fates.copy() for replica in self.replicas]
        self._restart(self.chance.choice(self.controllers), "restart")
        self.settle()
        after = [self._undisturbed(replica) for replica in self.replicas]
        assert after == before, "I3: flows were begun anew, or told the same again"
        kept = Counter({Fate.KEPT: len(self.desired.flows)})
        for replica, known in zip(self.replicas, fates, strict=True):
            assert replica.machine.table.fates - known == +kept, "I3: not all were kept"

    def _undisturbed(self, replica: SimReplica) -> dict[int, int]:
        """Every run, and how often it was told something."""
        return {number: run.steered for number, run in replica.runs.items()}

    def leave_alone(self) -> None:
        """Let all controllers die: whoever may write goes on."""
        for controller in self.controllers:
            controller.crash()
        for partition in PARTITIONS:
            self.records.source[partition] += 100
        self.world.run_until(self.world.now_ms + 10_000)
        behind = next(self._behind(), None)
        assert behind is None, f"I18: without controllers {behind}"


def run(seed: int) -> ControlRun:
    """Run one seed.

    Raises:
        AssertionError: An invariant of ADR 37 does not hold.
    """
    one = ControlRun(seed)
    for replica in one.replicas:
        replica.boot()
    one.take_office(one.controllers[0])
    for _ in range(one.chance.randint(20, 150)):
        pause_ms = one.chance.choice((0, 10, 100, 1_000))
        one.world.run_until(one.world.now_ms + one.chance.randint(0, pause_ms))
        one.happen()
    one.heal()
    one.settle()
    one.disturb_nothing()
    one.leave_alone()
    return one


def judged(seed: int) -> tuple[str, list[str]]:
    """Run a seed; what came of it, and what was found wrong."""
    one = run(seed)
    fates: Counter[Fate] = Counter()
    for replica in one.replicas:
        fates += replica.fates
    answered = sum(controller.answered.total() for controller in one.controllers)
    counts = ", ".join(f"{fates[fate]} {fate.value}" for fate in Fate)
    return (
        f"{one.desired.flows_begun} flows, {one.offices} controllers, {answered} peeks answered, "
        f"{one.ends.total()} sessions ended; flows: {counts}",
        [],
    )


def main() -> int:
    """Run the seeds that the command line asks for."""
    return run_seeds("distributor.testing.control", "Controllers and replicas, by seed.", judged)


if __name__ == "__main__":
    sys.exit(main())
