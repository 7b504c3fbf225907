from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import StorageError, WireError
from dafka.storage.holds import TABLE, Holds, HoldWord
from tests.support.record_logs import ORDERS, OTHERS, Lmdb, Memory, batch


def opened(kind=Memory, directory=None):
    made = kind(directory)
    made.log.append([batch(ORDERS, 0, 10), batch(OTHERS, 0, 10)])
    return made


def word(epoch=1, need=b"all", **floors):
    places = {"orders": ORDERS, "others": OTHERS}
    return HoldWord(epoch, need, {places[name]: end for name, end in floors.items()})


def test_without_a_word_everything_is_held():
    holds = Holds(opened().log)
    assert holds.floor(ORDERS) == 0


def test_what_is_said_last_counts_up_or_down():
    holds = Holds(opened().log)
    for end in (5, 9, 3):
        holds.place(word(orders=end))
        assert holds.floor(ORDERS) == end
    assert holds.floor(OTHERS) == 0


def test_floors_outlive_the_process(tmp_path):
    made = opened(Lmdb, tmp_path)
    Holds(made.log).place(word(orders=5))
    made.reopen()
    again = Holds(made.log)
    assert (again.floor(ORDERS), again.floor(OTHERS)) == (5, 0)
    again.place(word(others=7))
    made.reopen()
    assert [Holds(made.log).floor(one) for one in (ORDERS, OTHERS)] == [5, 7]
    made.log.close()


def test_an_older_epoch_is_refused_for_ever(tmp_path):
    made = opened(Lmdb, tmp_path)
    Holds(made.log).place(word(4, orders=5))
    made.reopen()
    holds = Holds(made.log)
    with pytest.raises(WireError, match="hold"):
        holds.place(word(3, orders=9))
    assert holds.floor(ORDERS) == 5
    made.log.close()


def test_with_another_need_nothing_of_before_counts(tmp_path):
    made = opened(Lmdb, tmp_path)
    holds = Holds(made.log)
    holds.place(word(orders=5, others=6))
    holds.place(word(2, b"all and one more", others=4))
    assert [holds.floor(one) for one in (ORDERS, OTHERS)] == [0, 4]
    made.reopen()
    assert [Holds(made.log).floor(one) for one in (ORDERS, OTHERS)] == [0, 4]
    Holds(made.log).place(word(3, b"all"))
    assert Holds(made.log).floor(OTHERS) == 0
    made.log.close()


def test_a_later_controller_of_the_same_need_goes_on():
    holds = Holds(opened().log)
    holds.place(word(1, orders=5))
    holds.place(word(2))
    assert holds.floor(ORDERS) == 5


def test_of_partitions_that_are_not_there_nothing_is_kept():
    made = Memory(None)
    Holds(made.log).place(word(orders=5))
    assert [key for key, _ in made.log.scan(TABLE, b"", 9)] == [b""]
    made.log.append([batch(ORDERS, 0, 10)])
    assert Holds(made.log).floor(ORDERS) == 0


def test_with_a_forgotten_partition_goes_its_floor():
    made = opened()
    holds = Holds(made.log)
    assert holds.forgetting([ORDERS]) == []
    holds.place(word(orders=10))
    made.log.append((), trims={ORDERS: 10})
    made.log.append((), forgets=[ORDERS], entries=holds.forgetting([ORDERS]))
    holds.forgotten([ORDERS])
    assert [key for key, _ in made.log.scan(TABLE, b"", 9)] == [b""]
    made.log.append([batch(ORDERS, 10, 5)])
    assert holds.floor(ORDERS) == 0


def test_what_is_the_same_is_not_written_again(monkeypatch):
    made = opened()
    holds = Holds(made.log)
    holds.place(word(orders=5))
    monkeypatch.setattr(made.log, "append", None)
    holds.place(word(orders=5))


def test_what_the_disk_refuses_is_not_said(monkeypatch):
    made = opened()
    holds = Holds(made.log)
    holds.place(word(1, orders=9))

    def refuse(*_, **__):
        raise StorageError("full")

    with monkeypatch.context() as broken:
        broken.setattr(made.log, "append", refuse)
        with pytest.raises(StorageError):
            holds.place(word(2, b"more", orders=3))
    assert holds.floor(ORDERS) == 9
    holds.place(word(1, orders=8))
    assert holds.floor(ORDERS) == 8


words = st.builds(
    HoldWord,
    st.integers(1, 4),
    st.sampled_from([b"a", b"b"]),
    st.dictionaries(st.sampled_from([ORDERS, OTHERS]), st.integers(0, 20)),
)


@given(st.lists(st.one_of(words, st.just("again")), max_size=20))
def test_whatever_is_said_a_floor_is_the_last_of_its_need(script):
    """A model: of all words that are not refused, those since the need was last another."""
    made = opened()
    holds = Holds(made.log)
    epoch, need, floors = 0, None, {}
    for one in script:
        if one == "again":
            holds = Holds(made.log)
        elif one.epoch < epoch:
            with pytest.raises(WireError):
                holds.place(one)
        else:
            holds.place(one)
            floors = {**(floors if one.need == need else {}), **one.floors}
            epoch, need = one.epoch, one.need
        assert all(holds.floor(p) == floors.get(p, 0) for p in (ORDERS, OTHERS))
