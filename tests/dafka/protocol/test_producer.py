"""The producer as the RFC has it: publish, head, answer, forget when stored."""

from __future__ import annotations

from functools import partial

import pytest

from dafka.limits import STORES_MAX
from dafka.model import Batch, Partition
from dafka.protocol.effects import (
    Append,
    Disputed,
    Dropped,
    HoleFound,
    Listen,
    Publish,
    Stored,
)
from dafka.protocol.events import (
    Appended,
    AppendFailed,
    Consumed,
    PeerLeft,
    PeerListened,
    Received,
    Submitted,
    TurnEnded,
    Woke,
)
from dafka.protocol.producer import (
    PRODUCER_STATES,
    SPOOL_RETRY_MS,
    VAIN_MAX,
    VAIN_MS,
    ProducerMachine,
    ProducerSettings,
    ProducerState,
)
from dafka.records.batch import BatchBuilder, Run, records_of
from dafka.records.envelope import ENVELOPE_BYTES
from dafka.wire import messages
from dafka.wire.messages import MessageId
from tests.support.lifecycles import assert_follows

P = Partition("flights", "AA")


def submitted(count=2, topic="flights", run=None):
    builder = BatchBuilder(1 << 20, run)
    for number in range(count):
        builder.append(0, None, str(number).encode(), ())
    return Submitted(topic, count, builder.build())


def ack(end, store="S1", topic="flights"):
    return Received(messages.Ack(topic, "AA", store, end - 1))


@pytest.fixture
def producer():
    machine = ProducerMachine("AA", ProducerSettings(head_interval_ms=1_000))
    machine.handle(Woke(), 0)
    return machine


def sent(effects):
    return [effect.message for effect in effects if isinstance(effect, Publish)]


def test_it_listens_for_acks_and_fetches_of_its_own_and_for_every_get_heads():
    effects = ProducerMachine("AA", ProducerSettings()).handle(Woke(), 0)
    assert effects == [
        Listen(MessageId.ACK, "AA"),
        Listen(MessageId.FETCH, "AA"),
        Listen(MessageId.GET_HEADS, ""),
    ]


def test_the_first_record_has_sequence_0_and_there_are_no_gaps(producer):
    messages_sent = [sent(producer.handle(submitted(count), 0))[0] for count in (2, 3, 1)]
    assert [(one.sequence, one.count) for one in messages_sent] == [(0, 2), (2, 3), (5, 1)]
    last = messages_sent[1]
    found = list(records_of(Batch(P, last.sequence, last.count, last.content)))
    assert [record.sequence for record in found] == [2, 3, 4]


def test_each_topic_is_a_partition_of_its_own(producer):
    producer.handle(submitted(), 0)
    (first,) = sent(producer.handle(submitted(topic="weather"), 0))
    assert (first.topic, first.address, first.sequence) == ("weather", "AA", 0)


def test_there_is_no_head_before_the_first_record(producer):
    assert producer.wakeup_ms() is None
    assert producer.handle(Woke(), 10_000) == []


def test_head_comes_for_ever_after_ever_more_rarely(producer):
    producer.handle(submitted(), 500)
    assert producer.wakeup_ms() == 1_500
    assert sent(producer.handle(Woke(), 1_500)) == [messages.Head("flights", "AA", 1)]
    assert sent(producer.handle(Woke(), 2_500)) == []
    producer.handle(ack(2), 2_600)
    assert sent(producer.handle(Woke(), 3_500)) == []
    again = messages.Head("flights", "AA", 1, stored=True)
    assert producer.wakeup_ms() == 2_600 + 32_000
    for now_ms in range(60_000, 600_000, 60_000):
        assert sent(producer.handle(Woke(), now_ms)) == [again]


def test_who_listens_for_a_topic_by_its_name_hears_of_what_is_stored_soon(producer):
    producer.handle(PeerListened(MessageId.HEAD, "flights"), 0)
    producer.handle(submitted(), 500)
    producer.handle(ack(2), 510)
    said = messages.Head("flights", "AA", 1, stored=True)
    assert sent(producer.handle(Woke(), 1_500)) == [said]
    assert producer.wakeup_ms() == 3_500


