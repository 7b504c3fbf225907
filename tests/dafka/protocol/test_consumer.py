"""The consumer: every partition of its topics, in order, each record once."""

from __future__ import annotations

from functools import partial

import pytest

from dafka.limits import PeerBounds
from dafka.model import Partition, PartitionShare, replace
from dafka.protocol.consumer import (
    CONSUMER_STATES,
    ConsumerState,
    Start,
)
from dafka.protocol.effects import Dropped, Listen, PartitionFound, Publish, Unlisten
from dafka.protocol.events import (
    Consumed,
    PeerListened,
    Seek,
    Submitted,
    Unassigned,
    Woke,
)
from dafka.protocol.live_edge import AWAY_MS, CHECK_MS, LEAVING_BYTES
from dafka.protocol.stores import SETTLING_MS
from dafka.protocol.watermarks import LIVE_PATIENCE_MS
from dafka.wire import messages
from dafka.wire.fields import SEQUENCE_MAX
from dafka.wire.messages import GetHeads, MessageId
from tests.support.consumer_bench import (
    Bench,
    P,
    ack,
    delivered,
    direct,
    fetched,
    head,
    live,
    reasons,
    stored_head,
)
from tests.support.lifecycles import assert_follows


def test_committed_delivers_only_what_a_store_has(batch):
    bench = Bench(committed=True)
    assert Listen(MessageId.ACK, "") in bench.give(Woke())
    assert delivered(bench.hear(live(batch(0)), live(batch(1)))) == []
    assert delivered(bench.hear(ack(0))) == [(0, 1)]
    assert delivered(bench.hear(stored_head(1))) == [(1, 2)]


def test_committed_takes_bare_values_from_a_store_with_the_time_that_they_have_there(batch):
    bench = Bench(committed=True)
    bare = replace(live(batch(0)), bare=True)
    assert bench.hear(bare) == []
    assert delivered(bench.hear(ack(0))) == []
    assert fetched(bench.wait(LIVE_PATIENCE_MS)) == [(0, 1)]
    assert delivered(bench.hear(direct(batch(0)))) == [(0, 1)]
    assert delivered(Bench().hear(bare)) == [(0, 1)], "who takes all need not wait"


def test_committed_does_not_believe_a_producers_own_head(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)))
    assert bench.hear(messages.DirectHead("ME", "flights", "AA", 0), head(0)) == []


def test_committed_asks_the_stores_of_what_is_said_to_be_stored(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)), ack(0), live(batch(1)))
    assert fetched(bench.hear(messages.Head("flights", "AA", 0, stored=True))) == []
    assert fetched(bench.hear(messages.Head("flights", "AA", 1, stored=True))) == [
        (SEQUENCE_MAX, 1)
    ]
    assert delivered(bench.hear(stored_head(1))) == [(1, 2)]
    assert fetched(bench.hear(messages.Head("flights", "AA", 1, stored=True))) == []


def test_who_takes_all_asks_nobody_what_is_stored(batch):
    bench = Bench()
    bench.hear(live(batch(0)))
    assert fetched(bench.hear(messages.Head("flights", "AA", 0, stored=True))) == []


def test_committed_finds_partitions_by_acks_alone():
    bench = Bench(committed=True)
    assert fetched(bench.hear(ack(3))) == [(0, 4)]


def test_an_ack_may_overtake_the_records_that_come_live(batch):
    bench = Bench(committed=True)
    bench.give(Woke())
    bench.hear(live(batch(0)), ack(0))
    for number in range(1, 4):
        assert fetched(bench.hear(ack(number))) == []
        assert delivered(bench.hear(live(batch(number)))) == [(number, number + 1)]
    assert bench.machine.wakeup_ms() == LIVE_PATIENCE_MS
    assert fetched(bench.wait(LIVE_PATIENCE_MS)) == []


