from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dafka.model import Partition
from dafka.spark.ranges import Range, dealt, dealt_whole, limited

ranges = st.dictionaries(
    st.builds(Partition, st.sampled_from(["a", "b"]), st.sampled_from("12345")),
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted),
).map(lambda found: [Range(partition, *bounds) for partition, bounds in found.items()])


def records_of(ranges):
    return Counter((one.partition, at) for one in ranges for at in range(one.start, one.end))


@given(ranges, st.integers(1, 60), st.integers(1, 10))
def test_tasks_hold_every_record_once_and_are_of_one_size(ranges, records_max, tasks_min):
    tasks = dealt(ranges, records_max, tasks_min)
    assert records_of([one for task in tasks for one in task]) == records_of(ranges)
    sizes = [sum(one.records for one in task) for task in tasks]
    assert all(0 < size <= records_max for size in sizes)
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert len(tasks) >= min(tasks_min, sum(one.records for one in ranges))


@given(ranges, st.integers(1, 60), st.integers(1, 10))
def test_whole_ranges_are_never_cut(ranges, records_max, tasks_min):
    tasks = dealt_whole(ranges, records_max, tasks_min)
    given_out = [one for task in tasks for one in task]
    assert sorted(given_out) == sorted(one for one in ranges if one.records)
    assert all(tasks)
    assert dealt_whole(ranges[::-1], records_max, tasks_min) == tasks


def test_whole_ranges_are_spread_by_size():
    sizes = {"1": 60, "2": 30, "3": 20, "4": 10}
    ranges = [Range(Partition("a", address), 0, size) for address, size in sizes.items()]
    tasks = dealt_whole(ranges, 1_000, 2)
    assert [sum(one.records for one in task) for task in tasks] == [60, 60]


@given(ranges, st.none() | st.integers(1, 100))
def test_a_limit_is_reached_and_not_passed_and_nobody_waits(ranges, records_max):
    starts = {one.partition: one.start for one in ranges}
    ends = {one.partition: one.end for one in ranges}
    cut = limited(starts, ends, records_max)
    assert cut.keys() == ends.keys()
    assert all(starts[partition] <= cut[partition] <= ends[partition] for partition in ends)
    waiting = [one for one in ranges if one.records]
    assert all(cut[one.partition] > one.start for one in waiting)
    total = sum(one.records for one in ranges)
    taken = sum(cut[partition] - starts[partition] for partition in ends)
    allowed = total if records_max is None else max(records_max, len(waiting))
    assert taken == min(total, allowed)


def test_shares_are_in_proportion():
    big, small = Partition("a", "1"), Partition("a", "2")
    cut = limited({big: 0, small: 5}, {big: 900, small: 105}, 100)
    assert cut[big] in (89, 90, 91)
    assert cut[big] + cut[small] - 5 == 100


def test_small_partitions_are_not_starved_by_large_ones():
    large = [Partition("a", f"{number}") for number in range(4)]
    small = Partition("b", "0")
    ends = {**dict.fromkeys(large, 10**9), small: 3}
    assert limited(dict.fromkeys(ends, 0), ends, 5) == dict.fromkeys(ends, 1)
    assert limited(dict.fromkeys(ends, 0), ends, 3) == dict.fromkeys(ends, 1), "passes the limit"
