"""The flows that a replica runs, and how they become those that are wanted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from dafka.model import replace
from distributor.control.events import FlowTerms, StartFlow, SteerFlow, StopFlow
from distributor.control.frontiers import beyond, joined, reaches
from distributor.control.messages import FlowStatus, Frontiers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition
    from distributor.control.events import FlowChanged, FlowEffect, FlowMoved
    from distributor.control.history import FlowWish
    from distributor.control.messages import Flow


class Fate(Enum):
    """What reconciling did with a flow, for counters: who begins all anew must not look well."""

    CREATED = "created"
    KEPT = "kept"
    REPLACED = "replaced"
    DROPPED = "dropped"


@dataclass(slots=True)
class FlowRun:
    """A flow, from its beginning in this process to its end.

    Attributes:
        run: Names it.
        flow: What it is.
        wanted: What it may do, as the controller says.
        told: What it was told that it may do.
        status: What it does.
        epoch: Under which it does so.
        reason: Why it has failed.
        input: See `Frontiers`, as the other two.
        write: At the target.
        output: This replica's own.
    """

    run: int
    flow: Flow
    wanted: FlowTerms
    told: FlowTerms
    status: FlowStatus = FlowStatus.SUSPENDED
    epoch: int = 0
    reason: str = ""
    input: dict[Partition, int] = field(default_factory=dict)
    write: dict[Partition, int] = field(default_factory=dict)
    output: dict[Partition, int] = field(default_factory=dict)


class FlowTable:
    """The flows of one replica by number, and the runs that are still to end."""

    def __init__(self) -> None:
        self.runs: dict[int, FlowRun] = {}
        self.fates: Counter[Fate] = Counter()
        """What became of flows when controllers connected again."""
        self._numbers: dict[int, int] = {}
        """Of all runs, those that are to end too, the number of the flow."""
        self._ending: Counter[int] = Counter()
        """How many runs of a flow were told to stop and have not ended."""
        self._begun = 0

    def reconcile(self, wishes: Mapping[int, FlowWish]) -> list[FlowEffect]:
        """Become what is wanted; what is there and fits goes on, undisturbed.

        Drops come first: they make room.
        """
        effects: list[FlowEffect] = []
        live = {number: wish for number, wish in wishes.items() if not wish.dropped}
        for number in [one for one in self.runs if one not in live]:
            self.fates[Fate.DROPPED] += 1
            effects += self.drop(number)
        for number, wish in live.items():
            run = self.runs.get(number)
            if run is None:
                self.fates[Fate.CREATED] += 1
                effects += self.create(number, wish.flow, wish.terms)
            elif run.flow == wish.flow and reaches(wish.terms.start, run.wanted.start):
                self.fates[Fate.KEPT] += 1
                effects += self.steer(number, wish.terms)
            else:  # it is another one, or has given up what is wanted of it again
                self.fates[Fate.REPLACED] += 1
                effects += self.drop(number)
                effects += self.create(number, wish.flow, wish.terms)
        return effects

    def create(self, number: int, flow: Flow, terms: FlowTerms) -> list[FlowEffect]:
        """Begin to run a flow."""
        self._begun += 1
        run = FlowRun(self._begun, flow, terms, self._permitted(number, terms))
        self.runs[number] = run
        self._numbers[run.run] = number
        return [StartFlow(run.run, flow, run.told)]

    def steer(self, number: int, terms: FlowTerms) -> list[FlowEffect]:
        """Give a flow other terms, if they are."""
        run = self.runs[number]
        run.wanted = terms
        permitted = self._permitted(number, terms)
        if permitted == run.told:
            return []
        run.told = permitted
        if run.status is FlowStatus.WRITING and run.epoch != permitted.epoch:
            run.status = FlowStatus.DRAINING  # until it says what it does under its new terms
        return [SteerFlow(run.run, permitted)]

    def drop(self, number: int) -> list[FlowEffect]:
        """End a flow."""
        run = self.runs.pop(number)
        self._ending[number] += 1
        return [StopFlow(run.run)]

    def stopped(self, run: int) -> tuple[int, list[FlowEffect]]:
        """A run has ended: the one that takes its place may write. Returns its flow, too."""
        number = self._numbers.pop(run)
        self._ending[number] -= 1
        if not self._ending[number]:
            del self._ending[number]
        return number, self.steer(number, self.runs[number].wanted) if number in self.runs else []

    def is_gone(self, number: int) -> bool:
        """Whether nothing of a flow happens any more."""
        return number not in self.runs and number not in self._ending

    def moved(self, event: FlowMoved) -> Frontiers | None:
        """Take in how far a run is; returns what of that is news, None if it was told to stop."""
        number, run = self._find(event.run)
        if run is None:
            return None
        news = Frontiers(
            number,
            beyond(event.input, run.input),
            beyond(event.write, run.write),
            beyond(event.output, run.output),
        )
        run.input = joined(run.input, news.input)
        run.write = joined(run.write, news.write)
        run.output = joined(run.output, news.output)
        return news

    def changed(self, event: FlowChanged) -> int | None:
        """Take in what a run does; returns its flow, None if that is not so any more."""
        number, run = self._find(event.run)
        if run is None:
            return None
        if event.status is FlowStatus.WRITING and event.epoch != run.told.epoch:
            return None  # it has not heard of its new terms yet
        run.status, run.epoch, run.reason = event.status, event.epoch, event.reason
        return number

    def check(self) -> None:
        """Assert that of a flow one run at most may write."""
        for number in self._ending:
            assert number not in self.runs or not self.runs[number].told.epoch, number

    def _find(self, run: int) -> tuple[int, FlowRun | None]:
        """The flow of a run, and the run unless it was told to stop."""
        number = self._numbers[run]
        current = self.runs.get(number)
        return number, current if current is not None and current.run == run else None

    def _permitted(self, number: int, terms: FlowTerms) -> FlowTerms:
        """While an earlier run of a flow ends, the next one writes nothing."""
        return replace(terms, epoch=0) if number in self._ending else terms
