"""What is not clear from runs of the simulator, `tests/dafka/testing/test_ledger.py`."""

from __future__ import annotations

import pytest

from dafka.gateway.chains import listed
from dafka.gateway.events import (
    Disowned,
    Lease,
    LineKind,
    LinesStored,
    Offered,
    Owned,
    Produced,
    ReadStores,
    RecordsDeleted,
    RecordsForgotten,
    RecordsGone,
    RecordsSent,
    RecordsStored,
    Restate,
    StoreRead,
    WriteLines,
)
from dafka.gateway.ledger import ENTRY_RECORDS_MAX, HOLE, LedgerEntry
from dafka.gateway.owner import (
    OWNER_STATES,
    TAKEOVER_MS_MAX,
    LedgerMachine,
    OwnerState,
    knows_all,
)
from dafka.protocol.events import Woke
from tests.support.ledger_chains import chain
from tests.support.lifecycles import assert_follows


class Bench:
    """The owner of a partition in a cluster of three stores."""

    def __init__(self, lines=None, kept=None, *, read=True, **settings):
        self.machine = LedgerMachine(3, **settings)
        self.lease = Lease(1_000)
        self.give(Owned(2, self.lease, "ME"))
        self.lines = []
        if not read:
            return
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
        """All that it has written is stored: what it offers then."""
        effects = self.give(LinesStored(2, len(self.lines)), now_ms)
        return [effect for effect in effects if isinstance(effect, Offered)]


def test_it_asks_until_a_majority_has_answered():
    machine = LedgerMachine(3)
    assert machine.handle(Owned(1, Lease(1_000), "ME"), 0) == [ReadStores(1)]
    read = StoreRead(1, "S0", {}, {})
    assert machine.handle(read, 0) == machine.handle(read, 0) == []
    assert machine.handle(StoreRead(0, "S1", {}, {}), 0) == [], "to another question"
    assert machine.state is OwnerState.READING
    (written,) = machine.handle(StoreRead(1, "S2", {}, {}), 0)
    assert [line.kind for line in written.lines] == [LineKind.BEGIN, LineKind.OPEN]
    assert machine.handle(Woke(), 0) == []


def test_it_begins_nothing_where_a_later_ownership_has():
    bench = Bench({1: chain(1, ("A", 0, 5)), 7: chain(7, ("A", 0, 9))}, {"A": range(9)})
    assert (bench.machine.state, bench.machine.outranked) == (OwnerState.READING, True)
    assert bench.lines == []
    said = "a generation above 2: there is a ledger of epoch 7"
    assert waits(bench, TAKEOVER_MS_MAX) == said
    bench.give(Disowned())
    bench.give(Owned(8, bench.lease, "ME"))
    assert not bench.machine.outranked
    for store in ("S0", "S1"):
        bench.give(StoreRead(2, store, {7: chain(7, ("A", 0, 9))}, {"A": range(9)}))
    assert list(bench.machine.ledger) == [LedgerEntry(0, "A", 0, 9)]


def waits(bench, now_ms):
    """What an owner tells that it waits for, and that it tells it in time."""
    assert bench.machine.wakeup_ms() == now_ms
    assert bench.give(Woke(), now_ms - 1) == []
    return bench.give(Woke(), now_ms)[0].waits_for


def test_a_takeover_that_takes_long_says_what_it_waits_for():
    late_ms = TAKEOVER_MS_MAX
    reading = Bench(read=False)
    assert waits(reading, late_ms) == "stores to be read: 0 of 3 have been"
    bench = Bench({1: chain(1, ("A", 0, 5))}, {"A": range(5)})
    assert waits(bench, late_ms) == "a lease"
    bench.lease.until_ms = 9 * late_ms
    assert waits(bench, 2 * late_ms) == "stores to have its ledger: 0 of 4 lines"
    bench.store()
    said = "stores to have the records of A below 5: up to 0 they do"
    assert waits(bench, 3 * late_ms) == said
    bench.give(StoreRead(2, "S0", {2: bench.lines}, {"A": range(5)}))
    bench.give(StoreRead(2, "S1", {}, {"A": range(5)}))
    bench.store(3 * late_ms)
    assert bench.machine.wakeup_ms() is None
    assert bench.give(Woke(), 5 * late_ms) == []


@pytest.mark.parametrize(
    ("new", "stores_read"),
    [
        ((False, False, False), 2),
        ((True, False, False), 3),
        ((False, True, True), 3),
        ((True, True, False), 3),
        ((True, True, True), 3),
    ],
    ids=["none", "the first", "the others", "the first two", "all"],
)
def test_a_store_with_a_new_disk_is_none_of_a_majority_that_was_there_before(new, stores_read):
    machine = LedgerMachine(3)
    machine.handle(Owned(1, Lease(1_000), "ME"), 0)
    for number, one in enumerate(new):
        assert machine.state is OwnerState.READING
        machine.handle(StoreRead(1, f"S{number}", {}, {}, new=one), 0)
        if machine.state is OwnerState.BEGINNING:
            break
    assert number + 1 == stores_read


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


