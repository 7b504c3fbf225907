"""Members of one group and the stores that agree on them, without records: only who owns what.

The whole of `dafka.groups.member` and `dafka.groups.acceptor` in a world where requests get lost,
arrive twice and late, some members cannot reach some stores for a while, and everybody crashes.
Once that is over nearly all members go and come back together a few times, and know different
partitions: generations follow each other faster than everybody hears of them.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dafka.errors import WireError
from dafka.groups.acceptor import Registers
from dafka.groups.assignment import owner
from dafka.groups.events import (
    Answered,
    Ask,
    Assigned,
    Expelled,
    Leave,
    Left,
    Rebalanced,
    Released,
)
from dafka.groups.member import MemberMachine
from dafka.groups.membership import NO_BALLOT, Accept, Beat, Member, Prepare, majority_of
from dafka.model import Partition
from dafka.protocol.events import Woke
from dafka.storage.memory import MemoryLog
from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults, World

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from dafka.groups.events import MemberEffect
    from dafka.groups.membership import Reply, Request

GROUP = "billing"
TOPIC = "orders"
SETTLING_MS_MAX = 60_000
COMINGS = 5
"""How often nearly all members come at the same time, once the faults are over."""

PARTITIONS = tuple(Partition(TOPIC, f"P{number}") for number in range(12))


def reply(registers: Registers, request: Request, now_ms: int) -> Reply | None:
    """What a store answers; None if it refuses."""
    try:
        match request:
            case Prepare():
                return registers.prepare(request, now_ms)
            case Accept():
                return registers.accept(request, now_ms)
            case Beat():
                return registers.beat(request, now_ms)
    except WireError:
        return None


class Keeper:
    """A store, as far as groups are concerned."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.log = MemoryLog(name)
        self.machine = world.machine()
        self.asleep_until_ms = 0
        self.registers: Registers | None = None
        self.boot()

    def boot(self) -> None:
        """Start, knowing what is on disk and nothing else."""
        self.registers = Registers(self.log, self.machine.clock.now_ms())

    def crash(self) -> None:
        """Die."""
        self.registers = None

    @property
    def blank(self) -> bool:
        """Whether no membership is on its disk."""
        return Registers(self.log, 0).roster(GROUP, 0).accepted == NO_BALLOT

    def lose_disk(self) -> None:
        """Die, and what is on disk is gone."""
        self.crash()
        self.log = MemoryLog(self.name)


class Owners:
    """Who owns what, and that it is one at a time, and one in each generation."""

    def __init__(self) -> None:
        self.now: dict[Partition, str] = {}
        self._members: dict[int, tuple[frozenset[str], frozenset[tuple[str, str]]]] = {}
        self._ever: dict[tuple[int, Partition], str] = {}
        self.taken = 0
        """How often a member began with a partition."""
        self.renumbered = False
        """Whether numbers of generations come again, as all that was agreed on is lost."""

    @property
    def generations(self) -> int:
        """How many there were."""
        return len(self._members.keys() | {generation for generation, _ in self._ever})

    def generation(self, number: int, members: Iterable[str], moved: Mapping[str, str]) -> None:
        """A member was told who belongs to a generation, and what is moved in it."""
        told = frozenset(members), frozenset(moved.items())
        known = self._members.setdefault(number, told)
        assert self.renumbered or known == told, f"two generations {number}"

    def take(self, generation: int, partition: Partition, member: str) -> None:
        """A member begins."""
        assert partition not in self.now, f"{partition} has {self.now[partition]} and {member}"
        known = self._ever.setdefault((generation, partition), member)
        assert self.renumbered or known == member
        self.now[partition] = member
        self.taken += 1

    def drop(self, partition: Partition, member: str) -> None:
        """A member has stopped."""
        assert self.now.pop(partition) == member


