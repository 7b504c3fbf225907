"""The store: in order, durable, then acknowledged."""

from __future__ import annotations

import tracemalloc

import google_crc32c
import pytest

from dafka.limits import (
    FETCH_ANSWER_BYTES_MAX,
    HEARSAY_ALL_MAX,
    HEARSAY_MAX,
    PEER_BOUNDS,
    PeerBounds,
)
from dafka.model import Batch, Partition
from dafka.protocol.effects import (
    Append,
    Compare,
    Disputed,
    Dropped,
    Listen,
    Lost,
    Publish,
    ReadRange,
)
from dafka.protocol.events import (
    Appended,
    AppendFailed,
    Compared,
    Consumed,
    Emptied,
    HoleSkipped,
    PartitionsForgotten,
    PeerListened,
    RangeRead,
    Received,
    TurnEnded,
    Woke,
)
from dafka.protocol.fetches import FETCH_SILENCE_MS
from dafka.protocol.staging import STAGED_BYTES_MAX
from dafka.protocol.store import (
    DISK_REST_MS,
    HEADS_INTERVAL_MS_MAX,
    SETTLING_MS,
    StoreMachine,
)
from dafka.records.batch import Run, records_of
from dafka.wire import messages
from dafka.wire.messages import MessageId
from tests.support.batches import make_batch

P = Partition("flights", "AA")

CHECKED_MAX = 100
"""Of so many events after each, of more once at the end: a check looks at all that there is."""


class Bench:
    """A store whose disk does what the test says."""

    def __init__(self, heads=None, bounds=PEER_BOUNDS) -> None:
        self.machine = StoreMachine("ME", heads or {}, bounds)
        self.machine.handle(Woke(), 0)

    def give(self, *events) -> list:
        effects = []
        for event in events:
            effects += self.machine.handle(event, 0)
            if len(events) <= CHECKED_MAX:
                self.machine.check()
        self.machine.check()
        return effects

    def hear(self, *heard) -> list:
        return self.give(*(Received(message) for message in heard))

    def append(self, *heard) -> list:
        """Hear messages, end the turn, let the write succeed."""
        effects = self.hear(*heard)
        for write in self.give(TurnEnded()):
            effects.append(write)
            effects += self.give(Appended(write.token))
        return effects


def live(one):
    topic, address = one.partition
    return messages.Records(topic, address, one.sequence, one.count, one.content)


def fetched_batch(one):
    topic, address = one.partition
    return messages.DirectRecords("ME", topic, address, one.sequence, one.count, one.content)


def sent(effects, kind=object):
    return [e.message for e in effects if isinstance(e, Publish) and isinstance(e.message, kind)]


def acks(effects):
    return [(ack.store, ack.sequence) for ack in sent(effects, messages.Ack)]


def fetched(effects):
    return [(fetch.sequence, fetch.count) for fetch in sent(effects, messages.Fetch)]


def appended(effects):
    return [
        (batch.sequence, batch.end)
        for effect in effects
        if isinstance(effect, Append)
        for batch in effect.batches
    ]


def reasons(effects):
    return [e.reason for e in effects if isinstance(e, Dropped)]


def test_it_subscribes_as_the_rfc_says():
    effects = StoreMachine("ME", {}).handle(Woke(), 0)
    assert {(e.id, e.key) for e in effects if isinstance(e, Listen)} == {
        (MessageId.RECORDS, ""),
        (MessageId.RECORD, ""),
        (MessageId.HEAD, ""),
        (MessageId.FETCH, ""),
        (MessageId.GET_HEADS, ""),
        (MessageId.DIRECT_RECORDS, "ME"),
        (MessageId.DIRECT_RECORD, "ME"),
        (MessageId.DIRECT_HEAD, "ME"),
        (MessageId.LOG_START, "ME"),
        (MessageId.CONSUMER_HELLO, "ME"),
        (MessageId.STORE_HELLO, "ME"),
    }


def test_it_acknowledges_only_what_the_disk_has(batch):
    bench = Bench()
    assert acks(bench.hear(live(batch(0, 2)))) == []
    (write,) = bench.give(TurnEnded())
    assert appended([write]) == [(0, 2)]
    assert acks(bench.hear(live(batch(0, 2)))) == [], "a duplicate of what is being written"
    assert acks(bench.give(Appended(write.token))) == [("ME", 1)]


