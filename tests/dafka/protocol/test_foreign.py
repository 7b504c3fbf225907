from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

from dafka.errors import RecordError
from dafka.limits import RECORD_BYTES_MAX, PeerBounds
from dafka.model import Batch, Partition, Shape
from dafka.protocol.effects import Dropped
from dafka.protocol.events import Received
from dafka.protocol.foreign import INTERVAL_MS, INTERVAL_MS_MAX, Reminders, Singles
from dafka.records.batch import BatchBuilder, enclosed, records_of
from dafka.testing.strategies import batches
from dafka.wire import messages
from dafka.wire.messages import ConsumerHello, MessageId


def content_of(sequence, *values):
    builder = BatchBuilder(1 << 20)
    for value in values:
        builder.append(7, b"key", value, ())
    return enclosed(builder.build(), sequence)


RECORDS = messages.Records("he", "AB", 5, 2, content_of(5, b"five", None))
ANSWER = messages.DirectRecords("CC", "he", "AB", 5, 2, RECORDS.content)


def inbound(*arrived, shape=Shape.BATCHES):
    return list(Singles(shape).inbound([Received(one) for one in arrived], 99))


def test_our_own_peers_get_batches():
    assert list(Singles(Shape.BATCHES).outbound(RECORDS)) == [RECORDS]
    assert list(Singles(Shape.BATCHES).outbound(ANSWER)) == [ANSWER]


def test_a_classic_node_sends_every_record_too_and_says_that_it_is_in_a_batch():
    assert list(Singles(Shape.CLASSIC).outbound(RECORDS)) == [
        RECORDS,
        messages.RecordMessage("he", "AB", 5, b"five", batched=True),
        messages.RecordMessage("he", "AB", 6, b"", batched=True),
    ]


def test_a_raw_node_sends_single_records_only():
    assert list(Singles(Shape.RAW).outbound(RECORDS)) == [
        messages.RecordMessage("he", "AB", 5, b"five"),
        messages.RecordMessage("he", "AB", 6, b""),
    ]


def test_a_marked_batch_is_followed_by_its_last_record():
    last = messages.RecordMessage("he", "AB", 6, b"", batched=True)
    assert list(Singles(Shape.MARKED).outbound(RECORDS)) == [RECORDS, last]


def test_who_listens_for_single_answers_only_gets_those():
    singles = Singles(Shape.BATCHES)
    singles.listened(MessageId.DIRECT_RECORD, "CC")
    asks(singles, messages.Fetch("he", "AB", "CC", 5, 2))
    assert list(singles.outbound(ANSWER)) == [
        messages.DirectRecord("CC", "he", "AB", 5, b"five"),
        messages.DirectRecord("CC", "he", "AB", 6, b""),
    ]
    singles.listened(MessageId.DIRECT_RECORDS, "CC")
    assert list(singles.outbound(ANSWER)) == [ANSWER]
    singles.left(MessageId.DIRECT_RECORDS, "CC")
    assert len(list(singles.outbound(ANSWER))) == 2
    singles.left(MessageId.DIRECT_RECORD, "CC")
    assert list(singles.outbound(ANSWER)) == [ANSWER]


def asks(singles, *fetches):
    """What of these questions arrives at the node."""
    return [event.message for event in singles.inbound(map(Received, fetches), 0)]


def answered(singles, requester="CC", address="AB"):
    content = content_of(5, *(b"%d" % number for number in range(6)))
    message = messages.DirectRecords(requester, "he", address, 5, 6, content)
    return [one.sequence for one in singles.outbound(message)]


def test_a_fetch_is_answered_with_no_more_single_records_than_a_socket_queues():
    singles = Singles(Shape.BATCHES, answer_max=3)
    singles.listened(MessageId.DIRECT_RECORD, "CC")
    assert answered(singles) == [10], "a sign that there is more"
    (marked,) = asks(singles, messages.Fetch("he", "AB", "CC", 6, 100))
    assert (marked.sequence, marked.count, marked.foreign) == (6, 3, True)
    assert answered(singles) == [6, 7, 8]
    asks(singles, messages.Fetch("he", "CD", "CC", 5, 2), messages.Fetch("he", "AB", "CC", 9, 100))
    assert answered(singles) == [9, 10]
    assert answered(singles, address="CD") == [5, 6]


