from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.limits import COMPARED_BYTES_MAX
from dafka.model import Batch, Partition, replace
from dafka.protocol.duplicate_producer import (
    Disputes,
    agree,
    follows,
    run_behind,
)
from dafka.protocol.effects import Append, Compare, Disputed, Dropped, Publish, ReadRange
from dafka.protocol.events import Appended, Compared, RangeRead, Received, TurnEnded, Woke
from dafka.protocol.store import StoreMachine
from dafka.records.batch import PLACES, BatchBuilder, RawRecord, Run, enclosed, without_first
from dafka.records.compression import Codec
from dafka.records.envelope import ENVELOPE_BYTES, FRESH, Envelope, stamped
from dafka.storage.log import beside, goes_on
from dafka.storage.memory import MemoryLog
from dafka.testing.strategies import batch_of, batches
from dafka.wire import messages

ORDERS = Partition("orders", "A1")


def raw(timestamp_ms):
    return RawRecord(0, timestamp_ms, None, b"value", ())


def lived(sequence, run, first, count=2):
    """A batch of one life of its producer, all values alike."""
    builder = BatchBuilder(1_000, None if run is None else Run(run, first))
    for _ in range(count):
        builder.append(1_000, None, b"value", ())
    return Batch(ORDERS, sequence, count, enclosed(builder.build(), sequence))


@given(batches, st.data())
def test_batches_agree_however_their_records_are_enclosed(batch, data):
    rest = without_first(batch, data.draw(st.integers(0, batch.count - 1)))
    flagged = replace(batch, content=stamped(batch.content, Envelope(9, 3, 1)))
    assert agree([batch], rest)
    assert agree([rest], batch)
    assert agree([flagged], batch)
    assert agree([], batch)


def test_another_record_under_one_sequence_does_not_agree():
    first = batch_of(ORDERS, 0, [raw(1), raw(2)], FRESH)
    second = batch_of(ORDERS, 2, [raw(3)], FRESH)
    assert agree([first, second], batch_of(ORDERS, 1, [raw(2), raw(3)], FRESH))
    assert not agree([first, second], batch_of(ORDERS, 1, [raw(2), raw(4)], FRESH))
    assert agree([first], batch_of(ORDERS, 2, [raw(9)], FRESH)), "elsewhere"


