from __future__ import annotations

import logging

import pytest

from dafka.protocol.keeping import Keeping
from dafka.query import slot_mover
from dafka.query.slot_mover import SlotMover
from dafka.testing import sim_mover
from dafka.testing.checker import Name
from dafka.testing.slot_moves import run

MUTANT_SEEDS_MAX = 20


def keep_what_has_not_come(patch):
    """A store is told to keep what it joins before it has caught up."""
    patch.setattr(slot_mover, "_lacks", lambda *_: "")


def acknowledge_what_joins(patch):
    """A disk counts that its cluster does not rely on yet."""
    patch.setattr(Keeping, "acknowledges", Keeping.takes)


def drop_what_nobody_else_has(patch):
    """A store gives up without looking at others."""
    patch.setattr(
        sim_mover, "SlotMover", lambda stores, _copies, name: SlotMover(stores, 0, name=name)
    )
    patch.setattr(SlotMover, "_join", lambda self: "")


def go_on_taking_in_what_is_stopped(patch):
    """A store acknowledges what comes between the look at others and the drop."""
    patch.setattr(Keeping, "_has_stopped", lambda _keeping, _partition: False)


MUTANTS = [
    (keep_what_has_not_come, 0, Name.GAP),
    (acknowledge_what_joins, 5, Name.ACK_NOT_DURABLE),
    (drop_what_nobody_else_has, 9, Name.GIVEN_UP),
    (go_on_taking_in_what_is_stopped, 0, Name.GIVEN_UP),
]
"""Each with a seed that has shown it, and what it is called."""


@pytest.fixture(autouse=True)
def silent():
    """Disks that are full say so a thousand times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.sim
def test_slots_move_while_records_flow(seeds):
    assert {seed: found for seed in seeds if (found := run(seed).anomalies)} == {}


def test_a_seed_gives_the_same_run():
    assert run(5) == run(5)


@pytest.mark.sim
@pytest.mark.parametrize(
    ("mutant", "seed", "name"), MUTANTS, ids=[one.__name__ for one, *_ in MUTANTS]
)
def test_bugs_put_in_on_purpose_are_found_and_named(mutant, seed, name, monkeypatch):
    mutant(monkeypatch)
    found = (
        one.name for seed in range(seed, seed + MUTANT_SEEDS_MAX) for one in run(seed).anomalies
    )
    assert name in found
