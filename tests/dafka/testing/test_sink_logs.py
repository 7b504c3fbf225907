from __future__ import annotations

import pytest

from dafka.testing.sink_logs import Row, problems, row_of

TOPICS = {0: ("a", "b"), 1: ("a",), 2: ("a",)}
P0, P1, Q0 = ("p", 0), ("p", 1), ("q", 0)


def rows(key, number, attempt, *places):
    return [Row(key, number, attempt, 0, place) for place in places]


FIRST = rows("p", 0, 0, 0)
OTHER = rows("p", 0, 0, 1)


def found(a, b, written=()):
    return problems({"a": a, "b": b}, TOPICS, 2, written)


def test_a_row_says_what_it_is():
    (row,) = FIRST
    assert row_of(row.encode()) == row


def test_runs_behind_each_other_are_right():
    a = {"A": [*FIRST, *rows("q", 0, 1, 0)], "B": [*OTHER, *rows("q", 0, 1, 1)]}
    assert found(a, {"C": [*FIRST, *OTHER]}, [P0, Q0]) == []


@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        ({"A": [*FIRST, *FIRST, *OTHER]}, {"C": [*FIRST, *OTHER]}, "is there 2 times"),
        ({"A": [*FIRST, *OTHER, *rows("q", 0, 1, 0, 1)]}, {}, r"of \('p', 0\) there is {'a': 2}"),
        ({"A": [*FIRST, *rows("q", 0, 1, 0, 1)]}, {"C": [*FIRST, *OTHER]}, "{'a': 1, 'b': 2}"),
        (
            {"A": [*FIRST, *OTHER, *rows("p", 0, 1, 0, 1)]},
            {"C": [*FIRST, *OTHER]},
            r"rows of several attempts: 0, \[1\]",
        ),
        (
            {"A": [*FIRST, *rows("q", 0, 1, 0, 1), *OTHER]},
            {"C": [*FIRST, *OTHER]},
            "a: a run is begun before another one is ended",
        ),
        (
            {
                "A": [*rows("p", 0, 2, 0), *rows("q", 0, 1, 0)],
                "B": [*rows("q", 0, 1, 1), *rows("p", 0, 2, 1)],
            },
            {},
            "a: partitions have other orders",
        ),
        (
            {"A": [*rows("p", 1, 1, 0, 1), *rows("p", 0, 2, 0, 1)]},
            {},
            r"a: the runs of p are in another order: \[1, 0\]",
        ),
    ],
)
def test_what_is_wrong_is_said(a, b, problem):
    (said,) = found(a, b)
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(said)


def test_a_job_that_broke_off_in_partitions_of_its_own_may_be_there_in_part():
    a = {"A": FIRST, "B": [*rows("q", 0, 1, 0, 1), *rows("p", 1, 2, 0, 1)]}
    assert found(a, {}) == []
    (said,) = found(a, {}, [P0])
    assert "{'a': 1}" in said


def test_what_was_written_is_there():
    assert found({}, {}, [P1]) == ["('p', 1) was written, and is nowhere"]
