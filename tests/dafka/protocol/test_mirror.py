"""The mirror: other clusters' partitions under their own names."""

from __future__ import annotations

import pytest

from dafka.model import Partition
from dafka.protocol.effects import Dropped, Listen, Publish, Stored, Wanted
from dafka.protocol.events import Consumed, Mirrored, PeerLeft, PeerListened, Received, Woke
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.wire import messages
from dafka.wire.messages import MessageId

P = Partition("flights", "AA")


@pytest.fixture
def mirror():
    machine = MirrorMachine(MirrorSettings(head_interval_ms=1_000, head_interval_ms_max=4_000))
    machine.handle(Woke(), 0)
    return machine


def ack(end, store="S1"):
    return Received(messages.Ack("flights", "AA", store, end - 1))


def heads(effects):
    return [effect.message for effect in effects if isinstance(effect.message, messages.Head)]


def test_it_listens_bare_for_thousands_of_partitions():
    effects = MirrorMachine(MirrorSettings()).handle(Woke(), 0)
    assert effects == [Listen(MessageId.ACK, ""), Listen(MessageId.FETCH, "")]


def test_a_batch_is_published_under_its_own_name_and_sequence(mirror, batch):
    (effect,) = mirror.handle(Mirrored(batch(40, 2)), 0)
    message = effect.message
    assert (message.topic, message.address, message.sequence) == ("flights", "AA", 40)
    assert message.content == batch(40, 2).content


def test_stored_is_reported_once_and_low_tells_what_is_left(mirror, batch):
    mirror.handle(Mirrored(batch(40, 2)), 0)
    mirror.handle(Mirrored(batch(42, 2)), 0)
    assert mirror.low(P) == 40
    assert mirror.handle(ack(42), 1) == [Stored(P, 42, len(batch(40, 2).content))]
    assert mirror.handle(ack(42), 1) == []
    assert mirror.low(P) == 42


def test_who_asks_for_what_the_source_does_not_keep_is_told_where_it_begins(mirror, batch):
    mirror.begins(P, 40)
    mirror.handle(Mirrored(batch(40, 2)), 0)
    fetch = Received(messages.Fetch("flights", "AA", "YOU", 0, 40))
    mirror.handle(Mirrored(batch(42, 2)), 0)
    told, first, head = mirror.handle(fetch, 1)
    assert told.message == messages.LogStart("YOU", "flights", "AA", 40, "AA")
    assert first.message.sequence == 40, "which shows that it is so"
    assert head.message == messages.DirectHead("YOU", "flights", "AA", 43)
    named = Received(messages.Fetch("flights", "AA", "YOU", 0, 40, "S1"))
    assert mirror.handle(named, 1) == []


def test_a_log_start_that_is_stored_by_some_is_shown_again_to_others(mirror, batch):
    mirror.begins(P, 40)
    mirror.handle(Mirrored(batch(40, 2)), 0)
    mirror.handle(Mirrored(batch(42, 2)), 0)
    mirror.handle(ack(42), 1)
    fetch = Received(messages.Fetch("flights", "AA", "YOU", 0, 40))
    told, wanted = mirror.handle(fetch, 1)
    assert told.message == messages.LogStart("YOU", "flights", "AA", 40, "AA")
    assert wanted == Wanted(P, 40)


def test_a_fetch_is_answered_from_what_is_unstored(mirror, batch):
    mirror.handle(Mirrored(batch(40, 2)), 0)
    fetch = Received(messages.Fetch("flights", "AA", "YOU", 40, 10))
    first, second = mirror.handle(fetch, 1)
    assert first.message.sequence == 40
    assert second.message == messages.DirectHead("YOU", "flights", "AA", 41)


def test_a_fetch_below_that_is_wanted(mirror, batch):
    mirror.handle(Mirrored(batch(40, 2)), 0)
    fetch = Received(messages.Fetch("flights", "AA", "YOU", 3, 10))
    assert mirror.handle(fetch, 1) == [Wanted(P, 3)]


def test_who_asks_behind_the_end_learns_where_that_is(mirror, batch):
    mirror.handle(Mirrored(batch(40, 2)), 0)
    fetch = Received(messages.Fetch("flights", "AA", "YOU", 42, 1))
    end = Publish(messages.DirectHead("YOU", "flights", "AA", 41))
    assert mirror.handle(fetch, 1) == [end]
    mirror.handle(ack(42), 2)
    assert mirror.handle(fetch, 3) == [end]


