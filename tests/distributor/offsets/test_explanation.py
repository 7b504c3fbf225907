from dataclasses import replace

from dafka.groups.commit import Commit
from dafka.model import Partition
from distributor.offsets.explanation import GroupView, OffsetRow, explain, forced
from topology.model import OffsetSettings
from topology.testing import topology_of, tree_of

PLACE = Partition("orders", "PRODUCER")
OWN = Partition("_own", "PRODUCER")
AT_A = Commit(100, epoch=2, commit_ms=1_000, metadata="mine", record_ms=900)
AT_B = replace(AT_A, position=60, origin=1, copy_flags=1)
TOPOLOGY = replace(
    topology_of(tree_of((1, "a", "b"))),
    offsets=OffsetSettings(translation="timestamp", margin_ms=40),
)
A = GroupView("a", 1, {PLACE: AT_A}, {PLACE: 120})


def explained(*views):
    return explain(TOPOLOGY, "billing", views, 1_500)


def test_where_a_group_stands_on_every_cluster():
    b = GroupView("b", 2, {PLACE: AT_B}, {PLACE: 120})
    assert explained(A, b) == [
        OffsetRow("orders", "PRODUCER", "a", 100, 0, 500, 40, "a", ""),
        OffsetRow("orders", "PRODUCER", "b", 60, 40, 500, 40, "a", ""),
    ]


def why(view, partition=PLACE):
    of_a = GroupView("a", 1, {partition: AT_A}, {partition: 120})
    return explained(of_a, view)[1].why


def test_why_a_cluster_does_not_have_the_newest_position():
    old = {PLACE: replace(AT_B, commit_ms=500)}
    there = {PLACE: 120}
    assert why(GroupView("b", 2, old, there)) == "the commit is not here yet"
    assert why(GroupView("b", 2, old, {PLACE: 99})) == "the records are not here yet"
    assert why(GroupView("b", 2, old, there, live=True)) == "the group has live members here"
    assert why(GroupView("b", 2, error="no store answers")) == "no store answers"
    assert why(GroupView("b", 2), OWN) == "the topic is not copied"


def test_what_was_never_committed_at_a_cluster_has_no_position_there():
    (_, row) = explained(A, GroupView("b", 2, {}, {PLACE: 120}))
    assert (row.position, row.behind, row.age_ms, row.origin) == (None, 100, None, "")


def test_a_position_that_was_forgotten_is_behind_nothing():
    forgotten = {PLACE: replace(AT_A, position=None)}
    (row, _) = explained(GroupView("a", 1, forgotten, {}), GroupView("b", 2))
    assert (row.position, row.behind) == (None, None)


def test_what_is_forced_is_in_an_epoch_of_its_own():
    live = GroupView("b", 2, {PLACE: Commit(7, epoch=1, commit_ms=2)}, {PLACE: 120}, live=True)
    assert forced([A, live], "b", 9_000) == [
        (PLACE, Commit(100, epoch=3, commit_ms=9_000, metadata="mine", record_ms=900))
    ]
    assert forced([A, live], "a", 9_000) == []


def test_what_is_forced_is_the_exact_position_even_where_the_translated_one_is_as_new():
    here = GroupView("b", 2, {PLACE: replace(AT_B, processed=100)})
    ((_, commit),) = forced([A, here], "b", 9_000)
    assert (commit.position, commit.processed, commit.epoch) == (100, None, 3)
    (row, _) = explained(A, here)
    assert row.behind == 0
    assert forced([A, GroupView("b", 2, {PLACE: replace(AT_B, position=100)})], "b", 9_000) == []


def test_a_position_that_clocks_would_have_put_further_back_says_so():
    offsets = replace(TOPOLOGY.offsets, margin_records=40)
    b = GroupView("b", 2, {PLACE: AT_B}, {PLACE: 120})
    (_, row) = explain(replace(TOPOLOGY, offsets=offsets), "billing", [A, b], 1_500)
    assert row.why == "by their times more records are within the margin"
