"""The schema distributor of one cluster: a standby until its cluster is the primary.

One step compares the primary's registry with each other one and writes what is lacking, which is
also how it goes on after anything that stopped it: nothing is remembered but in the logs.

Decisions that an earlier primary has taken and could pass on to nobody are taken in where it is
heard of again: what was acknowledged there stays true, unless a later one has decided otherwise.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from dafka.schemas.entries import Primary, PrimaryKey, SchemaEntry, Stamp
from distributor.schemas.comparison import Lack
from distributor.schemas.site import claimed_twice, latest_claim, primary_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.schemas.entries import Key
    from distributor.schemas.meter import SchemaMeter
    from distributor.schemas.site import Site

log = logging.getLogger(__name__)


class Part(Enum):
    """What a distributor does."""

    STARTING = "starting"
    ACTING = "acting"
    STANDBY = "standby"
    WAITING = "waiting"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class DistributorState:
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

    def __init__(
        self, own: Site, others: Sequence[Site], *, first: bool, meter: SchemaMeter
    ) -> None:
        self._own = own
        self._others = others
        self._first = first
        self._meter = meter
        self._compared: dict[tuple[Site, Site], int] = {}
        """By source and target, how much of the source's decisions the target did not lack."""
        self._skipped: dict[tuple[Site, Site], dict[Key, str]] = {}
        """By source and target, what cannot be copied, and why."""
        self.state = DistributorState(Part.STARTING)

    def step(self, now_ms: int) -> DistributorState:
        """Do what there is to do now."""
        state = self._step(now_ms)
        self._meter.acting(state.part is Part.ACTING)
        if state != self.state:
            log.info("schemas: %s", state.part.value, extra={"why": state.why})
        self.state = state
        return state

    def _step(self, now_ms: int) -> DistributorState:
        own = self._own
        if not own.read():
            return DistributorState(Part.WAITING, f"{own.name}: {own.error}")
        if own.primary and own.primary != own.name:
            return DistributorState(Part.STANDBY, f"{own.primary} is the primary")
        reached = [own, *(other for other in self._others if other.read())]
        contested = claimed_twice(reached)
        if contested:
            return DistributorState(Part.CONFLICT, contested)
        claim = latest_claim(reached)
        if claim is None:
            return self._claim_first(reached)
        primary = primary_of(claim)
        if primary != own.name:
            # Somebody was made the primary while we could not hear of it. Our registry has to know
            # before anything else: it would go on registering.
            own.write([claim])
            return DistributorState(Part.STANDBY, f"{primary} has become the primary")
        for other in self._others:
            if not other.error:
                self._take_in(other)
        for other in self._others:
            self._bring(other, now_ms)
        return DistributorState(Part.ACTING)

    def _claim_first(self, reached: Sequence[Site]) -> DistributorState:
        own = self._own
        if not self._first:
            return DistributorState(Part.WAITING, "no cluster is the primary yet")
        silent = [other.name for other in self._others if other not in reached]
        if silent:
            why = f"no cluster is the primary, as far as is known: {silent[0]} does not answer"
            return DistributorState(Part.WAITING, why)
        # Epoch 0 has no ids. It only says whose registry may open the first one that has.
        own.write([SchemaEntry(PrimaryKey(), Stamp(0, 0), Primary(own.name, own.address))])
        return DistributorState(Part.WAITING, f"{own.name} becomes the first primary")

    def _take_in(self, other: Site) -> None:
        """Take what the other knows and we do not: left by an earlier primary, or lost by us."""
        lack = self._lack(other, self._own)
        if lack.entries:
            log.warning(
                "takes in what only another registry knew",
                extra={"cluster": other.name, "entries": len(lack.entries)},
            )
            if not self._write(other, self._own, lack):
                return
        self._compared[other, self._own] = other.state.changes

    def _bring(self, other: Site, now_ms: int) -> None:
        if other.error:
            self._meter.unreachable(other.name, now_ms)
            return
        known = self._own.state.changes
        lack = self._lack(self._own, other)
        if lack.entries:
            self._meter.lag(other.name, len(lack.entries), now_ms)
            if not self._write(self._own, other, lack):
                self._meter.unreachable(other.name, now_ms)
                return
        self._meter.lag(other.name, 0, now_ms)
        self._compared[self._own, other] = known

    def _lack(self, source: Site, target: Site) -> Lack:
        """What the target lacks of what was decided since it lacked nothing.

        What could not be copied then is looked at again.
        """
        way = source, target
        skipped = self._skipped.setdefault(way, {})
        changed = source.state.changed_since(self._compared.get(way, 0))
        if not changed:
            return Lack()
        lack = target.lacks_of(source, dict.fromkeys((*changed, *skipped)))
        self._skipped[way] = dict(lack.skipped)
        self._meter.skipped(source.name, target.name, Counter(lack.skipped.values()))
        return lack

    def _write(self, source: Site, target: Site, lack: Lack) -> bool:
        if not target.write(lack.entries):
            log.warning("cannot write", extra={"cluster": target.name, "error": target.error})
            return False
        self._meter.written(source.name, target.name, len(lack.entries))
        return True
