"""A whole group in the simulator: records, members that come, go and die, and their commits.

Judged is what a group promises: a partition has one owner at a time, nobody's commits are undone by
somebody who was replaced, every record is processed, and what is processed twice is what was not
committed yet.

python -m dafka.testing.groups --seed 17
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.groups.commit import CommitKey
from dafka.groups.commit_table import commit_of
from dafka.groups.membership import blocking_of
from dafka.node.store_settings import StoreSettings
from dafka.query.service import AnswerBounds
from dafka.storage.memory import MemoryLog
from dafka.testing.group_nodes import (
    GROUP,
    PAGE,
    TOPIC,
    GroupConsumer,
    GroupStore,
    Processed,
    Settings,
)
from dafka.testing.membership import Owners
from dafka.testing.nodes import SimProducer
from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults, SimMesh, World

if TYPE_CHECKING:
    from dafka.model import Partition

SETTLING_MS_MAX = 180_000
"""Bound on settling: HEADs come ever more rarely, up to every 32 s, each may start a round."""


SUSPENDED_MS_MAX = 10_000
"""How long a machine is suspended at most: several sessions."""

JOINED_MS = 1_000
"""Behind a session all members have joined, as a rule: before that little can go wrong."""

CUT_MS_MAX = 10_000
"""How long a member is cut off from stores at most."""

WRONG_MS = 3_600_000
"""By how much a clock is wrong that is."""


@dataclass(frozen=True, slots=True)
class GroupsOutcome:
    """What came of a run in which nothing went wrong.

    Attributes:
        records: How many were processed.
        repeated: How many of them more than once.
        generations: How many the group had.
        fingerprint: Equal for equal runs.
    """

    records: int
    repeated: int
    generations: int
    fingerprint: str


def run(seed: int) -> GroupsOutcome:
    """Run one seed.

    Half of them have a sound network and stores, where what is repeated is bounded by the interval
    of the commits; in the others everything fails.

    Raises:
        AssertionError: The group broke a promise.
    """
    chance = random.Random(seed)
    sound = chance.random() < 0.5
    faults = Faults() if sound else _random_faults(chance)
    world = World(seed, faults)
    mesh = SimMesh(world)
    names = [f"S{number}" for number in range(chance.choice((1, 2, 3)))]
    asked = StoreSettings(bounds=AnswerBounds(rows=PAGE))
    stores = [GroupStore(world, name, mesh, MemoryLog(name), asked) for name in names]
    producers = [SimProducer(world, f"P{number}", mesh, spooled=True) for number in range(4)]
    owners, processed = Owners(), Processed()
    settings = Settings(
        session_ms=chance.choice((1_000, 3_000)),
        auto_commit_ms=chance.choice((50, 500)),
        record_ms_max=chance.choice((2, 20)),
    )
    members = [
        GroupConsumer(world, f"C{number}", mesh, stores, owners, processed, settings)
        for number in range(chance.randint(1, 4))
    ]
    nodes: list[GroupStore | SimProducer | GroupConsumer] = [*stores, *producers, *members]
    for node in nodes:
        node.boot()
    world.run_until(settings.session_ms + JOINED_MS)
    for _ in range(chance.randint(10, 40)):
        world.run_until(world.now_ms + chance.randint(0, 1_000))
        chance.choice(producers).send(TOPIC, chance.randint(1, 20))
        _happen(chance, chance.choice(members), chance.choice(stores), stores, sound=sound)
        _check_commits(stores, processed)
    faults.heal()
    for member in members:
        member.mend()
    sent = _settle(world, stores, producers, members, processed)
    _check_commits(stores, processed)
    # A commit is under way for so long at most: to the store, to its disk, and back.
    commit_ms = settings.auto_commit_ms + settings.record_ms_max + 20
    repeated = processed.repeated(commit_ms if sound else SETTLING_MS_MAX)
    return GroupsOutcome(sent, repeated, owners.generations, world.fingerprint)


def _settle(
    world: World,
    stores: list[GroupStore],
    producers: list[SimProducer],
    members: list[GroupConsumer],
    processed: Processed,
) -> int:
    """Let everything come back and come to rest; returns how many records there are."""
    healed_ms = world.now_ms
    ends: dict[Partition, int] = {}
    while world.now_ms < healed_ms + SETTLING_MS_MAX:
        for store in stores:
            if not store.alive:
                store.boot()
        for member in members:
            if not member.alive:
                member.boot()
        world.run_until(world.now_ms + 250)
        ends = {
            partition: head + 1
            for store in stores
            for partition, head in store.log.heads().items()
            if partition.topic == TOPIC
        }
        waiting = any(one.waiting for one in producers) or not all(one.awake for one in members)
        if sum(ends.values()) == len(processed.times) and not waiting:
            return sum(ends.values())
    raise AssertionError(f"not settled: {sum(ends.values())} records, {len(processed.times)} seen")


def _check_commits(stores: list[GroupStore], processed: Processed) -> None:
    """See that what was acknowledged to members is on enough disks: whoever asks hears of it."""
    for partition, committed in processed.committed.items():
        found = [commit_of(store.log, CommitKey(GROUP, partition)) for store in stores]
        holding = sum(
            commit is not None and (commit.epoch, commit.position or 0) >= committed
            for commit in found
        )
        assert holding >= blocking_of(len(stores)), f"{partition}: {committed} of {found}"


def _happen(
    chance: random.Random,
    member: GroupConsumer,
    store: GroupStore,
    stores: list[GroupStore],
    *,
    sound: bool,
) -> None:
    """Let something happen to a member or a store."""
    if not member.alive:
        member.boot()
        return
    if not member.awake:
        return
    if chance.random() < 0.2:
        _mistime(chance, member if sound else chance.choice((member, store)))
        return
    unsound = () if sound else ("store", "cut", "cut")
    what = chance.choice(("crash", "close", "", "", *unsound))
    if what == "crash":
        member.crash()
    elif what == "close" and not member.left:
        member.close(failed=chance.random() < 0.5)
    elif what == "store":
        store.crash() if store.alive else store.boot()
    elif what == "cut":
        member.cut([one for one in stores if chance.random() < 0.7])
        member.world.after(chance.randint(1, CUT_MS_MAX), member.mend)


def _mistime(chance: random.Random, node: GroupConsumer | GroupStore) -> None:
    """Suspend a machine, or set its clock."""
    if node.awake and chance.random() < 0.5:
        node.suspend(chance.randint(1, SUSPENDED_MS_MAX))
    else:
        node.machine_clock.ahead_ms = chance.choice((-WRONG_MS, 0, WRONG_MS))


def _random_faults(chance: random.Random) -> Faults:
    return Faults(
        loss=chance.choice((0.0, 0.05, 0.2)),
        duplication=chance.choice((0.0, 0.3)),
        delay_ms_max=chance.choice((2, 20, 80)),
        disk_ms_max=chance.choice((1, 20)),
        refusal=chance.choice((0.0, 0.1)),
    )


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds(
        "dafka.testing.groups",
        "Run a group of consumers in the simulator.",
        lambda seed: (str(run(seed)), ()),
    )


if __name__ == "__main__":
    sys.exit(main())