def test_each_ack_that_overtakes_is_waited_for_as_long(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)), ack(0), ack(1), live(batch(1)))
    bench.now_ms = LIVE_PATIENCE_MS - 1
    bench.hear(ack(2))
    assert fetched(bench.wait(1)) == []
    assert fetched(bench.wait(LIVE_PATIENCE_MS - 1)) == []
    assert fetched(bench.wait(1)) == [(2, 1)]


def test_away_from_the_live_topics_nothing_is_waited_for(heavy):
    size = len(heavy(0).content)
    bench = Bench(committed=True, buffer_bytes_max=2 * size)
    bench.give(Woke())
    bench.hear(*(live(heavy(number)) for number in range(4)))
    assert bench.machine._live.away
    assert fetched(bench.hear(ack(5))) == []  # full
    bench.give(Consumed(2 * size))
    assert bench.machine.heads == {P: 5}


def asked_for_heads(effects):
    return [one for one in effects if isinstance(one, Publish) and type(one.message) is GetHeads]


@pytest.mark.parametrize("committed", [True, False])
def test_who_hears_acks_leaves_and_comes_back_without_asking_for_heads(heavy, committed):
    size = len(heavy(0).content)
    bench = Bench(committed=committed, buffer_bytes_max=2 * size)
    assert asked_for_heads(bench.give(Woke()))
    bench.hear(*(live(heavy(number)) for number in range(4)))
    assert bench.machine._live.away
    assert bool(asked_for_heads(bench.wait(1))) is not committed
    bench.hear(ack(3))
    bench.give(Consumed(2 * size))
    bench.hear(direct(heavy(2)), direct(heavy(3)))
    bench.give(Consumed(2 * size))
    bench.wait(AWAY_MS)
    assert not bench.machine._live.away
    assert bool(asked_for_heads(bench.wait(1))) is not committed
    assert bench.machine.next(P) == 4


def test_what_is_known_to_be_durable_is_asked_for_when_it_is_positioned(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)), ack(9))
    bench.give(Unassigned(P))
    bench.wait(LIVE_PATIENCE_MS)
    assert fetched(bench.give(Seek(P, 1))) == [(1, 9)]


def test_who_is_behind_learns_from_an_ack_at_once(batch):
    bench = Bench(committed=True)
    bench.hear(live(batch(0)), stored_head(1))
    assert fetched(bench.hear(ack(9), direct(batch(1)))) == [(2, 8)]


def test_a_partition_given_up_while_it_is_awaited_is_not_asked_for(batch):
    bench = Bench(committed=True, start=Start.ASSIGNED)
    bench.hear(live(batch(0)))
    bench.give(Seek(P, 0))
    bench.hear(ack(9))
    bench.give(Unassigned(P))
    assert fetched(bench.wait(LIVE_PATIENCE_MS)) == []


def test_it_subscribes_as_the_rfc_says_and_asks_for_heads():
    effects = Bench().give(Woke())
    listened = {(e.id, e.key) for e in effects if isinstance(e, Listen)}
    assert listened == {
        (MessageId.DIRECT_RECORDS, "ME"),
        (MessageId.DIRECT_RECORD, "ME"),
        (MessageId.DIRECT_HEAD, "ME"),
        (MessageId.LOG_START, "ME"),
        (MessageId.STORE_HELLO, "ME"),
        (MessageId.RECORDS, "flights"),
        (MessageId.RECORD, "flights"),
        (MessageId.HEAD, "flights"),
    }
    assert Publish(messages.GetHeads("flights", "ME")) in effects


def test_without_topics_it_listens_to_all_that_it_wants(batch):
    bench = Bench(topics=(), wants=lambda topic: topic != "secret")
    effects = bench.give(Woke())
    assert Listen(MessageId.RECORDS, "") in effects
    assert Publish(messages.GetHeads("", "ME")) in effects
    assert delivered(bench.hear(live(batch(0)))) == [(0, 1)]
    secret = Partition("secret", "AA")
    assert bench.hear(live(batch(0, partition=secret)), head(5, topic="secret")) == []


