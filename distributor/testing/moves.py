"""Slots that move between the stores of one cluster of a tree while links copy (ADR 60)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.testing.checker import Name, check, condensed
from dafka.testing.history import Durable, Erased, History, Reopened, SlotsKept
from dafka.testing.sim_mover import SimMover, declare

if TYPE_CHECKING:
    import random

    from dafka.testing.nodes import SimStore
    from dafka.testing.sim_mover import SlotPlan
    from distributor.testing.world import SimWorld
    from topology.model import ClusterName

BACK_MS_MAX = 1_500
"""How long a store stays away that is started anew."""

SENT_BEFORE_A_DROP = 10
"""Batches, some of which are of what is to be dropped."""

MOVED_MS_MAX = 240_000
"""By then all has moved, where nothing goes wrong any more."""


class SlotMoves:
    """One cluster whose slots move.

    Its stores are started anew with what they are to keep, one by one, some of them for the first
    time; then somebody moves the slots, who dies as all others do.

    Args:
        sim: The world; its links know all the stores that the cluster will have.
        name: Which cluster.
        plan: Who keeps what.
        healthy: Whether nothing breaks.
    """

    def __init__(self, sim: SimWorld, name: ClusterName, plan: SlotPlan, *, healthy: bool) -> None:
        self._sim, self._plan, self._healthy = sim, plan, healthy
        self._chance: random.Random = sim.world.random
        self._cluster = sim.clusters[name]
        self._names = {one.name for one in (*self._cluster.stores, *self._cluster.coming)}
        self._mover = SimMover(sim.world, self._cluster.stores, plan.copies, self._apart)
        olds = list(range(len(plan.before)))
        self._chance.shuffle(olds)
        self._undeclared = [*olds, *range(len(plan.before), len(plan.after))]
        self._began = False

    def happen(self) -> None:
        """In the middle of the traffic: go on, perhaps, or break what moves slots."""
        if self._chance.random() < 0.5:
            self._go_on()
        elif not self._healthy and self._chance.random() < 0.4:
            self._break()

    def finish(self) -> None:
        """Take the steps that are left."""
        while not self._began:
            self._go_on()

    @property
    def done(self) -> bool:
        """Whether all has moved."""
        return self._mover.done

    def close(self) -> None:
        """End who moves slots."""
        self._mover.crash()

    def wrong(self) -> list[str]:
        """What is wrong in the end, as sentences."""
        kinds = Durable, Erased, Reopened, SlotsKept
        # By the whole tree's history another cluster would do for what a store has given up.
        own = [
            event
            for event in self._sim.world.history
            if isinstance(event, kinds) and event.node in self._names
        ]
        given_up = [one for one in check(History(own)) if one.name is Name.GIVEN_UP]
        late = [] if self.done else ["slots have not moved"]
        return late + condensed([*given_up, *self._mover.found(self._plan.after)])

    def _go_on(self) -> None:
        """Give the next store what it is to keep; when all have it, begin to move."""
        if self._undeclared:
            number = self._undeclared.pop(0)
            stores, coming = self._cluster.stores, self._cluster.coming
            if number < len(stores):
                back_ms = self._chance.randint(1, BACK_MS_MAX)
                declare(stores[number], self._plan.after[number], back_ms)
            else:
                stores.append(coming.pop(0))
                stores[-1].boot()
        elif not self._began:
            self._began = True
            self._mover.boot()

    def _break(self) -> None:
        """Kill who moves slots, or let nothing get from one of those to another."""
        names = sorted(store.name for store in self._cluster.stores)
        if self._began and self._chance.random() < 0.5:
            self._mover.crash()
            self._mover.boot()
        else:
            pair = self._chance.sample([self._mover.name, *names], 2)
            self._sim.world.cut(*pair, both=self._chance.random() < 0.5)

    def _apart(self, store: SimStore) -> set[tuple[str, str]]:
        """Half of the time only who drops hears who publishes there for a while before."""
        if self._healthy or self._chance.random() < 0.5:
            return set()
        for _ in range(SENT_BEFORE_A_DROP):
            self._sim.send_somewhere("flights", self._chance.randint(1, 5))
        writers = [one.name for one in self._cluster.producers]
        writers += [one.name for one in self._sim.links if one.target is self._cluster]
        deaf = [other.name for other in self._cluster.stores if other is not store]
        return {(writer, other) for writer in writers for other in deaf}