def test_one_turn_is_one_write_and_one_ack_a_partition(batch):
    bench = Bench()
    other = Partition("flights", "BB")
    effects = bench.append(live(batch(0)), live(batch(1)), live(batch(0, partition=other)))
    assert len([e for e in effects if isinstance(e, Append)]) == 1
    assert acks(effects) == [("ME", 1), ("ME", 0)]
    assert bench.give(TurnEnded()) == []


def test_what_is_much_is_written_before_the_turn_ends():
    bench = Bench()
    half = bytes(STAGED_BYTES_MAX // 2)
    (write,) = bench.hear(*(live(make_batch([half], sequence, P)) for sequence in range(3)))
    assert appended([write]) == [(0, 1), (1, 2)]
    assert acks(bench.give(Appended(write.token))) == [("ME", 1)]
    assert appended(bench.give(TurnEnded())) == [(2, 3)]


def test_a_duplicate_and_an_old_head_are_acknowledged_again(batch):
    bench = Bench()
    bench.append(live(batch(0, 2)))
    assert bench.hear(live(batch(0, 2))) == [Dropped("duplicate"), Compare(batch(0, 2))]
    assert acks(bench.give(Compared(batch(0, 2), (batch(0, 2),)))) == [("ME", 1)]
    for head, known_stored in ((1, False), (0, False), (0, True)):
        assert acks(bench.hear(messages.Head("flights", "AA", head, known_stored))) == [("ME", 1)]
    for head, known_stored in ((2, False), (1, True)):
        assert acks(bench.hear(messages.Head("flights", "AA", head, known_stored))) == []


def test_a_gap_is_fetched_and_nothing_is_written_ahead_of_it(batch):
    bench = Bench()
    effects = bench.append(live(batch(2)))
    assert (fetched(effects), appended(effects)) == ([(0, 2)], [])
    topic, address = P
    missing = batch(0, 2)
    direct = messages.DirectRecords("ME", topic, address, 0, 2, missing.content)
    assert appended(bench.append(direct)) == [(0, 2), (2, 3)]


def test_it_insists_on_the_first_record(batch):
    assert fetched(Bench().hear(messages.Head("flights", "AA", 4))) == [(0, 5)]


def test_a_batch_that_begins_with_what_it_has_is_cut(batch):
    bench = Bench()
    bench.append(live(batch(0, 2)))
    effects = bench.append(fetched_batch(batch(0, 5)))
    assert appended(effects) == [(2, 5)]
    (write,) = [e for e in effects if isinstance(e, Append)]
    assert [record.sequence for record in records_of(write.batches[0])] == [2, 3, 4]
    assert acks(effects) == [("ME", 4)]


def test_a_live_batch_that_overlaps_is_compared_and_its_end_fetched(batch):
    bench = Bench()
    bench.append(live(batch(0, 2)))
    effects = bench.hear(live(batch(0, 5)))
    assert Compare(batch(0, 5)) in effects
    assert fetched(effects) == [(2, 3)]
    assert appended(bench.give(Compared(batch(0, 5), (batch(0, 2),)), TurnEnded())) == [(2, 5)]


def test_a_second_producer_under_one_address_is_reported_and_nothing_more_taken(batch):
    bench = Bench()
    bench.append(live(batch(0, 2)))
    second = batch(0, 2, size=9)
    bench.hear(live(second))
    assert bench.give(Compared(second, (batch(0, 2),))) == [Disputed(P, 0)]
    assert bench.give(Compared(second, (batch(0, 2),))) == [], "once"
    for heard in (live(batch(2)), live(batch(2, size=9)), fetched_batch(batch(2))):
        assert reasons(bench.hear(heard)) == ["disputed partition"]
    assert acks(bench.hear(messages.Head("flights", "AA", 1))) == []
    assert bench.machine.heads == {P: 1}
    apart = Partition("flights", "BB")
    assert acks(bench.append(live(batch(0, partition=apart)))) == [("ME", 0)]


def test_a_disputed_partition_is_not_gone_on_with_behind_what_comes_of_it(batch):
    bench = Bench()
    bench.append(live(batch(0, 2)))
    second = batch(0, 2, size=9)
    bench.hear(live(second))
    bench.give(Compared(second, (batch(0, 2),)))
    bench.hear(live(batch(5)))
    start = messages.LogStart("ME", "flights", "AA", 5, "S2")
    for now_ms in range(0, 60_000, 250):
        bench.machine.handle(Woke(), now_ms)
        effects = bench.machine.handle(Received(start), now_ms)
        assert not any(isinstance(effect, Lost) for effect in effects)
    assert bench.machine.heads == {P: 1}


def test_a_write_that_failed_is_as_if_it_never_came(batch):
    bench = Bench()
    bench.hear(live(batch(0, 2)))
    (write,) = bench.give(TurnEnded())
    effects = bench.give(AppendFailed(write.token))
    assert acks(effects) == []
    assert reasons(effects) == ["append failed"]
    assert acks(bench.append(live(batch(0, 2)))) == [("ME", 1)]


def test_what_a_disk_refuses_is_not_asked_for_again_with_every_refusal(batch):
    bench = Bench()
    asked = []
    for _ in range(4):  # so many stores answer
        bench.hear(fetched_batch(batch(0)))
        (write,) = bench.give(TurnEnded())
        asked += fetched(bench.give(AppendFailed(write.token), TurnEnded()))
    assert asked == []
    assert bench.machine.wakeup_ms() <= DISK_REST_MS
    assert fetched(bench.machine.handle(Woke(), DISK_REST_MS)) == [(0, 1)]


def test_what_was_staged_behind_a_failed_write_is_given_up_too(batch):
    bench = Bench()
    bench.hear(live(batch(0)))
    (write,) = bench.give(TurnEnded())
    bench.hear(live(batch(1)))
    effects = bench.give(AppendFailed(write.token), TurnEnded())
    assert appended(effects) == []
    assert appended(bench.append(live(batch(0)), live(batch(1)))) == [(0, 1), (1, 2)]


def test_a_failure_told_late_does_not_undo_what_was_written_meanwhile(batch):
    bench = Bench()
    bench.hear(live(batch(0)))
    (first,) = bench.give(TurnEnded())
    bench.hear(live(batch(1)))
    (behind,) = bench.give(TurnEnded())
    bench.give(AppendFailed(first.token))
    bench.hear(live(batch(0)))
    (again,) = bench.give(TurnEnded())
    bench.give(AppendFailed(behind.token))
    assert acks(bench.give(Appended(again.token))) == [("ME", 0)]
    assert appended(bench.append(live(batch(1)))) == [(1, 2)]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-1], "batch header"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "batch checksum"),
        (lambda content: b"bare", "batch size"),
        (lambda content: bytes(200), "envelope"),
    ],
)
def test_damaged_content_is_dropped_and_not_acknowledged(batch, damage, reason):
    bench = Bench()
    one = batch(0, 2)
    effects = bench.append(messages.Records("flights", "AA", 0, 2, damage(one.content)))
    assert reasons(effects) == [reason]
    assert appended(effects) == []
    assert acks(bench.append(live(one))) == [("ME", 1)]