def test_a_fetch_for_a_partition_it_never_brought_is_not_its_business(mirror):
    fetch = Received(messages.Fetch("flights", "BB", "YOU", 3, 10))
    assert mirror.handle(fetch, 1) == []


def test_heads_go_on_until_all_is_stored(mirror, batch):
    mirror.handle(Mirrored(batch(40, 2)), 0)
    for now_ms in (1_000, 3_000, 7_000, 11_000):
        assert mirror.wakeup_ms() == now_ms
        assert heads(mirror.handle(Woke(), now_ms)) == [messages.Head("flights", "AA", 41)]
    mirror.handle(ack(41), 11_500)
    assert mirror.wakeup_ms() == 15_000, "only a part of it"
    mirror.handle(ack(42), 12_000)
    assert mirror.wakeup_ms() is None
    mirror.check()
    mirror.handle(Mirrored(batch(42, 2)), 20_000)
    assert heads(mirror.handle(Woke(), 21_000)) == [messages.Head("flights", "AA", 43)]


def test_who_listens_for_a_topic_by_its_name_hears_heads_of_what_is_stored_for_a_while(
    mirror, batch
):
    mirror.handle(PeerListened(MessageId.HEAD, "flights"), 0)
    mirror.handle(Mirrored(batch(40, 2)), 0)
    mirror.handle(ack(42), 10)
    said = messages.Head("flights", "AA", 41, stored=True)
    for now_ms in (1_000, 3_000):
        assert mirror.wakeup_ms() == now_ms
        assert heads(mirror.handle(Woke(), now_ms)) == [said]
    assert mirror.wakeup_ms() is None
    mirror.check()


def test_nodes_of_another_make_hear_heads_of_what_is_stored_for_a_while(batch):
    mirror = MirrorMachine(MirrorSettings(foreign=True))
    mirror.handle(Woke(), 0)
    mirror.handle(Mirrored(batch(40, 2)), 0)
    mirror.handle(ack(42), 10)
    said = messages.Head("flights", "AA", 41, stored=True)
    for now_ms in (1_000, 3_000, 7_000):
        assert mirror.wakeup_ms() == now_ms
        assert heads(mirror.handle(Woke(), now_ms)) == [said]
    assert mirror.wakeup_ms() is None


def test_who_begins_to_listen_for_head_gets_it_at_once(mirror, batch):
    mirror.handle(Mirrored(batch(40, 2)), 0)
    listened = PeerListened(MessageId.HEAD, "")
    assert heads(mirror.handle(listened, 1)) == [messages.Head("flights", "AA", 41)]
    assert mirror.handle(PeerListened(MessageId.HEAD, "fli"), 1) == []
    assert mirror.handle(PeerListened(MessageId.RECORDS, ""), 1) == []


def test_what_is_forgotten_can_begin_elsewhere(mirror, batch):
    mirror.handle(Mirrored(batch(40, 2)), 0)
    assert mirror.forget(P) == len(batch(40, 2).content)
    (effect,) = mirror.handle(Mirrored(batch(10, 2)), 1)
    assert isinstance(effect, Publish)
    assert mirror.low(P) == 10


def test_what_is_left_is_not_answered_for_any_more(mirror, batch):
    mirror.begins(P, 40)
    mirror.handle(Mirrored(batch(40, 2)), 0)
    mirror.leave(P)
    assert mirror.handle(Received(messages.Fetch(*P, "S1", 0, 10)), 1) == []
    mirror.handle(Mirrored(batch(50, 2)), 2)
    assert mirror.handle(Received(messages.Fetch(*P, "S1", 0, 10)), 3) == [Wanted(P, 0)]


def test_messages_for_others_are_dropped(mirror):
    message = messages.GetHeads("", "YOU")
    assert mirror.handle(Received(message), 0) == [Dropped("not for a mirror")]


def test_an_event_of_another_role_is_a_bug(mirror):
    with pytest.raises(AssertionError):
        mirror.handle(Consumed(1), 0)


def test_a_store_that_has_left_is_asked_again_when_it_is_back(batch):
    mirror = MirrorMachine(MirrorSettings(min_acks=2))
    mirror.handle(Mirrored(batch(40, 2)), 0)
    mirror.handle(ack(42), 10)
    mirror.handle(Woke(), 10_000)
    assert mirror.handle(PeerLeft("S1"), 10_000) == []
    assert mirror.wakeup_ms() == 11_000
    assert mirror.handle(ack(42, store="S2"), 10_500) == []
    assert [type(one) for one in mirror.handle(ack(42), 11_010)] == [Stored]
    mirror.check()
