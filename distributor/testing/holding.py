"""Retention that holds, in the simulator: does a store ever drop what a cluster lacks?

Records are old soon after they were published, and controllers say what is held. Clusters are cut
off, lost, and join; controllers are off for a while. Every trim is judged when it is on disk.

python -m distributor.testing.holding --size 4
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.query.messages import HoldRequest, decode_question
from dafka.storage.retention import HoldBounds, Retention
from dafka.testing.history import History, Trimmed
from dafka.testing.queries import SimQueryClient
from dafka.testing.world import Faults, mute
from distributor.control.hold_keeper import HoldKeeper
from distributor.link.settings import LinkSettings
from distributor.link.target import TargetSettings
from distributor.testing.checkers import settled
from distributor.testing.clusters import placed
from distributor.testing.links import SimSettings
from distributor.testing.losses import every_loss
from distributor.testing.world import SimWorld
from topology.model import RetentionSpec
from topology.plan import plan as plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dafka.model import Partition
    from dafka.testing.history import Event
    from dafka.testing.nodes import SimStore
    from dafka.transport.keys import Credentials
    from topology.model import ClusterName, Topology

AGE_MS = 1_000
"""Records are dropped that are older."""

NEVER_MS = 1 << 40

ROUND_MS = 1_000
"""How often controllers ask what clusters have."""

START_MS = 16_000
"""Stores drop nothing so soon after they were started."""

TROUBLE_MS = 30_000
"""How long things go on before a cluster is lost, and afterwards."""

SETTLED_MS_MAX = 180_000
"""Bound on settling."""

HOLDING = SimSettings(
    link=LinkSettings(survey_interval_ms=1_000, repair_after_ms=6_000),
    aim=TargetSettings(failover_after_ms=3_000),
)


@dataclass(slots=True)
class HoldOutcome:
    """What came of a run.

    Attributes:
        problems: What was found wrong; none is a pass.
        trims: How often something was dropped.
        released: Partitions of which something was dropped that a cluster lacked.
    """

    problems: list[str] = field(default_factory=list)
    trims: int = 0
    released: set[Partition] = field(default_factory=set)


class _Line(SimQueryClient):
    """A controller's connection to a store."""

    def __init__(self, store: SimStore, lost: Callable[[], bool]) -> None:
        super().__init__(store, lost)
        self._to, self._breaks = store, lost

    def ask(self, question: bytes, timeout_ms: int) -> bytes:
        """Return the answer; see `SimQueryClient`."""
        if not isinstance(decode_question(question), HoldRequest):
            return super().ask(question, timeout_ms)
        if not self._to.awake or self._breaks():
            raise QueryError("no answer")
        reply = self._to.hold(question)
        if self._breaks():  # it is held all the same
            raise QueryError("no answer")
        return reply


class SimHoldController:
    """Who is in charge of a cluster, as far as holds are concerned.

    Args:
        holding: The run.
        cluster: Whose.
    """

    def __init__(self, holding: HoldRun, cluster: ClusterName) -> None:
        self._holding, self.cluster = holding, cluster
        self._epoch = 0
        self._keeper: HoldKeeper | None = None
        self._turn = 0
        self.off = False

    def begin(self) -> None:
        """Take office, with the topology as it is now; in vain until enough stores hold."""
        self._epoch += 1
        self._keeper = HoldKeeper(self._holding.topology, self.cluster, self._connect)
        self._turn += 1
        self._govern(self._turn, self._keeper, placed=False)

    def _govern(self, turn: int, keeper: HoldKeeper, *, placed: bool) -> None:
        sim = self._holding.sim
        if self.cluster not in sim.clusters:
            return
        if turn != self._turn:
            if placed:  # it was frozen, and wakes: another one is in charge
                keeper.round()
            return
        if not self.off:
            if not placed:
                placed = self._place(keeper)
            else:
                keeper.round()
        sim.world.after(ROUND_MS, partial(self._govern, turn, keeper, placed=placed))

    def _place(self, keeper: HoldKeeper) -> bool:
        try:
            keeper.place(self._epoch)
        except QueryError:
            return False
        self._holding.placed(self.cluster)
        return True

    def _connect(self, endpoint: str, _credentials: Credentials | None) -> _Line:
        world = self._holding.sim.world
        return _Line(
            self._holding.stores[endpoint],
            lambda: (
                world.random.random() < world.faults.loss
                or world.parted(f"controller-{self.cluster}", endpoint)
            ),
        )