def test_a_message_that_lies_about_its_batch_is_dropped(batch):
    one = batch(0, 2)
    effects = Bench().hear(messages.Records("flights", "AA", 0, 3, one.content))
    assert reasons(effects) == ["batch count"]
    effects = Bench().hear(messages.Records("flights", "AA", 1, 2, one.content))
    assert reasons(effects) == ["batch sequence"]


def test_a_fetch_is_answered_from_disk_and_ends_with_its_head(batch):
    bench = Bench({P: 9})
    (read,) = bench.hear(messages.Fetch("flights", "AA", "YOU", 4, 3))
    assert read == ReadRange("YOU", P, 4, 3, FETCH_ANSWER_BYTES_MAX)
    found = (batch(4, 2), batch(6, 2))
    answers = sent(bench.give(RangeRead("YOU", P, found)))
    assert {one.requester for one in answers} == {"YOU"}
    assert [one.sequence for one in answers] == [4, 6, 9]
    assert answers[-1] == messages.DirectHead("YOU", "flights", "AA", 9, "ME")
    (read,) = bench.hear(messages.Fetch("flights", "AA", "YOU", 8, 2, "ME"))
    last = RangeRead("YOU", P, (batch(8, 2),), None, read.alone_end)
    assert [one.sequence for one in sent(bench.give(last))] == [8], "it shows that it is the end"


def test_a_fetch_for_any_store_is_answered_as_one_for_everybody():
    bench = Bench({P: 9})
    (read,) = bench.hear(messages.Fetch("flights", "AA", "YOU", 4, 3, messages.ANY_STORE))
    assert read == ReadRange("YOU", P, 4, 3, FETCH_ANSWER_BYTES_MAX)
    assert bench.hear(messages.Fetch("flights", "AA", "YOU", 4, 3, "S2")) == []


