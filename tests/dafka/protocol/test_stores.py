from __future__ import annotations

from dafka.limits import STORES_MAX
from dafka.protocol.stores import HEADS_INTERVAL_MS_MAX, STORE_SILENCE_MS, Stores


def test_a_store_is_alive_until_it_has_been_silent_for_long():
    stores = Stores()
    assert stores.heard_from("S1", 0)
    assert stores.heard_from("S2", 5)
    assert [*stores.alive(STORE_SILENCE_MS - 1)] == ["S1", "S2"]
    assert [*stores.alive(STORE_SILENCE_MS)] == ["S2"]
    assert stores.heard_from("S1", STORE_SILENCE_MS)
    assert [*stores.alive(STORE_SILENCE_MS)] == ["S1", "S2"]


def test_whoever_is_there_is_heard_of_in_time():
    assert HEADS_INTERVAL_MS_MAX + 5_000 < STORE_SILENCE_MS


def test_all_have_been_heard_of_when_each_that_is_there_was():
    stores = Stores()
    assert not stores.all_heard(0, 0)
    stores.heard_from("S1", 10)
    stores.heard_from("S2", 20)
    assert stores.all_heard(10, 20)
    assert not stores.all_heard(11, 20)
    assert stores.all_heard(20, 10 + STORE_SILENCE_MS), "the first one is gone"
    assert not stores.all_heard(20, 20 + STORE_SILENCE_MS)


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