class _JudgedHistory(History):
    """One whose trims are looked at as they happen."""

    def __init__(self, before: History, trimmed: Callable[[Trimmed], None]) -> None:
        super().__init__(before)
        self._trimmed = trimmed

    def record(self, event: Event) -> None:
        """Add an event."""
        super().record(event)
        if isinstance(event, Trimmed):
            self._trimmed(event)


class HoldRun:
    """One run.

    Args:
        topology: The tree.
        seed: Everything random comes from it.
        absent: A cluster that joins later, if one does.
        hold_ms: Up to which age what a cluster lacks is kept.
    """

    def __init__(
        self,
        topology: Topology,
        seed: int,
        absent: ClusterName | None = None,
        hold_ms: int = NEVER_MS,
    ) -> None:
        self.chance = random.Random(seed)
        rule = RetentionSpec(topics="*", age_s=1, hold_age_s=2)  # its numbers do not matter here
        plan = plan_of(replace(topology, retention=(rule,)))
        faults = Faults(
            loss=self.chance.choice((0.0, 0.1)),
            delay_ms_max=self.chance.choice((5, 50)),
            disk_ms_max=self.chance.choice((2, 30)),
        )
        retention = (Retention(topics="*", age_ms=AGE_MS, hold=HoldBounds(age_ms=hold_ms)),)
        self.sim = SimWorld(plan, seed, faults, settings=HOLDING, retention=retention)
        self.outcome = HoldOutcome()
        self._whole = placed(plan).topology
        self.stores = {store.name: store for store in self.sim.stores}
        self._homes = {
            store.name: name for name, one in self.sim.clusters.items() for store in one.stores
        }
        self.sim.world.history = _JudgedHistory(self.sim.world.history, self._judge)
        self._hold_ms = hold_ms
        self._away = {name for name in self.sim.clusters if name == absent}
        """Who has not joined yet, or does not come back, as files say."""
        self._awaited = set(self._away)
        """Who has not joined yet."""
        self._still_to_hold: set[ClusterName] = set()
        """Whose controllers have not placed holds for who joins."""
        for name in self._away:
            self._stop(name)
        self.controllers = {
            name: SimHoldController(self, name) for name in self.sim.clusters if name != absent
        }
        for controller in self.controllers.values():
            controller.begin()

    @property
    def topology(self) -> Topology:
        """The file as it is now."""
        clusters = (one for one in self._whole.clusters if one.name not in self._away)
        return replace(self._whole, clusters=tuple(clusters))

    def placed(self, cluster: ClusterName) -> None:
        """A controller has placed the holds of its term: the flows of the file begin."""
        self._still_to_hold.discard(cluster)
        if self._awaited and not self._away and not self._still_to_hold:
            self.flow()

    def trouble(self, milliseconds: int) -> None:
        """Let records flow while things go wrong."""
        sim, chance = self.sim, self.chance
        until_ms = sim.world.now_ms + milliseconds
        while sim.world.now_ms < until_ms:
            sim.world.run_until(sim.world.now_ms + chance.randint(100, 1_000))
            if chance.random() < 0.6:
                sim.send_somewhere("flights", chance.randint(1, 4))
            if chance.random() < 0.05 and not self._awaited:
                sim.crash_something(2_000)
            if chance.random() < 0.1:
                self._darken(chance.choice(list(sim.clusters)), chance.randint(5_000, 20_000))
            if chance.random() < 0.1:
                controller = chance.choice(list(self.controllers.values()))
                controller.off = not controller.off
        sim.world.run_until(sim.world.now_ms + 2_500)  # who was killed is back

    def lose(self, name: ClusterName) -> None:
        """A cluster is gone for ever; a while later the files no longer name it."""
        self.sim.lose(name)
        del self.controllers[name]
        if self.chance.random() < 0.5:
            self.sim.declare_lost(name)
        self.sim.world.run_until(self.sim.world.now_ms + self.chance.randint(0, 15_000))
        self._away.add(name)
        self._begin_again()

    def join(self, name: ClusterName) -> None:
        """The files name a cluster that they did not: it begins when controllers let it."""
        self._away.discard(name)
        self._still_to_hold = set(self.controllers)
        self.controllers[name] = SimHoldController(self, name)
        self._begin_again()

    def flow(self) -> None:
        """Whoever was awaited is there, and copied to."""
        for name in self._awaited:
            cluster = self.sim.clusters[name]
            links = [link for link in self.sim.links if link.link.source == name]
            for node in (*cluster.stores, *cluster.producers, *links):
                node.boot()
        self._awaited.clear()

    def end(self) -> HoldOutcome:
        """Let all of it settle, and see whether anything lacks, or is kept for nobody."""
        sim = self.sim
        sim.heal()
        for controller in self.controllers.values():
            controller.off = False
        self._settle()
        for cluster in sim.clusters.values():
            cluster.producers[0].send("flights", 1)  # who was started again hears other clocks
        self._settle()
        sim.world.run_until(sim.world.now_ms + 15_000)
        self.outcome.problems += [
            f"{store.name} keeps {partition}, which all have"
            for store in sim.stores
            for partition, extent in store.log.extents().items()
            if extent.start <= extent.head and len(sim.clusters) > 1
        ]
        self.outcome.problems += [
            f"{link.name} has gone on without {lost}"
            for link in sim.links
            for lost in link.left_out
        ]
        return self.outcome

    def _settle(self) -> None:
        sim = self.sim
        until_ms = sim.world.now_ms + SETTLED_MS_MAX
        while not settled(sim) and sim.world.now_ms < until_ms:
            sim.world.run_until(sim.world.now_ms + 500)
        if not settled(sim):
            self.outcome.problems.append("not settled")

    def _begin_again(self) -> None:
        for controller in self.controllers.values():
            controller.off = False
            controller.begin()

    def _stop(self, name: ClusterName) -> None:
        cluster = self.sim.clusters[name]
        links = [link for link in self.sim.links if link.link.source == name]
        for node in (*cluster.stores, *cluster.producers, *links):
            node.crash()

    def _darken(self, name: ClusterName, milliseconds: int) -> None:
        """Let nobody reach a cluster's stores from outside for a while."""
        world = self.sim.world
        others = [link.name for link in self.sim.links if link.link.source != name]
        others += [f"controller-{one}" for one in self.controllers if one != name]
        cuts = {
            pair
            for store in self.sim.clusters[name].stores
            for other in others
            for pair in ((store.name, other), (other, store.name))
        }
        world.cuts |= cuts
        world.after(milliseconds, lambda: world.cuts.difference_update(cuts))

    def _judge(self, trim: Trimmed) -> None:
        """[I14] Nothing is dropped that a cluster lacks, but by the bound of the hold."""
        home = self._homes[trim.node]
        self.outcome.trims += 1
        for name, cluster in self.sim.clusters.items():
            if name == home or name in self._awaited:
                continue
            end = max(store.log.ends().get(trim.partition, 0) for store in cluster.stores)
            if end >= trim.start:
                continue
            self.outcome.released.add(trim.partition)
            if self._hold_ms == NEVER_MS:
                self.outcome.problems.append(
                    f"{trim.node} has dropped {trim.partition} up to {trim.start}, "
                    f"and {name} has it up to {end}"
                )