class SimMember:
    """A member that takes a while to give partitions back."""

    def __init__(
        self, world: World, name: str, keepers: list[Keeper], owners: Owners, session_ms: int
    ) -> None:
        self.world = world
        self.name = name
        self._keepers = keepers
        self._owners = owners
        self._session_ms = session_ms
        self.unreachable: set[str] = set()
        """Stores that it cannot reach at present, nor they it."""
        self.unheard: set[str] = set()
        """Stores that it cannot reach, while their answers to what it asked before still come."""
        self.incarnation = 0
        self._clocks = world.machine()
        self._asleep_until_ms = 0
        self.doze_ms = 0
        """For so long it is suspended when it has asked next, and no store hears it afterwards."""
        self.machine: MemberMachine | None = None
        self._assigned: Assigned | None = None
        self.owned: set[Partition] = set()
        self._told: set[Partition] = set()
        """Those of them that it may work on, as far as `Owners` know: not while it is suspended."""

    @property
    def settled(self) -> bool:
        """Whether it has everything that is its own."""
        return self.machine is not None and self.machine.settled

    def boot(self) -> None:
        """Start."""
        self.incarnation += 1
        about = Member((TOPIC.encode(),), self._session_ms)
        address = f"{self.name}-{self.incarnation}"
        self.machine = MemberMachine(GROUP, address, about, len(self._keepers))
        self.know(PARTITIONS)
        self._asleep_until_ms = 0
        self._do(self.machine.handle(Woke(), self._now_ms))

    def know(self, partitions: Collection[Partition]) -> None:
        """Let it know what there is to share."""
        assert self.machine is not None
        self.machine.partitions = partitions

    @property
    def awake(self) -> bool:
        """Whether it lives, on a machine that is not suspended."""
        return self.machine is not None and self.world.now_ms >= self._asleep_until_ms

    @property
    def _now_ms(self) -> int:
        return self._clocks.clock.now_ms()

    def crash(self) -> None:
        """Die; what it owned it works on no more."""
        self.incarnation += 1  # so that nothing of what is under way arrives
        self.machine = None
        self._stop(self.owned)

    def suspend(self, milliseconds: int) -> None:
        """Let its machine be suspended: what it owns it works on no more, until it finds out."""
        self._asleep_until_ms = self.world.now_ms + milliseconds
        for partition in self._told:
            self._owners.drop(partition, self.name)
        self._told.clear()
        self._later(milliseconds, self._go_on)

    def _go_on(self) -> None:
        """It is awake again, and works on what is its own still."""
        assert self.machine is not None
        self._do(self.machine.handle(Woke(), self._now_ms))
        machine = self.machine
        if machine is not None and machine.lease_ms and self._now_ms < machine.lease_ms:
            for partition in sorted(self.owned - self._told):
                self._take(machine.generation, partition)

    def _take(self, generation: int, partition: Partition) -> None:
        self._owners.take(generation, partition, self.name)
        self._told.add(partition)

    def mend(self) -> None:
        """Let it reach all stores again."""
        self.unreachable.clear()
        self.unheard.clear()

    def leave(self) -> None:
        """Give everything back and say goodbye."""
        assert self.machine is not None
        self._stop(self.owned)
        self._do(self.machine.handle(Leave(), self._now_ms))

    def _stop(self, partitions: Iterable[Partition]) -> None:
        for partition in list(partitions):
            self.owned.discard(partition)
            if partition in self._told:
                self._told.discard(partition)
                self._owners.drop(partition, self.name)

    def _do(self, effects: list[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case Ask():
                    self._ask(effect)
                case Assigned():
                    self._owners.generation(effect.generation, effect.members, effect.moved)
                    self._assigned = effect
                    self._later(self.world.random.randint(0, 30), partial(self._release, effect))
                case Rebalanced():
                    self._begin(effect.generation)
                case Expelled():
                    self._assigned = None
                    self._stop(self.owned)
                case Left():
                    self.machine = None
                case _:
                    raise AssertionError(effect)
        if self.machine is not None:
            self.machine.check()
            self._plan()
            if self.doze_ms and any(isinstance(effect, Ask) for effect in effects):
                self._doze()

    def _doze(self) -> None:
        milliseconds, self.doze_ms = self.doze_ms, 0
        self.suspend(milliseconds)
        self.unheard = {keeper.name for keeper in self._keepers}

    def _release(self, assigned: Assigned) -> None:
        if self._assigned is not assigned or self.machine is None:
            return
        mine = {
            one
            for one in self.owned
            if owner(one, assigned.members, assigned.moved) == assigned.member
        }
        self._stop(self.owned - mine)
        self._do(self.machine.handle(Released(assigned.generation), self._now_ms))

    def _begin(self, generation: int) -> None:
        assigned = self._assigned
        assert assigned is not None
        assert assigned.generation == generation
        for partition in PARTITIONS:
            if partition not in self.owned:
                if owner(partition, assigned.members, assigned.moved) != assigned.member:
                    continue
                self.owned.add(partition)
                self._take(generation, partition)

    def _plan(self) -> None:
        assert self.machine is not None
        due_ms = self.machine.wakeup_ms()
        if due_ms is not None:
            self._later(max(0, due_ms - self._now_ms), self._wake)

    def _wake(self) -> None:
        due_ms = None if self.machine is None else self.machine.wakeup_ms()
        if self.machine is not None and due_ms is not None and due_ms <= self._now_ms:
            self._do(self.machine.handle(Woke(), self._now_ms))

    def _ask(self, ask: Ask) -> None:
        keeper = self._keepers[ask.store]
        chance, faults = self.world.random, self.world.faults
        if keeper.name in self.unreachable | self.unheard:
            return
        for _ in range(2 if chance.random() < faults.duplication else 1):
            if chance.random() >= faults.loss:
                self.world.after(self.world.delay_ms(), lambda: self._put(keeper, ask, incarnation))
        incarnation = self.incarnation

    def _put(self, keeper: Keeper, ask: Ask, incarnation: int) -> None:
        """The request arrives, and its answer sets out."""
        if keeper.registers is None:
            return
        asleep_ms = keeper.asleep_until_ms - self.world.now_ms
        if asleep_ms > 0:
            self.world.after(asleep_ms, lambda: self._put(keeper, ask, incarnation))
            return
        found = reply(keeper.registers, ask.request, keeper.machine.clock.now_ms())
        if found is None or self.world.random.random() < self.world.faults.loss:
            return
        answered = Answered(ask.store, ask.token, found)

        def arrive() -> None:
            cut = keeper.name in self.unreachable
            if self.machine is not None and not cut:
                self._do(self.machine.handle(answered, self._now_ms))

        if incarnation == self.incarnation:
            self._later(self.world.delay_ms(), arrive)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        incarnation = self.incarnation

        def act() -> None:
            asleep_ms = self._asleep_until_ms - self.world.now_ms
            if incarnation == self.incarnation:
                self.world.after(asleep_ms, act) if asleep_ms > 0 else action()

        self.world.after(delay_ms, act)


@dataclass(frozen=True, slots=True)
class AgreementOutcome:
    """What came of a run in which nothing went wrong.

    Attributes:
        settled_ms: How long after the faults everybody had what is his.
        taken: How often a member began with a partition.
        generations: How many there were.
    """

    settled_ms: int
    taken: int
    generations: int


def run(seed: int) -> AgreementOutcome:
    """Run one seed.

    Raises:
        AssertionError: A partition had two owners, or the group did not settle after the faults.
    """
    chance = random.Random(seed)
    delay_ms = chance.choice((2, 20, 200))
    faults = Faults(
        loss=chance.choice((0.0, 0.05, 0.3)),
        duplication=chance.choice((0.0, 0.1, 0.5)),
        delay_ms_max=delay_ms,
    )
    world = World(seed, faults)
    keepers = [Keeper(world, f"S{number}") for number in range(chance.choice((1, 2, 3, 5)))]
    owners = Owners()
    session_ms = chance.choice((2_000, 4_000) if delay_ms == 200 else (500, 1_000, 2_000))
    members = [
        SimMember(world, f"M{number}", keepers, owners, session_ms)
        for number in range(chance.randint(1, 5))
    ]
    for _ in range(chance.randint(5, 40)):
        world.run_until(world.now_ms + chance.randint(0, 2 * session_ms))
        _happen(chance, chance.choice(members), chance.choice(keepers), keepers, owners)
        if chance.random() < 0.2:
            _suspend(chance, chance.choice(members), chance.choice(keepers), 3 * session_ms)
        owning = [member for member in members if member.owned and member.awake]
        if len(owning) > 1 and chance.random() < 0.5:
            # The others are undisturbed until they have what is its own.
            chance.choice(owning).doze_ms = chance.randint(session_ms // 4, 3 * session_ms // 4)
            world.run_until(world.now_ms + 3 * session_ms)
    faults.heal()
    for keeper in keepers:
        if keeper.registers is None:
            keeper.boot()
    settled_ms = _settle(world, members, owners)
    for _ in range(COMINGS):
        _come_together(chance, members, keepers, session_ms)
    _settle(world, members, owners)
    return AgreementOutcome(settled_ms, owners.taken, owners.generations)


def _settle(world: World, members: list[SimMember], owners: Owners) -> int:
    """Let all be there, and reach all stores, until they have settled; returns how long it took."""
    began_ms = world.now_ms
    while not _settled(members, owners):
        assert world.now_ms < began_ms + SETTLING_MS_MAX, "not settled"
        for member in members:
            member.mend()
            if member.machine is None:
                member.boot()
            member.know(PARTITIONS)
        world.run_until(world.now_ms + 50)
    return world.now_ms - began_ms


def _come_together(
    chance: random.Random, members: list[SimMember], keepers: list[Keeper], session_ms: int
) -> None:
    """Let all but one go and come back at about the same time.

    They do not know all partitions yet, so each moves others; and some lose a store once they are
    there.
    """
    world = members[0].world
    for member in chance.sample(members, len(members) - 1):
        if member.awake:
            member.leave()
    world.run_until(world.now_ms + 2 * session_ms)
    for member in members:
        member.mend()
        if member.machine is None:
            member.boot()
            member.know(chance.sample(PARTITIONS, chance.randint(3, 8)))
            world.run_until(world.now_ms + chance.randint(0, 60))
            if chance.random() < 0.5:
                member.unreachable = {chance.choice(keepers).name}
    world.run_until(world.now_ms + session_ms)


def _happen(
    chance: random.Random,
    member: SimMember,
    keeper: Keeper,
    all_: list[Keeper],
    owners: Owners,
) -> None:
    """Let something happen to a member or to a store."""
    what = chance.choice(("crash", "leave", "boot", "boot", "store", "disk", "cut", "mend"))
    if what == "boot" and member.machine is None:
        member.boot()
    elif what == "leave" and not member.awake:
        return
    elif what == "crash" and member.machine is not None:
        member.crash()
    elif what == "leave" and member.machine is not None:
        member.leave()
    elif what == "store" and keeper.registers is None:
        keeper.boot()
    elif what == "store":
        keeper.crash()
    elif what == "disk" and _may_lose(keeper, all_):
        owners.renumbered = len(all_) == 1  # what was agreed on is lost with it
        keeper.lose_disk()
        keeper.boot()
    elif what == "cut":
        member.unreachable = {one.name for one in all_ if chance.random() < 0.5}
    elif what == "mend":
        member.mend()


def _may_lose(keeper: Keeper, all_: list[Keeper]) -> bool:
    """Whether enough others have what was agreed on: of several as many are lost as may be down."""
    blank = {one.name for one in all_ if one.blank}
    return len(blank | {keeper.name}) <= max(1, len(all_) - majority_of(len(all_)))


def _suspend(chance: random.Random, member: SimMember, keeper: Keeper, most_ms: int) -> None:
    """Suspend the machine of a member, or that of a store."""
    if chance.random() < 0.5:
        keeper.asleep_until_ms = member.world.now_ms + chance.randint(1, most_ms)
    elif member.awake:
        member.suspend(chance.randint(1, most_ms))


def _settled(members: list[SimMember], owners: Owners) -> bool:
    generations = {one.machine.generation for one in members if one.machine is not None}
    return (
        all(member.settled for member in members)
        and len(generations) == 1
        and owners.now.keys() == set(PARTITIONS)
        and _is_even(Counter(owners.now.values()), len(members))
    )


def _is_even(shares: Counter[str], members: int) -> bool:
    """Whether nobody has more than one above the average, nor nothing to do."""
    return len(shares) == members and max(shares.values()) <= -(-len(PARTITIONS) // members) + 1


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds(
        "dafka.testing.membership",
        "Let members of a group and their stores agree in the simulator.",
        lambda seed: (str(run(seed)), ()),
    )


if __name__ == "__main__":
    sys.exit(main())
