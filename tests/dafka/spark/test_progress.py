from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import MisuseError
from dafka.model import Partition, Range
from dafka.spark.bounds import Bound
from dafka.spark.progress import PLAIN_MAX, Progress, limited

ranges = st.dictionaries(
    st.builds(Partition, st.sampled_from(["a", "b"]), st.sampled_from("12345")),
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted),
).map(lambda found: [Range(partition, *bounds) for partition, bounds in found.items()])


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


A, B = Partition("orders", "A"), Partition("orders", "B")
EARLIEST, LATEST = Bound(), Bound(latest=True)


def text(progress):
    return json.dumps(progress.as_json())


def test_the_first_micro_batch_settles_where_the_stream_begins():
    there = {A: range(2, 10), B: range(5)}
    early = Progress().after(there, EARLIEST, None)
    assert Progress().ranges_to(early) == [Range(A, 2, 10), Range(B, 0, 5)]
    late = Progress().after(there, LATEST, None)
    assert Progress().ranges_to(late) == [Range(A, 10, 10), Range(B, 5, 5)]
    grown = {A: range(2, 12), B: range(5)}
    assert late.ranges_to(late.after(grown, LATEST, None)) == [Range(A, 10, 12), Range(B, 5, 5)]


def test_a_first_micro_batch_planned_again_is_the_same_one():
    there = {A: range(10)}
    end = Progress().after(there, LATEST, None)
    kept = Progress.of_json(json.loads(text(end)))
    assert Progress().ranges_to(kept) == [Range(A, 10, 10)]


def test_latest_is_settled_even_where_there_is_nothing_yet():
    begun = Progress().after({}, LATEST, None)
    assert text(begun) != text(Progress())
    assert begun.ranges_to(begun.after({A: range(3)}, LATEST, None)) == [Range(A, 0, 3)]


def test_nothing_new_is_the_very_same_offset():
    there = {A: range(10)}
    end = Progress().after(there, EARLIEST, None)
    assert end.after(there, EARLIEST, None) is end
    assert end.after({**there, B: range(0)}, EARLIEST, None) is end


def test_new_partitions_are_read_from_their_beginning():
    begun = Progress().after({A: range(10)}, LATEST, None)
    grown = begun.after({A: range(10), B: range(3, 7)}, LATEST, None)
    # Retention was faster than the stream: reading fails or passes over, planning hides nothing.
    assert begun.ranges_to(grown) == [Range(A, 10, 10), Range(B, 0, 7)]
    again = Progress.of_json(json.loads(text(grown)))
    assert begun.ranges_to(again) == begun.ranges_to(grown)


def test_a_cluster_that_lags_behind_the_checkpoint_is_waited_for():
    begun = Progress().after({A: range(10), B: range(3)}, EARLIEST, None)
    assert begun.after({A: range(4)}, EARLIEST, None) is begun
    moved = begun.after({A: range(12)}, EARLIEST, None)
    assert begun.ranges_to(moved) == [Range(A, 10, 12), Range(B, 3, 3)]


def test_offsets_are_ordered_text():
    one = Progress(True, {}, {A: 1, B: 2})
    other = Progress(True, {}, {B: 2, A: 1})
    assert text(one) == text(other)
    assert text(one) == (
        '{"begun": true, "deal": [1, 1], "forgotten": [], "from": [], '
        '"next": [["orders", "A", 1], ["orders", "B", 2]]}'
    )


def test_what_stores_have_forgotten_goes_on_where_it_was_when_it_comes_back():
    read = Progress().after({A: range(10), B: range(3)}, EARLIEST, None)
    moved = read.after({B: range(4)}, EARLIEST, None).without([A], 9)
    assert moved.nexts == {B: 4}
    assert moved.forgotten == {A: 10}
    moved = Progress.of_json(json.loads(text(moved)))
    assert moved.after({B: range(4)}, EARLIEST, None) is moved
    back = moved.after({A: range(10, 12), B: range(4)}, EARLIEST, None)
    assert moved.ranges_to(back) == [Range(A, 10, 12), Range(B, 4, 4)]
    assert back.forgotten == {}
    still = moved.after({A: range(10), B: range(5)}, EARLIEST, None)
    assert moved.ranges_to(still) == [Range(A, 10, 10), Range(B, 4, 5)], "listed by a store again"


def test_of_many_forgotten_ones_the_longest_forgotten_go():
    there = {Partition("orders", name): range(1) for name in "ABCDE"}
    progress = Progress().after(there, EARLIEST, None)
    progress = progress.without([Partition("orders", name) for name in "CA"], 2)
    progress = progress.without([Partition("orders", "D")], 2)
    assert [one.address for one in progress.forgotten] == ["A", "D"]
    assert [one.address for one in progress.nexts] == ["B", "E"]


