"""What is not clear from runs of the simulator, `tests/dafka/testing/test_ledger.py`."""

from __future__ import annotations

import pytest

from dafka.gateway.events import (
    Disowned,
    LeaseRenewed,
    LedgerLine,
    LineKind,
    LinesStored,
    Offered,
    Owned,
    ReadStores,
    RecordsDeleted,
    RecordsGone,
    RecordsSent,
    RecordsStored,
    StoreRead,
    WriteLines,
)
from dafka.gateway.ledger import ENTRY_RECORDS_MAX, HOLE, LedgerEntry
from dafka.gateway.owner import OWNER_STATES, LedgerMachine, OwnerState, listed
from dafka.protocol.events import Woke
from tests.support.lifecycles import assert_follows


class Bench:
    """The owner of a partition in a cluster of three stores."""

    def __init__(self, lines=None, kept=None):
        self.machine = LedgerMachine(3)
        self.give(Owned(2, 1_000, "ME"))
        self.lines = []
        self.give(StoreRead(1, "S0", lines or {}, kept or {}))
        self.give(StoreRead(1, "S1", {}, {}))

    def give(self, event, now_ms=0):
        effects = self.machine.handle(event, now_ms)
        self.machine.check()
        for effect in effects:
            if isinstance(effect, WriteLines):
                self.lines += effect.lines
        return effects

    def store(self, now_ms=0):
        """All that it has written is stored."""
        return self.give(LinesStored(2, len(self.lines)), now_ms)


def chain(epoch, *entries, whole=True):
    """What an earlier owner has written."""
    lines, end = [LedgerLine(epoch, 0, LineKind.BEGIN, 0)], 0
    for address, first, count in entries:
        lines.append(LedgerLine(epoch, len(lines), LineKind.ENTRY, end, address, first, count))
        end += count
    return [*lines, LedgerLine(epoch, len(lines), LineKind.OPEN, end)] if whole else lines


def test_it_asks_until_a_majority_has_answered():
    machine = LedgerMachine(3)
    assert machine.handle(Owned(1, 1_000, "ME"), 0) == [ReadStores(1)]
    assert machine.handle(Woke(), 0) == [ReadStores(1)]
    read = StoreRead(1, "S0", {}, {})
    assert machine.handle(read, 0) == machine.handle(read, 0) == []
    assert machine.handle(StoreRead(0, "S1", {}, {}), 0) == [], "to another question"
    assert machine.state is OwnerState.READING
    (written,) = machine.handle(StoreRead(1, "S2", {}, {}), 0)
    assert [line.kind for line in written.lines] == [LineKind.BEGIN, LineKind.OPEN]
    assert machine.handle(Woke(), 0) == []
    assert machine.wakeup_ms() is None


def test_what_was_listed_keeps_its_offsets_and_what_never_came_is_a_hole():
    before = {1: chain(1, ("A", 0, 5), ("B", 0, 2), ("A", 5, 3))}
    bench = Bench(before, {"A": range(2, 6), "B": range(2), "C": range(4)})
    assert list(bench.machine.ledger) == [
        LedgerEntry(0, "A", 0, 5),
        LedgerEntry(5, "B", 0, 2),
        LedgerEntry(7, "A", 5, 1),
        LedgerEntry(8, HOLE, 0, 2),
        LedgerEntry(10, "C", 0, 4),
    ]


def test_it_offers_what_is_stored_with_its_entry_in_order():
    bench = Bench()
    assert bench.store() == [Offered(0, 0)]
    bench.give(RecordsSent("ME", 0, 2))
    bench.give(RecordsSent("ME", 2, 1))
    assert bench.give(RecordsStored("ME", 2)) == []
    assert bench.store() == [Offered(0, 2)]
    assert bench.give(RecordsStored("ME", 3)) == [Offered(0, 3)]
    bench.give(RecordsStored("OTHER", 4))
    assert bench.store() == [Offered(0, 7)]
    assert bench.give(LinesStored(1, 99)) == [], "of an epoch of before"


def test_without_a_lease_it_offers_nothing():
    bench = Bench()
    assert bench.store(now_ms=1_000) == []
    bench.give(LeaseRenewed(2_000))
    assert bench.store(now_ms=1_500) == [Offered(0, 0)]


def test_where_the_list_begins_is_told_once_that_is_stored():
    bench = Bench({1: chain(1, ("A", 0, 5), ("B", 0, 2))}, {"A": range(5), "B": range(2)})
    bench.give(RecordsStored("A", 5))
    bench.give(RecordsStored("B", 2))
    assert bench.store() == [Offered(0, 7)]
    assert bench.give(RecordsGone("A", 5)) != []
    assert bench.give(RecordsGone("A", 5)) == []
    assert bench.store() == [Offered(5, 7)]


