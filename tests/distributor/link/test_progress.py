"""How far a link is, by both ends' word and its own."""

from __future__ import annotations

from dafka.model import Partition
from distributor.link.events import HeadsRead
from distributor.link.progress import LinkProgress, TargetEnds

A, B, C = (Partition("orders", address) for address in "ABC")


def test_a_link_that_has_done_nothing_would_begin_where_the_target_is():
    ends = TargetEnds()
    assert ends.progress({}, {}) == ({}, {}, {})
    ends.surveyed(HeadsRead({A: 4, C: 9}, {A: 6, B: 1}))
    expected = {A: 5, B: 0}, "what only the target has does not come from here"
    assert ends.progress({}, {}) == LinkProgress(*[expected[0]] * 3), expected[1]


def test_what_it_has_done_itself_is_newer_and_what_others_have_is_further():
    ends = TargetEnds()
    ends.surveyed(HeadsRead({A: 4, B: 9}, {A: 6, B: 9}))
    progress = ends.progress({A: 7, B: 8, C: 2}, {A: 6, B: 8, C: 1})
    assert progress.taken == {A: 7, B: 8, C: 2}
    assert progress.there == {A: 6, B: 10, C: 1}
    assert progress.done == {A: 6, B: 8, C: 1}


def test_a_source_that_does_not_answer_keeps_what_it_kept():
    ends = TargetEnds()
    ends.surveyed(HeadsRead({A: 4}, {A: 6}))
    ends.surveyed(HeadsRead({A: 5, B: 2}))
    assert ends.progress({}, {}).there == {A: 6}