def run_loss(topology: Topology, lost: Sequence[ClusterName], seed: int) -> HoldOutcome:
    """Lose clusters in the middle of all that."""
    holding = HoldRun(topology, seed)
    holding.sim.world.run_until(START_MS)
    holding.trouble(TROUBLE_MS)
    for name in lost:
        holding.lose(name)
        holding.trouble(TROUBLE_MS)
    return holding.end()


def run_join(topology: Topology, joining: ClusterName, seed: int) -> HoldOutcome:
    """Let a cluster join in the middle of all that."""
    holding = HoldRun(topology, seed, joining)
    holding.sim.world.run_until(START_MS)
    holding.trouble(TROUBLE_MS)
    holding.join(joining)
    holding.sim.world.run_until(holding.sim.world.now_ms + 5_000)
    holding.trouble(TROUBLE_MS)
    return holding.end()


def main() -> int:
    """Run every loss of one cluster from trees of a size, and every joining; 0 if all pass."""
    parser = argparse.ArgumentParser(description="Retention that holds, in the simulator.")
    parser.add_argument("--size", type=int, default=3, help="clusters in the tree")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    mute()
    runs = failed = trims = 0
    for topology, chosen in every_loss(arguments.size, 1):
        for what, outcome in (
            ("loses", run_loss(topology, chosen, arguments.seed + runs)),
            ("gets", run_join(topology, chosen[0], arguments.seed + runs)),
        ):
            for problem in outcome.problems:
                seed = arguments.seed + runs
                sys.stdout.write(f"{topology.tree} {what} {chosen}, seed {seed}: {problem}\n")
            failed += bool(outcome.problems)
            trims += outcome.trims
        runs += 1
    sys.stdout.write(f"{2 * runs - failed} of {2 * runs} runs pass, {trims} trims\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
