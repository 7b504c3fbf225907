"""A good history passes; each anomaly, put in by hand, is found under its name and no other."""

from __future__ import annotations

import pytest

from dafka.model import ALL_SLOTS, Partition
from dafka.testing.checker import (
    KNOWN_MS,
    LOSS_MS_MAX,
    Anomaly,
    Name,
    check,
    condensed,
    vacuous,
)
from dafka.testing.history import (
    Acknowledged,
    Began,
    DiskLost,
    Durable,
    Ended,
    Erased,
    Fault,
    HeadTold,
    History,
    Polled,
    Positioned,
    ReadBack,
    Reopened,
    SendRefused,
    Sent,
    Settled,
    SkippedOver,
    SlotsKept,
    Trimmed,
)

P = Partition("orders", "AA")
OTHER = Partition("orders", "BB")


def good() -> list:
    """One producer, two stores, one consumer, four values in two sends."""
    return [
        Began(0, "c", ("orders",), True),
        Sent(1, 1, "p", "orders", (b"0", b"1")),
        Durable(2, "s1", P, 2),
        Acknowledged(3, 1, "AA", 0, 1),
        Polled(4, "c", P, 0, (b"0", b"1")),
        Sent(5, 2, "p", "orders", (b"2", b"3")),
        Durable(6, "s1", P, 4),
        Durable(6, "s2", P, 4),
        HeadTold(6, "s1", P, 3),
        Acknowledged(7, 2, "AA", 2, 2),
        Fault(8, "crash s2"),
        Reopened(8, "s2", P, 4),
        Polled(8, "c", P, 2, (b"2", b"3")),
        Settled(9, ("s1", "s2")),
        ReadBack(9, "s1", P, 0, (b"0", b"1", b"2", b"3")),
        ReadBack(9, "s2", P, 0, (b"0", b"1")),
        ReadBack(9, "s2", P, 2, (b"2", b"3")),
    ]


def names(events, **settings) -> set[Name]:
    return {anomaly.name for anomaly in check(History(events), **settings)}


def replaced(old, *new) -> list:
    events = good()
    at = events.index(old)
    events[at : at + 1] = new
    return events


def before(mark, *new) -> list:
    return replaced(mark, *new, mark)


SECOND_POLL = Polled(8, "c", P, 2, (b"2", b"3"))
SETTLED = Settled(9, ("s1", "s2"))
LAST_HELD = ReadBack(9, "s2", P, 2, (b"2", b"3"))


def test_a_good_history_has_no_anomaly():
    assert names(good()) == set()
    assert vacuous(History(good()), acknowledged_min=4, read_min=8, faults_min=1) == []


BAD = [
    (Name.INCONSISTENT, before(SETTLED, Sent(8, 3, "q", "orders", (b"9",)),
                               Began(8, "d", ("orders",), False),
                               Polled(8, "d", P, 3, (b"9",)))),
    (Name.DUPLICATE, before(SETTLED, Began(8, "d", ("orders",), False),
                            Polled(8, "d", OTHER, 7, (b"2",)))),
    (Name.LOST, [event for event in good() if not isinstance(event, Settled | ReadBack)
                 and event != Polled(4, "c", P, 0, (b"0", b"1"))]),
    (Name.UNSEEN, replaced(SECOND_POLL)),
    (Name.ABORTED_READ, before(SETTLED, Sent(8, 3, "p", "orders", (b"4",)), SendRefused(8, 3),
                               Polled(8, "c", P, 4, (b"4",)))),
    (Name.PHANTOM, before(SETTLED, Polled(8, "c", P, 4, (b"invented",)))),
    (Name.PHANTOM, before(SETTLED, Sent(8, 3, "p", "other", (b"4",)),
                          Polled(8, "c", Partition("other", "AA"), 0, (b"4",)))),
    (Name.SKIP, replaced(Polled(4, "c", P, 0, (b"0", b"1")), Polled(4, "c", P, 0, (b"0",)))),
    (Name.NONMONOTONIC_POLL, before(SETTLED, Polled(8, "c", P, 1, (b"1",)),
                                    Positioned(8, "c", P, 4))),
    (Name.NONMONOTONIC_SEND, replaced(Sent(1, 1, "p", "orders", (b"0", b"1")),
                                      Sent(1, 3, "p", "orders", (b"0", b"1")))),
    (Name.HEAD_REGRESSION, before(SETTLED, HeadTold(8, "s1", P, 2))),
    (Name.GAP, replaced(LAST_HELD, ReadBack(9, "s2", P, 3, (b"3",)))),
    (Name.GAP, before(SETTLED, Trimmed(7, "s3", P, 2), Trimmed(8, "s3", P, 1))),
    (Name.GAP, before(LAST_HELD, SkippedOver(8, "s2", P, 0, 2))),
    (Name.REPLICAS_DIFFER, replaced(LAST_HELD)),
    (Name.ACK_NOT_DURABLE, replaced(Durable(6, "s2", P, 4))),
    (Name.NOT_FENCED, before(SETTLED, Sent(8, 3, "q", "orders", (b"9",)),
                             Acknowledged(8, 3, "AA", 1, 1))),
    (Name.LOST_AFTER_CRASH, replaced(Reopened(8, "s2", P, 4), Reopened(8, "s2", P, 3))),
    (Name.NOT_STORED, before(SETTLED, Sent(8, 3, "q", "orders", (b"9",)),
                             Began(8, "d", ("orders",), False, True),
                             Polled(8, "d", OTHER, 0, (b"9",)))),
    (Name.GIVEN_UP, before(SETTLED, SlotsKept(8, "s1", 0), SlotsKept(8, "s2", ALL_SLOTS.bits),
                           SlotsKept(9, "s2", 0))),
]  # fmt: skip