@pytest.mark.parametrize("topics", [(), ("flights",)])
def test_of_a_share_it_takes_and_asks_for_its_own_partitions_alone(batch, topics):
    """By whatever it hears of another one's."""
    ours, others = Partition("flights", "AA"), Partition("flights", "AB" * 16)
    bench = Bench(topics=topics, committed=True, share=PartitionShare(1, 2))
    about = [live(batch(0, partition=others)), head(5, address=others.address)]
    about += [
        messages.Ack(*others, "STORE", 7),
        messages.DirectHead("ME", *others, 7, "STORE"),
        messages.Head(*others, 7, stored=True),
    ]
    assert bench.hear(*about) == []
    assert bench.machine.heads == {}
    assert delivered(bench.hear(live(batch(0, partition=ours)), ack(0))) == [(0, 1)]
    assert [*bench.machine.heads] == [ours]


def test_get_heads_is_repeated_ever_more_rarely_up_to_a_bound():
    bench = Bench(heads_interval_ms_max=2_000)
    asked = []
    while bench.now_ms < 12_000:
        effects = bench.give(Woke())
        if Publish(messages.GetHeads("flights", "ME")) in effects:
            asked.append(bench.now_ms)
        bench.now_ms = bench.machine.wakeup_ms()
    assert asked[:4] == [0, 500, 1_500, 3_500]
    assert asked[-1] - asked[-2] == 2_000


def test_heads_that_were_surveyed_are_asked_for_only_to_hear_which_stores_are_there():
    bench = Bench(heads_interval_ms_max=2_000, committed=True)
    asked = []
    while bench.now_ms < 40_000:
        if bench.now_ms < 20_000:
            bench.hear(messages.Ack("flights", "AA", "S1", bench.now_ms))
        effects = bench.give(Woke())
        if Publish(messages.GetHeads("flights", "ME")) in effects:
            asked.append(bench.now_ms)
        if 10_000 < bench.now_ms < 30_000:
            bench.machine.surveyed(bench.now_ms)
        bench.now_ms += 500
    assert asked[:2] == [0, 500]
    assert [at for at in asked if 12_000 < at < 20_000] == [], "surveyed, and the store was heard"
    assert [at for at in asked if 3_500 < at < 12_000], "the store was heard, nothing was surveyed"
    assert [at for at in asked if 22_000 < at < 30_000], "surveyed, and the store is silent"


def test_a_store_that_says_hello_is_told_the_topics_and_asked_for_heads_again():
    bench = Bench()
    bench.give(Woke())
    assert bench.hear(messages.StoreHello("ME", "S1")) == [
        Publish(messages.ConsumerHello("S1", "ME", ("flights",)))
    ]
    assert bench.machine.wakeup_ms() == 0
    assert Bench(topics=()).hear(messages.StoreHello("ME", "S1")) == []


def test_records_are_delivered_as_they_come_and_never_twice(batch):
    bench = Bench()
    assert delivered(bench.hear(live(batch(0, 2)), live(batch(2)))) == [(0, 2), (2, 3)]
    effects = bench.hear(live(batch(0, 2)), direct(batch(2)))
    assert delivered(effects) == []
    assert reasons(effects) == ["duplicate", "duplicate"]


def test_a_single_record_is_a_batch_of_one(batch):
    one = batch(0)
    message = messages.RecordMessage("flights", "AA", 0, one.content)
    assert delivered(Bench().hear(message)) == [(0, 1)]


@pytest.mark.parametrize("come", [live, direct])
def test_a_damaged_batch_takes_nobodys_place_and_is_asked_for(batch, come):
    bench = Bench()
    bench.hear(live(batch(0)))
    good = come(batch(1, 2))
    damaged = replace(good, content=good.content[:-1] + bytes([good.content[-1] ^ 1]))
    assert bench.hear(damaged) == [Dropped("batch checksum")]
    assert bench.hear(replace(good, count=3)) == [Dropped("batch count")]
    assert fetched(bench.hear(head(2))) == [(1, 2)]
    assert delivered(bench.hear(good)) == [(1, 3)]


