"""A Kafka group that moves between two clusters, with gateways that come, freeze and die.

Records are published at both clusters and copied; links copy positions. What the group is told it
has committed is judged by the invariants of ADR 32.

python -m dafka.testing.kafka_groups --seed 17 --count 100
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from dafka.gateway.broker import ErrorCode
from dafka.gateway.commits import (
    OFFSETS,
    REACHED,
    CommitVersion,
    holding,
    is_row,
    row_of,
    version_of,
)
from dafka.testing.kafka_site import ORDERS, TICK_MS, GroupSite, numbers
from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults, World

if TYPE_CHECKING:
    from dafka.gateway.effects import OffsetsCommitted
    from dafka.groups.commit import Commit, CommitKey
    from dafka.model import Partition
    from dafka.testing.kafka_site import GroupGateway

SETTLING_MS_MAX = 60_000
COPIED = 1
"""The copy flag of the one level."""

HAPPENINGS = (
    *("poll",) * 6,
    *("commit",) * 6,
    *("publish",) * 5,
    *("restart", "restart", "back", "move", "crash", "freeze", "thaw", "thaw", "boot", "boot"),
    *("stall", "restart", "restart", "pass", "turn", "swap", "swap", "up", "cut", "mend", "mend"),
)


@dataclass(slots=True)
class GroupAttempt:
    """A commit of the group, from when it is published."""

    site: int
    offset: int
    version: CommitVersion
    acknowledged: bool = False


class KafkaGroupsRun:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        faults = Faults(
            loss=chance.choice((0.0, 0.1, 0.4)), delay_ms_max=chance.choice((2, 20, 100))
        )
        self.world = World(seed, faults)
        session_ms = chance.choice((200, 500))
        self.sites = [GroupSite(self.world, chance, one, session_ms) for one in range(2)]
        self.records: dict[str, int] = {}
        """By address, how many there are at all."""
        self.cut = False
        """Whether nothing is copied."""
        self.tokens = count()
        self.here = 0
        """Where the group is."""
        self.offset: int | None = None
        """The next one that it processes; None: it has to be told."""
        self.asking = False
        self.processed: set[tuple[str, int]] = set()
        self.attempts: list[GroupAttempt] = []
        self.known = [CommitVersion(0, 0), CommitVersion(0, 0)]
        """By cluster, the newest of what it was told there."""
        self.told = self.again = self.moves = 0
        """How often it was told an offset, what it has read twice, and how often it has moved."""

    @property
    def site(self) -> GroupSite:
        """Where the group is."""
        return self.sites[self.here]

    def tick(self) -> None:
        """Links copy records and positions, and the group asks where it is."""
        for source, target in (self.sites, self.sites[::-1]):
            if not self.cut:
                self._copy_records(source, target)
                self._copy_positions(source, target)
        if self.offset is None and not self.asking:
            self._fetch()
        self.world.after(TICK_MS, self.tick)

    def happen(self) -> None:
        """Let something happen."""
        what = self.chance.choice(HAPPENINGS)
        site = self.chance.choice(self.sites)
        gateway = self.chance.choice(site.gateways)
        if what in ("poll", "commit", "stall", "back", "restart", "move"):
            self._happen_to_group(what)
        elif what == "publish":
            self._publish(site)
        elif what in ("cut", "mend"):
            self.cut = what == "cut"
        elif what in ("turn", "swap", "up"):
            for shelf in site.shelves:
                shelf.up = not shelf.up if what == "swap" else self.chance.random() < 0.6
                shelf.up |= what == "up"
        elif what == "pass":
            site.hand_over(self.chance.choice(("owner", "coordinator")), gateway)
        else:
            _happen_to(gateway, what)

    def _happen_to_group(self, what: str) -> None:
        if what == "restart":
            self._restart(self.here)
        elif what == "move":
            self.moves += 1
            self._restart(1 - self.here)
        elif self.offset is None:
            return
        elif what == "poll":
            self._poll(self.offset, self.chance.randint(1, 5))
        else:
            if what == "back":
                self.offset = self.chance.randint(0, self.offset)
            self._commit(self.offset)
            coordinator = self.site.coordinator()
            if what == "stall" and coordinator is not None:
                coordinator.frozen = True  # with a commit that it has not published

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        self.world.faults.heal()
        self.cut = False
        for site in self.sites:
            for shelf in site.shelves:
                shelf.up = True
            for gateway in site.gateways:
                _happen_to(gateway, "thaw" if gateway.alive else "boot")

    def _restart(self, where: int) -> None:
        self.here, self.offset = where, None

    def _publish(self, site: GroupSite) -> None:
        address = f"P{site.number}{self.chance.randint(0, 1)}"
        for _ in range(self.chance.randint(1, 4)):
            sequence = self.records.get(address, 0)
            self.records[address] = sequence + 1
            site.order.append((address, sequence))

    def _copy_records(self, source: GroupSite, target: GroupSite) -> None:
        there = {address: sequence + 1 for address, sequence in target.order}
        for address, sequence in source.order[: self.chance.randint(0, len(source.order))]:
            if sequence == there.get(address, 0):
                target.order.append((address, sequence))
                there[address] = sequence + 1

    def _copy_positions(self, source: GroupSite, target: GroupSite) -> None:
        """As `distributor.offsets` does: the newer holds; a row is nothing that links want."""
        shelf, other = self.chance.choice(source.shelves), self.chance.choice(target.shelves)
        if not (shelf.up and other.up):
            return
        for key, commit in shelf.held.items():
            held = other.held.get(key)
            older = held is None or _dated(held, target) < _dated(commit, source)
            if is_row(key.partition) or commit.copy_flags or not older:
                continue
            origin = commit.origin or source.number + 1
            copied = replace(commit, origin=origin, copy_flags=COPIED)
            for one in target.shelves:
                name = f"link {key.partition.address} {version_of(commit)} {commit.position}"
                target.send(one, partial(one.take, name, ((key, copied),)))

    def _poll(self, offset: int, most: int) -> None:
        read = self.site.order[offset : min(offset + most, self.site.shown)]
        self.again += len(self.processed.intersection(read))
        self.processed.update(read)
        self.offset = offset + len(read)

    def _commit(self, offset: int) -> None:
        coordinator = self.site.coordinator()
        if coordinator is None:
            return
        tried: list[GroupAttempt] = []

        def publish(commit: Commit, site: int = self.here) -> None:
            acknowledged = [one for one in self.attempts if one.site == site and one.acknowledged]
            for one in acknowledged:
                assert version_of(commit) > one.version, f"G4: {commit} below {one}"
            assert version_of(commit) > self.known[site], f"G4: {commit} below what was told"
            tried.append(GroupAttempt(site, offset, version_of(commit)))
            self.attempts += tried

        def done(answer: OffsetsCommitted) -> None:
            tried[0].acknowledged = answer.error is ErrorCode.NONE

        rows: dict[Partition, tuple[int | None, str]] = {row_of(OFFSETS, ORDERS): (offset, "")}
        coordinator.commit(next(self.tokens), rows, publish, done)

    def _fetch(self) -> None:
        coordinator, site = self.site.coordinator(), self.site
        if coordinator is None or not coordinator.coordinates():
            return
        self.asking = True
        epoch = coordinator.epoch
        acknowledged = [one for one in self.attempts if one.acknowledged and one.site == self.here]

        def use(rows: dict[Partition, Commit]) -> None:
            self.asking = False
            gone = not coordinator.coordinates() or coordinator.epoch != epoch
            if gone or self.offset is not None or self.site is not site:
                return
            found = holding(rows, numbers)
            if found.unclear:
                return
            commit = found.commits.get(ORDERS)
            self._be_told(None if commit is None else commit.offset, rows, acknowledged[-1:])

        site.read(coordinator, use)
        self.world.after(10 * TICK_MS, self._ask_again)

    def _ask_again(self) -> None:
        self.asking = False

    def _be_told(
        self, offset: int | None, rows: dict[Partition, Commit], acknowledged: list[GroupAttempt]
    ) -> None:
        """Where to go on, by what a majority knew."""
        kinds: dict[bool, list[CommitVersion]] = {True: [], False: []}
        for place, commit in rows.items():
            kinds[is_row(place)].append(version_of(commit))
        assert max(kinds[False], default=(0, 0)) <= max(kinds[True], default=(0, 0)), "G3"
        here = [one for one in self.attempts if one.site == self.here]
        others = [one.version for one in self.attempts if one.site != self.here]
        for last in acknowledged:
            allowed = {one.offset for one in here[here.index(last) :]}
            newer = any(version > last.version for version in others)
            assert offset in allowed or newer, f"G1: told {offset} after {last}"
        self.offset = offset or 0
        below = self.site.order[: self.offset]
        assert self.offset <= self.site.shown, f"G2: {self.offset} is beyond what was shown"
        skipped = [one for one in below if one not in self.processed]
        assert not skipped, f"G2: told {self.offset}, which passes over {skipped[:3]}"
        self.told += 1
        self.known[self.here] = max([self.known[self.here], *kinds[True], *kinds[False]])

    def unsettled(self) -> str:
        """What is not yet as it has to be when all is quiet; empty if nothing."""
        held: list[dict[CommitKey, Commit]] = []
        for site in self.sites:
            if any(shelf.held != site.shelves[0].held for shelf in site.shelves):
                return "stores differ"
            if len(site.order) < sum(self.records.values()) or site.shown < len(site.order):
                return "records are not shown everywhere"
            held.append(site.shelves[0].held)
        ours, theirs = map(_positions, held)
        if ours != theirs:
            return f"G5: positions differ, {ours} and {theirs}"
        offsets = []
        for site, rows in zip(self.sites, held, strict=True):
            found = holding({key.partition: one for key, one in rows.items()}, numbers)
            if found.unclear:
                return "G3: nobody says what positions amount to"
            commit = found.commits.get(ORDERS)
            offsets.append(0 if commit is None else commit.offset)
            reached = site.settled_offset({one: end or 0 for one, end in ours.items()})
            if reached < offsets[-1] or (_are_alike(rows) and reached != offsets[-1]):
                return f"G5: offset {offsets[-1]} of {site.number}, but positions {ours}"
        last = self._last(held)
        if last is not None and offsets[last.site] != last.offset:
            return f"G5: told {offsets[last.site]}, but {last} is the newest"
        return ""

    def _last(self, held: list[dict[CommitKey, Commit]]) -> GroupAttempt | None:
        """The newest commit that stores know."""
        there = {version_of(commit) for rows in held for commit in rows.values()}
        known = [one for one in self.attempts if one.version in there]
        return max(known, key=lambda one: one.version, default=None)


def _positions(rows: dict[CommitKey, Commit]) -> dict[str, int | None]:
    """By address, without the rows."""
    return {
        key.partition.address: commit.position
        for key, commit in rows.items()
        if not is_row(key.partition)
    }


def _are_alike(rows: dict[CommitKey, Commit]) -> bool:
    """Whether positions say no more than the offset: it was worked out, or none ever was."""
    versions = {
        key.partition.topic: version_of(commit)
        for key, commit in rows.items()
        if is_row(key.partition)
    }
    reached = versions.get(REACHED)
    return reached is None or reached > versions.get(OFFSETS, (0, 0))


def _dated(commit: Commit, site: GroupSite) -> tuple[int, int, int]:
    return commit.epoch, commit.commit_ms, commit.origin or site.number + 1


def _happen_to(gateway: GroupGateway, what: str) -> None:
    if what == "boot" and not gateway.alive:
        gateway.boot()
    elif gateway.alive and what == "crash":
        gateway.alive = False
    elif gateway.alive and what == "freeze":
        gateway.frozen = True
    elif gateway.alive and what == "thaw" and gateway.frozen:
        gateway.thaw()


def run(seed: int) -> KafkaGroupsRun:
    """Run one seed.

    Raises:
        AssertionError: An invariant of ADR 32 does not hold, or all does not settle in the end.
    """
    one = KafkaGroupsRun(seed)
    for site in one.sites:
        for gateway in site.gateways:
            gateway.boot()
        site.tick()
    one.tick()
    for _ in range(one.chance.randint(30, 150)):
        pause_ms = one.chance.choice((5, 30, 200, 600))
        one.world.run_until(one.world.now_ms + one.chance.randint(0, pause_ms))
        one.happen()
    one.heal()
    healed_ms = one.world.now_ms
    while unsettled := one.unsettled():
        assert one.world.now_ms < healed_ms + SETTLING_MS_MAX, unsettled
        one.world.run_until(one.world.now_ms + 5 * TICK_MS)
    return one


def judged(seed: int) -> tuple[str, list[str]]:
    """Run a seed; what came of it, and what was found wrong."""
    one = run(seed)
    acknowledged = sum(attempt.acknowledged for attempt in one.attempts)
    told = (
        f"{len(one.processed)} records, {one.again} read twice, {acknowledged} of "
        f"{len(one.attempts)} commits acknowledged, told {one.told} times, {one.moves} moves"
    )
    return told, []


def main() -> int:
    """Run the seeds that the command line asks for."""
    return run_seeds("dafka.testing.kafka_groups", "Kafka groups at two clusters, by seed.", judged)


if __name__ == "__main__":
    sys.exit(main())