ALSO = {
    # What cannot happen without the other.
    Name.LOST: {Name.SKIP},
    Name.SKIP: {Name.UNSEEN},
    Name.GAP: {Name.UNSEEN},
    Name.REPLICAS_DIFFER: {Name.UNSEEN},
    Name.NOT_FENCED: {Name.INCONSISTENT},
    Name.NONMONOTONIC_SEND: set(),
    Name.NOT_STORED: {Name.UNSEEN, Name.LOST},
}


@pytest.mark.parametrize(("name", "events"), BAD, ids=lambda value: getattr(value, "name", ""))
def test_each_anomaly_is_found_under_its_name(name, events):
    if name is Name.NONMONOTONIC_SEND:
        acknowledged = Acknowledged(3, 1, "AA", 0, 1)
        events[events.index(acknowledged)] = Acknowledged(3, 3, "AA", 0, 1)
    found = names(events)
    assert name in found
    assert found <= {name} | ALSO.get(name, set())


def test_what_somebody_has_dropped_may_be_passed_over():
    # s2 was away while retention took 0 and 1 elsewhere.
    events = before(SETTLED, Trimmed(7, "s1", P, 2), SkippedOver(8, "s2", P, 0, 2))
    gone = [event for event in events if not isinstance(event, ReadBack)]
    assert names([*gone, *(ReadBack(9, one, P, 2, (b"2", b"3")) for one in ("s1", "s2"))]) == set()


def test_every_anomaly_has_its_case():
    # These two are about a run as a whole: nothing was proved, or a node raised (`scenario.run`).
    of_runs = {Name.VACUOUS, Name.FAILED}
    by_times = {Name.YOUNG, Name.STARVED}  # test_timing.py
    assert {name for name, _ in BAD} | of_runs | by_times == set(Name)


def test_who_begins_at_the_latest_is_owed_whole_what_begins_when_all_else_is_known():
    def missing(sent_ms):
        sent = Sent(sent_ms, 9, "p9", "t", (b"new-1", b"new-2"))
        began = Began(0, "late", ("t",), earliest=False)
        polled = Polled(sent_ms, "late", Partition("t", "CC"), 1, (b"new-2",))
        acknowledged = Acknowledged(sent_ms, 9, "CC", 0, 0)
        found = check(History([began, sent, acknowledged, polled, Settled(99_999, ())]))
        return {one.name for one in found}

    assert missing(KNOWN_MS) == {Name.UNSEEN, Name.LOST}
    assert missing(KNOWN_MS - 1) == {Name.LOST}, "it may have been there before"


def test_of_a_contested_partition_only_what_is_acknowledged_has_one_value():
    mine, other = (
        Sent(1, op, f"p{op}", P.topic, (value,)) for op, value in ((1, b"mine"), (2, b"other"))
    )
    held = ReadBack(9, "s1", P, 0, (b"mine",)), ReadBack(9, "s2", P, 0, (b"other",))
    settled = Settled(9, ("s1", "s2"))
    contested = {P}
    assert check(History([mine, other, settled, *held]), contested=contested) == []
    stored = Acknowledged(2, 1, P.address, 0, 1)
    found = check(History([mine, other, stored, settled, *held]), contested=contested)
    assert Name.INCONSISTENT in {one.name for one in found}


def test_where_stores_do_not_repair_each_other_one_must_have_it():
    assert names(replaced(LAST_HELD), repair=False) == set()
    neither = [event for event in replaced(LAST_HELD) if not isinstance(event, ReadBack)]
    assert names([*neither, ReadBack(9, "s1", P, 0, (b"0", b"1"))], repair=False) == {Name.UNSEEN}


