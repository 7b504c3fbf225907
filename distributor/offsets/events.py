"""What the machine of offsets is told and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.groups.commit import Commit, CommitKey
    from dafka.model import Partition
    from distributor.offsets.translation import Absent, SkipReason


class RecordAt(NamedTuple):
    """A record of the source."""

    partition: Partition
    sequence: int


class PlaceAt(NamedTuple):
    """The first record of the target that is of this time or later."""

    partition: Partition
    timestamp_ms: int


class TargetPlace(NamedTuple):
    """What the target has there.

    Attributes:
        found: The sequence of that record; None if everything is older.
        end: The sequence after the partition's last record; 0 if it is not there at all.
    """

    found: int | None
    end: int


@dataclass(frozen=True, slots=True)
class CommitsRead:
    """Event: the source's stores have these commits.

    Attributes:
        commits: In any order; repeating them does no harm.
        whole: Whether they are all there are: then the target is compared with each.
    """

    commits: Sequence[tuple[CommitKey, Commit]]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class HeldRead:
    """Event, answers `AskHeld`.

    Attributes:
        commits: What the target holds of the groups asked for.
        live: Which of the groups have live members there.
    """

    commits: Mapping[CommitKey, Commit]
    live: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TimesRead:
    """Event, answers `AskTimes`: in milliseconds since 1970, or why there is none."""

    times: Mapping[RecordAt, int | Absent]


@dataclass(frozen=True, slots=True)
class PlacesRead:
    """Event, answers `AskPlaces`."""

    places: Mapping[PlaceAt, TargetPlace]


@dataclass(frozen=True, slots=True)
class Written:
    """Event, answers `Write`: the commits are durable at the target."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Event, answers any of the effects: it could not be done, and is to be tried again."""


@dataclass(frozen=True, slots=True)
class AskHeld:
    """Effect: what does the target hold of these groups, and which have live members there?"""

    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class AskTimes:
    """Effect: of which times are these records of the source?"""

    records: frozenset[RecordAt]


@dataclass(frozen=True, slots=True)
class AskPlaces:
    """Effect: where are records of these times at the target?"""

    places: frozenset[PlaceAt]


@dataclass(frozen=True, slots=True)
class Write:
    """Effect: commit this at the target."""

    commits: Sequence[tuple[CommitKey, Commit]]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Effect, for the metrics: so many commits are not brought to the target, or not now."""

    reason: SkipReason
    count: int


@dataclass(frozen=True, slots=True)
class Brought:
    """Effect, for the metrics: so many commits are durable at the target."""

    count: int


OffsetsEvent = CommitsRead | HeldRead | TimesRead | PlacesRead | Written | Unanswered
Request = AskHeld | AskTimes | AskPlaces | Write
OffsetsEffect = Request | PassedOver | Brought
