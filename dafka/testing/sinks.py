"""Drivers of Spark's sink and the stores that agree on their runs, in the simulator.

Several queries and jobs write to the same topics (`dafka.testing.sink_site`). Drivers die at any
step, come back with other rows while an earlier driver still lives, or never; batches arrive when
their driver is long gone; stores, which may share the slots, die and come back, lines to them are
cut. At the end, when nothing goes wrong any more, somebody writes to all topics, and the logs are
held to ADR 44 (`dafka.testing.sink_logs`).
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from dafka.model import ALL_SLOTS, SLOTS, Slots
from dafka.node.loop import NodeFailedError
from dafka.testing.seeds import run_seeds
from dafka.testing.sink_logs import problems
from dafka.testing.sink_site import KEYS, LATE_MS_MAX, TASKS, TOPICS, SinkSite, SinkWork
from dafka.testing.world import Faults, World

if TYPE_CHECKING:
    from dafka.testing.sink_site import Driver

QUERIES = ("query p", "query q")

SKIPS = 0.1
"""How often a query goes on with its next run, whether the one before is done or not."""

SHARED_EACH = 4
"""Every fourth seed has stores that share the slots, if it has several."""

RUNNING_MS_MAX = 3_600_000
"""Whoever is at it for longer than that gets nowhere."""


class Scenario:
    """What happens in one run: who writes what when, and what goes wrong.

    Args:
        seed: All of it comes from that.
    """

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        faults = Faults(
            loss=self._chance.choice((0.0, 0.02, 0.1)),
            delay_ms_max=self._chance.choice((2, 20, 200)),
        )
        self._world = World(seed, faults)
        stores = self._chance.choice((1, 3, 3, 3))
        self.site = SinkSite(self._world, _slots_of(stores, seed))
        self._next = dict.fromkeys(QUERIES, 0)
        self._jobs = 0

    def run(self) -> SinkOutcome:
        """Let it happen; what the logs have must be right.

        Raises:
            AssertionError: It is not, or somebody does not get on.
        """
        try:
            for _ in range(self._chance.randint(10, 40)):
                self._world.run_until(self._world.now_ms + self._chance.randint(0, 2_000))
                self._happen()
            self._settle()
            logs = self.site.logs()
            rows = TASKS * len(KEYS)
            found = problems(logs, self.site.topics, rows, self.site.written)
            assert not found, "; ".join(found)
            runs = {row.run for parts in logs.values() for some in parts.values() for row in some}
            return SinkOutcome(len(runs), len(self.site.drivers), self._world.fingerprint)
        except NodeFailedError as error:
            raise AssertionError(str(error)) from error
        finally:
            for driver in self.site.drivers:
                self.site.kill(driver)

    def _happen(self) -> None:
        chance, site = self._chance, self.site
        what = chance.choice(("run", "run", "run", "job", "kill", "kill", "store", "cut"))
        living = [driver for driver in site.drivers if not driver.done]
        if what == "run":
            key = chance.choice(QUERIES)
            if chance.random() < SKIPS:
                self._next[key] += 1
            self._repeat(key)
        elif what == "job":
            self._jobs += 1
            site.start(SinkWork(f"job {self._jobs}", 0, False, self._topics()))
        elif what == "kill" and living:
            site.kill(chance.choice(living))
        elif what == "store":
            store = chance.choice(list(site.stores.values()))
            store.crash() if store.alive else store.boot()
        elif what == "cut" and living:
            store, driver = chance.choice(list(site.stores.values())), chance.choice(living)
            self._world.cut(driver.name, store.name, both=True)
        if chance.random() < 0.3:
            site.repair()

    def _repeat(self, key: str) -> None:
        """A query's run, again if it is not done: maybe beside a driver that is at it."""
        while (key, self._next[key]) in self.site.written:
            self._next[key] += 1
        self.site.start(SinkWork(key, self._next[key], True, self._topics()))

    def _topics(self) -> tuple[str, ...]:
        count = self._chance.randint(1, len(TOPICS))
        return tuple(sorted(self._chance.sample(TOPICS, count)))

    def _settle(self) -> None:
        """Let nothing go wrong any more, and all who live end; then each query goes on."""
        world, site = self._world, self.site
        world.heal()
        for store in site.stores.values():
            if not store.alive:
                store.boot()
        self._wait(site.drivers)
        for key in QUERIES:
            for _ in range(2):  # what it left, and one more
                self._repeat(key)
                self._wait(site.drivers[-1:])
                done = key, self._next[key]
                assert done in site.written, f"{done} is not written: {site.errors}"
        last = SinkWork("last", 0, True, TOPICS)
        self._wait([site.start(last)])
        assert ("last", 0) in site.written, f"the last run is not written: {site.errors}"

    def _wait(self, drivers: list[Driver]) -> None:
        world, until_ms = self._world, self._world.now_ms + RUNNING_MS_MAX
        while not all(driver.done for driver in drivers):
            assert world.now_ms < until_ms, "somebody does not get on"
            world.run_until(world.now_ms + 1_000)
            self.site.repair()
        world.run_until(world.now_ms + LATE_MS_MAX)
        self.site.repair()


def _slots_of(stores: int, seed: int) -> list[Slots]:
    """What each keeps: in some seeds three share the slots, each of which one or two keep."""
    if stores == 1 or seed % SHARED_EACH:
        return [ALL_SLOTS] * stores
    ends = [SLOTS * number // stores for number in range(stores + 1)]
    thirds = [Slots.of([range(*one)]) for one in pairwise(ends)]
    once = seed % (2 * SHARED_EACH) == 0
    return thirds if once else [ALL_SLOTS.without(one) for one in thirds]


@dataclass(frozen=True, slots=True)
class SinkOutcome:
    """What came of a run in which nothing was wrong.

    Attributes:
        runs: How many are in the logs.
        drivers: How many there were.
        fingerprint: Of all that happened.
    """

    runs: int
    drivers: int
    fingerprint: str


def run(seed: int) -> SinkOutcome:
    """Run one seed.

    Raises:
        AssertionError: The logs are not as they should be, or somebody does not get on.
    """
    return Scenario(seed).run()


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds(
        "dafka.testing.sinks",
        "Let drivers of Spark's sink and their stores agree on runs in the simulator.",
        lambda seed: (str(run(seed)), ()),
    )


if __name__ == "__main__":
    sys.exit(main())
