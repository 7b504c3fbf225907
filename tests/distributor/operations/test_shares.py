from __future__ import annotations

import pytest

from distributor.control.protocol import STOPPED_MAX, LinkRow, StoppedRow
from distributor.operations.shares import missing, whole


def row(state="serving", target="c3", stall_ms=0, **facts):
    facts = {"next": "", "waits_for": "", "switches": 0, **facts}
    return LinkRow(
        source="c1", level=2, branch=1, target=target, state=state, stall_ms=stall_ms, **facts
    )


def stopped(number):
    return StoppedRow(b"orders", f"{number:04}".encode(), "diverged", 1, 2)


def test_a_link_that_one_flow_copies_is_what_that_says():
    assert whole({0: row("stuck", waits_for="c3", topics="eu-*")}, 1) == row(
        "stuck", waits_for="c3", topics="eu-*"
    )


def test_partitions_that_shares_do_not_copy_add_up():
    one = row(diverged=1, overtaken=2, refused=3, shortened=4, stopped=(stopped(1),))
    two = row(diverged=10, overtaken=20, refused=30, shortened=40, stopped=(stopped(2),))
    assert whole({1: two, 0: one}, 2) == row(
        diverged=11, overtaken=22, refused=33, shortened=44, stopped=(stopped(1), stopped(2))
    )
    many = tuple(map(stopped, range(STOPPED_MAX)))
    assert len(whole({0: row(stopped=many), 1: row(stopped=many)}, 2).stopped) == STOPPED_MAX


@pytest.mark.parametrize(
    ("one", "two", "worst"),
    [
        ("serving", "draining", "draining"),
        ("stuck", "serving", "stuck"),
        ("stuck", "silent", "silent"),
        ("drained", "paused", "paused"),
        ("drained", "drained", "drained"),
        ("silent", "superseded", "superseded"),
        ("silent", "what a newer one says", "what a newer one says"),
    ],
)
def test_the_worst_state_counts_with_what_it_waits_for(one, two, worst):
    found = whole({0: row(one, waits_for=f"{one}."), 1: row(two, waits_for=f"{two}.")}, 2)
    assert (found.state, found.waits_for) == (worst, f"{worst}.")


def test_a_share_that_nobody_writes_is_the_worst_of_all():
    found = whole({1: row("stuck", waits_for="c3")}, 3)
    assert (found.state, found.target) == ("unwritten", "c3")
    assert found.waits_for == "a replica to write share 0/3, share 2/3"
    assert missing({1: row()}, 3) == ["share 0/3", "share 2/3"]
    found = whole({1: row()}, 2, "a distributor")
    assert found.waits_for == "a distributor to write share 0/2"


def test_shares_that_aim_elsewhere_are_named():
    found = whole({0: row(), 1: row(target="c4"), 2: row("stuck", waits_for="c3")}, 3)
    assert (found.state, found.target) == ("stuck", "c3")
    assert found.waits_for == "c3; share 1/3 serving to c4"


def test_changes_of_the_target_are_those_of_the_share_that_changed_most():
    shares = {0: row(switches=3, stall_ms=40), 1: row(switches=1, stall_ms=90)}
    assert [(found.switches, found.stall_ms) for found in [whole(shares, 2)]] == [(3, 90)]
    assert whole({**shares, 2: row(stall_ms=-1)}, 3).stall_ms == -1


def test_who_was_left_last_is_told():
    long_ago = row(left="c3", starved="c4", left_ms=9_000)
    lately = row(left="c5", starved="c6", left_ms=10)
    found = whole({0: long_ago, 1: row(), 2: lately}, 3)
    assert (found.left, found.starved, found.left_ms) == ("c5", "c6", 10)