def test_a_gap_is_fetched_and_order_is_kept(batch):
    bench = Bench()
    effects = bench.hear(live(batch(0)), live(batch(3)))
    assert (delivered(effects), fetched(effects)) == ([(0, 1)], [(1, 2)])
    assert delivered(bench.hear(direct(batch(1, 2)))) == [(1, 3), (3, 4)]


def test_a_head_alone_makes_it_fetch():
    assert fetched(Bench().hear(head(4))) == [(0, 5)]


def test_a_topic_with_its_topic_as_prefix_is_ignored(batch):
    bench = Bench()
    other = Partition("flights2", "AA")
    assert bench.hear(live(batch(0, partition=other)), head(3, topic="flights2")) == []


def test_latest_begins_with_what_comes_live_or_behind_the_head(batch):
    assert delivered(Bench(start=Start.LATEST).hear(live(batch(7)))) == [(7, 8)]
    bench = Bench(start=Start.LATEST)
    assert fetched(bench.hear(head(7))) == []
    assert delivered(bench.hear(live(batch(8)))) == [(8, 9)]


def settled_bench(**settings):
    """A consumer that has heard of all that was there before it."""
    bench = Bench(start=Start.LATEST, **settings)
    bench.hear(head(7), stored_head(7))
    bench.wait(SETTLING_MS)
    return bench


@pytest.mark.parametrize("said", [head, stored_head])
def test_latest_begins_what_has_begun_since_at_its_first_record(said):
    bench = settled_bench()
    assert fetched(bench.hear(said(4, address="NEW"))) == [(0, 5)]
    assert bench.machine.next(P) == 8


def test_latest_begins_what_has_begun_since_at_its_first_record_if_it_comes_live(batch):
    bench = settled_bench()
    new = Partition("flights", "NEW")
    assert fetched(bench.hear(live(batch(5, partition=new)))) == [(0, 5)]


def test_latest_takes_for_old_what_comes_with_a_store_that_was_not_known():
    bench = settled_bench()
    assert fetched(bench.hear(stored_head(9, address="OLD", store="OTHER STORE"))) == []
    bench.wait(SETTLING_MS)
    assert fetched(bench.hear(stored_head(4, address="NEW", store="OTHER STORE"))) == [(0, 5)]


def test_latest_knows_nothing_before_it_has_heard_of_anybody():
    bench = Bench(start=Start.LATEST)
    bench.give(Woke())
    bench.wait(10 * SETTLING_MS)
    assert fetched(bench.hear(head(7))) == []


def test_explicit_positions_come_before_the_start(batch):
    bench = Bench(start=Start.LATEST, positions={P: 3})
    assert fetched(bench.hear(head(7))) == [(3, 5)]
    assert delivered(bench.hear(direct(batch(2, 6)))) == [(3, 8)]


def test_assigned_waits_for_a_position_and_asks_for_it_once(batch):
    bench = Bench(start=Start.ASSIGNED)
    assert bench.hear(head(7), live(batch(8)), head(8)) == [PartitionFound(P, 8)]
    assert fetched(bench.give(Seek(P, 5))) == [(5, 4)]
    assert delivered(bench.hear(direct(batch(5, 4)))) == [(5, 9)]


def test_what_is_unassigned_is_neither_delivered_nor_fetched_until_it_is_positioned(batch):
    bench = Bench(start=Start.ASSIGNED)
    bench.hear(head(7))
    assert fetched(bench.give(Seek(P, 5))) == [(5, 3)]
    assert bench.give(Unassigned(P), Unassigned(P)) == []
    assert bench.hear(direct(batch(5, 4)), live(batch(9)), stored_head(11)) == []
    bench.now_ms = 10_000
    assert fetched(bench.give(Woke())) == []
    assert fetched(bench.give(Seek(P, 6))) == [(6, 6)]


def test_it_can_be_sent_back(batch):
    bench = Bench()
    bench.hear(live(batch(0, 4)))
    assert fetched(bench.give(Seek(P, 1))) == [(1, 3)]
    assert delivered(bench.hear(direct(batch(0, 4)))) == [(1, 4)]