def test_retention_takes_the_beginning_and_nobody_misses_it():
    events = before(SETTLED, Trimmed(8, "s1", P, 2), Trimmed(8, "s2", P, 2))
    (
        first,
        *_,
    ) = (event for event in events if isinstance(event, ReadBack))
    held = [event for event in events if not isinstance(event, ReadBack)]
    held += [ReadBack(9, "s1", P, 2, (b"2", b"3")), LAST_HELD]
    assert first.sequence == 0
    assert names(held) == set()
    late = [*held, Began(9, "d", ("orders",), True), Positioned(9, "d", P, 2)]
    assert names([*late, Polled(9, "d", P, 2, (b"2", b"3"))]) == set()


def test_what_retention_took_is_owed_by_nobody_though_who_took_it_has_given_the_partition_up():
    took = Trimmed(7, "s3", P, 2), Erased(8, "s3", P), SkippedOver(8, "s2", P, 0, 2)
    events = before(SETTLED, *took)
    held = [one for one in events if not (isinstance(one, ReadBack) and one.node == "s2")]
    held.append(ReadBack(9, "s2", P, 2, (b"2", b"3")))
    assert names(held) == set()
    held[held.index(took[0])] = Trimmed(7, "s3", P, 2, given_up=True)
    assert Name.GAP in names(held)


def test_a_consumer_that_begins_again_or_has_ended_owes_nothing():
    again = [Began(8, "c", ("orders",), True), Polled(8, "c", P, 0, (b"0", b"1", b"2", b"3"))]
    assert names(before(SETTLED, *again)) == set()
    assert names(replaced(SECOND_POLL, Ended(8, "c"))) == set()


def test_a_store_with_a_new_disk_begins_again_and_is_owed_everything():
    begun = [DiskLost(7, "s2"), HeadTold(8, "s2", P, 0), Durable(8, "s2", P, 4)]
    events = before(SETTLED, *begun)
    assert names(events) == set()
    without = [event for event in events if getattr(event, "node", "") != "s2"]
    assert names([*without, *begun[:1]]) >= {Name.UNSEEN}


def test_a_disk_that_is_lost_counts_until_that_can_be_known_and_never_beside_the_next_one():
    had = [Sent(8, 3, "p", "orders", (b"4",)), Durable(8, "s2", P, 5), DiskLost(8, "s2")]

    def named(*later):
        return names(before(SETTLED, *had, *later)) & {Name.ACK_NOT_DURABLE}

    assert not named(Acknowledged(9, 3, "AA", 4, 1))
    assert named(Acknowledged(8 + LOSS_MS_MAX, 3, "AA", 4, 1))
    assert named(Durable(9, "s2", P, 5), Acknowledged(9, 3, "AA", 4, 2))
    assert not named(Durable(9, "s1", P, 5), Acknowledged(9, 3, "AA", 4, 2))


def test_a_partition_may_end_with_what_was_passed_over_or_taken():
    sent = Sent(7, 3, "p", "orders", (b"4",)), Acknowledged(8, 3, "AA", 4, 1)
    taken = Durable(7, "s1", P, 5), *sent, Trimmed(8, "s1", P, 5), SkippedOver(8, "s2", P, 4, 5)
    events = before(SETTLED, *taken)
    held = [one for one in events if isinstance(one, ReadBack) and one.node == "s1"]
    assert names([one for one in events if one not in held]) == set()


def test_an_unknown_send_may_or_may_not_be_there():
    assert names(before(SETTLED, Sent(8, 3, "p", "orders", (b"4",)))) == set()
    there = before(SETTLED, Sent(8, 3, "p", "orders", (b"4",)), Polled(8, "c", P, 4, (b"4",)))
    assert names(there) == set()


def test_a_run_in_which_nothing_happened_proves_nothing():
    found = vacuous(History(), acknowledged_min=1, read_min=1, faults_min=1)
    assert [str(anomaly) for anomaly in found] == [
        "vacuous: 0 records acknowledged, at least 1 are needed to say anything",
        "vacuous: 0 records read, at least 1 are needed to say anything",
        "vacuous: 0 faults, at least 1 are needed to say anything",
    ]


def test_many_anomalies_are_condensed():
    lines = condensed([Anomaly(Name.SKIP, str(number)) for number in range(10)], each_max=2)
    assert lines == ["I7 skip: 0", "I7 skip: 1", "I7 skip: 8 more"]


def test_of_a_contested_partition_who_is_given_what_is_stored_gets_what_some_store_holds():
    ours, theirs = Sent(1, 1, "a", "orders", (b"ours",)), Sent(1, 2, "b", "orders", (b"theirs",))
    began, durable = Began(1, "c", ("orders",), True, True), Durable(2, "s1", P, 1)
    settled, held = Settled(4, ("s1",)), ReadBack(5, "s1", P, 0, (b"ours",))

    def verdict(got):
        polled = Polled(3, "c", P, 0, (got,))
        events = [ours, theirs, began, durable, polled, settled, held]
        return {one.name for one in check(History(events), contested={P})}

    assert verdict(b"ours") == set()
    assert verdict(b"theirs") == {Name.NOT_STORED}
