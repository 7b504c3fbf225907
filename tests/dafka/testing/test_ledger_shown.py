"""What no client may be told is seen."""

from __future__ import annotations

import pytest

from dafka.gateway.events import Offered
from dafka.gateway.ledger import HOLE, Ledger
from dafka.gateway.owner import LedgerMachine
from dafka.testing.ledger_shown import Shown


def machine(*entries):
    made = LedgerMachine(1)
    made.ledger = Ledger()
    for entry in entries:
        made.ledger.append(*entry)
    return made


def shown(*, kept=True, batches=None):
    """What was told of two records of A and one of B."""
    found = Shown(batches=batches or {})
    found.offered(machine(("A", 0, 2), ("B", 0, 1)), Offered(0, 3), lambda *_: kept)
    return found


@pytest.mark.parametrize(
    ("entries", "offered", "found"),
    [
        ([("A", 0, 2), ("B", 0, 1)], Offered(0, 2), "L5"),
        ([("A", 0, 1), ("B", 0, 2)], Offered(0, 3), "L2"),
        ([("A", 0, 2), (HOLE, 0, 1)], Offered(0, 3), "L2"),
        ([("A", 0, 2), ("B", 0, 1), ("C", 0, 1), ("A", 7, 1)], Offered(0, 5), None),
    ],
)
def test_what_changes_or_vanishes_is_found(entries, offered, found):
    before = shown()
    if found is None:
        before.offered(machine(*entries), offered, lambda *_: True)
        return
    with pytest.raises(AssertionError, match=found):
        before.offered(machine(*entries), offered, lambda *_: True)


def test_what_nobody_has_any_more_may_be_a_hole():
    before = shown()
    before.offered(machine(("A", 0, 2), (HOLE, 0, 1)), Offered(0, 3), lambda *_: False)


def test_a_batch_that_is_there_twice_is_found():
    with pytest.raises(AssertionError, match="L7"):
        shown(batches={("A", 0): 5, ("B", 0): 5})
