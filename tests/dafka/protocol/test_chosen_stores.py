"""At which store a guest listens, when it leaves that one, and what it is passed on."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from dafka.model import ALL_SLOTS, SLOTS, Slots, slot_of
from dafka.protocol.chosen_stores import (
    ASKED_AFTER_MS,
    BEHIND_MS_MAX,
    DOUBTS_MAX,
    SETTLING_MS,
    SILENCE_MS_MAX,
    ChosenStores,
)
from dafka.protocol.consumer import ConsumerState
from dafka.protocol.effects import Listen, Publish, Unlisten
from dafka.protocol.events import (
    Appended,
    AppendFailed,
    PeerLeft,
    PeerListened,
    Received,
    SlotsMoved,
    TurnEnded,
    Woke,
)
from dafka.protocol.keeping import Keeping
from dafka.protocol.live_edge import LEAVING_BYTES
from dafka.protocol.store import StoreMachine
from dafka.wire import messages
from dafka.wire.messages import GetHeads, MessageId
from tests.support.consumer_bench import Bench, P, delivered, direct, live, stored_head

STORES = ("S1", "S2", "S3")


def hello(store):
    return messages.StoreHello("ME", store)


def told(store, sequence, address="AA"):
    return messages.DirectHead("ME", "flights", address, sequence, store)


def nothing(_partition, _head):
    return False


def news(_partition, _head):
    return True


def settled(guest="ME", stores=STORES):
    """A guest that has heard of all stores, some time ago."""
    chosen = ChosenStores(guest, ("flights",))
    for store in stores:
        chosen.heard(hello(store), nothing, 0)
    chosen.heard(hello(*chosen.stores), nothing, SETTLING_MS)
    return chosen


def others(chosen):
    return [store for store in STORES if store not in chosen.stores]


def test_it_listens_at_the_first_store_that_is_heard_of():
    chosen = ChosenStores("ME", ("flights", "hops"))
    assert chosen.channels == []
    keys = ("S1/flights", "S1/hops")
    listens = [Listen(MessageId.STORED_RECORDS, key) for key in keys]
    assert chosen.heard(hello("S1"), nothing, 0) == listens
    assert chosen.heard(hello("S1"), nothing, 1) == []


def test_with_all_topics_it_listens_for_all_that_the_store_passes_on():
    chosen = ChosenStores("ME", ())
    assert chosen.heard(hello("S1"), nothing, 0) == [Listen(MessageId.STORED_RECORDS, "S1/")]


def test_guests_spread_in_whatever_order_stores_are_heard_of():
    guests = [f"{number:032X}" for number in range(300)]
    taken = Counter(settled(guest).stores for guest in guests)
    assert min(taken[store,] for store in STORES) > 60
    assert all(settled(one).stores == settled(one, STORES[::-1]).stores for one in guests)


def test_it_stays_where_it_is_when_a_better_one_comes_late():
    guest = next(one for one in map(str, range(99)) if settled(one).stores == ("S3",))
    chosen = settled(guest, STORES[:2])
    before = chosen.stores
    assert chosen.heard(hello("S3"), nothing, SETTLING_MS) == []
    assert chosen.stores == before


def test_it_leaves_a_store_that_is_gone_and_comes_back_to_it_when_there_is_no_other():
    chosen = settled(stores=STORES[:2])
    (first,) = chosen.stores
    (second,) = {"S1", "S2"} - {first}
    moved = chosen.gone(first, 9_000)
    assert moved == [
        Unlisten(MessageId.STORED_RECORDS, f"{first}/flights"),
        Listen(MessageId.STORED_RECORDS, f"{second}/flights"),
    ]
    assert chosen.gone(second, 9_001) == [Unlisten(MessageId.STORED_RECORDS, f"{second}/flights")]
    assert chosen.stores == ()
    assert chosen.heard(hello(first), nothing, 9_002)
    chosen.check()


def test_it_leaves_a_store_that_is_silent_while_others_are_heard():
    chosen = settled()
    (first,), (other, _) = chosen.stores, others(chosen)
    last_ms = SETTLING_MS + SILENCE_MS_MAX
    assert chosen.heard(told(other, 1), nothing, last_ms - 1) == []
    assert chosen.heard(told(other, 1), nothing, last_ms) != []
    assert chosen.stores != (first,)


def test_a_store_that_alone_is_there_may_be_silent():
    chosen = settled(stores=("S1",))
    assert chosen.heard(hello("S1"), nothing, 10 * SILENCE_MS_MAX) == []


def doubted(chosen, sequence=9, now_ms=10_000, address="AA"):
    """Another tells of something new; returns who is in doubt now, and who told."""
    (first,), (other, _) = chosen.stores, others(chosen)
    chosen.heard(told(first, 0), nothing, now_ms)
    assert chosen.heard(told(other, sequence, address), news, now_ms) == []
    chosen.check()
    return first, other


def test_it_leaves_a_store_that_for_long_has_less_than_another():
    chosen = settled()
    first, _ = doubted(chosen)
    assert chosen.heard(told(first, 3), nothing, 10_000) == []
    assert chosen.heard(told(first, 8), nothing, 10_000 + BEHIND_MS_MAX - 1) == []
    assert chosen.heard(told(first, 8), nothing, 10_000 + BEHIND_MS_MAX) != []
    assert chosen.stores != (first,)
    assert chosen.due_ms is None
    chosen.check()


def test_it_leaves_a_store_that_does_not_tell_of_a_partition_that_others_have():
    chosen = settled()
    first, _ = doubted(chosen, 0, address="NEW")
    assert chosen.heard(told(first, 3), nothing, 10_000 + BEHIND_MS_MAX - 1) == []
    assert chosen.heard(told(first, 3), nothing, 10_000 + BEHIND_MS_MAX) != []
    assert chosen.stores != (first,)


@pytest.mark.parametrize("sequence", [9, 10])
@pytest.mark.parametrize("kind", [messages.DirectHead, messages.StoredRecords, messages.Ack])
def test_a_store_that_has_caught_up_is_not_left(sequence, kind):
    chosen = settled()
    first, other = doubted(chosen)
    caught_up = {
        messages.DirectHead: told(first, sequence),
        messages.StoredRecords: messages.StoredRecords(first, "flights", "AA", sequence, 1, b""),
        messages.Ack: messages.Ack("flights", "AA", first, sequence),
    }[kind]
    # Others may come to more meanwhile: so may it, a moment later.
    chosen.heard(told(other, 30), news, 11_000)
    assert chosen.heard(caught_up, nothing, 12_000) == []
    assert chosen.due_ms is None
    assert chosen.heard(told(first, 3), nothing, 10_000 + BEHIND_MS_MAX) == []


def test_a_store_is_not_behind_what_it_has_told_itself():
    """Its answer waits for the end of a turn, and what it passes on overtakes it."""
    chosen = settled()
    (first,) = chosen.stores
    chosen.heard(messages.StoredRecords(first, "flights", "AA", 9, 1, b""), news, 10_000)
    chosen.heard(told(first, 8), nothing, 10_001)
    assert chosen.due_ms is None


def test_what_was_there_before_tells_nothing_of_who_is_behind():
    chosen = settled()
    doubted(chosen, now_ms=SETTLING_MS - 1)
    assert chosen.due_ms is None


def test_all_are_asked_once_before_a_store_is_left():
    chosen = settled()
    doubted(chosen)
    assert not chosen.is_due(10_000 + ASKED_AFTER_MS - 1)
    assert chosen.due_ms == 10_000 + ASKED_AFTER_MS
    assert chosen.is_due(10_000 + ASKED_AFTER_MS)
    assert chosen.due_ms >= 10_000 + BEHIND_MS_MAX


def test_doubts_are_bounded():
    chosen = settled()
    for number in range(DOUBTS_MAX + 1):
        doubted(chosen, address=str(number))
    first, _ = doubted(chosen)
    moved = chosen.heard(told(first, 3), nothing, 10_000 + BEHIND_MS_MAX)
    assert moved
    chosen.check()


def test_who_was_left_is_taken_last():
    chosen = settled()
    seen = []
    for turn in range(6):
        seen += chosen.stores
        now_ms = (turn + 1) * 100_000
        first, _ = doubted(chosen, now_ms=now_ms)
        chosen.heard(told(first, 3), nothing, now_ms + BEHIND_MS_MAX)
    assert set(seen[:3]) == set(STORES)
    assert seen[3:] == seen[:3]


def test_names_of_stores_are_bounded():
    chosen = ChosenStores("ME", (), stores_max=2)
    for store in STORES:
        chosen.heard(hello(store), nothing, 0)
    chosen.check()
    assert set(chosen.stores) <= set(STORES[:2])
    assert chosen.heard(messages.Ack("flights", "AA", None, 3), nothing, 0) == []


LOW, HIGH = Slots.of([range(2_048)]), Slots.of([range(2_048, SLOTS)])
SHARES = {"S1": LOW, "S2": LOW, "S3": HIGH, "S4": HIGH}


def told_of_share(store, sequence, shares=SHARES):
    """A store tells of a partition that it keeps."""
    address = next(one for one in map(str, range(99)) if shares[store].has(slot_of(one)))
    return told(store, sequence, address)


def sharing(guest="ME", shares=SHARES):
    """A guest that has heard what each store keeps, some time ago."""
    chosen = ChosenStores(guest, ("flights",))
    for store, slots in shares.items():
        chosen.heard(messages.StoreHello(guest, store, slots), nothing, 0)
        chosen.check()
    chosen.heard(told_of_share(chosen.stores[0], 0, shares), nothing, SETTLING_MS)
    return chosen


def test_where_stores_share_it_listens_at_one_for_each_share():
    guests = [f"{number:032X}" for number in range(300)]
    taken = Counter(frozenset(sharing(guest).stores) for guest in guests)
    pairs = [frozenset(pair) for pair in product(("S1", "S2"), ("S3", "S4"))]
    assert set(taken) == set(pairs)
    assert min(taken.values()) > 40


def test_of_stores_that_overlap_all_are_heard_that_have_something_of_their_own():
    shares = {"S1": LOW, "S2": ALL_SLOTS, "S3": HIGH}
    for guest in map(str, range(20)):
        stores = set(sharing(guest, shares).stores)
        assert stores in ({"S2"}, {"S1", "S3"}, {"S1", "S2"}, {"S2", "S3"})


def test_a_share_that_is_found_late_is_listened_for_and_the_others_stay():
    chosen = sharing(shares={"S1": LOW})
    late_ms = 10 * SETTLING_MS
    hello_of_s3 = messages.StoreHello("ME", "S3", HIGH)
    (listen,) = chosen.heard(hello_of_s3, nothing, late_ms)
    assert listen == Listen(MessageId.STORED_RECORDS, "S3/flights")
    assert chosen.heard(messages.StoreHello("ME", "S2", LOW), nothing, late_ms) == []


def test_of_a_share_the_other_store_is_taken_when_one_is_gone_and_other_shares_stay():
    chosen = sharing()
    low = next(store for store in chosen.stores if SHARES[store] == LOW)
    (other,) = {"S1", "S2"} - {low}
    assert chosen.gone(low, 9_000) == [
        Unlisten(MessageId.STORED_RECORDS, f"{low}/flights"),
        Listen(MessageId.STORED_RECORDS, f"{other}/flights"),
    ]
    assert len(chosen.gone(other, 9_001)) == 1, "nobody keeps it"
    chosen.check()


def test_a_store_that_is_silent_or_behind_is_left_for_the_other_of_its_share():
    low = next(store for store in sharing().stores if SHARES[store] == LOW)
    for silent in (True, False):
        chosen = sharing()
        (high,) = set(chosen.stores) - {low}
        if silent:
            moved = chosen.heard(told_of_share(high, 1), nothing, SETTLING_MS + SILENCE_MS_MAX)
        else:
            (other,) = {"S1", "S2"} - {low}
            chosen.heard(told_of_share(other, 9), news, 10_000)
            chosen.heard(told_of_share(high, 9), nothing, 10_000)
            moved = chosen.heard(told_of_share(low, 3), nothing, 10_000 + BEHIND_MS_MAX)
        assert Unlisten(MessageId.STORED_RECORDS, f"{low}/flights") in moved
        assert len(moved) == 2
        assert high in chosen.stores
        chosen.check()


def test_the_only_store_of_a_share_is_left_for_nobody():
    chosen = sharing(shares={"S1": LOW, "S3": HIGH})
    assert chosen.heard(told_of_share("S3", 1), news, SETTLING_MS + SILENCE_MS_MAX) == []
    assert set(chosen.stores) == {"S1", "S3"}
    assert chosen.due_ms is None


def test_at_a_store_that_has_not_said_what_it_keeps_it_listens_until_then():
    chosen = settled(stores=("S1",))
    listened = Listen(MessageId.STORED_RECORDS, "S2/flights")
    assert chosen.heard(told("S2", 1), nothing, 10_000) == [listened]
    (left,) = chosen.heard(hello("S2"), nothing, 10_001)
    assert isinstance(left, Unlisten)
    assert len(chosen.stores) == 1


def test_it_listens_at_a_store_that_tells_of_what_it_has_not_said_to_keep():
    chosen = ChosenStores("ME", ("flights",))
    slot = slot_of("AA")
    others_slots = ALL_SLOTS.without(Slots.of([range(slot, slot + 1)]))
    chosen.heard(messages.StoreHello("ME", "S1", ALL_SLOTS), nothing, 0)
    chosen.heard(messages.StoreHello("ME", "S2", Slots(0)), nothing, 0)
    chosen.heard(messages.StoreHello("ME", "S1", others_slots), nothing, 60_000)
    assert chosen.stores == ("S1",)
    assert chosen.heard(told("S2", 3), nothing, 60_001) == [
        Listen(MessageId.STORED_RECORDS, "S2/flights")
    ], "what it said last was lost"
    chosen.check()
    assert chosen.heard(told("S2", 4), nothing, 60_002) == []
    moved = messages.StoreHello("ME", "S2", Slots.of([range(slot, slot + 1)]))
    assert chosen.heard(moved, nothing, 60_003) == []
    assert set(chosen.stores) == {"S1", "S2"}


def passed_on(one, store="S1"):
    topic, address = one.partition
    return messages.StoredRecords(store, topic, address, one.sequence, one.count, one.content)


def listened(effects):
    return {(e.id, e.key) for e in effects if isinstance(e, Listen)}


def test_a_guest_listens_at_one_store_and_to_no_producer():
    bench = Bench(guest=True)
    heard = listened(bench.give(Woke()) + bench.hear(hello("S1")))
    assert (MessageId.STORED_RECORDS, "S1/flights") in heard
    live_ids = {MessageId.RECORDS, MessageId.RECORD, MessageId.HEAD, MessageId.ACK}
    assert not live_ids & {message_id for message_id, _ in heard}


def test_a_guest_takes_what_a_store_passes_on_in_order_and_asks_stores_for_gaps(batch):
    bench = Bench(guest=True)
    bench.give(Woke())
    assert delivered(bench.hear(hello("S1"), passed_on(batch(0)), passed_on(batch(0)))) == [(0, 1)]
    effects = bench.hear(passed_on(batch(2)))
    (fetch,) = [one.message for one in effects if isinstance(one, Publish)]
    assert fetch == messages.Fetch("flights", "AA", "ME", 1, 1, messages.ANY_STORE)
    assert delivered(bench.hear(direct(batch(1)))) == [(1, 2), (2, 3)]


def test_a_guest_whose_store_is_gone_listens_at_another_and_asks_for_heads():
    bench = Bench(guest=True)
    bench.give(Woke())
    bench.hear(hello("S1"), hello("S2"))
    bench.wait(60_000)
    (chosen,) = bench.machine._chosen.stores
    (other,) = {"S1", "S2"} - {chosen}
    effects = bench.give(PeerLeft(chosen))
    assert Unlisten(MessageId.STORED_RECORDS, f"{chosen}/flights") in effects
    assert listened(effects) == {(MessageId.STORED_RECORDS, f"{other}/flights")}
    assert Publish(GetHeads("flights", "ME")) in bench.give(Woke())


def listening(batch):
    """A guest of two stores, some time later; its store, and the other one."""
    bench = Bench(guest=True)
    bench.give(Woke())
    bench.hear(hello("S1"), hello("S2"))
    (store,) = bench.machine._chosen.stores
    bench.hear(passed_on(batch(0), store))
    (other,) = {"S1", "S2"} - {store}
    for _ in range(8):
        bench.wait(10_000)
        bench.hear(*(stored_head(0, store=one) for one in (store, other)))
    return bench, store, other


ASK = Publish(GetHeads("flights", "ME"))


def test_a_guest_asks_once_more_when_its_store_has_less_than_another_for_long(batch):
    bench, store, other = listening(batch)
    bench.hear(stored_head(7, store=other))
    bench.hear(stored_head(0, store=store))
    assert ASK not in bench.give(Woke())
    assert bench.machine.wakeup_ms() <= bench.now_ms + ASKED_AFTER_MS
    assert ASK in bench.wait(ASKED_AFTER_MS)
    bench.now_ms += BEHIND_MS_MAX - ASKED_AFTER_MS
    assert listened(bench.hear(stored_head(0, store=store))) == {
        (MessageId.STORED_RECORDS, f"{other}/flights")
    }


def test_a_guest_does_not_ask_while_records_flow(batch):
    """Heads that it asks for wait for the end of a turn, what stores pass on does not."""
    bench, store, other = listening(batch)
    asked = 0
    for sequence in range(1, 200):
        late = [stored_head(sequence - 1, store=one) for one in (store, other)]
        ahead = stored_head(sequence + 1, store=other)
        asked += bench.hear(passed_on(batch(sequence), store), *late, ahead).count(ASK)
        asked += bench.wait(100).count(ASK)
    assert asked <= 2


def test_a_guest_leaves_a_store_that_has_nothing_of_new_partitions(batch):
    bench, store, other = listening(batch)
    bench.hear(stored_head(0, "NEW", store=other))
    bench.wait(BEHIND_MS_MAX)
    assert listened(bench.hear(stored_head(0, store=store))) == {
        (MessageId.STORED_RECORDS, f"{other}/flights")
    }


@pytest.mark.parametrize("topic", ["flights", "flights2"])
def test_what_a_guest_does_not_take_or_knows_tells_nothing(batch, topic):
    bench, _, other = listening(batch)
    bench.hear(messages.DirectHead("ME", topic, "AA", 0, other))
    assert bench.machine._chosen.due_ms is None


def test_a_guest_that_is_far_behind_leaves_what_is_passed_on(batch):
    bench = Bench(guest=True, buffer_bytes_max=1)
    bench.give(Woke())
    bench.hear(hello("S1"))
    effects = []
    for sequence in range(5 * LEAVING_BYTES // len(batch(0).content)):
        effects += bench.hear(passed_on(batch(sequence)))
    assert Unlisten(MessageId.STORED_RECORDS, "S1/flights") in effects
    assert bench.machine.state is ConsumerState.CATCHING_UP
    assert listened(bench.give(PeerLeft("S1"))) == set(), "it does not listen to any now"


def test_committed_takes_what_a_store_passes_on_for_acknowledged(batch):
    bench = Bench(guest=True, committed=True)
    bench.give(Woke())
    assert delivered(bench.hear(hello("S1"), passed_on(batch(0)))) == [(0, 1)]
    assert bench.machine.acknowledged(P) == 1


def passed_on_in(effects):
    return [
        (one.message.store, one.message.sequence)
        for one in effects
        if isinstance(one, Publish) and isinstance(one.message, messages.StoredRecords)
    ]


GUEST = PeerListened(MessageId.STORED_RECORDS, "ME/flights")


def test_when_slots_have_moved_others_are_listened_at():
    chosen = sharing(shares={"S1": LOW, "S2": HIGH})
    assert set(chosen.stores) == {"S1", "S2"}
    late_ms = SETTLING_MS + 1
    moved = chosen.heard(messages.StoreHello("ME", "S3", HIGH), nothing, late_ms)
    assert moved == [], "what it keeps is listened for"
    chosen.heard(messages.StoreHello("ME", "S2", Slots(0)), nothing, late_ms)
    assert set(chosen.stores) == {"S1", "S3"}
    chosen.check()


class StoreBench:
    """A store whose disk does what the test says."""

    def __init__(self, slots=ALL_SLOTS):
        self.machine = StoreMachine("ME", {}, keeping=Keeping(slots))
        self.machine.handle(Woke(), 0)

    def give(self, *events):
        effects = [one for event in events for one in self.machine.handle(event, 0)]
        self.machine.check()
        return effects

    def hear(self, *heard):
        return self.give(*(Received(message) for message in heard))

    def append(self, *heard):
        """Hear messages, end the turn, let the write succeed."""
        effects = self.hear(*heard)
        for write in self.give(TurnEnded()):
            effects += self.give(Appended(write.token))
        return effects


def fetched_by_store(one):
    topic, address = one.partition
    return messages.DirectRecords("ME", topic, address, one.sequence, one.count, one.content)


def test_what_is_durable_is_passed_on_once_somebody_listens_here(batch):
    bench = StoreBench()
    assert passed_on_in(bench.append(live(batch(0)))) == []
    bench.give(PeerListened(MessageId.STORED_RECORDS, "OTHER/flights"))
    assert passed_on_in(bench.append(live(batch(1)))) == []
    bench.give(GUEST)
    assert passed_on_in(bench.hear(live(batch(2)))) == []
    (write,) = bench.give(TurnEnded())
    assert passed_on_in(bench.give(Appended(write.token))) == [("ME", 2)]


def test_what_the_disk_refuses_is_not_passed_on(batch):
    bench = StoreBench()
    bench.give(GUEST)
    bench.hear(live(batch(0)))
    (write,) = bench.give(TurnEnded())
    assert passed_on_in(bench.give(AppendFailed(write.token))) == []


def test_of_what_is_fetched_only_the_end_is_passed_on(batch):
    bench = StoreBench()
    bench.give(GUEST)
    bench.hear(messages.Head("flights", "AA", 3))
    assert passed_on_in(bench.append(fetched_by_store(batch(0)))) == []
    assert passed_on_in(bench.append(fetched_by_store(batch(1)))) == []
    # What comes live meanwhile is news to all.
    assert passed_on_in(bench.append(live(batch(2)))) == [("ME", 2)]
    assert passed_on_in(bench.append(fetched_by_store(batch(3)))) == [("ME", 3)]
    assert bench.machine._fetched == {}


def test_a_store_says_what_it_keeps_when_it_greets():
    greeted = PeerListened(MessageId.STORE_HELLO, "YOU")
    assert StoreBench(LOW).give(greeted) == [Publish(messages.StoreHello("YOU", "ME", LOW))]


def test_what_it_joins_is_not_passed_on_before_it_is_kept(batch):
    """It may lack what there was before, so a guest has to listen where it is kept."""
    bench = StoreBench(Slots(0))
    bench.give(SlotsMoved(Keeping(Slots(0), joining=ALL_SLOTS)), GUEST)
    bench.give(PeerListened(MessageId.STORE_HELLO, "YOU"))
    assert passed_on_in(bench.append(live(batch(0)))) == []
    told = bench.give(SlotsMoved(Keeping(ALL_SLOTS)))
    assert told == [Publish(messages.StoreHello("YOU", "ME", ALL_SLOTS))]
    assert passed_on_in(bench.append(live(batch(1)))) == [("ME", 1)]