def test_a_head_says_whether_all_is_stored(producer):
    producer.handle(submitted(), 0)
    assert not sent(producer.handle(Woke(), 1_000))[0].stored
    producer.handle(ack(2), 1_001)
    assert sent(producer.handle(Woke(), 33_001))[0].stored
    assert sent(producer.handle(PeerListened(MessageId.HEAD, ""), 33_002))[0].stored
    producer.handle(submitted(), 35_500)
    assert not sent(producer.handle(Woke(), 36_500))[0].stored
    producer.handle(submitted(), 37_000)
    producer.handle(ack(4), 37_500)
    assert not sent(producer.handle(Woke(), 38_000))[0].stored, "only a part of it"


def test_of_an_earlier_life_it_does_not_say_that_all_is_stored():
    machine = ProducerMachine("AA", ProducerSettings(), {"flights": 5})
    for now_ms in (0, 1_000, 3_000, 7_000):
        heads = [one for one in sent(machine.handle(Woke(), now_ms)) if one.id is MessageId.HEAD]
        assert heads == [messages.Head("flights", "AA", 4)]


def test_who_begins_to_listen_for_head_gets_it_at_once(producer):
    producer.handle(submitted(), 0)
    assert sent(producer.handle(PeerListened(MessageId.HEAD, ""), 1)) == [
        messages.Head("flights", "AA", 1)
    ]
    assert sent(producer.handle(PeerListened(MessageId.HEAD, "weather"), 1)) == []
    assert sent(producer.handle(PeerListened(MessageId.RECORDS, "flights"), 1)) == []


def test_get_heads_is_answered_for_its_topics(producer):
    producer.handle(submitted(), 0)
    producer.handle(submitted(topic="weather"), 0)
    everything = sent(producer.handle(Received(messages.GetHeads("", "YOU")), 1))
    assert [head.topic for head in everything] == ["flights", "weather"]
    (one,) = sent(producer.handle(Received(messages.GetHeads("weather", "YOU")), 1))
    assert one == messages.DirectHead("YOU", "weather", "AA", 1)
    assert sent(producer.handle(Received(messages.GetHeads("wea", "YOU")), 1)) == []


@pytest.mark.parametrize("foreign", [False, True])
def test_get_heads_is_not_answered_for_what_stores_can_tell_of(foreign):
    producer = ProducerMachine("AA", ProducerSettings(foreign=foreign))
    producer.handle(submitted(), 0)
    producer.handle(submitted(topic="weather"), 0)
    producer.handle(ack(2), 1)
    told = sent(producer.handle(Received(messages.GetHeads("", "YOU")), 2))
    assert [head.topic for head in told] == ["flights", "weather"][not foreign :]
    producer.handle(submitted(), 3)
    told = sent(producer.handle(Received(messages.GetHeads("flights", "YOU")), 4))
    assert told == [messages.DirectHead("YOU", "flights", "AA", 3)]


def test_what_is_stored_is_reported_with_its_bytes_and_not_served_any_more(producer):
    size = len(sent(producer.handle(submitted(), 0))[0].content)
    fetch = Received(messages.Fetch("flights", "AA", "YOU", 0, 10))
    assert [one.id for one in sent(producer.handle(fetch, 1))] == [
        MessageId.DIRECT_RECORDS,
        MessageId.DIRECT_HEAD,
    ]
    assert producer.handle(ack(2), 2) == [Stored(P, 2, size)]
    assert producer.handle(fetch, 3) == []


def test_nothing_is_given_up_before_it_is_acknowledged(producer):
    producer.handle(submitted(), 0)
    producer.handle(submitted(3), 0)
    for now_ms in range(0, 24 * 3_600_000, 60_000):
        producer.handle(Woke(), now_ms)
    fetch = Received(messages.Fetch("flights", "AA", "YOU", 0, 5))
    *found, _ = sent(producer.handle(fetch, 24 * 3_600_000))
    assert [(one.sequence, one.count) for one in found] == [(0, 2), (2, 3)]
    producer.handle(ack(2), 24 * 3_600_000)
    after = Received(messages.Fetch("flights", "AA", "YOU", 2, 3))
    *found, _ = sent(producer.handle(after, 24 * 3_600_000))
    assert [(one.sequence, one.count) for one in found] == [(2, 3)]


def test_enough_distinct_stores_must_have_it():
    producer = ProducerMachine("AA", ProducerSettings(min_acks=2))
    producer.handle(submitted(), 0)
    assert producer.handle(ack(2, "S1"), 1) == []
    assert producer.handle(ack(2, "S1"), 1) == []
    assert [effect.end for effect in producer.handle(ack(2, "S2"), 1)] == [2]