def test_it_says_from_which_run_its_last_record_comes(batch):
    bench = Bench()
    bench.hear(live(batch(0, run=Run(7, 0))))
    (append,) = bench.give(TurnEnded())
    bench.give(Appended(append.token))
    (head,) = sent(bench.hear(messages.GetHeads("", "YOU")))
    assert head == messages.DirectHead("YOU", "flights", "AA", 0, "ME", 7)


def test_a_fetch_behind_its_end_is_told_where_that_is():
    bench = Bench({P: 9})
    (head,) = sent(bench.hear(messages.Fetch("flights", "AA", "YOU", 10, 3)))
    assert head == messages.DirectHead("YOU", "flights", "AA", 9, "ME")


def test_a_fetch_below_the_log_start_is_told_where_that_is():
    bench = Bench({P: 9})
    bench.hear(messages.Fetch("flights", "AA", "YOU", 2, 3))
    (head,) = sent(bench.give(RangeRead("YOU", P, ())))
    assert isinstance(head, messages.DirectHead), "the disk failed: not known"
    start, head = sent(bench.give(RangeRead("YOU", P, (), 7)))
    assert start == messages.LogStart("YOU", "flights", "AA", 7, "ME")
    assert head == messages.DirectHead("YOU", "flights", "AA", 9, "ME")


def test_a_fetch_in_a_gap_is_told_where_that_ends(batch):
    bench = Bench({P: 9})
    bench.hear(messages.Fetch("flights", "AA", "YOU", 2, 3))
    start, *records, head = sent(bench.give(RangeRead("YOU", P, (batch(7, 2),), 7)))
    assert start == messages.LogStart("YOU", "flights", "AA", 7, "ME")
    assert [one.sequence for one in records] == [7]
    assert head == messages.DirectHead("YOU", "flights", "AA", 9, "ME")


def test_what_is_forgotten_before_it_is_read_is_not_answered():
    bench = Bench({P: 9})
    bench.give(Emptied((P,)), PartitionsForgotten((P,)))
    assert bench.give(RangeRead("YOU", P, (), 10)) == []


def test_it_goes_on_where_nobody_has_more(batch):
    bench = Bench({P: 3})
    bench.hear(messages.Head("flights", "AA", 20))
    bench.hear(messages.DirectHead("ME", "flights", "AA", 20, "OTHER"))
    told = messages.LogStart("ME", "flights", "AA", 10, "OTHER")
    assert bench.hear(told) == [], "too early: other stores may not have been found"
    # It asks again until enough time has passed, and then believes it.
    now_ms, lost = 0, []
    while not lost:
        effects = bench.machine.handle(Woke(), now_ms)
        if fetched(effects):
            effects = bench.machine.handle(Received(told), now_ms)
            lost = [effect for effect in effects if isinstance(effect, Lost)]
        now_ms = bench.machine.wakeup_ms()
    assert now_ms >= SETTLING_MS
    assert lost == [Lost(P, 4, 10)]
    bench.machine.handle(Received(live(batch(10, 2))), now_ms)
    (write,) = bench.give(TurnEnded())
    assert write.skips == ((P, 10),)
    assert appended([write]) == [(10, 12)]
    assert acks(bench.give(Appended(write.token))) == [("ME", 11)]


def test_what_a_living_producer_may_have_is_asked_for_twice(batch):
    bench = Bench({P: 3, P._replace(topic="other"): 3})
    told = messages.LogStart("ME", "flights", "AA", 10, "OTHER")
    bench.hear(messages.Head("other", "AA", 20))
    now_ms = 0
    while now_ms < SETTLING_MS:
        now_ms = bench.machine.wakeup_ms()
        bench.machine.handle(Woke(), now_ms)
    effects = bench.machine.handle(Received(live(batch(10, 2))), now_ms)
    effects += bench.give(TurnEnded())
    asked = 0
    while True:
        if "flights" in {fetch.topic for fetch in sent(effects, messages.Fetch)}:
            asked += 1
            if any(isinstance(one, Lost) for one in bench.machine.handle(Received(told), now_ms)):
                break
        now_ms = bench.machine.wakeup_ms()
        effects = bench.machine.handle(Woke(), now_ms)
    assert asked == 2


