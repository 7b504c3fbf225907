"""Offsets that groups have committed become positions of ours, and positions become offsets.

Only the owner of a Kafka partition can say which offset a record has (ADR 28), so it follows what
groups commit and adds what follows from that: where the newest is an offset, positions that links
carry to other clusters; where positions are newer, the offset below which a group has processed
everything. What it adds is as new as what it is made of, so it may be said twice, and late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dafka.gateway.commits import (
    OFFSETS,
    REACHED,
    CommitVersion,
    covered_by,
    is_row,
    row_of,
    version_of,
)
from dafka.groups.commit import Commit, CommitKey
from dafka.limits import POSITIONS_MAX
from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dafka.gateway.broker import KafkaPartition, Offsets
    from dafka.gateway.ledger import Ledger

ROUND_MAX = 1_000
"""Groups and partitions that are gone into at once: some tens of milliseconds."""

WALKED_MAX = 50_000
"""Entries of ledgers that are walked for those, and one whole ledger more: the same."""


COMMIT_MS_MAX = 2**63 - 1
"""The latest that a commit may say it was made."""


class OwnedLedger(NamedTuple):
    """A partition that this gateway owns, and what clients were told of it."""

    ledger: Ledger
    offered: Offsets


@dataclass(slots=True)
class _GroupPlace:
    """How far a group is in a Kafka partition.

    Attributes:
        rows: The offset that was committed, and the one that was worked out.
        positions: By address.
        offset: Up to which positions say what was committed; None if that is not known.
        below: An offset below which positions say that all is processed.
        grows: Whether more may follow as soon as clients are told of more.
    """

    rows: dict[str, Commit] = field(default_factory=dict)
    positions: dict[str, Commit] = field(default_factory=dict)
    offset: int | None = None
    below: int = 0
    grows: bool = False

    def take(self, place: Partition, commit: Commit) -> Commit | None:
        """Take a commit in that is newer; return the one before."""
        if is_row(place):
            before = self.rows.get(place.topic)
            self.rows[place.topic] = commit
            return before
        before = self.positions.get(place.address)
        self.positions[place.address] = commit
        if before is not None and (commit.position or 0) < (before.position or 0):
            self.below = 0
        return before

    def behind(self, offered: Offsets) -> int | None:
        """Records that clients were told of and the group has not processed; None: no offset."""
        rows = [self.rows[name] for name in (OFFSETS, REACHED) if name in self.rows]
        newest = max(rows, key=version_of, default=None)  # of two as new, what was committed
        if newest is None or newest.position is None:
            return None
        return max(0, offered.end - max(newest.position, offered.start))

    def known(self, place: Partition) -> Commit | None:
        """What holds at a place."""
        if is_row(place):
            return self.rows.get(place.topic)
        return self.positions.get(place.address)


class OffsetTranslation:
    """What groups have committed at a cluster, and what is to be added by this gateway.

    Args:
        numbers: How many partitions a topic has; 0 if Kafka clients do not see it.
        rows_max: How many commits are followed.
    """

    def __init__(self, numbers: Callable[[str], int], rows_max: int = POSITIONS_MAX) -> None:
        self._numbers = numbers
        self._room = rows_max
        self._standings: dict[KafkaPartition, dict[str, _GroupPlace]] = {}
        self._others: dict[CommitKey, Commit] = {}
        """Of topics that Kafka clients do not see, maybe not yet."""
        self._epochs: dict[str, int] = {}
        self._offsets: dict[str, int] = {}
        """How many offsets each group has."""
        self._due: dict[tuple[KafkaPartition, str], None] = {}
        self._ends: dict[KafkaPartition, int] = {}
        """What clients were told of the partitions that are this gateway's."""
        self.full = False
        """Whether there was no room for some."""

    def epoch_of(self, group: str) -> int:
        """The highest epoch of a group's commits that was heard of; 0 if there is none."""
        return self._epochs.get(group, 0)

    def groups(self) -> list[str]:
        """The groups that have an offset."""
        return list(self._offsets)

    def take(self, commits: Iterable[tuple[CommitKey, Commit]]) -> None:
        """Commits are there, in any order, and maybe not for the first time."""
        for key, commit in commits:
            partition = covered_by(key.partition, self._numbers)
            known = self._known(key, partition)
            if not (self._has_room() if known is None else commit.rank() > known.rank()):
                continue
            self._epochs[key.group] = max(commit.epoch, self.epoch_of(key.group))
            if partition is None:
                self._others[key] = commit
                continue
            standing = self._standing(partition, key.group)
            self._note(key.group, standing, key.partition, commit)
            self._due[partition, key.group] = None
            if not is_row(key.partition):
                standing.offset = None  # who else says so may say less

    def _known(self, key: CommitKey, partition: KafkaPartition | None) -> Commit | None:
        """What is followed of a key, which is about a Kafka partition or none."""
        if partition is None:
            return self._others.get(key)
        standing = self._standings.get(partition, {}).get(key.group)
        return None if standing is None else standing.known(key.partition)

    def catalogued(self) -> None:
        """Kafka clients see more topics than before."""
        others, self._others = self._others, {}
        self._room += len(others)
        self.take(others.items())

    def work(self, owned: Mapping[KafkaPartition, OwnedLedger]) -> list[tuple[CommitKey, Commit]]:
        """Return what is to be added to the commits; it counts as taken in."""
        self._look_at(owned)
        added: list[tuple[CommitKey, Commit]] = []
        walked = 0
        for partition, group in [*self._due][:ROUND_MAX]:
            if walked > WALKED_MAX:
                break
            del self._due[partition, group]
            if partition not in owned:
                continue
            standing = self._standings[partition][group]
            walked += 0 if standing.below else len(owned[partition].ledger)
            for place, commit in _added(standing, partition, owned[partition]):
                added.append((CommitKey(group, place), commit))
                self._note(group, standing, place, commit)
        return added

    def behind(self, owned: Mapping[KafkaPartition, OwnedLedger]) -> Iterator[tuple[str, int]]:
        """How many records groups are behind, partition by partition."""
        for partition, (_, offered) in owned.items():
            for group, standing in tuple(self._standings.get(partition, {}).items()):
                records = standing.behind(offered)
                if records is not None:
                    yield group, records

    def _look_at(self, owned: Mapping[KafkaPartition, OwnedLedger]) -> None:
        """See what is new of the partitions: they are this gateway's, or clients see more."""
        for partition in self._ends.keys() - owned.keys():
            del self._ends[partition]
        for partition, (_, offered) in owned.items():
            before = self._ends.get(partition)
            if before == offered.end:
                continue
            self._ends[partition] = offered.end
            for group, standing in self._standings.get(partition, {}).items():
                if before is None:
                    standing.offset, standing.below = None, 0  # others may have gone on since
                if before is None or standing.grows:
                    self._due[partition, group] = None

    def _standing(self, partition: KafkaPartition, group: str) -> _GroupPlace:
        return self._standings.setdefault(partition, {}).setdefault(group, _GroupPlace())

    def _has_room(self) -> bool:
        if self._room <= 0:
            self.full = True
            return False
        self._room -= 1
        return True

    def _note(self, group: str, standing: _GroupPlace, place: Partition, commit: Commit) -> None:
        before = standing.take(place, commit)
        if not is_row(place):
            return
        there = (commit.position is not None) - (before is not None and before.position is not None)
        count = self._offsets.get(group, 0) + there
        if count:
            self._offsets[group] = count
        else:
            self._offsets.pop(group, None)


