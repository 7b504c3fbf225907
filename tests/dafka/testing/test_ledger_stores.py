from __future__ import annotations

from dafka.gateway.events import LedgerLine, LineKind
from dafka.testing.ledger_stores import Shelf
from tests.support.ledger_chains import chain


def shelf_with(*chains):
    shelf = Shelf("S")
    for lines in chains:
        shelf.take_lines(tuple(lines))
    return shelf


def test_it_drops_what_is_before_a_settled_chain_and_others_go_on_behind_that():
    settled = [*chain(2), LedgerLine(2, 2, LineKind.SETTLED, 0)]
    first = shelf_with(chain(1), settled)
    first.tidy()
    assert (first.chains[1].lines, first.dropped) == ([], 2)
    second = shelf_with(chain(1)[:1])
    second.copy(first, 1.0)
    assert second.chains[1].next == 2
    assert second.chains[2].lines == settled


def test_a_new_disk_is_new_until_it_has_had_all_of_each_other():
    new, other = shelf_with(), shelf_with(chain(1))
    new.compare(other, 2)
    assert new.new
    new.copy(other, 1.0)
    new.compare(other, 2)
    assert not new.new
    new.lose()
    assert new.new
    assert new.lost
    new.copy(other, 1.0)
    new.compare(other, 2)
    assert not new.new
    assert not new.lost
