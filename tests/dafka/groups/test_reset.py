from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.groups import reset
from dafka.groups.commit import Commit
from dafka.model import Partition

A, B = Partition("orders", "A" * 32), Partition("orders", "B" * 32)


def find(partition, timestamp_ms):
    return {(A, 7): 42}.get((partition, timestamp_ms))


PLACES = reset.Places({A: range(10, 50), B: range(20)}, {A: 30}, find)
"""Of B the group has no position."""


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (reset.to_earliest, {A: 10, B: 0}),
        (reset.to_latest, {A: 50, B: 20}),
        (reset.to_current, {A: 30, B: None}),
        (reset.to_time(7), {A: 42, B: 20}),
        (reset.shifted_by(-25), {A: 10, B: None}),
        (reset.shifted_by(5), {A: 35, B: None}),
        (reset.shifted_by(100), {A: 50, B: None}),
        (reset.to_positions({A: 7}), {A: 10, B: None}),
        (reset.to_positions({A: 12, B: 99}), {A: 12, B: 20}),
    ],
)
def test_where_a_way_leads(way, expected):
    assert {partition: way(PLACES, partition) for partition in (A, B)} == expected


def test_a_file_of_positions():
    lines = ["orders,AA,3\n", "\n", '"odd,topic",BB, 40\n']
    found = {Partition("orders", "AA"): 3, Partition("odd,topic", "BB"): 40}
    assert reset.read_positions(lines) == found


@pytest.mark.parametrize("line", ["orders,AA", "orders,AA,-1", "orders,AA,x", "orders,AA,1,2"])
def test_a_line_that_is_none_is_named(line):
    with pytest.raises(MisuseError, match=r"^line 2: .* is not topic, address, position"):
        reset.read_positions(["orders,AA,1", line])


def test_what_is_committed_is_above_all_that_was():
    commits = {A: Commit(30, 4, 1_000, metadata="old"), B: Commit(None, 9, 1_000)}
    assert reset.positions_of(commits) == {A: 30}
    due = reset.commits_to({A: 10, B: None}, commits, 3, 2_000)
    assert due == [(A, Commit(10, 10, 2_000))], "of B it is forgotten already"
    assert reset.commits_to({A: None}, commits, 12, 2_000) == [(A, Commit(None, 13, 2_000))]
    assert reset.commits_to({B: 5}, {}, 0, 1) == [(B, Commit(5, 1, 1))]
