"""What logs do with it is in tests/contracts/test_record_log.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dafka.model import Partition
from dafka.storage import changes as module
from dafka.storage.changes import Changes, Mark

A, B, C = (Partition("orders", letter) for letter in "ABC")


def names(changed):
    return [partition for partition, _ in changed]


def test_those_that_changed_longest_ago_come_first_and_each_once():
    changes = Changes("one")
    beginning = changes.now
    changes.note([A, B, A, C])
    assert names(changes.since(beginning)) == [B, A, C]
    changes.note([B])
    assert names(changes.since(beginning)) == [A, C, B]
    assert changes.since(changes.now) == []


def test_marks_of_another_opening_or_of_the_future_mean_nothing():
    changes = Changes("one")
    changes.note([A])
    assert changes.since(Mark("two", 0)) is None
    assert changes.since(Mark("one", 2)) is None
    assert changes.since(Mark("one", 1)) == []


def test_of_too_many_none_is_told(monkeypatch):
    monkeypatch.setattr(module, "CHANGES_MAX", 2)
    changes = Changes("one")
    beginning = changes.now
    changes.note([A, B])
    assert names(changes.since(beginning)) == [A, B]
    changes.note([C])
    assert changes.since(beginning) is None
    assert names(changes.since(Mark("one", 1))) == [B, C]


@given(st.lists(st.lists(st.sampled_from([A, B, C]), max_size=4)), st.data())
def test_going_on_from_any_change_misses_none(notes, data):
    changes = Changes("one")
    beginning = changes.now
    for note in notes:
        changes.note(note)
    everything = changes.since(beginning)
    assert set(names(everything)) == {one for note in notes for one in note}
    cut = data.draw(st.integers(0, len(everything)))
    mark = everything[cut - 1][1] if cut else beginning
    assert changes.since(mark) == everything[cut:]
