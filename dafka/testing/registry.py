"""The registries of one cluster in the simulator: their clients, their log, its stores.

Registries, their log, producers and stores are the real ones. What goes wrong: messages, questions
and answers get lost and late, stores die, their disks refuse for a while and then take what was
queued, a minority of them is lost; registries die, take over from one another in the middle of
anything, and sometimes another cluster is made the primary. Judged is what clients saw
(`dafka.testing.registry_checker`).

python -m dafka.testing.registry --seed 17
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dafka.node.loop import NodeFailedError
from dafka.storage.memory import MemoryLog
from dafka.testing.nodes import SimStore
from dafka.testing.registry_checker import check_calls, condensed
from dafka.testing.registry_nodes import Call, ClientRequest, RequestKind, SimRegistry
from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults, SimMesh, World

if TYPE_CHECKING:
    from collections.abc import Sequence

SUBJECTS = ("orders", "notes", "scratch")
"""Versions of the last one are also deleted for good."""

REST = ClientRequest(RequestKind.REGISTER, "rest", '"int"')
"""What is registered when all has healed: before, nothing may have come of all that was asked for,
and such a run would prove nothing. Nobody touches its subject, so nothing forbids it."""

LEVELS = ("NONE", "NONE", "BACKWARD", "FULL")
MODES = ("READWRITE", "READWRITE", "READONLY")
CLUSTERS = ("home", "elsewhere")

BACK_MS_MAX = 3_000
"""How long what has died stays away."""

TROUBLES = ("store", "disk", "disk", "loss", "loss", "registry", "stall", "stall", "cut", "promote")

STALL_MS_MAX = 6_000
"""How long what a registry writes may wait in it."""

FULL_MS = (100, 3_000, 15_000, 20_000)
"""How long disks refuse: often longer than a registry waits for a write."""

CALL_MS_MAX = 60_000
"""Whoever has no answer by then never gets one: a few questions and writes that time out."""

PAUSES_MS = (0, 20, 300, 3_000, 6_000)
"""Between two things that clients ask for."""

HEALED_STEPS = 5
"""How often something is asked for when nothing goes wrong any more."""

SETTLING_MS_MAX = 600_000
"""Bound on settling: some of what was asked for before may wait, each for a few slow writes, and
registries that are asked at the same time take over in turn; 290 s were seen."""


@dataclass(frozen=True, slots=True)
class RegistryOutcome:
    """What came of a run.

    Attributes:
        problems: None is a pass.
        calls: How many requests there were.
        acknowledged: How many of them were.
        unknown: Of how many it never became known whether they were done.
        registered: How many registrations were acknowledged, `REST` not counted.
        fingerprint: Equal for equal runs.
    """

    problems: tuple[str, ...]
    calls: int
    acknowledged: int
    unknown: int
    registered: int
    fingerprint: str


class RegistryCluster:
    """One to five stores, one to three registries, and whoever asks them.

    Args:
        seed: Everything random comes from it.
        healthy: Whether nothing goes wrong.
    """

    def __init__(self, seed: int, *, healthy: bool) -> None:
        self.chance = chance = random.Random(seed)
        self.world = World(seed, Faults() if healthy else _random_faults(chance))
        mesh = SimMesh(self.world)
        names = [f"S{number}" for number in range(chance.choice((1, 2, 3, 3, 3, 5)))]
        self.stores = [SimStore(self.world, name, mesh, MemoryLog(name)) for name in names]
        self.losable = self.stores[: (len(names) - 1) // 2]
        """Those that may lose their disks, fewer than half, and each of them once.

        Acknowledgements are counted by disks: two that one store has lost are two.
        """
        chance.shuffle(self.stores)
        clusters = CLUSTERS if chance.random() < 0.3 else CLUSTERS[:1]
        self.registries = [
            SimRegistry(
                self.world,
                f"R{number}",
                mesh,
                self._order(),
                clusters[number % len(clusters)],
                1 + number % len(clusters),
                first=number == 0,
            )
            for number in range(chance.randint(len(clusters), 3))
        ]
        self.operators = (
            [
                SimRegistry(
                    self.world, f"O{number}", mesh, self._order(), name, number, first=False
                )
                for number, name in enumerate(clusters, 1)
            ]
            if len(clusters) > 1
            else []
        )
        # Few kinds in one run: each shows what comes of it best without the others.
        self.troubles = chance.sample(TROUBLES, chance.randint(1, 4))
        self.calls: list[Call] = []
        self.at_rest: list[Call] = []
        """Those for `REST`."""
        self._texts = 0
        for node in self.nodes:
            node.boot()

    @property
    def nodes(self) -> list[SimStore | SimRegistry]:
        """Everything that can die."""
        return [*self.stores, *self.registries, *self.operators]

    def call(self, registry: SimRegistry, ask: ClientRequest) -> Call:
        """Send a request to a registry."""
        call = Call(ask, registry.cluster, registry.life, self.world.now_ms)
        self.world.after(self.world.delay_ms(), partial(registry.put, call))
        return call

    def ask_something(self) -> None:
        """Let clients ask for something, sometimes several of them at once."""
        chance = self.chance
        subjects = (chance.choice(SUBJECTS),) if chance.random() < 0.5 else SUBJECTS
        for _ in range(chance.choice((1, 1, 2, 3))):
            registry = chance.choice(self.registries)
            if registry.alive:
                ask = self._ask(chance.choice(subjects))
                self.calls.append(self.call(registry, ask))

    def break_something(self) -> None:
        """Let something go wrong."""
        chance = self.chance
        match chance.choice(self.troubles):
            case "store":
                self._die(chance.choice(self.stores))
            case "disk":
                # Mostly of so many that nothing can be written for a while.
                count = chance.randint(1, len(self.stores))
                full_ms = chance.choice(FULL_MS)
                for store in chance.sample(self.stores, max(count, len(self.stores) // 2 + 1)):
                    self._fill(store, full_ms)
            case "loss" if self.losable:
                store = self.losable.pop()
                store.lose_disk()
                self.world.after(chance.randint(1, BACK_MS_MAX), partial(_boot, store))
            case "registry":
                self._die(chance.choice(self.registries))
            case "stall":
                self._contend(chance.choice(self.registries), chance.choice(SUBJECTS))
            case "cut":
                some = chance.sample(self.stores, chance.randint(0, len(self.stores)))
                chance.choice(self.registries).unreachable = {store.name for store in some}
            case "promote" if self.operators:
                operator = chance.choice(self.operators)
                self.calls.append(
                    self.call(operator, ClientRequest(RequestKind.PROMOTE, "", operator.cluster))
                )

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        self.world.faults.heal()
        for store in self.stores:
            store.disk.full = False
        for registry in self.registries:
            registry.unreachable.clear()
        for node in self.nodes:
            _boot(node)

    def settle(self) -> bool:
        """Wait until stores have the same, `REST` is registered, and nobody still has work.

        Returns:
            Whether that came about.
        """
        healed_ms = self.world.now_ms
        self._wait(self.calls)
        while self.world.now_ms < healed_ms + SETTLING_MS_MAX:
            calls = [self.call(registry, REST) for registry in self.registries]
            self.at_rest += calls
            self._wait(calls)
            heads = {tuple(sorted(store.log.heads().items())) for store in self.stores}
            idle = not any(registry.busy for registry in (*self.registries, *self.operators))
            if idle and len(heads) == 1 and any(call.done for call in calls):
                return True
        return False

    def read(self) -> list[Call]:
        """Ask every registry for all that it has."""
        asked: list[Call] = []
        # Of `REST` last, and apart: what seeds have shown of the others stays as it was.
        for subjects in (SUBJECTS, (REST.subject,)):
            calls = [
                self.call(registry, ClientRequest(RequestKind.READ, subject))
                for registry in self.registries
                for subject in subjects
            ]
            self._wait(calls)
            asked += calls
        return asked

    def _wait(self, calls: Sequence[Call]) -> None:
        """Wait until all are answered that may be."""
        end_ms = self.world.now_ms + CALL_MS_MAX
        lives = {process.life for process in (*self.registries, *self.operators)}
        while self.world.now_ms < end_ms and any(
            call.ended_ms is None and call.life in lives for call in calls
        ):
            self.world.run_until(self.world.now_ms + 250)

    def close(self) -> None:
        """End all threads."""
        for process in (*self.registries, *self.operators):
            if process.alive:
                process.crash()

    def _order(self) -> list[SimStore]:
        """The stores in an order of one registry's own, as each is told them."""
        return self.chance.sample(self.stores, len(self.stores))

    def _ask(self, subject: str) -> ClientRequest:
        chance = self.chance
        action = _action(chance)
        match action:
            case RequestKind.REGISTER:
                return ClientRequest(action, subject, self._text())
            case RequestKind.DELETE:
                good = subject == SUBJECTS[-1] and chance.random() < 0.5
                number = str(chance.randint(1, 4))
                return ClientRequest(
                    RequestKind.DELETE_FOR_GOOD if good else action, subject, number
                )
            case RequestKind.SET_LEVEL:
                return ClientRequest(action, subject, chance.choice(LEVELS))
            case RequestKind.SET_MODE:
                return ClientRequest(action, subject, chance.choice(MODES))
            case _:
                return ClientRequest(action, subject)

    def _text(self) -> str:
        """A schema: a new one, or one that somebody has asked for already."""
        number = self.chance.randint(0, self._texts)
        self._texts += self.chance.random() < 0.7
        # Of one kind each follows each; of the other none does, where levels say so.
        if number % 7 != 6:
            return f'{{"type":"string","number":{number}}}'
        return f'{{"type":"fixed","name":"n{number}","size":1}}'

    def _die(self, node: SimStore | SimRegistry) -> None:
        if node.alive:
            node.crash()
            self.world.after(self.chance.randint(1, BACK_MS_MAX), partial(_boot, node))

    def _contend(self, stalled: SimRegistry, subject: str) -> None:
        """Let a registry stand still in the middle of a write, and others go on meanwhile."""
        stalled.stall(self.chance.randint(1_000, STALL_MS_MAX))
        for registry in (stalled, *self.registries):
            ask = ClientRequest(RequestKind.REGISTER, subject, self._text())
            if registry.alive:
                self.calls.append(self.call(registry, ask))

    def _fill(self, store: SimStore, milliseconds: int) -> None:
        store.disk.full = True

        def make_room() -> None:
            store.disk.full = False

        self.world.after(milliseconds, make_room)