def test_a_skip_that_the_disk_refused_is_done_again():
    bench = Bench({P: 3})
    bench.machine._inflow.skip(P, 10)
    bench.machine._skipped[P] = 10
    write, *_ = bench.give(TurnEnded())
    bench.give(AppendFailed(write.token))
    assert bench.machine._inflow.expected(P) == 4
    assert bench.machine.heads == {P: 3}


def test_heads_are_asked_of_other_stores_ever_more_rarely():
    machine = StoreMachine("ME", {})
    asked, now_ms = [], 0
    while now_ms < 200_000:
        if Publish(messages.GetHeads("", "ME")) in machine.handle(Woke(), now_ms):
            asked.append(now_ms)
        now_ms = machine.wakeup_ms()
    assert asked[:3] == [0, 500, 1_500]
    assert asked[-1] - asked[-2] == HEADS_INTERVAL_MS_MAX


def test_a_fetch_for_another_store_or_of_its_own_is_silent(batch):
    bench = Bench({P: 9})
    assert bench.hear(messages.Fetch("flights", "AA", "YOU", 0, 3, "OTHER")) == []
    assert bench.hear(messages.Fetch("flights", "AA", "YOU", 0, 3, "ME")) != []
    assert bench.hear(messages.Fetch("flights", "BB", "YOU", 0, 3)) == []
    assert bench.hear(messages.Fetch("flights", "AA", "ME", 0, 3)) == []


def test_heads_are_told_by_topic_or_all():
    weather = Partition("weather", "AA")
    bench = Bench({P: 9, weather: 4})
    everything = sent(bench.hear(messages.GetHeads("", "YOU")))
    assert [(head.topic, head.sequence, head.store) for head in everything] == [
        ("flights", 9, "ME"),
        ("weather", 4, "ME"),
    ]
    (one,) = sent(bench.hear(messages.GetHeads("weather", "YOU")))
    assert one.topic == "weather"
    assert bench.hear(messages.GetHeads("wea", "YOU")) == []


def test_a_consumer_that_says_hello_is_told_the_heads_of_its_topics():
    bench = Bench({P: 9, Partition("weather", "AA"): 4})
    (one,) = sent(bench.hear(messages.ConsumerHello("ME", "YOU", ("flights", "none"))))
    assert (one.requester, one.topic) == ("YOU", "flights")
    effects = bench.hear(messages.ConsumerHello("ANOTHER", "YOU", ("flights",)))
    assert reasons(effects) == ["not for this store"]


def test_a_consumer_that_listens_is_greeted():
    bench = Bench()
    greeting = bench.give(PeerListened(MessageId.STORE_HELLO, "YOU"))
    assert sent(greeting) == [messages.StoreHello("YOU", "ME")]
    assert bench.give(PeerListened(MessageId.ACK, "YOU")) == []


def test_it_goes_on_where_its_log_ends(batch):
    bench = Bench({P: 4})
    assert appended(bench.append(live(batch(5)))) == [(5, 6)]
    assert bench.machine.heads == {P: 5}
    assert acks(bench.hear(fetched_batch(batch(2)))) == [("ME", 5)]


def test_a_direct_head_says_what_there_is(batch):
    direct = messages.DirectHead("ME", "flights", "AA", 3)
    assert fetched(Bench().hear(direct)) == [(0, 4)]


def test_messages_for_others_are_dropped():
    effects = Bench().hear(messages.Ack("flights", "AA", "S2", 0))
    assert reasons(effects) == ["not for a store"]


def test_an_event_of_another_role_is_a_bug():
    with pytest.raises(AssertionError):
        Bench().give(Consumed(1))


def test_a_forged_batch_that_cannot_be_cut_does_not_stop_the_store(batch):
    bench = Bench()
    bench.append(live(batch(0, 2)))
    forged = Batch(P, 0, 5, forged_records(batch(0, 5).content))
    effects = bench.append(fetched_batch(forged))
    assert (reasons(effects), fetched(effects)) == (["batch records"], [])
    assert appended(bench.append(live(batch(2, 3)))) == [(2, 5)]


def forged_records(content: bytes) -> bytes:
    """Damage the records inside and mend the checksum, as somebody with bad intent would."""
    damaged = bytearray(content)
    damaged[-4:] = b"\xff\xff\xff\xff"
    checksum = google_crc32c.value(bytes(damaged[20 + 21 :]))
    damaged[20 + 17 : 20 + 21] = checksum.to_bytes(4, "big")
    return bytes(damaged)


