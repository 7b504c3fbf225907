"""What the entries of a registry add up to, in whatever order they come and however often.

Entries of a later epoch hold. An epoch belongs to one cluster by its number, and so do the ids that
may be given in it: clusters that cannot hear of one another, both of them made the primary, open no
epoch twice and give no id twice. Ids are 31 bits wide, as clients take them.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from dafka.schemas.entries import (
    ConfigKey,
    Key,
    ModeKey,
    Primary,
    PrimaryKey,
    Reference,
    Schema,
    SchemaEntry,
    SchemaKey,
    Stamp,
    Value,
    Version,
    VersionKey,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


CLUSTERS_MAX = 256
"""Clusters that may give ids; each has every 256th epoch."""

IDS_PER_EPOCH = 1 << 9
"""A writer that has used them up opens its next epoch."""

EPOCH_MAX = (1 << 31) // IDS_PER_EPOCH
"""16,384 for each cluster."""

LEAP = 64 * CLUSTERS_MAX
"""Epochs passed over where the primary cannot be asked how many it has opened meanwhile."""

CLAIMS_UNHEARD = 4
"""How many epochs of its own the primary of before may be about to open unheard."""


def next_epoch(known: int, number: int) -> int:
    """The first epoch of a cluster above one that is known.

    Args:
        known: 0 if none is.
        number: The cluster's, from 1 to `CLUSTERS_MAX`.
    """
    return known + 1 + (number - 1 - known) % CLUSTERS_MAX


def promotion_epoch(known: int, number: int) -> int:
    """The epoch in which a cluster becomes the primary, above one that is known.

    The registries of the primary of before may be about to open epochs, above what they knew: one
    each, and one above that where only some stores had the first. These must not come out above.
    """
    return next_epoch(known + CLAIMS_UNHEARD * CLUSTERS_MAX, number)


def id_range(epoch: int) -> range:
    """The ids that the writer of an epoch may give: 1 to 511, 513 to 1023, and so on."""
    first = (epoch - 1) * IDS_PER_EPOCH
    return range(first + 1, first + IDS_PER_EPOCH)


class State:
    """The fold. Read what you like; change it through `apply` only."""

    def __init__(self, entries: Iterable[SchemaEntry] = ()) -> None:
        self.entries: dict[Key, SchemaEntry] = {}
        """What holds, also which keys are gone."""
        self.versions: dict[str, dict[int, Version]] = {}
        """By subject and version number, those deleted softly included."""
        self.last = Stamp(0, 0)
        """The highest stamp seen."""
        self.rivals: set[str] = set()
        """Who has claimed the highest epoch that is claimed; more than one must all try again."""
        self.epoch_before = 0
        """The highest below it that is claimed."""
        self.changes = 0
        """How many entries have made a difference."""
        self._tellers: dict[Key, set[str]] = {}
        """By key, the stores that have what holds."""
        self._changed: dict[Key, int] = {}
        """By key, which of them was its last, in their order."""
        self._ids: dict[tuple[str, str, tuple[Reference, ...]], set[int]] = {}
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: SchemaEntry, store: str = "") -> bool:
        """Take an entry of a store in; False if what holds already is newer, or is the same."""
        before = self.entries.get(entry.key)
        self._note_claim(entry)
        if before is not None and entry.rank() <= before.rank():
            if entry == before:
                self._tellers[entry.key].add(store)
            return False
        self.entries[entry.key] = entry
        self._tellers[entry.key] = {store}
        self.changes += 1
        self._changed.pop(entry.key, None)
        self._changed[entry.key] = self.changes
        self.last = max(self.last, entry.stamp)
        match entry.key, entry.value:
            case VersionKey(subject, number), Version() as version:
                self.versions.setdefault(subject, {})[number] = version
            case VersionKey(subject, number), None:
                numbers = self.versions.get(subject, {})
                numbers.pop(number, None)
                if not numbers:
                    self.versions.pop(subject, None)
            case SchemaKey(id_), schema:
                self._index(id_, before, schema)
            case _:
                pass  # the others are looked up by their keys
        return True

    def changed_since(self, changes: int) -> list[Key]:
        """Return the keys of which something else holds than when so much had changed."""
        return [
            key
            for key, _ in takewhile(lambda item: item[1] > changes, reversed(self._changed.items()))
        ]

    def stores_with(self, key: Key) -> int:
        """How many stores have told what holds for a key."""
        return len(self._tellers.get(key, ()))

    def schema(self, id_: int) -> Schema | None:
        """The schema with an id, if there is one."""
        entry = self.entries.get(SchemaKey(id_))
        return entry.value if entry is not None and isinstance(entry.value, Schema) else None

    def id_of(self, schema: Schema) -> int | None:
        """The id of an equal schema, the lowest if there are several, None if there is none."""
        return min(self._ids.get(schema.identity(), ()), default=None)

    def id_max(self) -> int:
        """The highest id that was given; 0 if none was."""
        return max((key.id for key in self.entries if isinstance(key, SchemaKey)), default=0)

    def next_id(self, epoch: int) -> int | None:
        """The id that comes next in an epoch; None if its range is used up.

        One that was given stays given, also when its schema is gone.
        """
        ids = id_range(epoch)
        given = (key.id for key in self.entries if isinstance(key, SchemaKey) and key.id in ids)
        candidate = max(given, default=ids.start - 1) + 1
        return candidate if candidate in ids else None

    def level(self, subject: str | None) -> str | None:
        """The compatibility level set for exactly this subject."""
        return self._word(ConfigKey(subject))

    def mode(self, subject: str | None) -> str | None:
        """The mode set for exactly this subject."""
        return self._word(ModeKey(subject))

    def value(self, key: Key) -> Value | None:
        """What holds for a key; None if nothing is known for it, or it is gone."""
        entry = self.entries.get(key)
        return entry.value if entry is not None else None

    @property
    def primary(self) -> Primary | None:
        """Who decides, if anybody."""
        entry = self.entries.get(PrimaryKey())
        return entry.value if entry is not None and isinstance(entry.value, Primary) else None

    @property
    def epoch(self) -> int:
        """Of the latest claim; 0 if there was none."""
        entry = self.entries.get(PrimaryKey())
        return entry.stamp.epoch if entry is not None else 0

    def _word(self, key: Key) -> str | None:
        entry = self.entries.get(key)
        return entry.value if entry is not None and isinstance(entry.value, str) else None

    def _index(self, id_: int, before: SchemaEntry | None, schema: object) -> None:
        if before is not None and isinstance(before.value, Schema):
            self._ids[before.value.identity()].discard(id_)
        if isinstance(schema, Schema):
            self._ids.setdefault(schema.identity(), set()).add(id_)

    def _note_claim(self, entry: SchemaEntry) -> None:
        if not isinstance(entry.key, PrimaryKey) or not isinstance(entry.value, Primary):
            return
        epoch, latest = entry.stamp.epoch, self.epoch
        if epoch > latest:
            self.rivals, self.epoch_before = {entry.value.writer}, latest
        elif epoch == latest:
            self.rivals.add(entry.value.writer)
        else:
            self.epoch_before = max(self.epoch_before, epoch)


class EntryLog(Protocol):
    """Where entries are kept (`SchemaLog`)."""

    majority: int

    @property
    def address(self) -> str:
        """Who writes."""

    def read_into(self, state: State, stores_min: int = 1) -> None:
        """Apply what has been added."""

    def write(self, entries: Sequence[SchemaEntry]) -> None:
        """Add entries durably."""
