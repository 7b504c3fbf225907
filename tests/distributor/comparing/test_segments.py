from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from distributor.comparing.segments import Segment, segments


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