def test_what_was_asked_for_is_known_of_a_bounded_number_of_partitions():
    singles = Singles(Shape.BATCHES, requesters_max=2)
    singles.listened(MessageId.DIRECT_RECORD, "CC")
    for number in range(5):
        asks(singles, messages.Fetch("he", f"{number}", "CC", 5, 6))
    assert [len(answered(singles, address=f"{number}")) for number in range(5)] == [1, 1, 1, 6, 6]


def test_the_requesters_that_are_known_are_bounded():
    singles = Singles(Shape.BATCHES, requesters_max=1)
    singles.listened(MessageId.DIRECT_RECORD, "AA")
    singles.listened(MessageId.DIRECT_RECORD, "CC")
    assert list(singles.outbound(ANSWER)) == [ANSWER]
    singles.left(MessageId.DIRECT_RECORD, "unheard of")


def test_questions_of_those_without_batches_are_marked():
    singles = Singles(Shape.BATCHES)
    singles.listened(MessageId.DIRECT_RECORD, "CC")
    fetch = messages.Fetch("he", "AB", "CC", 0, 100_000)
    hello = messages.ConsumerHello("ST", "CC", ("he",))
    marked = list(singles.inbound([Received(fetch), Received(hello)], 0))
    assert all(event.message.foreign for event in marked)
    assert inbound(fetch, hello) == [Received(fetch), Received(hello)]


def test_bare_values_that_follow_each_other_become_one_batch():
    (event,) = inbound(*[messages.RecordMessage("he", "AB", 5 + n, b"%d" % n) for n in range(3)])
    message = event.message
    assert isinstance(message, messages.Records)
    assert (message.sequence, message.count) == (5, 3)
    batch = Batch(Partition("he", "AB"), 5, 3, message.content)
    assert [(one.sequence, one.key, one.value, one.timestamp_ms) for one in records_of(batch)] == [
        (5, None, b"0", 99),
        (6, None, b"1", 99),
        (7, None, b"2", 99),
    ]


def test_a_gap_another_partition_or_another_message_ends_a_batch():
    head = messages.Head("he", "AB", 9)
    found = inbound(
        messages.RecordMessage("he", "AB", 0, b""),
        messages.RecordMessage("he", "AB", 2, b""),
        messages.RecordMessage("he", "CD", 3, b""),
        messages.DirectRecord("ME", "he", "CD", 4, b""),
        messages.DirectRecord("ME", "he", "CD", 5, b""),
        head,
        messages.RecordMessage("he", "AB", 3, b""),
    )
    kinds = [
        (type(event.message).__name__, event.message.sequence, getattr(event.message, "count", 0))
        for event in found
    ]
    assert kinds == [
        ("Records", 0, 1),
        ("Records", 2, 1),
        ("Records", 3, 1),
        ("DirectRecords", 4, 2),
        ("Head", 9, 0),
        ("Records", 3, 1),
    ]


def test_a_record_that_is_in_a_batch_too_is_left_to_the_batch():
    assert inbound(messages.RecordMessage("he", "AB", 5, b"five", batched=True), RECORDS) == [
        Received(RECORDS)
    ]


def test_a_record_with_an_envelope_is_taken_as_it_is():
    enclosed_one = messages.RecordMessage("he", "AB", 5, content_of(5, b"five"))
    assert inbound(enclosed_one) == [Received(enclosed_one)]


def test_a_value_too_large_for_any_batch_is_dropped():
    found = inbound(
        messages.RecordMessage("he", "AB", 0, bytes(RECORD_BYTES_MAX + 1)),
        messages.RecordMessage("he", "AB", 1, bytes(RECORD_BYTES_MAX)),
        messages.RecordMessage("he", "AB", 2, bytes(RECORD_BYTES_MAX)),
    )
    assert found[0] == Dropped("content size")
    assert [(event.message.sequence, event.message.count) for event in found[1:]] == [
        (1, 1),
        (2, 1),
    ]


