from __future__ import annotations

import pytest

from dafka.groups.commit import Commit, CommitKey
from dafka.groups.events import AskOffsets, OffsetsAnswered
from dafka.groups.loading import PATIENCE_MS, RETRY_MS, Loading
from dafka.model import Partition

A1, B2 = Partition("orders", "A1"), Partition("orders", "B2")


@pytest.fixture
def loading():
    return Loading(2, 7, 0)


def answer(store, *rows, more=False, token=7):
    commits = tuple((CommitKey("g", place), Commit(at, 1, ms)) for place, at, ms in rows)
    return OffsetsAnswered(store, token, commits, more)


def test_the_commit_that_holds_is_that_of_the_store_that_has_it(loading):
    assert loading.ask(0) == [AskOffsets(0, 7, None), AskOffsets(1, 7, None)]
    loading.answered(answer(0, (A1, 5, 10), (B2, 9, 20)), 1)
    assert not loading.complete(1)
    loading.answered(answer(1, (A1, 7, 11), (B2, 8, 19)), 2)
    assert loading.complete(2)
    assert {place: commit.position for place, commit in loading.commits.items()} == {A1: 7, B2: 9}


def test_pages_are_asked_for_one_behind_the_other(loading):
    loading.ask(0)
    loading.answered(answer(0, (A1, 5, 10), more=True), 1)
    assert loading.ask(1) == [AskOffsets(0, 7, A1)]
    loading.answered(answer(0, (B2, 5, 10)), 2)
    loading.answered(answer(1), 2)
    assert loading.complete(2)
    assert loading.commits.keys() == {A1, B2}


def test_a_store_that_turns_no_page_is_done(loading):
    loading.ask(0)
    loading.answered(answer(0, more=True), 1)
    loading.answered(answer(1, more=True), 1)
    assert loading.complete(1)


def test_who_does_not_answer_is_asked_again_and_left_out_in_the_end(loading):
    loading.ask(0)
    assert loading.ask(RETRY_MS - 1) == []
    assert len(loading.ask(RETRY_MS)) == 2
    loading.answered(answer(1, (A1, 5, 10)), RETRY_MS)
    assert not loading.complete(PATIENCE_MS - 1)
    assert loading.wakeup_ms() <= PATIENCE_MS
    assert loading.complete(PATIENCE_MS)


def test_without_any_answer_it_waits(loading):
    loading.ask(0)
    assert not loading.complete(100 * PATIENCE_MS)
    assert loading.wakeup_ms() == RETRY_MS


def test_answers_to_an_earlier_reading_do_not_count(loading):
    loading.ask(0)
    loading.answered(answer(0, (A1, 5, 10), token=6), 1)
    assert loading.commits == {}
