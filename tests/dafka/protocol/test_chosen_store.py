"""At which store a guest listens, and when it leaves that one."""

from __future__ import annotations

from collections import Counter

import pytest

from dafka.protocol.chosen_store import (
    BEHIND_MS_MAX,
    SETTLING_MS,
    SILENCE_MS_MAX,
    ChosenStore,
)
from dafka.protocol.effects import Listen, Unlisten
from dafka.wire import messages
from dafka.wire.messages import MessageId

STORES = ("S1", "S2", "S3")


def hello(store):
    return messages.StoreHello("ME", store)


def told(store, sequence, address="AA"):
    return messages.DirectHead("ME", "flights", address, sequence, store)


def nothing(_partition):
    return -1


def settled(guest="ME", stores=STORES):
    """A guest that has heard of all stores, some time ago."""
    chosen = ChosenStore(guest, ("flights",))
    for store in stores:
        chosen.heard(hello(store), nothing, 0)
    chosen.heard(hello(chosen.store), nothing, SETTLING_MS)
    return chosen


def others(chosen):
    return [store for store in STORES if store != chosen.store]


def test_it_listens_at_the_first_store_that_is_heard_of():
    chosen = ChosenStore("ME", ("flights", "hops"))
    assert chosen.channels == []
    keys = ("S1/flights", "S1/hops")
    listens = [Listen(MessageId.STORED_RECORDS, key) for key in keys]
    assert chosen.heard(hello("S1"), nothing, 0) == listens
    assert chosen.heard(hello("S1"), nothing, 1) == []


def test_with_all_topics_it_listens_for_all_that_the_store_passes_on():
    chosen = ChosenStore("ME", ())
    assert chosen.heard(hello("S1"), nothing, 0) == [Listen(MessageId.STORED_RECORDS, "S1/")]


def test_guests_spread_in_whatever_order_stores_are_heard_of():
    guests = [f"{number:032X}" for number in range(300)]
    taken = Counter(settled(guest).store for guest in guests)
    assert min(taken[store] for store in STORES) > 60
    assert all(settled(one).store == settled(one, STORES[::-1]).store for one in guests)


def test_it_stays_where_it_is_when_a_better_one_comes_late():
    guest = next(one for one in map(str, range(99)) if settled(one).store == "S3")
    chosen = settled(guest, STORES[:2])
    before = chosen.store
    assert chosen.heard(hello("S3"), nothing, SETTLING_MS) == []
    assert chosen.store == before


def test_it_leaves_a_store_that_is_gone_and_comes_back_to_it_when_there_is_no_other():
    chosen = settled(stores=STORES[:2])
    first = chosen.store
    (second,) = {"S1", "S2"} - {first}
    moved = chosen.gone(first, 9_000)
    assert moved == [
        Unlisten(MessageId.STORED_RECORDS, f"{first}/flights"),
        Listen(MessageId.STORED_RECORDS, f"{second}/flights"),
    ]
    assert chosen.gone(second, 9_001) == [Unlisten(MessageId.STORED_RECORDS, f"{second}/flights")]
    assert chosen.store is None
    assert chosen.heard(hello(first), nothing, 9_002)
    chosen.check()


def test_it_leaves_a_store_that_is_silent_while_others_are_heard():
    chosen = settled()
    first, (other, _) = chosen.store, others(chosen)
    last_ms = SETTLING_MS + SILENCE_MS_MAX
    assert chosen.heard(told(other, 1), nothing, last_ms - 1) == []
    assert chosen.heard(told(other, 1), nothing, last_ms) != []
    assert chosen.store != first


def test_a_store_that_alone_is_there_may_be_silent():
    chosen = settled(stores=("S1",))
    assert chosen.heard(hello("S1"), nothing, 10 * SILENCE_MS_MAX) == []


def test_it_leaves_a_store_that_for_long_has_less_than_another():
    chosen = settled()
    first = chosen.store
    assert chosen.heard(told(first, 3), lambda _: 9, 10_000) == []
    assert chosen.doubted_ms == 10_000
    assert chosen.heard(told(first, 8), lambda _: 30, 10_000 + BEHIND_MS_MAX - 1) == []
    assert chosen.heard(told(first, 8), lambda _: 30, 10_000 + BEHIND_MS_MAX) != []
    assert chosen.store != first
    assert chosen.doubted_ms is None


@pytest.mark.parametrize("sequence", [9, 10])
def test_a_store_that_has_caught_up_is_not_left(sequence):
    chosen = settled()
    first = chosen.store
    chosen.heard(told(first, 3), lambda _: 9, 10_000)
    # Others may have come to more meanwhile: so may it, a moment later.
    assert chosen.heard(told(first, sequence), lambda _: 9, 10_000 + BEHIND_MS_MAX) == []
    assert chosen.doubted_ms is None


def test_of_a_partition_that_is_not_heard_of_again_nothing_follows():
    chosen = settled()
    first = chosen.store
    chosen.heard(told(first, 3, "GONE"), lambda _: 9, 10_000)
    assert chosen.heard(told(first, 3), lambda _: 9, 12_000) == []
    later_ms = 10_000 + SILENCE_MS_MAX
    assert chosen.heard(told(first, 3), lambda _: 9, later_ms) == []
    assert chosen.doubted_ms == later_ms
    assert chosen.heard(told(first, 3), lambda _: 9, later_ms + BEHIND_MS_MAX) != []


def test_who_was_left_is_taken_last():
    chosen = settled()
    seen = []
    for turn in range(6):
        seen.append(chosen.store)
        now_ms = (turn + 1) * 100_000
        chosen.heard(told(chosen.store, 3), lambda _: 9, now_ms)
        chosen.heard(told(chosen.store, 3), lambda _: 9, now_ms + BEHIND_MS_MAX)
    assert set(seen[:3]) == set(STORES)
    assert seen[3:] == seen[:3]


def test_names_of_stores_are_bounded():
    chosen = ChosenStore("ME", (), stores_max=2)
    for store in STORES:
        chosen.heard(hello(store), nothing, 0)
    chosen.check()
    assert chosen.store in STORES[:2]
    assert chosen.heard(messages.Ack("flights", "AA", None, 3), nothing, 0) == []
