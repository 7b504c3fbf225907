from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dafka.groups.commit import Commit
from distributor.offsets.translation import (
    SkipReason,
    advanced,
    needs_time,
    translated,
    version,
)

COMMIT = Commit(position=100, epoch=3, commit_ms=5_000, record_ms=4_000)


@pytest.mark.parametrize(
    ("commit", "margin_ms", "found", "end", "position"),
    [
        (COMMIT, 60, 40, 0, 40),
        (COMMIT, 60, 100, 0, 100),
        (COMMIT, 60, 170, 0, 100),
        (COMMIT, 60, None, 100, 100),
        (COMMIT, None, 40, 0, 100),
        (replace(COMMIT, record_ms=None), 60, 40, 0, 100),
        (replace(COMMIT, position=0), 60, 40, 0, 0),
        (replace(COMMIT, position=None), 60, 40, 0, None),
    ],
    ids=[
        "the first record as late",
        "no margin",
        "the log starts behind it, or its clock runs ahead",
        "nothing is kept any more",
        "exact",
        "no time is known",
        "nothing is processed",
        "forgotten",
    ],
)
def test_where_a_position_comes_to_stand(commit, margin_ms, found, end, position):
    there = translated(commit, margin_ms, 1_000, found, end)
    processed = None if position == commit.position else commit.position
    assert there == replace(commit, position=position, processed=processed)


@pytest.mark.parametrize(("found", "position"), [(0, 70), (70, 70), (71, 71)])
def test_no_clock_takes_it_further_back_than_so_many_records(found, position):
    there = translated(COMMIT, 60, 30, found, 100)
    assert (there.position, there.reached) == (position, 100)


def test_what_was_processed_elsewhere_is_not_forgotten_on_the_way():
    home = replace(COMMIT, position=55, processed=100)
    there = translated(home, 60, 1_000, 40, 100)
    assert (there.position, there.processed) == (40, 100)
    assert advanced(there, replace(COMMIT, position=90)).position == 90
    assert advanced(there, replace(COMMIT, position=100)) == replace(
        home, position=100, processed=None
    )
    assert advanced(there, replace(COMMIT, position=101)) == there, "it went back on purpose"


def test_what_the_target_does_not_have_yet_is_waited_for():
    assert translated(COMMIT, 60, 1_000, None, 99) is SkipReason.BEHIND


@given(
    position=st.none() | st.integers(0, 50),
    held=st.none() | st.integers(0, 50),
    margin_ms=st.none() | st.integers(0, 100),
    record_ms=st.none() | st.integers(0, 100),
    found=st.none() | st.integers(0, 80),
    end=st.integers(0, 80),
)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_no_translation_passes_the_position_that_was_committed(
    position, held, margin_ms, record_ms, found, end
):
    commit = Commit(position, epoch=1, commit_ms=9, record_ms=record_ms)
    there = translated(commit, margin_ms, 1_000, found, end)
    if isinstance(there, SkipReason):
        return
    there = advanced(there, None if held is None else Commit(held, 1, 8))
    if position is None:
        assert there.position is None
    else:
        assert there.position <= position
        assert held is None or held > position or there.position >= held


def test_a_time_is_looked_up_once_and_only_where_it_counts():
    fresh = replace(COMMIT, record_ms=None)
    assert needs_time(fresh, 0)
    assert not needs_time(fresh, None)
    assert not needs_time(COMMIT, 60)
    assert not needs_time(replace(fresh, position=0), 60)
    assert not needs_time(replace(fresh, position=None), 60)


def test_the_margin_does_not_take_a_group_back_that_has_moved():
    back = replace(COMMIT, position=40, processed=100)
    assert advanced(back, Commit(90, 2, 1)).position == 90
    assert advanced(back, None).position == 40
    assert advanced(back, Commit(None, 2, 1)).position == 40
    assert advanced(replace(back, position=None), Commit(90, 2, 1)).position is None


def test_a_commit_is_versioned_the_same_wherever_it_stands():
    here = Commit(5, epoch=2, commit_ms=7)
    copied = replace(here, origin=4, copy_flags=5, position=3)
    assert version(here, 4) == version(copied, 9) == (2, 7, 4)