@pytest.mark.parametrize("forgotten", ["", '"forgotten": [["other", "C", 5]], '])
def test_offsets_of_before_go_on(forgotten):
    kept = '"from": {"orders": {"B": 2}}, "next": {"orders": {"A": 1, "B": 3}}}'
    read = Progress.of_json(json.loads('{"begun": true, "deal": [1, 1], ' + forgotten + kept))
    ended = {Partition("other", "C"): 5} if forgotten else {}
    assert read == Progress(True, {B: 2}, {A: 1, B: 3}, ended)
    assert Progress.of_json(json.loads(text(read))) == read


def many(count, topic="orders"):
    """Partitions as ours are, far along, in no order."""
    drawn = Random(count)
    return {
        Partition(topic, f"{drawn.getrandbits(128):032X}"): drawn.randrange(1 << 40)
        for _ in range(count)
    }


names = st.text(max_size=5) | st.sampled_from(["AB" * 16, "ab" * 16, "AB" * 15, "A B" * 16, ""])
positions = st.builds(
    lambda odd, count, topic: odd | many(count, topic) | odd,
    st.dictionaries(st.builds(Partition, st.sampled_from("ab"), names), st.integers(0, 2**63 - 1)),
    st.integers(0, 3 * PLAIN_MAX),
    st.sampled_from("ab"),
)


@given(positions, positions, positions)
def test_offsets_come_back_as_they_were(begins, nexts, forgotten):
    progress = Progress(True, begins, nexts, forgotten, (2, 3))
    back = Progress.of_json(json.loads(text(progress)))
    assert back == progress
    assert list(back.forgotten) == list(forgotten)
    assert text(back) == text(progress)


def test_an_offset_of_many_partitions_is_small():
    """A position takes little more than the address that was drawn for it."""
    progress = Progress(True, {}, many(10_000))
    assert len(text(progress)) < 300_000
    waiting = Progress(True, {}, dict.fromkeys(many(10_000), 1_000))
    assert len(text(waiting)) < 220_000
    few = Progress(True, {}, many(PLAIN_MAX))
    assert all(partition.address in text(few) for partition in few.nexts)


EVENTS = st.tuples(st.sampled_from(["grow", "forget"]), st.sampled_from("ABCD"))


@given(st.lists(EVENTS, max_size=30), st.none() | st.integers(1, 3))
def test_nothing_is_skipped_or_repeated_whatever_is_forgotten_and_comes_back(events, records_max):
    ends, listed, progress, read = {}, set(), Progress(), {}
    for what, address in events:
        partition = Partition("orders", address)
        if what == "grow":
            ends[partition] = ends.get(partition, 0) + 2
            listed.add(partition)
        elif progress.nexts.get(partition) == ends.get(partition):
            listed.discard(partition)
        there = {one: range(ends[one] - 2, ends[one]) for one in listed}
        following = progress.after(there, EARLIEST, records_max)
        if following is not progress:
            following = following.without([one for one in progress.nexts if one not in listed], 9)
        following = Progress.of_json(json.loads(text(following)))
        for one, start, end in progress.ranges_to(following):
            assert start == read.get(one, 0)
            read[one] = end
        progress = following
    for one in listed:
        assert progress.nexts[one] == read[one] <= ends[one]


@given(
    st.lists(st.dictionaries(st.sampled_from("ABCD"), st.integers(0, 20)), min_size=1, max_size=8),
    st.none() | st.integers(1, 10),
)
def test_micro_batches_tile_every_partition(growth, records_max):
    """Whatever comes to be known when: no gap, no overlap, and in the end everything."""
    there, progress, read = {}, Progress(), {}
    for step in [*growth, *[{}] * 100]:
        for address, grown in step.items():
            partition = Partition("t", address)
            there[partition] = range(there.get(partition, range(0)).stop + grown)
        following = progress.after(there, EARLIEST, records_max)
        following = Progress.of_json(json.loads(text(following)))
        ranges = progress.ranges_to(following)
        allowed = max(records_max or 0, len(there))  # one of each partition, whatever the limit
        assert records_max is None or sum(one.records for one in ranges) <= allowed
        for partition, start, end in ranges:
            assert start == read.get(partition, 0)
            read[partition] = end
        progress = following
    assert {p: end for p, end in read.items() if end} == {p: s.stop for p, s in there.items() if s}


@pytest.mark.parametrize(
    "offset",
    [
        *({}, {"begun": True, "from": {}}, {"begun": 1, "deal": [1, 2], "from": 2}),
        {"begun": True, "deal": [1, 2], "from": [], "next": [["orders", "A"]]},
        {"begun": True, "deal": [1, 2], "from": [], "next": [["orders", "eJwBAgD9/0FBASIAgw=="]]},
        {"begun": True, "deal": [1, 2], "from": [], "next": [["orders"]]},
    ],
)
def test_other_offsets_are_refused(offset):
    with pytest.raises(MisuseError, match="no offset of this source"):
        Progress.of_json(offset)


def test_ends_without_a_beginning_are_refused():
    with pytest.raises(MisuseError, match="does not say where"):
        Progress().ranges_to(Progress(True, {}, {A: 3}))
