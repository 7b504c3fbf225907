from __future__ import annotations

import pytest

from dafka.gateway.chains import Beginning, SeenChain, listed, needless, readable
from dafka.gateway.events import LedgerLine, LineKind
from dafka.gateway.ledger import ENTRY_RECORDS_MAX, LedgerEntry
from tests.support.ledger_chains import chain


def test_of_chains_the_newest_whole_one_counts_and_of_one_epoch_the_longest():
    whole = chain(1, ("A", 0, 5))
    longer = [*whole, LedgerLine(1, 3, LineKind.ENTRY, 5, "B", 0, 1)]
    torn = chain(2, ("C", 0, 1), whole=False)
    gap = [*whole, LedgerLine(1, 9, LineKind.ENTRY, 5, "D", 0, 9)]
    found = listed([whole, longer, torn, gap, []]).ledger
    assert list(found) == [LedgerEntry(0, "A", 0, 5), LedgerEntry(5, "B", 0, 1)]
    assert list(listed([whole, chain(2, ("C", 0, 1))]).ledger) == [LedgerEntry(0, "C", 0, 1)]
    assert list(listed([]).ledger) == []


@pytest.mark.parametrize(
    "wrong",
    [
        LedgerLine(2, 1, LineKind.ENTRY, 7, "A", 0, 1),
        LedgerLine(2, 1, LineKind.ENTRY, 0, "A", 0, ENTRY_RECORDS_MAX + 1),
        LedgerLine(2, 1, LineKind.TRIM, 5),
    ],
)
def test_a_chain_that_no_owner_can_have_written_does_not_count(wrong):
    whole = chain(1, ("A", 0, 5))
    forged = [LedgerLine(2, 0, LineKind.BEGIN, 0), wrong, LedgerLine(2, 2, LineKind.OPEN, 0)]
    assert list(listed([whole, forged]).ledger) == [LedgerEntry(0, "A", 0, 5)]


def restated(epoch=1, *, whole=True):
    """A chain whose owner has begun it anew behind three lines, and gone on."""
    first = chain(epoch, ("A", 0, 5))
    anew = chain(epoch, ("A", 0, 5), ("B", 0, 2), whole=whole)
    moved = [line._replace(number=line.number + len(first)) for line in anew]
    return [*first, *moved]


def test_a_chain_that_was_begun_anew_is_read_from_there():
    lines = restated()
    assert readable(lines) == lines[3:]
    assert readable(lines[2:]) == lines[3:], "what is before is gone in some stores"
    assert [entry.address for entry in listed([lines]).ledger] == ["A", "B"]
    assert [entry.address for entry in listed([lines[1:], lines[:3]]).ledger] == ["A", "B"]


def test_until_it_is_whole_again_it_is_read_from_the_beginning_before():
    lines = restated(whole=False)
    assert readable(lines) == lines[:3]
    assert readable(lines[3:]) == []


def test_lines_behind_a_gap_count_if_there_is_a_beginning_among_them():
    lines = restated()
    assert readable([lines[0], *lines[2:]]) == lines[3:]
    assert readable([*lines[:4], *lines[5:]]) == lines[:3]


def seen(lines):
    """What a store says of a chain."""
    beginning = Beginning()
    for line in lines:
        beginning.see(line.number, line.kind)
    end = lines[-1].number + 1
    return SeenChain(f"C{lines[0].epoch}", lines[0].epoch, end, beginning.settled)


def settled(lines):
    return [*lines, LedgerLine(lines[0].epoch, lines[-1].number + 1, LineKind.SETTLED, 0)]


def test_what_is_before_a_settled_beginning_is_needless():
    old, torn, new = chain(1, ("A", 0, 5)), chain(2, whole=False), settled(restated(3))
    newer = chain(4, ("A", 0, 5))
    found = needless([seen(one) for one in (old, torn, new, newer)])
    assert found == {"C1": 3, "C2": 1, "C3": 3}


def test_nothing_is_needless_before_enough_stores_have_what_comes_after_it():
    assert needless([seen(chain(1, ("A", 0, 5))), seen(chain(2))]) == {}
    assert needless([seen(restated())]) == {}
    torn = [*settled(chain(2))[:1], *settled(chain(2))[2:]]
    assert needless([seen(chain(1)), seen(torn)]) == {}, "this store does not have it whole"