def test_a_full_consumer_takes_nothing_and_catches_up_later(batch):
    size = len(batch(0).content)
    bench = Bench(buffer_bytes_max=2 * size)
    effects = bench.hear(*(live(batch(n)) for n in range(5)))
    assert delivered(effects) == [(0, 1), (1, 2)]
    assert reasons(effects) == ["consumer full"] * 3
    assert fetched(effects) == []
    # As much as there is room for; the rest when that is taken.
    assert fetched(bench.give(Consumed(size))) == [(2, 1)]
    assert delivered(bench.hear(direct(batch(2)))) == [(2, 3)]


def changes(effects):
    """What it listens to from now on, and what no more."""
    return [(type(e), e.id, e.key) for e in effects if isinstance(e, Listen | Unlisten)]


def left_and_back(kind):
    return [(kind, MessageId.RECORDS, "flights"), (kind, MessageId.RECORD, "flights")]


@pytest.fixture
def heavy(batch):
    """Makes batches each of which is worth leaving for, if it comes in vain."""
    return partial(batch, size=LEAVING_BYTES)


def test_it_leaves_the_live_topics_when_it_has_no_room_and_comes_back_when_it_has(heavy):
    size = len(heavy(0).content)
    bench = Bench(buffer_bytes_max=8 * size)
    bench.give(Woke())
    bench.hear(*(live(heavy(n)) for n in range(8)))
    assert changes(bench.hear(live(heavy(8)))) == left_and_back(Unlisten)
    assert changes(bench.hear(live(heavy(9)))) == [], "it was on its way"
    bench.now_ms = AWAY_MS
    assert changes(bench.give(Woke())) == [], "still full"
    bench.give(Consumed(8 * size))
    bench.now_ms += CHECK_MS
    effects = bench.give(Woke())
    assert changes(effects) == left_and_back(Listen)
    # What it has missed is a gap like any other.
    assert delivered(bench.hear(direct(heavy(8)), live(heavy(10)))) == [(8, 9)]
    assert delivered(bench.hear(direct(heavy(9)))) == [(9, 10), (10, 11)]


def test_what_was_fetched_and_finds_no_room_makes_nobody_leave(heavy):
    bench = Bench(buffer_bytes_max=1)
    bench.hear(live(heavy(0)))
    assert changes(bench.hear(direct(heavy(1)))) == []


@pytest.mark.parametrize("start", [Start.LATEST, Start.EARLIEST])
def test_a_partition_that_begins_while_it_is_away_is_read_from_its_beginning(heavy, start):
    bench = Bench(buffer_bytes_max=1, start=start)
    bench.give(Woke())
    bench.hear(live(heavy(0)), live(heavy(1)))
    bench.give(Consumed(len(heavy(0).content)))
    bench.hear(head(7, address="BB"))
    assert bench.machine.next(Partition("flights", "BB")) == 0


def test_a_tail_that_no_store_ever_gets_does_not_keep_out_what_is_durable(batch):
    size = len(batch(0).content)
    bench = Bench(committed=True, buffer_bytes_max=2 * size)
    dead = Partition("flights", "DEAD")
    effects = bench.hear(*(live(batch(n, partition=dead)) for n in range(3)))
    assert reasons(effects) == ["consumer full"]
    effects = bench.hear(live(batch(0)), ack(0))
    assert reasons(effects) == ["consumer full"]
    assert fetched(bench.wait(LIVE_PATIENCE_MS)) == [(0, 1)]
    assert delivered(bench.hear(direct(batch(0)))) == [(0, 1)]


@pytest.mark.parametrize("committed", [False, True])
def test_what_waits_behind_a_gap_must_fit_in_when_it_is_closed(batch, committed):
    size = len(batch(0).content)
    bench = Bench(committed=committed, buffer_bytes_max=3 * size)
    effects = bench.hear(ack(9), *(live(batch(number)) for number in range(1, 10)))
    assert reasons(effects) == ["consumer full"] * 6
    assert delivered(bench.hear(direct(batch(0)))) == [(n, n + 1) for n in range(4)]


