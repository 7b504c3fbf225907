from __future__ import annotations

from dafka.gateway.broker import KafkaPartition
from dafka.gateway.events import LedgerLine, LineKind, StoreRead
from dafka.gateway.ledger import HOLE
from dafka.gateway.ledger_check import CheckedLedger, check_ledger
from tests.support.ledger_chains import chain

ORDERS = KafkaPartition("orders", 3)
LINES = chain(2, ("A", 0, 5), (HOLE, 0, 2), ("B", 0, 3))
KEPT = {"A": range(5), "B": range(3)}


def read(lines=LINES, kept=None):
    epoch = lines[0].epoch if lines else 0
    return StoreRead(0, "", {epoch: lines} if lines else {}, KEPT if kept is None else kept)


def problems(*reads):
    """What is wrong with a ledger in three stores, of which these answer."""
    checked = check_ledger(ORDERS, {f"S{number}": one for number, one in enumerate(reads)}, 3)
    return list(checked.problems)


def test_a_ledger_that_is_as_it_should_be():
    found = check_ledger(ORDERS, {"S0": read(), "S1": read()}, 3)
    assert found == CheckedLedger("orders", 3, 2, 0, 10, 10, 3, 2, ())
    assert problems(read(), read(LINES[:3]), read()) == []


def test_offsets_that_overlap_or_go_back_are_said():
    wrong = LedgerLine(2, 5, LineKind.ENTRY, 3, "C", 0, 1)
    back = LedgerLine(2, 5, LineKind.ENTRY, 10, "A", 2, 1)
    for line in (wrong, back):
        (said,) = problems(read(), read(), read([*LINES, line]))
        assert said.startswith("S2 has lines that no owner can have written")


def test_stores_that_do_not_say_the_same_are_named():
    other = [*LINES[:3], LINES[3]._replace(address="C"), *LINES[4:]]
    assert "S1 has another line 3 of epoch 2 (L2)" in problems(read(), read(other))


def test_records_that_are_not_in_enough_stores_are_said_and_where_what_is_stored_ends():
    less = {"A": range(5), "B": range(1)}
    found = check_ledger(ORDERS, {"S0": read(), "S1": read(kept=less)}, 3)
    assert (found.stored, found.end) == (8, 10)
    assert found.problems == ("not enough stores have the records of B below 3 (L8)",)


def test_lines_that_only_one_store_has_are_not_stored():
    longer = [*LINES, LedgerLine(2, 5, LineKind.ENTRY, 10, "A", 5, 2)]
    found = check_ledger(ORDERS, {"S0": read(longer), "S1": read()}, 3)
    assert (found.stored, found.end, found.problems) == (10, 12, ())


def test_records_without_an_offset_are_counted():
    more = {**KEPT, "C": range(9)}
    assert problems(read(kept=more), read(kept=more)) == [
        "records of 1 Dafka partitions have no offset (L3)"
    ]


def test_a_beginning_that_too_few_stores_have_is_said():
    assert "1 of 3 stores have the newest beginning" in problems(read(), read([]))
    assert problems(read([]), read(LINES[:2])) == ["no store has a whole beginning"]
