from __future__ import annotations

from dafka.gateway.broker import ErrorCode, KafkaPartition, Offsets
from dafka.gateway.effects import (
    Answer,
    AppendBatch,
    DeleteRecords,
    Locate,
    Located,
    LookSoon,
    OffsetsShown,
    ReadLedger,
)
from dafka.gateway.events import Lease, LedgerLine, LineKind, StoreRead
from dafka.gateway.ledger import CLOSED, LedgerEntry
from dafka.gateway.lines import LEDGER, chain_of, decoded
from dafka.gateway.recent import RecentBatches
from dafka.gateway.refusals import Refusals
from dafka.gateway.share import (
    DELETING_MAX,
    ENTRIES_MAX,
    UNTOLD,
    WAITING_MAX,
    Share,
    batches_of,
)
from dafka.limits import BATCH_RECORDS_MAX
from dafka.model import Partition
from dafka.records.batch import BatchBuilder, checked_count, values_of

ORDERS = KafkaPartition("orders", 0)
OWN = "B" * 32


def sent(*values, producer=-1):
    builder = BatchBuilder(10_000)
    for value in values:
        builder.append(1_000, None, value, ())
    builder._begun().set_producer_state(producer, 0, min(0, producer))
    return bytes(builder.build())


def share_that_serves(stores=1):
    share = Share(ORDERS, 4, "A" * 32, OWN, stores, {}, Refusals())
    assert share.own(Lease(1_000), 0) == [ReadLedger(ORDERS, 4, 1)]
    for number in range(stores // 2 + 1):
        share.take(StoreRead(1, f"S{number}", {}, {"C": range(3)}), 0)
    lines = share.flush()
    for number in range(stores):
        share.lines_stored(f"S{number}", lines[-1].end, 0)
    return share


def test_its_chain_begins_with_all_that_is_there():
    share = Share(ORDERS, 4, "A" * 32, OWN, 1, {}, Refusals())
    share.own(Lease(1_000), 0)
    share.take(StoreRead(1, "S0", {}, {"C": range(3)}), 0)
    (lines,) = share.flush()
    assert lines.partition == Partition(LEDGER, share.chain.address)
    chain = chain_of(enumerate(values_of(lines)), ORDERS, 4)
    assert [line.kind.value for line in chain] == ["begin", "entry", "open"]
    assert chain[-1].address == OWN
    assert share.flush() == []
    assert share.lines_stored("S0", lines.end, 0) == [OffsetsShown(ORDERS, Offsets(0, 3))]


def test_it_says_that_it_has_something_to_publish_and_not_once_it_is_anothers():
    unpublished = {}
    share = Share(ORDERS, 4, "A" * 32, OWN, 1, unpublished, Refusals())
    share.own(Lease(1_000), 0)
    assert unpublished == {}
    share.take(StoreRead(1, "S0", {}, {}), 0)
    assert unpublished == {ORDERS: share}
    unpublished.clear()
    lines = share.flush()[-1]
    share.lines_stored("S0", lines.end, 0)
    share.flush()
    unpublished.clear()
    share.append(AppendBatch(1, ORDERS, sent(b"a"), -1), share.offered, 0)
    assert unpublished == {ORDERS: share}
    share.disown()
    assert unpublished == {}


def test_that_it_is_empty_is_to_be_published_once():
    unpublished = {}
    share = Share(ORDERS, 4, "A" * 32, OWN, 1, unpublished, Refusals())
    share.own(Lease(1_000), 0)
    share.take(StoreRead(1, "S0", {}, {"C": range(3)}), 0)
    share.lines_stored("S0", share.flush()[-1].end, 0)
    share.empty(7, 0)
    trim = share.flush()[-1]
    unpublished.clear()
    share.lines_stored("S0", trim.end, 0)
    assert unpublished == {ORDERS: share}
    assert (share.newly_emptied(), share.newly_emptied()) == (7, None)
    unpublished.clear()
    share.empty(7, 0)
    assert unpublished == {}


def test_that_it_was_emptied_by_the_owner_before_is_to_be_published():
    unpublished = {}
    share = Share(ORDERS, 4, "A" * 32, OWN, 1, unpublished, Refusals())
    share.own(Lease(1_000), 0)
    emptied = LedgerLine(3, 1, LineKind.TRIM, 0, first=7)
    begun = [LedgerLine(3, 0, LineKind.BEGIN, 0), emptied, LedgerLine(3, 2, LineKind.OPEN, 0)]
    share.take(StoreRead(1, "S0", {3: begun}, {}), 0)
    share.lines_stored("S0", share.flush()[-1].end, 0)
    unpublished.clear()
    share.empty(7, 0)
    assert unpublished == {ORDERS: share}
    assert share.newly_emptied() == 7


def test_only_so_many_wait_for_a_batch_that_is_sent_again():
    share = share_that_serves()
    batch = sent(b"a", producer=9)
    share.append(AppendBatch(1, ORDERS, batch, -1), share.offered, 0)
    for token in range(2, WAITING_MAX + 1):
        assert share.append(AppendBatch(token, ORDERS, batch, -1), share.offered, 0) == []
    (refused,) = share.append(AppendBatch(0, ORDERS, batch, -1), share.offered, 0)
    assert (refused.token, refused.placed.error) == (0, ErrorCode.NOT_ENOUGH_REPLICAS)
    lines, _ = share.flush()
    share.lines_stored("S0", lines.end, 0)
    told = share.stored("S0", OWN, range(1), 0)
    answers = {one.token: one.placed.offset for one in told if isinstance(one, Answer)}
    assert answers == dict.fromkeys(range(1, WAITING_MAX + 1), 3)


def test_two_of_three_stores_have_to_have_lines_and_records():
    share = share_that_serves(stores=3)
    assert share.offered == Offsets(0, 3)
    share.append(AppendBatch(1, ORDERS, sent(b"a"), -1), share.offered, 0)
    lines, records = share.flush()
    assert (lines.partition, records.partition) == (share.chain, share.records)
    for store in ("S0", "S1"):
        assert share.offered == Offsets(0, 3)
        share.lines_stored(store, lines.end, 0)
        share.stored(store, OWN, range(1), 0)
    assert share.offered == Offsets(0, 4)


def test_a_store_that_has_left_and_who_comes_in_its_place_are_one_of_three():
    share = share_that_serves(stores=3)
    share.append(AppendBatch(1, ORDERS, sent(b"a"), -1), share.offered, 0)
    lines, _ = share.flush()
    for store in ("S0", "S0 ON A NEW DISK"):
        share.lines_stored(store, lines.end, 0)
        share.stored(store, OWN, range(1), 0)
        share.left(store, 0)
    assert share.offered == Offsets(0, 3)
    for store in ("S1", "S2"):
        share.lines_stored(store, lines.end, 0)
        share.stored(store, OWN, range(1), 0)
    assert share.offered == Offsets(0, 4)


def test_what_stores_have_forgotten_has_its_offsets_and_goes_on_behind_them():
    share = share_that_serves()
    share.stored("S0", "D", range(2), 0)
    assert share.unlisted("S0", "D", 0) == []
    assert "D" not in dict(share._record_ends.ends())
    assert share.machine._forgotten == {"D"}
    share.left("S0", 0)
    assert share.machine._forgotten == {"C", "D"}
    share.stored("S0", "D", range(2, 3), 0)
    (lines,) = share.flush()
    written = [decoded(value, 4, number)[0] for number, value in enumerate(values_of(lines))]
    assert [one[4:7] for one in written if one.address == "D"] == [("D", 0, 2), ("D", 2, 1)]


def test_an_address_that_stores_had_forgotten_goes_on_and_does_not_begin_anew():
    share = share_that_serves(stores=3)
    for store in ("S0", "S1"):
        assert share.stored(store, "D", range(UNTOLD, 7), 0) == [LookSoon()], "where does it begin?"
    share.stored("S0", "D", range(5, 7), 0)
    assert share.machine.ledger.listed("D") == 0
    share.stored("S1", "D", range(UNTOLD, 7), 0)
    assert [*share.machine.ledger][-1] == LedgerEntry(3, "D", 5, 2)
    assert share.stored("S2", "D", range(UNTOLD, 8), 0) == []
    assert share.stored("S1", "D", range(UNTOLD, 8), 0) == []
    assert [*share.machine.ledger][-1] == LedgerEntry(3, "D", 5, 3)


def test_what_stores_had_more_while_it_read_gets_offsets_too():
    share = Share(ORDERS, 4, "A" * 32, OWN, 1, {}, Refusals())
    share.own(Lease(1_000), 0)
    share.stored("S0", "C", range(5), 0)
    share.take(StoreRead(1, "S0", {}, {"C": range(3)}), 0)
    assert share.machine.ledger.end == 5


def test_what_is_at_hand_is_found_and_what_is_not_has_to_be_read():
    share, recent = share_that_serves(), RecentBatches(1_000)
    share.append(AppendBatch(1, ORDERS, sent(b"a", b"b"), -1), share.offered, 0)
    lines, records = share.flush()
    recent.add(records)
    share.lines_stored("S0", lines.end, 0)
    share.stored("S0", OWN, range(2), 0)
    there = share.locate(Locate(1, ORDERS, 4, 0), share.offered, recent)
    assert [batch for _, batch in there.found] == [records], "one, however little is wanted"
    unread = share.locate(Locate(1, ORDERS, 0, 100), share.offered, recent)
    assert unread.found == ()
    assert [(one.address, one.records) for one in unread.entries] == [("C", 3), (OWN, 2)]
    out = share.locate(Locate(1, ORDERS, 9, 100), share.offered, recent)
    assert (out.error, out.offsets) == (ErrorCode.OFFSET_OUT_OF_RANGE, Offsets(0, 5))


def test_what_is_gone_in_the_middle_is_passed_over_however_much_it_is():
    share = share_that_serves()
    for number in range(ENTRIES_MAX):
        share.stored("S0", "D" if number % 2 else "E", range(number // 2 + 1), 0)
    share.stored("S0", "F", range(2), 0)
    share.lines_stored("S0", share.flush()[-1].end, 0)
    share.stored("S0", "D", range(ENTRIES_MAX // 2, ENTRIES_MAX // 2), 0)
    share.stored("S0", "E", range(ENTRIES_MAX // 2, ENTRIES_MAX // 2), 0)
    assert share.offered == Offsets(0, 5 + ENTRIES_MAX), "what is in front is kept"
    read = share.locate(Locate(1, ORDERS, 3, 100), share.offered, RecentBatches(1_000))
    assert read.entries == (LedgerEntry(3 + ENTRIES_MAX, "F", 0, 2),)


def test_offsets_begin_later_once_stores_have_the_line_that_says_so():
    share = share_that_serves()
    assert share.delete(DeleteRecords(1, ORDERS, 2), share.offered, 0) == []
    assert share.offered == Offsets(0, 3)
    (line,) = share.flush()
    assert share.lines_stored("S0", line.end, 0) == [
        OffsetsShown(ORDERS, Offsets(2, 3)),
        Located(1, ErrorCode.NONE, Offsets(2, 3)),
    ]
    again = Located(2, ErrorCode.NONE, Offsets(2, 3))
    assert share.delete(DeleteRecords(2, ORDERS, 1), share.offered, 0) == [again]
    beyond = Located(3, ErrorCode.OFFSET_OUT_OF_RANGE, Offsets(2, 3))
    assert share.delete(DeleteRecords(3, ORDERS, 4), share.offered, 0) == [beyond]
    assert share.flush() == []


def test_who_waits_for_offsets_to_begin_later_is_sent_to_the_next_owner():
    share = share_that_serves()
    assert share.delete(DeleteRecords(1, ORDERS, -1), share.offered, 0) == []
    assert share.delete(DeleteRecords(2, ORDERS, 3), share.offered, 0) == []
    assert share.disown() == [
        Located(1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Located(2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        OffsetsShown(ORDERS, None),
    ]


def test_only_so_many_wait_for_offsets_to_begin_later():
    share = share_that_serves()
    for token in range(DELETING_MAX):
        assert share.delete(DeleteRecords(token, ORDERS, 3), share.offered, 0) == []
    refused = share.delete(DeleteRecords(DELETING_MAX, ORDERS, 3), share.offered, 0)
    assert [one.error for one in refused] == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_many_lines_are_several_batches():
    log = Partition(LEDGER, "A")
    batches = batches_of(log, 5, [b"x"] * (BATCH_RECORDS_MAX + 1))
    assert [(one.sequence, one.count) for one in batches] == [
        (5, BATCH_RECORDS_MAX),
        (5 + BATCH_RECORDS_MAX, 1),
    ]
    assert all(checked_count(one.content, one.sequence) == one.count for one in batches)


def test_a_log_that_begins_where_nobody_can_be_gets_no_offsets():
    share = Share(ORDERS, 4, "A" * 32, OWN, 1, {}, Refusals())
    share.own(Lease(1_000), 0)
    share.take(StoreRead(1, "S0", {}, {"C": range(CLOSED, CLOSED + 3), "D": range(2)}), 0)
    assert share.stored("S0", "C", range(CLOSED, CLOSED + 4), 0) == []
    assert [entry.address for entry in share.machine.ledger] == ["D"]