def _action(chance: random.Random) -> RequestKind:
    actions = (
        RequestKind.REGISTER,
        RequestKind.READ,
        RequestKind.DELETE,
        RequestKind.SET_LEVEL,
        RequestKind.SET_MODE,
    )
    return chance.choices(actions, (10, 2, 2, 1, 1))[0]


def _boot(node: SimStore | SimRegistry) -> None:
    if not node.alive:
        node.boot()


def run(seed: int) -> RegistryOutcome:
    """Run one seed; an eighth of them without any faults."""
    healthy = random.Random(seed).random() < 0.125
    cluster = RegistryCluster(seed, healthy=healthy)
    try:
        return _judged(cluster, healthy=healthy)
    finally:
        cluster.close()


def _judged(cluster: RegistryCluster, *, healthy: bool) -> RegistryOutcome:
    world, chance = cluster.world, cluster.chance
    problems: list[str] = []
    last: list[Call] = []
    try:
        for _ in range(chance.randint(10, 40)):
            world.run_until(world.now_ms + chance.choice(PAUSES_MS))
            cluster.ask_something()
            if not healthy and chance.random() < 0.5:
                cluster.break_something()
        cluster.heal()
        for _ in range(HEALED_STEPS):
            world.run_until(world.now_ms + 2_000)
            cluster.ask_something()
        if not cluster.settle():
            problems.append("not settled: stores differ, or what is asked for is not answered")
        last = cluster.read()
    except NodeFailedError as error:
        problems.append(f"failed: {error}")
    problems += check_calls([*cluster.calls, *cluster.at_rest], last, CLUSTERS[0])
    unread = sum(call.reading is None for call in last)
    if unread:
        problems.append(f"vacuous: {unread} questions at rest were not answered")
    done = [call for call in cluster.calls if call.done]
    return RegistryOutcome(
        tuple(problems),
        len(cluster.calls),
        acknowledged=len(done),
        unknown=sum(not call.done and not call.refused for call in cluster.calls),
        registered=sum(call.ask.action is RequestKind.REGISTER for call in done),
        fingerprint=world.fingerprint,
    )


def _random_faults(chance: random.Random) -> Faults:
    return Faults(
        loss=chance.choice((0.0, 0.1, 0.4)),
        duplication=chance.choice((0.0, 0.2)),
        delay_ms_max=chance.choice((2, 20, 200)),
        disk_ms_max=chance.choice((1, 20, 100)),
        refusal=chance.choice((0.0, 0.1)),
    )


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds(
        "dafka.testing.registry", "Run the registries of a cluster in the simulator.", _told
    )


def _told(seed: int) -> tuple[str, list[str]]:
    outcome = run(seed)
    summary = (
        f"{outcome.calls} requests, {outcome.acknowledged} acknowledged, {outcome.unknown} unknown"
    )
    return f"{summary}, fingerprint {outcome.fingerprint}", condensed(outcome.problems)


if __name__ == "__main__":
    sys.exit(main())