def test_what_a_client_deleted_stays_so_under_the_next_owner_though_stores_keep_it():
    before, kept = {1: chain(1, ("A", 0, 5), ("B", 0, 2))}, {"A": range(5), "B": range(2)}
    first = Bench(before, kept)
    first.give(RecordsStored("A", 5))
    first.give(RecordsStored("B", 2))
    first.store()
    assert first.give(RecordsDeleted(6)) != []
    assert first.give(RecordsDeleted(3)) == []
    assert first.store() == [Offered(6, 7)]
    second = Bench({2: first.lines}, kept)
    assert list(second.machine.ledger) == [LedgerEntry(6, "B", 1, 1)]
    second.give(RecordsStored("A", 5))
    assert second.give(RecordsStored("B", 2)) == []
    assert second.store() == [Offered(6, 7)]


def test_what_is_trimmed_gets_no_other_offset_from_the_next_owner():
    first = Bench({}, {"A": range(5), "B": range(2)})
    first.give(RecordsStored("A", 5))
    first.give(RecordsGone("A", 5))
    second = Bench({2: first.lines}, {"A": range(5), "B": range(2)})
    assert list(second.machine.ledger) == [LedgerEntry(5, "B", 0, 2)]
    assert LineKind.SKIP in [line.kind for line in second.lines]


def test_of_chains_the_newest_whole_one_counts_and_of_one_epoch_the_longest():
    whole = chain(1, ("A", 0, 5))
    longer = [*whole, LedgerLine(1, 3, LineKind.ENTRY, 5, "B", 0, 1)]
    torn = chain(2, ("C", 0, 1), whole=False)
    gap = [*whole, LedgerLine(1, 9, LineKind.ENTRY, 5, "D", 0, 9)]
    found = listed([whole, longer, torn, gap, []]).ledger
    assert list(found) == [LedgerEntry(0, "A", 0, 5), LedgerEntry(5, "B", 0, 1)]
    assert list(listed([whole, chain(2, ("C", 0, 1))]).ledger) == [LedgerEntry(0, "C", 0, 1)]
    assert list(listed([]).ledger) == []


def test_whose_partition_it_is_not_does_nothing():
    bench = Bench()
    bench.give(Disowned())
    for event in (RecordsStored("A", 3), LinesStored(2, 3), LeaseRenewed(9), Woke()):
        assert bench.give(event) == []
    assert bench.machine.state is OwnerState.FOREIGN
    with pytest.raises(AssertionError):
        bench.give(Owned(2, 5_000, "ME"))


CHANGES = {
    (OwnerState.FOREIGN, OwnerState.READING): [Owned(1, 1_000, "ME")],
    (OwnerState.READING, OwnerState.BEGINNING): [
        StoreRead(1, "S0", {}, {}),
        StoreRead(1, "S1", {}, {}),
    ],
    (OwnerState.BEGINNING, OwnerState.SERVING): [LinesStored(1, 2)],
    **{
        (state, OwnerState.FOREIGN): [Disowned()]
        for state in OwnerState
        if state is not OwnerState.FOREIGN
    },
}
WAY = [state for state in OwnerState if state is not OwnerState.FOREIGN]


@pytest.mark.parametrize("state", OwnerState)
@pytest.mark.parametrize("following", OwnerState)
def test_its_states_follow_each_other_as_the_table_says(state, following):
    machine = LedgerMachine(3)
    for step in WAY[: 1 + WAY.index(state)] if state in WAY else []:
        for event in CHANGES[machine.state, step]:
            machine.handle(event, 0)
    events = CHANGES.get((state, following))

    def change():
        for event in events:
            machine.handle(event, 0)

    assert_follows(machine._lifecycle, OWNER_STATES, following, events and change)


def test_a_log_of_more_records_than_an_entry_has_is_several():
    bench = Bench({}, {"A": range(2 * ENTRY_RECORDS_MAX + 5)})
    entries = [line for line in bench.lines if line.kind is LineKind.ENTRY]
    assert [line.records for line in entries] == [ENTRY_RECORDS_MAX, ENTRY_RECORDS_MAX, 5]
    assert bench.machine.ledger.end == 2 * ENTRY_RECORDS_MAX + 5


@pytest.mark.parametrize(
    "wrong",
    [
        LedgerLine(2, 1, LineKind.ENTRY, 7, "A", 0, 1),
        LedgerLine(2, 1, LineKind.ENTRY, 0, "A", 0, ENTRY_RECORDS_MAX + 1),
        LedgerLine(2, 1, LineKind.TRIM, 5),
        LedgerLine(2, 1, LineKind.BEGIN, 0),
    ],
)
def test_a_chain_that_no_owner_can_have_written_does_not_count(wrong):
    whole = chain(1, ("A", 0, 5))
    forged = [LedgerLine(2, 0, LineKind.BEGIN, 0), wrong, LedgerLine(2, 2, LineKind.OPEN, 0)]
    assert list(listed([whole, forged]).ledger) == [LedgerEntry(0, "A", 0, 5)]
