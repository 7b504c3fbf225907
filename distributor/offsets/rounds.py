"""One turn of a link's offsets: what is new at the source, and one round of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from distributor.offsets.events import (
    AskHeld,
    AskPlaces,
    AskTimes,
    Brought,
    HeldRead,
    PassedOver,
    PlacesRead,
    TimesRead,
    Write,
    Written,
)
from distributor.offsets.reading import held, places, times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dafka.groups.commit import Commit, CommitKey
    from distributor.offsets.events import OffsetsEvent, Request
    from distributor.offsets.machine import OffsetsMachine
    from distributor.offsets.reading import Follower, StoreView


class Ends(Protocol):
    """The two clusters of a link."""

    @property
    def source(self) -> StoreView:
        """A store of the source."""

    @property
    def target(self) -> StoreView:
        """A store of the target."""

    def live(self, groups: frozenset[str]) -> frozenset[str]:
        """Return those of the groups that have live members at the target."""

    def write(self, commits: Sequence[tuple[CommitKey, Commit]]) -> None:
        """Commit at the target; durable on return."""


def turn(
    machine: OffsetsMachine, follower: Follower, ends: Ends, now_ms: int
) -> Iterator[PassedOver | Brought]:
    """Read what is new, bring what can be brought, and yield what is to be counted.

    Raises:
        QueryError: A store does not answer; the machine is to be told.
    """
    effects = machine.handle(follower.read(ends.source, now_ms))
    effects += machine.begin()
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, PassedOver | Brought):
            yield effect
        else:
            effects += machine.handle(_answered(effect, ends))


def _answered(request: Request, ends: Ends) -> OffsetsEvent:
    match request:
        case AskHeld(groups):
            return HeldRead(held(ends.target, groups), ends.live(groups))
        case AskTimes(records):
            return TimesRead(times(ends.source, records))
        case AskPlaces(asked):
            return PlacesRead(places(ends.target, asked))
        case Write(commits):
            ends.write(commits)
            return Written()
