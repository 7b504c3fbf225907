from __future__ import annotations

from dafka.limits import STORES_MAX
from dafka.protocol.stores import FRESH_MS, HEADS_INTERVAL_MS_MAX, STORE_SILENCE_MS, Stores


def test_a_store_is_alive_until_it_has_been_silent_for_long():
    stores = Stores()
    assert stores.heard_from("S1", 0)
    assert stores.heard_from("S2", 5)
    assert [*stores.alive(STORE_SILENCE_MS - 1)] == ["S1", "S2"]
    assert [*stores.alive(STORE_SILENCE_MS)] == ["S2"]
    assert stores.heard_from("S1", STORE_SILENCE_MS)
    assert [*stores.alive(STORE_SILENCE_MS)] == ["S1", "S2"]


def test_whoever_is_there_is_heard_of_in_time():
    assert HEADS_INTERVAL_MS_MAX + FRESH_MS + 5_000 <= STORE_SILENCE_MS


def test_none_is_taken_for_gone_that_was_not_asked_in_time():
    stores = Stores()
    assert not stores.all_fresh(0)
    asked = []
    for now_ms in range(0, 200_000, HEADS_INTERVAL_MS_MAX):
        stores.heard_from("S1", now_ms)
        if not stores.all_fresh(now_ms):
            asked.append(now_ms)
            stores.heard_from("S2", now_ms)
        elif now_ms == 0:
            stores.heard_from("S2", 1)
        assert [*stores.alive(now_ms + HEADS_INTERVAL_MS_MAX - 1)] == ["S1", "S2"]
    assert asked == [*range(HEADS_INTERVAL_MS_MAX, 200_000, HEADS_INTERVAL_MS_MAX)]


def test_who_speaks_all_the_time_need_not_be_asked_and_who_is_gone_is_not_waited_for():
    stores = Stores()
    stores.heard_from("S1", 0)
    stores.heard_from("S2", 5_000)
    assert stores.all_fresh(5_000)
    stores.heard_from("S2", STORE_SILENCE_MS - 1)
    assert not stores.all_fresh(STORE_SILENCE_MS - 1)
    assert stores.all_fresh(STORE_SILENCE_MS)


def test_who_does_not_answer_is_not_asked_alone_until_heard_of():
    stores = Stores()
    stores.heard_from("S1", 0)
    stores.fell_silent({"S1", "never heard of"})
    assert not stores.answers("S1")
    assert stores.answers("S2")
    assert stores.answers("never heard of"), "or they would pile up"
    stores.heard_from("S1", 1)
    assert stores.answers("S1")


def test_invented_stores_do_not_pile_up():
    stores = Stores()
    assert all(stores.heard_from(f"S{number}", 0) for number in range(STORES_MAX))
    assert not stores.heard_from("one more", 0)
    assert stores.heard_from("S0", 1)
    assert len([*stores.alive(1)]) == STORES_MAX


def test_the_silent_make_room():
    stores = Stores()
    for number in range(STORES_MAX):
        stores.heard_from(f"S{number}", 0)
    assert stores.heard_from("later", STORE_SILENCE_MS)
    assert [*stores.alive(STORE_SILENCE_MS)] == ["later"]
