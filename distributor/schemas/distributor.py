"""The schema distributor of one cluster: a standby until its cluster is the primary.

One step compares the primary's registry with each other one and writes what is lacking, which is
also how it goes on after anything that stopped it: nothing is remembered but in the logs.

Decisions that an earlier primary has taken and could pass on to nobody are taken in where it is
heard of again: what was acknowledged there stays true, unless a later one has decided otherwise.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from dafka.schemas.entries import Entry, Primary, PrimaryKey, Stamp
from distributor.schemas.site import claimed_twice, latest_claim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distributor.schemas.comparison import Lack
    from distributor.schemas.site import Site

log = logging.getLogger(__name__)


class Meter(Protocol):
    """Who is told how it goes (`SchemaMeter`)."""

    def acting(self, acting: bool) -> None:
        """Whether this distributor copies."""

    def lag(self, target: str, entries: int, now_ms: int) -> None:
        """How much a registry lacks."""

    def unreachable(self, target: str, now_ms: int) -> None:
        """It cannot be read or written: what it lacks is not known."""

    def skipped(self, source: str, target: str, reasons: Mapping[str, int]) -> None:
        """What cannot be copied from one to the other."""

    def written(self, source: str, target: str, entries: int) -> None:
        """So much was copied from one to the other."""


class Part(Enum):
    """What a distributor does."""

    STARTING = "starting"
    ACTING = "acting"
    STANDBY = "standby"
    WAITING = "waiting"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Standing:
    """What it does, and why, for people."""

    part: Part
    why: str = ""


class SchemaDistributor:
    """Copies schemas from its own cluster to all others while that is the primary.

    Args:
        own: Its cluster.
        others: Those to copy to.
        first: Whether its cluster is the primary as long as none has ever been.
        meter: Is told how it goes.
    """

    def __init__(self, own: Site, others: Sequence[Site], *, first: bool, meter: Meter) -> None:
        self._own = own
        self._others = others
        self._first = first
        self._meter = meter
        self._compared: dict[str, tuple[int, int]] = {}
        """By target, how much had been decided at both ends when nothing was lacking."""
        self.standing = Standing(Part.STARTING)

    def step(self, now_ms: int) -> Standing:
        """Do what there is to do now."""
        standing = self._step(now_ms)
        self._meter.acting(standing.part is Part.ACTING)
        if standing != self.standing:
            log.info("schemas: %s", standing.part.value, extra={"why": standing.why})
        self.standing = standing
        return standing

    def _step(self, now_ms: int) -> Standing:
        own = self._own
        if not own.read():
            return Standing(Part.WAITING, f"{own.name}: {own.error}")
        if own.primary and own.primary != own.name:
            return Standing(Part.STANDBY, f"{own.primary} is the primary")
        reached = [own, *(other for other in self._others if other.read())]
        contested = claimed_twice(reached)
        if contested:
            return Standing(Part.CONFLICT, contested)
        claim = latest_claim(reached)
        if claim is None:
            return self._claim_first(reached)
        assert isinstance(claim.value, Primary)
        if claim.value.cluster != own.name:
            # Somebody was made the primary while we could not hear of it. Our registry has to know
            # before anything else: it would go on registering.
            own.write([claim])
            return Standing(Part.STANDBY, f"{claim.value.cluster} has become the primary")
        for other in self._others:
            if not other.error:
                self._take_in(other)
        for other in self._others:
            self._bring(other, now_ms)
        return Standing(Part.ACTING)

    def _claim_first(self, reached: Sequence[Site]) -> Standing:
        own = self._own
        if not self._first:
            return Standing(Part.WAITING, "no cluster is the primary yet")
        silent = [other.name for other in self._others if other not in reached]
        if silent:
            why = f"no cluster is the primary, as far as is known: {silent[0]} does not answer"
            return Standing(Part.WAITING, why)
        # Epoch 0 has no ids. It only says whose registry may open the first one that has.
        own.write([Entry(PrimaryKey(), Stamp(0, 0), Primary(own.name, own.address))])
        return Standing(Part.WAITING, f"{own.name} becomes the first primary")

    def _take_in(self, other: Site) -> None:
        """Take what the other knows and we do not: left by an earlier primary, or lost by us."""
        if self._compared.get(other.name) == self._marks(other):
            return
        lack = self._own.lacks_of(other)
        self._meter.skipped(other.name, self._own.name, lack.skipped)
        if lack.entries and self._own.write(lack.entries):
            log.warning(
                "took in what only another registry knew",
                extra={"cluster": other.name, "entries": len(lack.entries)},
            )
            self._meter.written(other.name, self._own.name, len(lack.entries))

    def _bring(self, other: Site, now_ms: int) -> None:
        if other.error:
            self._meter.unreachable(other.name, now_ms)
            return
        if self._compared.get(other.name) == self._marks(other):
            self._meter.lag(other.name, 0, now_ms)
            return
        lack = other.lacks_of(self._own)
        self._meter.skipped(self._own.name, other.name, lack.skipped)
        if lack.entries and not self._written(other, lack, now_ms):
            return
        self._meter.lag(other.name, 0, now_ms)
        if not self._own.lacks_of(other).entries:
            self._compared[other.name] = self._marks(other)

    def _written(self, other: Site, lack: Lack, now_ms: int) -> bool:
        self._meter.lag(other.name, len(lack.entries), now_ms)
        if not other.write(lack.entries):
            log.warning("cannot write", extra={"cluster": other.name, "error": other.error})
            self._meter.unreachable(other.name, now_ms)
            return False
        self._meter.written(self._own.name, other.name, len(lack.entries))
        return True

    def _marks(self, other: Site) -> tuple[int, int]:
        return self._own.state.changes, other.state.changes
