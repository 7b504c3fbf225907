from __future__ import annotations

import pytest

from dafka.errors import QueryError, RefusedError
from dafka.process.clock import Clock
from dafka.query.patience import IMPATIENT_MS, SILENT_MS, Patience


@pytest.fixture
def now():
    return [0]


@pytest.fixture
def patience(now):
    return Patience(10_000, 2_000, Clock(now_ms=lambda: now[0]))


def test_who_has_never_answered_has_as_long_as_it_takes_to_connect(patience):
    assert patience.timeout_ms("a") == 2_000
    patience.answered("a")
    assert patience.timeout_ms("a") == 10_000


def test_who_is_passed_over_has_its_time_again_later_and_is_last_until_it_answers(patience, now):
    patience.answered("a")
    patience.passed_over({"a": QueryError("no answer"), "b": RefusedError("no")})
    assert (patience.silent, patience.is_last("a"), patience.is_last("b")) == (("a",), True, False)
    assert patience.timeout_ms("a") == IMPATIENT_MS
    now[0] = SILENT_MS - 1
    patience.note(["a"])  # it was not waited for: that says nothing new
    now[0] = SILENT_MS
    assert (patience.silent, patience.timeout_ms("a")) == ((), 10_000)
    assert patience.is_last("a")
    patience.answered("a")
    assert not patience.is_last("a")


def test_where_nobody_answers_each_has_its_time(patience):
    patience.note(["a"])
    patience.renew()
    assert (patience.silent, patience.timeout_ms("a")) == ((), 2_000)
