from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from distributor.verify.bisection import Bisection, Coverage, Mismatch, Segment, segments


def test_logs_are_cut_where_some_begin_or_end():
    kept = {"c1": range(10), "c2": range(4, 6), "c3": range(2, 10), "c4": range(0)}
    assert segments(kept) == [
        Segment(0, 2, ("c1",)),
        Segment(2, 4, ("c1", "c3")),
        Segment(4, 6, ("c1", "c2", "c3")),
        Segment(6, 10, ("c1", "c3")),
    ]
    assert segments({}) == []
    assert segments({"c1": range(2), "c2": range(5, 7)}) == [
        Segment(0, 2, ("c1",)),
        Segment(5, 7, ("c2",)),
    ]


ranges = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda ends: range(*ends))


@given(st.dictionaries(st.sampled_from("abcd"), ranges))
def test_every_record_stands_in_one_segment_with_all_its_holders(kept):
    found = segments(kept)
    for sequence in range(13):
        holders = tuple(name for name, held in kept.items() if sequence in held)
        inside = [part for part in found if part.start <= sequence < part.end]
        assert [part.holders for part in inside] == ([holders] if holders else [])
    assert all(one.end <= other.start for one, other in pairwise(found))


BATCHES_MAX = 3
RECORDS_MAX = 5
"""How much a store digests at once, small so that it matters."""


class Log:
    """A cluster's part of one partition: a value for each record, in batches that begin at cuts."""

    def __init__(self, values, cuts=(), start=0, damaged=()):
        self.values, self.start, self.damaged = values, start, damaged
        self.begins = sorted({0, *(cut for cut in cuts if cut < len(values))})

    def batch_of(self, sequence):
        first = max(begin for begin in self.begins if begin <= sequence)
        end = min((begin for begin in self.begins if begin > sequence), default=len(self.values))
        return first, end

    def cover(self, start, end, exact):
        """As a store answers."""
        first = max(start, self.start)
        if exact:
            end = min(end, first + RECORDS_MAX)
        if first >= min(end, len(self.values)):
            return Coverage(first, first, b"")
        batches = [self.batch_of(first)]
        while batches[-1][1] < min(end, len(self.values)) and len(batches) < BATCHES_MAX:
            batches.append(self.batch_of(batches[-1][1]))
        if not exact:
            start, end = batches[0][0], batches[-1][1]
            return Coverage(start, end, repr((batches, self.values[start:end])).encode())
        end = min(end, batches[-1][1])
        if any(first <= sequence < end for sequence in self.damaged):
            return Coverage(first, end, b"", "damaged")
        return Coverage(first, end, repr(self.values[first:end]).encode())


def compared(logs, start=0, end=None):
    """All findings, and how many questions they took."""
    if end is None:
        end = min(len(log.values) for log in logs.values())
    bisection = Bisection(Segment(start, end, tuple(logs)))
    asked = 0
    while (question := bisection.question) is not None:
        assert bisection.position == question.start
        assert start <= question.start < question.end <= end
        answers = {
            name: logs[name].cover(question.start, question.end, question.exact)
            for name in question.clusters
        }
        bisection.answered(answers)
        asked += 1
        assert asked < 2_000, "it does not get on"
    return bisection, asked


values = st.lists(st.sampled_from("ab"), min_size=24, max_size=24)
cuts = st.lists(st.integers(1, 23), max_size=8)
logs = st.lists(st.builds(Log, values, cuts), min_size=2, max_size=4).map(
    lambda made: {f"c{number}": log for number, log in enumerate(made, 1)}
)


@given(logs)
def test_exactly_the_records_that_differ_are_found_in_groups(logs):
    bisection, _ = compared(logs)
    assert bisection.position == 24
    found = {}
    for finding in bisection.findings:
        assert (finding.damaged, finding.absent) == ((), ())
        assert [*map(len, finding.groups)] == sorted(map(len, finding.groups), reverse=True)
        for sequence in range(finding.start, finding.end):
            assert sequence not in found
            found[sequence] = {frozenset(group) for group in finding.groups}
    for sequence in range(24):
        alike = {}
        for name, log in logs.items():
            alike.setdefault(log.values[sequence], set()).add(name)
        expected = set(map(frozenset, alike.values())) if len(alike) > 1 else None
        assert found.get(sequence) == expected


@given(values, cuts, cuts)
def test_the_same_records_in_other_batches_are_the_same(values, cuts, others):
    bisection, asked = compared({"c1": Log(values, cuts), "c2": Log(values, others)})
    assert bisection.findings == []
    if sorted(set(cuts)) == sorted(set(others)):
        assert asked <= 24 / BATCHES_MAX + 1, "whole batches are enough where they are the same"


@given(values, cuts, st.integers(0, 23), st.integers(0, 23))
def test_what_retention_takes_meanwhile_is_passed_over(values, cuts, start, changed):
    other = [*values]
    other[changed] = "x"
    logs = {"c1": Log(values, cuts), "c2": Log(other, cuts, start=start)}
    bisection, _ = compared(logs)
    found = [(finding.start, finding.end) for finding in bisection.findings]
    assert found == ([(changed, changed + 1)] if changed >= start else [])


@given(values, cuts, st.integers(0, 23))
def test_what_a_cluster_loses_meanwhile_is_told_and_the_others_are_compared(values, cuts, end):
    other = [*values[:-1], "x"]
    logs = {"c1": Log(values, cuts), "c2": Log(values[:end], cuts), "c3": Log(other, cuts)}
    bisection, _ = compared(logs, end=24)
    lost, differs = bisection.findings
    assert lost == Mismatch(lost.start, 24, (), (), ("c2",))
    assert lost.start == end
    assert differs == Mismatch(23, 24, (("c1",), ("c3",)), (), ())


def test_damaged_records_are_told_with_their_reason():
    values = ["a"] * 12
    logs = {"c1": Log(values), "c2": Log(values, [6], damaged=[7, 8]), "c3": Log(values)}
    bisection, _ = compared(logs)
    assert bisection.findings == [Mismatch(7, 9, (("c1", "c3"),), (("c2", "damaged"),), ())]


def test_another_history_is_told_as_a_whole_from_its_first_record_on():
    size = 4_000
    logs = {"c1": Log(["a"] * size), "c2": Log(["a"] * 7 + ["b"] * (size - 7))}
    bisection, asked = compared(logs)
    assert bisection.findings == [Mismatch(7, size, (("c1",), ("c2",)), (), ())]
    assert asked < 3 * size / RECORDS_MAX


def test_it_ends_when_nobody_is_left_to_compare_with():
    bisection = Bisection(Segment(3, 9, ("c1", "c2", "c3")))
    bisection.leave("c2")
    assert bisection.question == (3, 9, False, ("c1", "c3"))
    bisection.leave("c1")
    assert bisection.question is None
    assert bisection.position == 3
