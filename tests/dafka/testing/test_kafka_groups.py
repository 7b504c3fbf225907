"""The simulator of Kafka groups, and that it finds faults that are put into the machines."""

from __future__ import annotations

import sys

import pytest

from dafka.gateway import translation
from dafka.gateway.broker import Offsets
from dafka.gateway.coordination import Coordination
from dafka.gateway.ledger import Ledger
from dafka.gateway.translation import OffsetTranslation, OwnedLedger
from dafka.model import replace
from dafka.testing import kafka_groups, kafka_site
from dafka.testing.kafka_groups import run
from tests.support.seeds import assert_all_pass, broken_by, shown_by

pytestmark = pytest.mark.sim

SEEDS_MAX = 600
"""Of which one has to show a fault."""


def test_what_groups_are_told_holds(seeds):
    assert_all_pass(run, "dafka.testing.kafka_groups", seeds)


def test_the_same_seed_gives_the_same_run():
    first, second = run(3), run(3)
    assert first.attempts == second.attempts
    assert first.processed == second.processed


def test_runs_have_commits_moves_and_records_read_twice():
    runs = [run(seed) for seed in range(30)]
    assert sum(one.told for one in runs) > 100
    assert sum(one.moves for one in runs) > 50
    assert sum(attempt.acknowledged for one in runs for attempt in one.attempts) > 100
    assert not all(attempt.acknowledged for one in runs for attempt in one.attempts)
    assert sum(one.again for one in runs) > 0


def one_enough(_number):
    return lambda stores: 1


def the_next_epoch(commit):
    """Not by how much the generation says."""

    def committed(self, wanted, heard):
        if wanted.known is not None:
            wanted = replace(wanted, known=wanted.known - wanted.epoch + 1)
        return commit(self, wanted, heard)

    return committed


def of_all_epochs_the_first(commit):
    def committed(self, wanted, heard):
        return commit(self, wanted if wanted.known is None else replace(wanted, known=0), 0)

    return committed


def where_it_was(hold):
    """Who coordinates a group again goes on from its own last commit, not from what is there."""

    def held(self, shares, epoch):
        versions = dict(self._versions)
        told = hold(self, shares, epoch)
        self._versions |= versions
        return told

    return held


def by_the_clock_alone(commit):
    """Commits within a millisecond, and after a clock was set back, are no newer than the last."""

    def committed(self, wanted, heard):
        versions = self._versions.items()
        self._versions = {group: version._replace(commit_ms=-1) for group, version in versions}
        return commit(self, wanted, heard)

    return committed


def before_stores_have_it(stored):
    return lambda self, end, *, leased: stored(self, sys.maxsize, leased=leased)


def as_the_last_store_says(answers):
    """Not the newest of what a majority has."""
    return {place: commit for answer in answers for place, commit in answer.items()}


def deaf(commit):
    """What others commit meanwhile is not heeded."""
    return lambda self, wanted, heard: commit(self, wanted, 0)


def at_once(holding):
    """Before positions are an offset, what was one is told."""

    def held(rows, numbers):
        rows = {place: commit for place, commit in rows.items() if place.topic != "orders"}
        return holding(rows, numbers)

    return held


def with_all_of_the_list(work_out):
    def worked_out(*arguments):
        *others, (ledger, _) = arguments
        return work_out(*others, OwnedLedger(ledger, Offsets(0, ledger.end)))

    return worked_out


def never_back(positions):
    return lambda self, start, end: positions(self, min(start, end), end)


def first_found(work_out):
    """What was worked out once for a version stays."""

    def worked_out(standing, version, place, owned):
        held = standing.rows.get(translation.REACHED)
        if held is not None and translation.version_of(held) >= version:
            return []
        return work_out(standing, version, place, owned)

    return worked_out


def none_of_another(work):
    """An owner does not look at what was committed before it was one."""

    def worked(self, owned):
        self._ends.update({one: there.offered.end for one, there in owned.items()})
        return work(self, owned)

    return worked


def by_any_address(reached):
    """Where one address is behind, the others go on."""

    def offset(self, positions, start=0):
        ends = [one.end for one in self if positions.get(one.address, 0) >= one.first + one.records]
        return max((reached(self, positions, start), *ends))

    return offset


FAULTS = {
    "one store enough": (
        250,
        lambda patch: patch.setattr(kafka_site, "blocking_of", one_enough(kafka_site.blocking_of)),
    ),
    "one store read": (
        25,
        lambda patch: patch.setattr(kafka_site, "majority_of", one_enough(kafka_site.majority_of)),
    ),
    "the next epoch": (
        78,
        lambda patch: patch.setattr(Coordination, "commit", the_next_epoch(Coordination.commit)),
    ),
    "no epoch read": (
        7,
        lambda patch: patch.setattr(
            Coordination, "commit", of_all_epochs_the_first(Coordination.commit)
        ),
    ),
    "as before another": (
        15,
        lambda patch: patch.setattr(Coordination, "hold", where_it_was(Coordination.hold)),
    ),
    "by the clock": (
        28,
        lambda patch: patch.setattr(
            Coordination, "commit", by_the_clock_alone(Coordination.commit)
        ),
    ),
    "answered at once": (
        148,
        lambda patch: patch.setattr(
            Coordination, "stored", before_stores_have_it(Coordination.stored)
        ),
    ),
    "the last answer": (
        124,
        lambda patch: patch.setattr(kafka_site, "merged", as_the_last_store_says),
    ),
    "what others commit": (
        13,
        lambda patch: patch.setattr(Coordination, "commit", deaf(Coordination.commit)),
    ),
    "told at once": (
        4,
        lambda patch: patch.setattr(kafka_groups, "holding", at_once(kafka_groups.holding)),
    ),
    "who saw less": (
        57,
        lambda patch: patch.setattr(
            translation, "_positions", with_all_of_the_list(translation._positions)
        ),
    ),
    "never back": (
        72,
        lambda patch: patch.setattr(Ledger, "positions", never_back(Ledger.positions)),
    ),
    "what was found first": (
        10,
        lambda patch: patch.setattr(translation, "_reached", first_found(translation._reached)),
    ),
    "as of another owner": (
        123,
        lambda patch: patch.setattr(
            OffsetTranslation, "work", none_of_another(OffsetTranslation.work)
        ),
    ),
    "any address": (
        9,
        lambda patch: patch.setattr(Ledger, "reached", by_any_address(Ledger.reached)),
    ),
}
"""Each with a seed that has shown it, and what puts it in."""


@pytest.mark.parametrize(("seed", "put_in"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(seed, put_in, monkeypatch):
    put_in(monkeypatch)
    assert broken_by(run, shown_by(seed, SEEDS_MAX))