def _added(
    standing: _GroupPlace, partition: KafkaPartition, owned: OwnedLedger
) -> list[tuple[Partition, Commit]]:
    """What follows from what a group has committed, and is not there yet."""
    client = standing.rows.get(OFFSETS)
    newest = max(map(version_of, standing.positions.values()), default=CommitVersion(0, 0))
    if client is not None and version_of(client) >= newest:
        return _positions(standing, client, partition, owned)
    if not standing.positions:
        return []
    return _reached(standing, newest, row_of(REACHED, partition), owned)


def _positions(
    standing: _GroupPlace, client: Commit, partition: KafkaPartition, owned: OwnedLedger
) -> list[tuple[Partition, Commit]]:
    """How far the addresses are, by the offset that a client has committed."""
    moved: dict[str, int | None]
    if client.position is None:
        standing.offset, standing.grows = None, False
        moved = dict.fromkeys(standing.positions)
    else:
        ledger, (_, shown) = owned
        standing.grows = client.position > shown
        end = min(client.position, shown)
        moved = {**_moved(ledger, standing, end, shown)}
        standing.offset, standing.below = None if standing.grows else end, end
    found = {
        address: position
        for address, position in moved.items()
        if _says_more(standing, client, address, position)
    }
    if not found and client.epoch > max(
        (one.epoch for one in standing.positions.values()), default=0
    ):
        found = _restated(standing, client, owned)
    if not found:
        return []
    # The offset again, before what follows from it: who knows that knows this, too.
    added = [(row_of(OFFSETS, partition), client)]
    for address, position in found.items():
        commit = Commit(position, client.epoch, client.commit_ms)
        added.append((Partition(partition.topic, address), commit))
    return added