def test_an_ack_for_what_was_never_sent_frees_nothing(producer):
    producer.handle(submitted(), 0)
    assert producer.handle(ack(5, topic="weather"), 1) == []
    assert sent(producer.handle(Received(messages.Fetch("flights", "AA", "YOU", 0, 1)), 2))


FOREIGN = {
    "beyond its end": messages.Ack("flights", "AA", "S1", 2),
    "of another life": messages.Ack("flights", "AA", "S1", 1, run=8),
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
def test_an_ack_for_what_another_has_sent_ends_the_partition(foreign):
    producer = ProducerMachine("AA", ProducerSettings())
    producer.handle(Woke(), 0)
    producer.handle(submitted(run=Run(7, 0)), 0)
    producer.handle(submitted(topic="weather", run=Run(7, 0)), 0)
    told = [Dropped("disputed partition"), Disputed(P, foreign.sequence)]
    assert producer.handle(Received(foreign), 1) == told
    producer.check()
    assert producer.handle(Received(foreign), 1) == told[:1], "once"
    assert producer.handle(submitted(), 2) == []
    fetch = messages.Fetch("flights", "AA", "YOU", 0, 1)
    assert producer.handle(Received(fetch), 2) == []
    assert [head.topic for head in sent(producer.handle(Woke(), 1_000))] == ["weather"]
    own = messages.Ack("weather", "AA", "S1", 1, run=7)
    assert producer.handle(Received(own), 3) == [
        Stored(Partition("weather", "AA"), 2, len(submitted().records) + ENVELOPE_BYTES)
    ]


def test_what_an_earlier_life_has_sent_is_acknowledged_as_that(batch):
    def kept_and_acknowledged_as(run):
        settings = ProducerSettings(spooled=True)
        kept = [batch(2, 2, run=Run(6, 0))]
        producer = ProducerMachine("AA", settings, {"flights": 4}, kept)
        before = Received(messages.Ack("flights", "AA", "S1", 1, run=5))
        assert producer.handle(before, 0) == [Stored(P, 2, 0)]
        return producer.handle(Received(messages.Ack("flights", "AA", "S1", 3, run=run)), 0)

    assert [effect.end for effect in kept_and_acknowledged_as(6)] == [4]
    assert Disputed(P, 3) in kept_and_acknowledged_as(7)


@pytest.fixture
def third_life(batch):
    """A producer whose spool has what two earlier lives left, and what it has been given itself."""
    kept = [batch(2, 2, run=Run(6, 0)), batch(4, 1, run=Run(7, 0)), batch(5, 1, run=Run(7, 1))]
    settings = ProducerSettings(spooled=True, min_acks=2)
    producer = ProducerMachine("AA", settings, {"flights": 6}, kept)
    producer.handle(submitted(1, run=Run(8, 0)), 0)
    (write,) = producer.handle(TurnEnded(), 0)
    assert producer.handle(Appended(write.token), 0) == []
    producer.check()
    return producer


def said_by(store, end, run):
    return Received(messages.Ack("flights", "AA", store, end - 1, run=run))


def test_a_later_life_is_published_when_a_store_has_confirmed_the_earlier_one(third_life):
    assert sent(third_life.handle(Woke(), 0))[-1] == messages.Head("flights", "AA", 3)
    fetch = messages.Fetch("flights", "AA", "YOU", 2, 10)
    *answers, end = sent(third_life.handle(Received(fetch), 0))
    assert ([one.sequence for one in answers], end.sequence) == ([2], 3)
    assert third_life.handle(said_by("S1", 3, 6), 1) == [], "not all of it"
    assert [one.sequence for one in sent(third_life.handle(said_by("S1", 4, 6), 1))] == [4, 5]
    assert [one.sequence for one in sent(third_life.handle(said_by("S1", 6, 7), 2))] == [6]
    third_life.check()
    stored = [effect.end for end in (4, 6, 7) for effect in third_life.handle(ack(end, "S2"), 3)]
    assert stored == [4, 6]
    assert third_life.handle(said_by("S1", 7, 8), 4)[0].end == 7


def test_stores_of_another_make_are_not_waited_for(batch):
    # They do not acknowledge again what they have.
    settings = ProducerSettings(spooled=True, foreign=True)
    kept = [batch(2, 2, run=Run(6, 0)), batch(4, 1, run=Run(7, 0))]
    producer = ProducerMachine("AA", settings, {"flights": 5}, kept)
    assert sent(producer.handle(Woke(), 0))[-1] == messages.Head("flights", "AA", 4)
    producer.handle(submitted(1, run=Run(8, 0)), 0)
    (write,) = producer.handle(TurnEnded(), 0)
    assert [one.sequence for one in sent(producer.handle(Appended(write.token), 0))] == [5]
    producer.check()


def test_what_waits_may_have_been_stored_already(third_life):
    effects = third_life.handle(said_by("S1", 6, 7), 1)
    assert [one.sequence for one in sent(effects)] == [4, 5], "the store says again that it has it"
    assert [one.sequence for one in sent(third_life.handle(said_by("S1", 6, 7), 2))] == [6]
    third_life.check()


@pytest.mark.parametrize(("end", "run"), [(6, 9), (7, 7), (8, 8)])
def test_what_waits_can_have_been_published_by_another(third_life, end, run):
    assert Disputed(P, end - 1) in third_life.handle(said_by("S1", end, run), 1)


def test_what_another_producer_has_published_instead_is_seen_before_more_is_added(third_life):
    assert Disputed(P, 3) in third_life.handle(said_by("S1", 4, 9), 1)
    assert sent(third_life.handle(said_by("S1", 4, 6), 1)) == []
    assert third_life.handle(Woke(), 100_000) == [
        *(Listen(one, "AA") for one in (MessageId.ACK, MessageId.FETCH)),
        Listen(MessageId.GET_HEADS, ""),
    ]
    third_life.check()


def test_what_was_spooled_behind_a_dispute_is_not_published():
    producer = ProducerMachine("AA", ProducerSettings(spooled=True))
    producer.handle(submitted(run=Run(7, 0)), 0)
    (write,) = producer.handle(TurnEnded(), 0)
    producer.handle(Appended(write.token), 0)
    producer.handle(submitted(), 1)
    (write,) = producer.handle(TurnEnded(), 1)
    producer.handle(Received(messages.Ack("flights", "AA", "S1", 1, run=8)), 2)
    assert producer.handle(Appended(write.token), 3) == []
    producer.check()


def test_messages_for_others_are_dropped(producer):
    message = messages.StoreHello("YOU", "S1")
    assert producer.handle(Received(message), 0) == [Dropped("not for a producer")]


def test_an_event_of_another_role_is_a_bug(producer):
    with pytest.raises(AssertionError):
        producer.handle(Consumed(1), 0)


@pytest.fixture
def spooled():
    machine = ProducerMachine("AA", ProducerSettings(head_interval_ms=1_000, spooled=True))
    machine.handle(Woke(), 0)
    return machine


def appends(effects):
    return [effect for effect in effects if isinstance(effect, Append)]


def test_with_a_spool_nothing_is_published_before_it_is_durable(spooled):
    assert spooled.handle(submitted(2), 0) == []
    assert spooled.handle(submitted(1), 0) == []
    assert spooled.wakeup_ms() is None
    (append,) = spooled.handle(TurnEnded(), 0)
    assert [(batch.sequence, batch.count) for batch in append.batches] == [(0, 2), (2, 1)]
    everything = Received(messages.GetHeads("", "YOU"))
    assert spooled.handle(everything, 1) == []
    published = sent(spooled.handle(Appended(append.token), 2))
    assert [(one.sequence, one.count) for one in published] == [(0, 2), (2, 1)]
    assert spooled.handle(ack(3), 3)[0].end == 3
    spooled.check()


def test_one_write_is_under_way_at_a_time(spooled):
    spooled.handle(submitted(), 0)
    (first,) = appends(spooled.handle(TurnEnded(), 0))
    spooled.handle(submitted(), 1)
    assert spooled.handle(TurnEnded(), 1) == []
    effects = spooled.handle(Appended(first.token), 2)
    (second,) = appends(effects)
    assert len(sent(effects)) == 1
    assert [batch.sequence for batch in second.batches] == [2]
    spooled.check()


def test_a_spool_that_refuses_is_asked_again_later_in_order(spooled):
    spooled.handle(submitted(), 0)
    (first,) = appends(spooled.handle(TurnEnded(), 0))
    spooled.handle(submitted(), 1)
    assert spooled.handle(AppendFailed(first.token), 5) == []
    assert spooled.handle(TurnEnded(), 6) == []
    assert spooled.wakeup_ms() == 5 + SPOOL_RETRY_MS
    (again,) = appends(spooled.handle(Woke(), 5 + SPOOL_RETRY_MS))
    assert [batch.sequence for batch in again.batches] == [0, 2]
    spooled.check()


def test_a_later_life_goes_on_where_the_earlier_one_ended():
    first = ProducerMachine("AA", ProducerSettings(spooled=True))
    first.handle(submitted(3), 0)
    first.handle(submitted(2), 0)
    first.handle(submitted(1, topic="weather"), 0)
    (append,) = appends(first.handle(TurnEnded(), 0))
    kept = [batch for batch in append.batches if batch.sequence == 3]
    settings = ProducerSettings(spooled=True)
    second = ProducerMachine("AA", settings, {"flights": 5, "weather": 1}, kept)
    heads = sent(second.handle(Woke(), 100))
    assert heads == [messages.Head("flights", "AA", 4), messages.Head("weather", "AA", 0)]
    (answer, _) = sent(second.handle(Received(messages.Fetch("flights", "AA", "YOU", 3, 10)), 100))
    assert (answer.sequence, answer.count, answer.content) == (3, 2, kept[0].content)
    second.handle(submitted(1), 101)
    (more,) = appends(second.handle(TurnEnded(), 101))
    assert more.batches[0].sequence == 5
    second.check()
    second.handle(Appended(more.token), 102)
    second.check()
    assert second.handle(ack(6), 103)[0].end == 6


def writes(producer):
    producer.handle(submitted(), 0)
    assert [type(one) for one in producer.handle(TurnEnded(), 0)] == [Append]


def has_written(producer):
    producer.handle(Appended(1), 0)


def is_refused(producer):
    producer.handle(AppendFailed(1), 0)


def has_waited(producer):
    assert [type(one) for one in producer.handle(Woke(), SPOOL_RETRY_MS)] == [Append]


INTO = {
    ProducerState.IDLE: [],
    ProducerState.WRITING: [writes],
    ProducerState.REFUSED: [writes, is_refused],
}
CHANGES = {
    (ProducerState.IDLE, ProducerState.WRITING): writes,
    (ProducerState.WRITING, ProducerState.IDLE): has_written,
    (ProducerState.WRITING, ProducerState.REFUSED): is_refused,
    (ProducerState.REFUSED, ProducerState.WRITING): has_waited,
}


@pytest.mark.parametrize("state", ProducerState)
@pytest.mark.parametrize("following", ProducerState)
def test_its_states_follow_each_other_as_the_table_says(state, following):
    producer = ProducerMachine("AA", ProducerSettings(spooled=True))
    producer.handle(Woke(), 0)
    for happens in INTO[state]:
        happens(producer)
    assert producer.state is state
    change = CHANGES.get((state, following))
    given = change and partial(change, producer)
    assert_follows(producer._lifecycle, PRODUCER_STATES, following, given)
    producer.check()


def test_who_asks_for_what_is_stored_is_shown_what_is_not():
    producer = ProducerMachine("AA", ProducerSettings())
    for _ in range(3):
        builder = BatchBuilder(1 << 16)
        builder.append(1, None, b"v", ())
        producer.handle(Submitted("flights", 1, builder.build()), 0)
    producer.handle(Received(messages.Ack("flights", "AA", "S1", 0)), 1)
    below = messages.Fetch("flights", "AA", "NEW", 0, 1_000)
    (shown,) = sent(producer.handle(Received(below), 2))
    assert (shown.id, shown.requester, shown.sequence) == (MessageId.DIRECT_RECORDS, "NEW", 1)
    named = messages.Fetch("flights", "AA", "NEW", 0, 1_000, "S1")
    assert producer.handle(Received(named), 3) == []
    producer.handle(Received(messages.Ack("flights", "AA", "S1", 2)), 4)
    assert producer.handle(Received(below), 5) == [], "all is stored: others have it"


def in_vain(producer, sequence, *times_ms, requester="NEW", by_store=True):
    """What holes are found when a store asks at these times for what is kept no more."""
    fetch = messages.Fetch("flights", "AA", requester, sequence, 1_000, by_store=by_store)
    fetch = Received(fetch)
    effects = [effect for at_ms in times_ms for effect in producer.handle(fetch, at_ms)]
    return [effect for effect in effects if isinstance(effect, HoleFound)]


def listens_as_store(address):
    return PeerListened(MessageId.CONSUMER_HELLO, address)


@pytest.fixture
def waiting(producer):
    """Its first two records are stored, two more are not; a new store is there."""
    assert producer.handle(listens_as_store("NEW"), 0) == []
    producer.handle(submitted(), 0)
    producer.handle(ack(2), 1)
    producer.handle(submitted(), 2)
    return producer


def test_who_is_asked_in_vain_for_long_says_so_again_and_again(waiting):
    assert in_vain(waiting, 0, 10, 260, 4_000, 9 + VAIN_MS) == []
    assert in_vain(waiting, 0, 10 + VAIN_MS, 20_000) == [HoleFound(P, 0, 2)] * 2


def test_who_is_no_store_may_ask_in_vain_for_ever(waiting):
    assert in_vain(waiting, 0, 10, 10 + VAIN_MS, 10 + 2 * VAIN_MS, by_store=False) == []
    assert in_vain(waiting, 0, 11 + 2 * VAIN_MS) == [], "a store that begins to ask asks anew"


def test_without_keys_who_does_not_listen_as_stores_do_is_none(waiting):
    waiting.handle(PeerListened(MessageId.HEAD, "R1"), 3)
    assert in_vain(waiting, 0, 10, 10 + VAIN_MS, requester="R1") == []
    waiting.handle(PeerLeft("NEW"), 11)
    assert in_vain(waiting, 0, 12, 12 + VAIN_MS) == []


def test_a_store_of_another_make_listens_for_whoever_greets_stores(waiting):
    waiting.handle(listens_as_store(""), 3)
    assert in_vain(waiting, 0, 10, 10 + VAIN_MS, requester="R1") == [HoleFound(P, 0, 2)]


def test_of_very_many_who_listen_as_stores_the_first_count(producer):
    for number in range(STORES_MAX + 1):
        producer.handle(listens_as_store(f"R{number}"), 0)
    producer.handle(submitted(), 0)
    producer.handle(ack(2), 1)
    producer.handle(submitted(), 2)
    for number, found in ((STORES_MAX - 1, [HoleFound(P, 0, 2)]), (STORES_MAX, [])):
        assert in_vain(producer, 0, 10, 10 + VAIN_MS, requester=f"R{number}") == found


def test_of_whom_are_no_stores_none_is_remembered(waiting):
    in_vain(waiting, 0, 10)
    for number in range(VAIN_MAX + 1):
        in_vain(waiting, 0, 10, requester=f"R{number}", by_store=False)
    assert in_vain(waiting, 0, 10 + VAIN_MS) == [HoleFound(P, 0, 2)]


def test_a_store_that_comes_further_does_not_ask_in_vain(waiting):
    assert in_vain(waiting, 0, 10) == in_vain(waiting, 1, 10 + VAIN_MS) == []
    assert in_vain(waiting, 1, 9 + 2 * VAIN_MS) == []
    assert in_vain(waiting, 1, 10 + 2 * VAIN_MS) == [HoleFound(P, 1, 2)]


def test_while_something_is_stored_nobody_asks_in_vain(waiting):
    assert in_vain(waiting, 0, 10) == []
    waiting.handle(ack(3), 20)
    waiting.handle(submitted(), 21)
    assert in_vain(waiting, 0, 10 + VAIN_MS) == []


def test_of_very_many_who_ask_in_vain_the_last_are_remembered(waiting):
    waiting.handle(listens_as_store(""), 3)
    for number in range(VAIN_MAX + 1):
        in_vain(waiting, 0, 10, requester=f"R{number}")
    assert in_vain(waiting, 0, 10 + VAIN_MS, requester="R1") == [HoleFound(P, 0, 2)]
    assert in_vain(waiting, 0, 10 + VAIN_MS, requester="R0") == []


def test_a_store_that_has_left_is_asked_again_when_it_is_back():
    producer = ProducerMachine("AA", ProducerSettings(min_acks=2))
    producer.handle(submitted(), 0)
    producer.handle(ack(2), 10)
    producer.handle(Woke(), 10_000)
    assert producer.handle(PeerLeft("S1"), 10_000) == []
    assert producer.wakeup_ms() == 11_000
    assert producer.handle(ack(2, store="S1, without its disk"), 10_500) == []
    assert [type(one) for one in producer.handle(ack(2, store="S2"), 10_600)] == [Stored]
    producer.check()