def test_what_enough_stores_had_when_they_were_read_is_stored_though_none_tells_of_it_any_more():
    """They may have forgotten the partition since: emptied and unchanged for long (ADR 26)."""
    machine = LedgerMachine(3)
    machine.handle(Owned(2, Lease(1_000), "ME"), 0)
    before = {1: chain(1, ("A", 0, 5), ("B", 0, 2))}
    machine.handle(StoreRead(1, "S0", before, {"A": range(5, 5), "B": range(2)}), 0)
    (written,) = machine.handle(StoreRead(1, "S1", {}, {"A": range(4, 5), "B": range(1)}), 0)
    (said,) = machine.handle(LinesStored(2, len(written.lines)), 0)
    assert [line.kind for line in said.lines] == [LineKind.SETTLED]
    assert machine.handle(RecordsStored("B", 2), 0) == [Offered(0, 7)]


def test_without_a_lease_it_offers_nothing():
    bench = Bench()
    assert bench.store(now_ms=1_000) == []
    bench.lease.until_ms = 2_000
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


def test_whose_partition_it_is_not_does_nothing():
    bench = Bench()
    bench.give(Disowned())
    for event in (RecordsStored("A", 3), LinesStored(2, 3), Woke()):
        assert bench.give(event) == []
    assert bench.machine.state is OwnerState.FOREIGN
    with pytest.raises(AssertionError):
        bench.give(Owned(2, Lease(5_000), "ME"))


CHANGES = {
    (OwnerState.FOREIGN, OwnerState.READING): [Owned(1, Lease(1_000), "ME")],
    (OwnerState.READING, OwnerState.BEGINNING): [
        StoreRead(1, "S0", {}, {"A": range(1)}),
        StoreRead(1, "S1", {}, {}),
    ],
    (OwnerState.BEGINNING, OwnerState.READING): [LinesStored(1, 3), Woke()],
    (OwnerState.BEGINNING, OwnerState.SERVING): [RecordsStored("A", 1), LinesStored(1, 3)],
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
    machine = LedgerMachine(3, takeover_ms=0)
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


def test_a_chain_twice_as_long_as_its_beginning_is_begun_anew_once_that_is_stored():
    bench = Bench({1: chain(1, ("A", 0, 5))}, {"A": range(5)}, lines_min=3)
    produced = Produced(7, 0, 0, 1)
    for number in range(4):
        bench.give(RecordsSent("ME", number, 1, produced))
    restate = Restate([(produced, 8)])
    assert bench.give(restate) == [], "what is to be dropped may not be stored yet"
    bench.give(RecordsStored("A", 5))
    bench.give(RecordsStored("ME", 2))
    assert bench.store() == [Offered(0, 7)]
    assert bench.machine.is_long
    (written,) = bench.give(restate)
    kinds = [line.kind.value for line in written.lines]
    assert kinds == ["begin", "entry", "entry", "skip", "produced", "open"]
    assert not bench.machine.is_long
    assert bench.store() == [], "it offers no more than before"
    assert bench.lines[-1].kind is LineKind.SETTLED
    for known in (bench.lines, written.lines):
        found = listed([known])
        assert list(found.ledger) == list(bench.machine.ledger)
        assert [(line.produced, line.offset) for line in found.produced][-1] == (produced, 8)
        assert found.closed == ["", "ME"]


def test_records_whose_store_has_lost_its_disk_since_it_was_read_become_holes():
    bench = Bench({1: chain(1, ("A", 0, 5))}, {"A": range(5)})
    bench.store()
    bench.lease.until_ms = 3 * TAKEOVER_MS_MAX
    late, asked = bench.give(Woke(), TAKEOVER_MS_MAX)
    assert "records of A below 5" in late.waits_for
    assert asked == ReadStores(2)
    bench.give(StoreRead(2, "S0", {2: bench.lines}, {}))
    bench.give(StoreRead(2, "S1", {}, {}))
    assert list(bench.machine.ledger) == [LedgerEntry(0, HOLE, 0, 5)]
    assert bench.store(TAKEOVER_MS_MAX) == [Offered(0, 5)]
    bench.give(RecordsSent("ME", 0, 1))
    assert bench.machine.ledger.end == 6, "its own address is not closed"


def test_what_no_store_lists_any_more_is_not_remembered_but_for_where_it_ended():
    bench = Bench(forgotten_min=0)
    bench.store()
    for number in range(100):
        bench.give(RecordsStored(f"A{number}", 5))
        bench.give(RecordsForgotten([f"A{number}"]))
        assert f"A{number}" in bench.machine._stored, "that it is stored is still waited for"
        bench.give(RecordsGone(f"A{number}", 5))
        bench.store()
    bench.give(RecordsStored("B", 1))
    bench.give(RecordsForgotten(["B"]))
    bench.store()
    assert bench.machine._stored.keys() == {"B"}, "it is in the list"
    assert not bench.machine._gone
    lines = len(bench.lines)
    bench.give(RecordsStored("A0", 5))
    assert len(bench.lines) == lines, "a store acknowledges what it has forgotten when it is asked"
    bench.give(RecordsStored("A0", 6))
    assert bench.lines[-1].first == 5
    assert bench.store() == [Offered(500, 502)]


@pytest.mark.parametrize(
    ("new", "stores", "enough"),
    [
        ((), 1, False),
        ((True,), 1, True),
        ((False, True), 2, True),
        ((False,), 3, False),
        ((False, False), 3, True),
        ((False, True), 3, False),
        ((False, True, True), 3, True),
        ((True, True), 3, False),
        ((True, True, True), 3, True),
        ((True, True, True), 5, False),
    ],
)
def test_new_disks_count_where_all_are_read(new, stores, enough):
    assert knows_all(new, stores) is enough