def _restated(standing: _GroupPlace, client: Commit, owned: OwnedLedger) -> dict[str, int | None]:
    """A position that did not move: elsewhere nobody would know of the epoch, and begin below."""
    if standing.positions:
        address = max(standing.positions, key=lambda one: version_of(standing.positions[one]))
        return {address: standing.positions[address].position}
    if client.position is None:
        return {}
    ledger, (_, shown) = owned
    entry = ledger.at(min(client.position, shown))
    if entry is None or entry.offset >= shown:
        standing.grows = True
        return {}
    return {entry.address: entry.first}


def _says_more(standing: _GroupPlace, client: Commit, address: str, position: int | None) -> bool:
    """Whether a position is to be written in place of the one that is held."""
    held = standing.positions.get(address)
    if held is None:
        return True
    if held.position == position or version_of(held) > version_of(client):
        return False
    further = _far(position) > _far(held.position)
    if version_of(held) == version_of(client) or standing.grows:
        return further  # who was shown less than the client was does not know what lies between
    told = standing.rows.get(REACHED)
    if told is None or version_of(held) > version_of(told):
        return True
    # Who goes on from where positions amount to has processed all that they say.
    return further or _far(client.position) < _far(told.position)


def _far(position: int | None) -> int:
    return -1 if position is None else position


def _moved(ledger: Ledger, standing: _GroupPlace, end: int, shown: int) -> dict[str, int]:
    if standing.offset is not None:
        return ledger.positions(standing.offset, end)
    back = ledger.positions(shown, end)
    known = {address: back[address] for address in back.keys() & standing.positions.keys()}
    return known | ledger.positions(ledger.start, end)


def _reached(
    standing: _GroupPlace, version: CommitVersion, place: Partition, owned: OwnedLedger
) -> list[tuple[Partition, Commit]]:
    """Below which offset a group has processed everything, by its positions."""
    held = standing.rows.get(REACHED)
    standing.offset, standing.grows = None, False
    positions = {
        address: commit.position
        for address, commit in standing.positions.items()
        if commit.position is not None
    }
    offset: int | None = None
    if positions:
        ledger, (_, shown) = owned
        offset = standing.below = min(ledger.reached(positions, standing.below), shown)
        standing.grows = offset == shown
    if held is not None and version_of(held) >= version:
        if held.position == offset:
            return []
        # What is worked out last holds, also where it is less: positions come one by one.
        version = CommitVersion(held.epoch, min(held.commit_ms + 1, COMMIT_MS_MAX))
    return [(place, Commit(offset, *version))]