def test_what_is_dropped_already_passes():
    assert list(Singles(Shape.RAW).inbound([Dropped("version")], 0)) == [Dropped("version")]


def test_a_batch_that_does_not_parse_raises_what_can_be_counted():
    with pytest.raises(RecordError):
        list(Singles(Shape.RAW).outbound(messages.Records("he", "AB", 5, 1, b"damaged")))


@given(batches)
def test_what_one_node_takes_apart_another_puts_together(batch):
    topic, address = batch.partition
    sent = messages.Records(topic, address, batch.sequence, batch.count, batch.content)
    singles = list(Singles(Shape.RAW).outbound(sent))
    if any(one.content[:2] == b"\xda\xf5" for one in singles):
        return
    (event,) = inbound(*singles)
    found = Batch(
        batch.partition, event.message.sequence, event.message.count, event.message.content
    )
    assert [record.value for record in records_of(found)] == [
        record.value or b"" for record in records_of(batch)
    ]


ORDERS = Partition("orders", "AB")
OTHERS = Partition("others", "AB")


def test_a_consumer_is_reminded_of_its_topics_ever_more_rarely_and_then_no_more():
    reminders = Reminders()
    reminders.greeted(ConsumerHello("ST", "CC", ("orders",)), [ORDERS, OTHERS], 0)
    times = []
    while (due_ms := reminders.wakeup_ms()) is not None:
        assert list(reminders.due(due_ms)) == [(ORDERS, "CC")]
        times.append(due_ms)
    assert times[0] == INTERVAL_MS
    gaps = [later - sooner for sooner, later in pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[-1] <= INTERVAL_MS_MAX


def test_what_moves_is_said_again():
    reminders = Reminders()
    reminders.greeted(ConsumerHello("ST", "CC", ("orders",)), [], 0)
    reminders.moved(ORDERS, 5)
    assert list(reminders.due(5 + INTERVAL_MS)) == [(ORDERS, "CC")]
    assert list(reminders.due(6 + INTERVAL_MS)) == []


def test_without_such_consumers_nothing_is_kept():
    reminders = Reminders()
    reminders.moved(ORDERS, 0)
    assert reminders.wakeup_ms() is None


def test_who_fetches_is_reminded_anew_though_its_hello_named_no_topic():
    reminders = Reminders()
    reminders.greeted(ConsumerHello("ST", "CC", ()), [ORDERS], 0)
    for now_ms in range(0, 100_000, INTERVAL_MS):
        reminders.asked("CC", ORDERS, now_ms)
        assert list(reminders.due(now_ms)) == []
        assert list(reminders.due(now_ms + INTERVAL_MS)) == [(ORDERS, "CC")]


def test_a_consumer_that_wants_nothing_is_not_reminded():
    reminders = Reminders()
    reminders.greeted(ConsumerHello("ST", "CC", ("orders",)), [ORDERS], 0)
    reminders.greeted(ConsumerHello("ST", "CC", ()), [ORDERS], 0)
    assert list(reminders.due(INTERVAL_MS)) == []


def test_topics_are_bounded_too():
    reminders = Reminders(PeerBounds(reminded_topics=3))
    for consumer in ("C1", "C2"):
        reminders.greeted(ConsumerHello("ST", consumer, ("orders", "others", "orders")), [], 0)
    reminders.moved(ORDERS, 0)
    assert list(reminders.due(INTERVAL_MS)) == [(ORDERS, "C2")]


def test_the_oldest_of_too_many_is_forgotten():
    reminders = Reminders(PeerBounds(requesters=2))
    for consumer in ("C1", "C2", "C3"):
        reminders.greeted(ConsumerHello("ST", consumer, ("orders",)), [ORDERS], 0)
    assert list(reminders.due(INTERVAL_MS)) == [(ORDERS, "C2"), (ORDERS, "C3")]