def test_the_store_that_was_the_first_to_acknowledge_is_asked_alone():
    bench = Bench(committed=True)
    effects = bench.hear(*(messages.Ack("flights", "AA", store, 4) for store in ("S1", "S2")))
    assert effects == [Publish(messages.Fetch("flights", "AA", "ME", 0, 5, "S1"))]


def test_heads_and_next_tell_where_it_stands(batch):
    bench = Bench()
    bench.hear(live(batch(0)), head(9))
    assert bench.machine.heads == {P: 9}
    assert bench.machine.next(P) == 1


def test_what_it_remembers_is_bounded(batch):
    bench = Bench(start=Start.ASSIGNED, committed=True, bounds=PeerBounds(partitions=2))
    effects = bench.hear(*(head(0, address=f"A{n}") for n in range(3)))
    assert effects[2:] == [Dropped("too many partitions")]
    effects = bench.hear(*(messages.Ack("flights", f"B{n}", "S1", 0) for n in range(3)))
    assert effects[-1] == Dropped("too many partitions")


def test_messages_for_others_are_dropped_and_subscriptions_are_nothing_to_it():
    bench = Bench()
    fetch = messages.Fetch("flights", "AA", "YOU", 0, 1)
    assert bench.hear(fetch) == [Dropped("not for a consumer")]
    assert bench.give(PeerListened(MessageId.HEAD, "")) == []


def test_an_event_of_another_role_is_a_bug():
    with pytest.raises(AssertionError):
        Bench().give(Submitted("flights", 1, b""))


def wakes(bench, _batch):
    bench.give(Woke())


def has_no_room(bench, batch):
    bench.hear(live(batch(0)), live(batch(1)))


def has_room_again(bench, batch):
    bench.give(Consumed(len(batch(0).content)))
    bench.wait(AWAY_MS)


INTO = {
    ConsumerState.NEW: [],
    ConsumerState.LIVE: [wakes],
    ConsumerState.CATCHING_UP: [wakes, has_no_room],
}
CHANGES = {
    (ConsumerState.NEW, ConsumerState.LIVE): wakes,
    (ConsumerState.LIVE, ConsumerState.CATCHING_UP): has_no_room,
    (ConsumerState.CATCHING_UP, ConsumerState.LIVE): has_room_again,
}


@pytest.mark.parametrize("state", ConsumerState)
@pytest.mark.parametrize("following", ConsumerState)
def test_its_states_follow_each_other_as_the_table_says(heavy, state, following):
    bench = Bench(buffer_bytes_max=1)
    for happens in INTO[state]:
        happens(bench, heavy)
    assert bench.machine.state is state
    change = CHANGES.get((state, following))
    given = change and partial(change, bench, heavy)
    assert_follows(bench.machine._lifecycle, CONSUMER_STATES, following, given)


@pytest.mark.parametrize("committed", [False, True])
def test_what_is_forgotten_is_found_anew(batch, committed):
    bench = Bench(committed=committed, start=Start.ASSIGNED)
    bench.hear(live(batch(0)), ack(0))
    bench.give(Seek(P, 0))
    bench.hear(live(batch(0)))
    assert bench.machine.forget(P)
    assert bench.machine.heads == {}
    assert bench.machine.acknowledged(P) == 0
    found = bench.hear(stored_head(9))
    assert [effect.partition for effect in found if isinstance(effect, PartitionFound)] == [P]


def test_what_lacks_something_is_not_forgotten(batch):
    bench = Bench()
    bench.hear(live(batch(4)))
    assert not bench.machine.forget(P)
    assert P in bench.machine.heads


def test_who_listens_to_nothing_yet_leaves_nothing(heavy):
    bench = Bench(buffer_bytes_max=1)
    assert changes(bench.hear(live(heavy(0)), live(heavy(1)))) == []
    assert bench.machine.state is ConsumerState.NEW
