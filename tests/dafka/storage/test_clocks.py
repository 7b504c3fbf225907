"""What time it is by the clocks that records show."""

from __future__ import annotations

import pytest

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import Envelope
from dafka.storage.clocks import APART_MS_MAX, SeenClocks

WALL_MS, NOW_MS, HOUR_MS = 10**12, 5_000, 3_600_000


def published(time_ms, origin=0, *, bare=False):
    builder = BatchBuilder(1_000, append_time=bare)
    builder.append(time_ms, None, b"v", ())
    content = enclosed(builder.build(), 0, Envelope(origin=origin))
    return Batch(Partition("orders", "A"), 0, 1, content)


def clocks_of(**ahead_ms):
    """Clocks that have seen a record of each cluster, whose clock is ahead by so much."""
    clocks = SeenClocks()
    batches = [published(WALL_MS + ms, int(name[1:])) for name, ms in ahead_ms.items()]
    clocks.seen(batches, NOW_MS)
    return clocks


def time_of(clocks, wall_ms=WALL_MS, later_ms=0):
    return clocks.time_ms(wall_ms + later_ms, NOW_MS + later_ms) - WALL_MS - later_ms


def test_the_time_that_this_machine_gave_a_bare_value_confirms_no_clock():
    clocks = clocks_of(c0=-HOUR_MS)
    clocks.seen([published(WALL_MS, bare=True)], NOW_MS)
    assert time_of(clocks) == -HOUR_MS
    clocks.seen([published(WALL_MS, 1, bare=True)], NOW_MS)  # a store of another cluster
    assert clocks.skew_ms(WALL_MS + 5, NOW_MS) == 5


def test_without_records_it_is_this_machines():
    assert SeenClocks().time_ms(WALL_MS, NOW_MS) == WALL_MS
    assert SeenClocks().skew_ms(WALL_MS, NOW_MS) == 0


@pytest.mark.parametrize(
    ("clocks", "time_ms"),
    [
        (clocks_of(c0=0, c1=-HOUR_MS), -HOUR_MS),  # of two nobody knows which is right
        (clocks_of(c0=0, c1=-HOUR_MS, c2=-HOUR_MS), -HOUR_MS),
        (clocks_of(c0=0, c1=-HOUR_MS, c2=0), 0),
        (clocks_of(c1=HOUR_MS, c2=HOUR_MS), 0),  # never later than this machine's
        (clocks_of(c0=HOUR_MS), 0),
        (clocks_of(c0=-HOUR_MS), -HOUR_MS),
        (clocks_of(c1=-40 * HOUR_MS), -APART_MS_MAX),
    ],
)
def test_it_is_the_one_in_the_middle(clocks, time_ms):
    assert time_of(clocks) == time_ms


def test_a_machine_that_is_ahead_is_found_out_though_its_own_records_agree():
    clocks = SeenClocks()
    clocks.seen(
        [published(WALL_MS + HOUR_MS), published(WALL_MS, 2), published(WALL_MS, 3)], NOW_MS
    )
    assert clocks.time_ms(WALL_MS + HOUR_MS, NOW_MS) == WALL_MS
    assert clocks.skew_ms(WALL_MS + HOUR_MS, NOW_MS) == HOUR_MS
    assert clocks.skew_ms(WALL_MS - HOUR_MS, NOW_MS) == -HOUR_MS


def test_time_goes_on_while_nothing_comes():
    assert time_of(clocks_of(c0=0, c1=-HOUR_MS), later_ms=50 * HOUR_MS) == -HOUR_MS


def test_old_records_do_not_set_a_clock_back():
    clocks = clocks_of(c1=0, c2=0)
    clocks.seen([published(WALL_MS - 9 * HOUR_MS, 1), published(WALL_MS - HOUR_MS, 2)], NOW_MS + 7)
    assert time_of(clocks) == 0


def test_what_is_no_batch_shows_nothing():
    clocks = SeenClocks()
    clocks.seen([Batch(Partition("orders", "A"), 0, 1, b"raw")], NOW_MS)
    assert time_of(clocks) == 0


def test_where_there_are_other_clusters_one_clock_is_not_enough():
    clocks = SeenClocks(1)
    assert time_of(clocks) == -APART_MS_MAX
    clocks.seen([published(WALL_MS)], NOW_MS)
    assert time_of(clocks) == -APART_MS_MAX
    assert clocks.skew_ms(WALL_MS, NOW_MS) == 0
    clocks.seen([published(WALL_MS - HOUR_MS, 2)], NOW_MS)
    assert time_of(clocks) == -HOUR_MS


def test_what_comes_back_from_elsewhere_shows_this_clusters_own_clock():
    clocks = SeenClocks(1)
    clocks.seen([published(WALL_MS - HOUR_MS, 1)], NOW_MS)
    assert time_of(clocks) == -APART_MS_MAX
    clocks.seen([published(WALL_MS, 2)], NOW_MS)
    assert time_of(clocks) == -HOUR_MS
    clocks.seen([published(WALL_MS, 1, bare=True)], NOW_MS)  # whose clock gave it that time?
    assert time_of(clocks) == -HOUR_MS