EVIL, GOOD = "E" * 16, "F" * 16
"""What the addresses of two keys begin with."""


def test_who_names_partitions_that_nobody_has_makes_only_its_own_wait():
    bench = Bench()
    bench.machine.handle(Woke(), 0)
    made_up = [messages.Head("flights", f"{EVIL}{n:016}", 1 << 40) for n in range(HEARSAY_MAX + 9)]
    effects = bench.hear(*made_up)
    assert effects.count(Dropped("too many partitions")) == 9
    wanted = messages.Head("flights", GOOD * 2, 5)
    asked, now_ms = bench.hear(wanted), 0
    while now_ms < 1_000 and GOOD * 2 not in {one.address for one in sent(asked, messages.Fetch)}:
        now_ms = bench.machine.wakeup_ms()
        asked += bench.machine.handle(Woke(), now_ms)
    assert now_ms <= FETCH_SILENCE_MS, "it is asked for as soon as there is room at all"


def test_what_a_store_has_or_what_has_come_counts_as_nobodys_word(batch):
    bench = Bench()
    names = (f"{EVIL}{number:016}" for number in range(HEARSAY_MAX + 5))
    told = bench.hear(*(messages.DirectHead("ME", "flights", one, 5, "S2") for one in names))
    assert Dropped("too many partitions") not in told
    bench.hear(*(messages.Head("orders", f"{EVIL}{n:016}", 5) for n in range(HEARSAY_MAX)))
    more = messages.Head("orders", f"{EVIL}more", 5)
    assert Dropped("too many partitions") in bench.hear(more)
    one = batch(0, 2, partition=Partition("orders", f"{EVIL}{0:016}"))
    bench.append(live(one))
    assert Dropped("too many partitions") not in bench.hear(more)


def test_there_is_room_for_what_has_records_however_many_are_spoken_of(batch):
    bench = Bench(bounds=PeerBounds(hearsay_all=20))
    effects = bench.hear(*(messages.Head("flights", f"{n:032}", 5) for n in range(30)))
    assert effects.count(Dropped("too many partitions")) == 10
    bench.append(live(batch(0, 2)))
    assert bench.machine.heads == {P: 1}


def test_all_that_is_only_spoken_of_costs_a_part_of_a_process():
    bench = Bench()
    tracemalloc.start()
    try:
        for owner in range(HEARSAY_ALL_MAX // HEARSAY_MAX + 2):
            for number in range(HEARSAY_MAX):
                address = f"{owner:016X}{number:016X}"
                bench.machine.handle(Received(messages.Head("flights", address, 1 << 40)), 0)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 32 << 20
    more = bench.machine.handle(Received(messages.Head("flights", "F" * 32, 5)), 0)
    assert Dropped("too many partitions") in more


def behind_a_hole(batch, seconds):
    """A store without a disk's contents, whose producer has not what comes first any more."""
    bench, now_ms = Bench(), 0
    bench.hear(live(batch(10, 2)), live(batch(12, 2)))
    while now_ms < seconds * 1_000:
        now_ms = max(now_ms + 1, bench.machine.wakeup_ms() or 0)
        bench.machine.handle(Woke(), now_ms)
    return bench


def test_what_nobody_has_is_a_hole_after_a_while(batch):
    assert behind_a_hole(batch, 3).machine.holes() == {}
    bench = behind_a_hole(batch, 30)
    assert bench.machine.holes() == {P: range(10)}
    bench.hear(messages.Head("orders", "BB", 7))
    assert bench.machine.holes().keys() == {P}, "what is only spoken of is none"


def test_by_the_operators_word_it_goes_on_behind_a_hole(batch):
    bench = behind_a_hole(batch, 30)
    assert bench.give(HoleSkipped(P, 9)) == []
    assert bench.give(HoleSkipped(Partition("flights", "ZZ"), 10)) == []
    effects = bench.give(HoleSkipped(P, 10))
    assert [one for one in effects if isinstance(one, Lost)] == [Lost(P, 0, 10)]
    (write,) = bench.give(TurnEnded())
    assert (write.skips, [one.sequence for one in write.batches]) == (((P, 10),), [10, 12])
    (ack,) = sent(bench.give(Appended(write.token)), messages.Ack)
    assert ack.sequence == 13
    assert bench.machine.holes() == {}
    assert bench.give(HoleSkipped(P, 10)) == [], "it is there no more"