@pytest.mark.parametrize(("spare", "compared"), [(2_000, True), (0, False)])
def test_to_compare_takes_a_bounded_time_whatever_records_stand_for(spare, compared):
    one = RawRecord(0, 1_000, None, bytes(COMPARED_BYTES_MAX // 2 - spare // 2), ())
    whole = batch_of(ORDERS, 0, [one, one], FRESH, Codec.GZIP)
    rest = batch_of(ORDERS, 1, [one], FRESH, Codec.ZSTD)
    told = Disputes().differs(rest, [whole])
    assert told == ([] if compared else [Dropped("batch records")])
    assert Disputes().differs(whole, [whole]) == [], "the same octets need no comparison"


def test_a_bare_value_is_the_same_whenever_it_arrives():
    def arrived(*values, at_ms):
        builder = BatchBuilder(1_000, append_time=True)
        for value in values:
            builder.append(at_ms, None, value, ())
        return Batch(ORDERS, 4, len(values), enclosed(builder.build(), 4))

    one, other = arrived(b"a", b"b", at_ms=5), arrived(b"a", b"b", at_ms=9)
    assert agree([one], other)
    assert agree([one], without_first(other, 1))
    assert agree([without_first(one, 1)], other)
    assert not agree([one], arrived(b"a", b"c", at_ms=5))


def test_what_comes_next_must_be_of_the_same_life():
    assert agree([lived(4, 7, 4)], lived(6, 7, 6))
    assert not agree([lived(4, 8, 4)], lived(6, 7, 6)), "of another one"
    assert not agree([lived(4, 7, 4)], lived(6, 7, 8)), "something of it is missing in between"
    assert agree([lived(4, 8, 4)], lived(7, 7, 6)), "not what comes next"


def test_records_that_are_alike_but_of_two_lives_do_not_agree():
    assert agree([lived(4, 7, 4)], lived(4, 7, 4, count=3))
    assert agree([lived(4, None, 4)], lived(4, 7, 4, count=3))
    assert not agree([lived(4, 7, 4)], lived(4, 8, 4, count=3))
    assert not agree([lived(4, 7, 4)], lived(5, 7, 9))


@pytest.mark.parametrize("before", [7, 8, None])
def test_a_new_life_may_begin_anywhere(before):
    assert agree([lived(4, before, 4)], lived(6, 9, 0))


def test_nothing_is_said_of_what_has_no_life():
    assert agree([lived(4, None, 0)], lived(6, 7, 6))
    assert agree([lived(4, 7, 4)], lived(6, None, 0))
    assert run_behind(lived(4, None, 0)) is None


def test_places_in_a_life_begin_again_where_the_field_ends():
    last = lived(0, 7, PLACES - 1, count=2)
    assert run_behind(last) == Run(7, 1)
    assert follows(run_behind(last), lived(2, 7, 1))


@given(st.integers(0, PLACES - 1), st.integers(0, 4))
def test_what_is_cut_keeps_its_place(first, dropped):
    whole = lived(10, 7, first, count=5)
    rest = without_first(whole, dropped)
    assert follows(Run(7, (first + dropped) % PLACES), rest)
    assert run_behind(rest) == run_behind(whole)


P, Q = Partition("flights", "AA"), Partition("flights", "BB")


@pytest.fixture
def disputes():
    return Disputes()


def test_what_is_durable_has_to_be_read(disputes, batch):
    assert disputes.compare(batch(0, 2), [], 5) == [Compare(batch(0, 2))]
    assert disputes.compare(batch(6, 2), [], 5) == []
    assert P not in disputes


def test_what_is_being_written_is_compared_at_once(disputes, batch):
    waiting = [batch(0, 2, partition=Q), batch(4, 2), batch(6, 2)]
    assert disputes.compare(batch(5, 2), waiting, 3) == []
    second = batch(5, 2, size=9)
    assert disputes.compare(second, waiting, 3) == [Disputed(P, 5)]
    assert P in disputes
    assert Q not in disputes


def test_a_dispute_is_told_once(disputes, batch):
    assert disputes.found(batch(3)) == [Disputed(P, 3)]
    assert disputes.found(batch(4)) == []


def test_what_cannot_be_read_settles_nothing(disputes, batch):
    whole = batch(0, 2)
    cut = Batch(P, 0, 2, whole.content[:-3])
    assert disputes.compare(cut, [whole], -1) == [Dropped("batch records")]
    assert P not in disputes


class Bench:
    """A store over a log in memory, which does at once what it is asked."""

    def __init__(self, log=None):
        self.log = log or MemoryLog("ME")
        self.machine = StoreMachine("ME", self.log.heads())
        self.machine.handle(Woke(), 0)
        self.compared = 0

    def hear(self, *heard):
        """Hear messages and end the turn; returns what is said and reported."""
        effects, events = [], [*(Received(message) for message in heard), TurnEnded()]
        while events:
            for effect in self.machine.handle(events.pop(0), 0):
                if isinstance(effect, Append):
                    self.log.append(effect.batches, skips=dict(effect.skips))
                    events.append(Appended(effect.token))
                elif isinstance(effect, Compare):
                    self.compared += 1
                    held = beside(self.log, effect.batch, 1 << 40)
                    events.insert(0, Compared(effect.batch, tuple(held)))
                elif isinstance(effect, ReadRange):
                    self.compared += 1
                    held = self.log.read(effect.partition, effect.sequence, effect.count_max, 0)
                    extent = self.log.extents()[effect.partition]
                    to, skipped_to = effect.requester, goes_on(extent, effect.sequence, held)
                    answer = RangeRead(
                        to, effect.partition, tuple(held), skipped_to, effect.alone_end
                    )
                    events.insert(0, answer)
                else:
                    effects.append(effect)
            self.machine.check()
        return effects

    @property
    def head(self):
        return self.log.heads().get(P, -1)


def live(one):
    return messages.Records(*one.partition, one.sequence, one.count, one.content)


def fetched(one):
    return messages.DirectRecords("ME", *one.partition, one.sequence, one.count, one.content)


def runs(effects):
    """What is acknowledged, as whose."""
    said = [effect.message for effect in effects if isinstance(effect, Publish)]
    return [(ack.sequence, ack.run) for ack in said if isinstance(ack, messages.Ack)]


@pytest.fixture
def life(batch):
    """A function that makes a function for batches of one life, which began at a sequence."""

    def life(number, begun=0):
        return lambda sequence, count=2: batch(sequence, count, run=Run(number, sequence - begun))

    return life


def test_another_producers_records_behind_these_are_not_taken(life):
    bench, first, second = Bench(), life(7), life(8)
    bench.hear(live(first(0)))
    # The second one's own first two were lost on the way.
    assert Disputed(P, 2) in bench.hear(live(second(2)))
    assert Dropped("disputed partition") in bench.hear(live(first(2)))
    assert bench.head == 1


def test_what_comes_out_of_order_is_looked_at_in_order(life):
    bench, first, second = Bench(), life(7), life(8)
    bench.hear(live(first(0)), live(second(4)))
    effects = bench.hear(fetched(first(2)))
    assert Disputed(P, 4) in effects
    assert bench.head == 3, "what lies before it is good"


def test_whose_head_it_is_stands_in_every_ack(life):
    bench, first, second = Bench(), life(7), life(8)
    assert runs(bench.hear(live(first(0)))) == [(1, 7)]
    assert runs(bench.hear(messages.Head(*P, 1))) == [(1, 7)]
    bench.hear(live(second(2)))
    # In dispute too, and whatever the head: it tells the second one that it is not heard.
    assert runs(bench.hear(messages.Head(*P, 3))) == [(1, 7)]


def test_a_dispute_over_what_has_no_life_is_not_acknowledged(batch):
    bench = Bench()
    bench.hear(live(batch(0, 2)))
    bench.hear(live(batch(0, 2, size=9)))
    assert runs(bench.hear(messages.Head(*P, 1))) == []


def test_a_producer_may_begin_a_new_life(life):
    bench = Bench()
    bench.hear(live(life(7)(0)))
    assert runs(bench.hear(live(life(8, begun=2)(2)))) == [(3, 8)]
    assert bench.head == 3


def test_after_a_start_the_log_is_asked_once_what_it_ends_with(life):
    before = Bench()
    before.hear(live(life(7)(0)))
    bench = Bench(before.log)
    assert runs(bench.hear(live(life(7)(2)))) == [(3, 7)]
    bench.hear(live(life(7)(4)))
    assert (bench.head, bench.compared) == (5, 1)


def test_what_does_not_go_on_with_the_log_is_not_taken(life):
    before = Bench()
    before.hear(live(life(7)(0)))
    bench = Bench(before.log)
    assert bench.hear(live(life(8)(2))) == [Disputed(P, 2)]
    assert bench.head == 1


def test_after_a_start_too_a_second_producer_is_told_that_it_is_not_heard(life):
    before = Bench()
    before.hear(live(life(7)(0)))
    bench = Bench(before.log)
    bench.hear(live(life(8)(2)))
    assert runs(bench.hear(messages.Head(*P, 3))) == [(1, 7)]


def test_after_a_start_the_log_is_asked_whose_head_it_is_before_that_is_acknowledged(life):
    before = Bench()
    before.hear(live(life(7)(0)))
    bench = Bench(before.log)
    for _ in range(2):
        assert runs(bench.hear(messages.Head(*P, 1))) == [(1, 7)]
    assert bench.compared == 1
    bench.log.append([], trims={P: 2})
    empty = Bench(bench.log)
    assert runs(empty.hear(messages.Head(*P, 1))) == [(1, None)]


def test_a_disk_that_cannot_say_whose_head_it_is_acknowledges_nothing(life):
    machine = StoreMachine("ME", {P: 1})
    machine.handle(Woke(), 0)
    head = Received(messages.Head(*P, 1))
    for _ in range(2):
        assert machine.handle(head, 0) == [ReadRange("ME", P, 1, 1, 0)]
        assert machine.handle(RangeRead("ME", P, ()), 0) == []


def test_behind_a_log_start_any_life_goes_on(life):
    bench = Bench()
    bench.log.append([], skips={P: 6})
    again = Bench(bench.log)
    again.hear(live(life(7)(6)))
    assert again.head == 7


def test_a_batch_that_reaches_beyond_the_log_is_compared_and_taken(life):
    before = Bench()
    before.hear(live(life(7)(0)))
    bench = Bench(before.log)
    bench.hear(live(life(7)(0, 5)))
    assert bench.head == 4
    other = Bench(before.log)
    assert Disputed(P, 0) in other.hear(live(life(8)(0, 9)))


def taken_in(sequence, run, first, epoch):
    """The same, as a gateway keeps what a Kafka producer sent."""
    batch = lived(sequence, run, first)
    content = batch.content
    at = ENVELOPE_BYTES + 12
    return replace(batch, content=content[:at] + epoch.to_bytes(4, "big") + content[at + 4 :])


def test_batches_of_many_kafka_producers_stand_in_one_partition():
    first, other = taken_in(0, 17, 40, epoch=3), taken_in(2, 18, 7, epoch=3)
    assert run_behind(first) is None
    assert follows(run_behind(first), other)
    assert agree([first], other)
    assert not agree([taken_in(0, 17, 40, epoch=0)], taken_in(2, 17, 7, epoch=0))
