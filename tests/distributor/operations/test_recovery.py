from __future__ import annotations

import pytest

from dafka.model import Partition, Record
from distributor.operations.recovery import Recovery, RecoveryPoint, recovery_points
from topology.model import HEARTBEATS

NOW = 10_000


def heartbeat(value, timestamp_ms):
    return Record(HEARTBEATS, "AB" * 16, 0, timestamp_ms, None, value, (), 0, 0)


def test_the_newest_of_each_cluster_counts_in_whatever_order_they_come():
    recovery = Recovery(["c1", "c2"])
    assert recovery.point_ms("c1") == 0
    assert recovery.heard(heartbeat(b"c1", 4_000), NOW) == ("c1", 6_000)
    assert recovery.heard(heartbeat(b"c1", 3_000), NOW) == ("c1", 7_000)
    assert recovery.point_ms("c1") == 4_000
    assert recovery.point_ms("c2") == 0


def test_a_clock_that_is_ahead_makes_no_negative_time():
    assert Recovery(["c1"]).heard(heartbeat(b"c1", NOW + 5), NOW) == ("c1", 0)


def test_a_clock_that_was_ahead_does_not_hide_that_nothing_comes_any_more():
    recovery = Recovery(["c1"])
    recovery.heard(heartbeat(b"c1", NOW + 3_600_000), NOW)
    assert recovery.point_ms("c1") == NOW
    recovery.heard(heartbeat(b"c1", NOW + 1_000), NOW + 1_000)
    assert recovery.point_ms("c1") == NOW + 1_000


@pytest.mark.parametrize("value", [None, b"", b"c3", b"\xff\xff", b"c1\0"])
def test_what_names_no_cluster_is_none(value):
    recovery = Recovery(["c1"])
    assert recovery.heard(heartbeat(value, 1), NOW) is None
    assert recovery.point_ms("c1") == 0


@pytest.mark.net
def test_the_points_of_all_clusters_are_read_off_their_stores(make_pair, make_batch):
    pair = make_pair("heartbeat_ms: 1000")
    old, new = Partition(HEARTBEATS, "AB" * 16), Partition(HEARTBEATS, "CD" * 16)
    pair.fill(1, make_batch([b"c1", b"c1"], partition=old, timestamp_ms=1_000))
    pair.fill(1, make_batch([b"c1"], partition=new, timestamp_ms=9_500))
    pair.fill(2, make_batch([b"c1", b"c1"], partition=old, timestamp_ms=1_000))
    with pair.running():
        found = recovery_points(pair.topology, NOW)
    assert found == [
        RecoveryPoint("c1", "c1", 0.5),
        RecoveryPoint("c2", "c1", None),
        RecoveryPoint("c1", "c2", 9.0),
        RecoveryPoint("c2", "c2", None),
    ]


@pytest.mark.net
def test_a_cluster_that_does_not_answer_has_no_points(make_pair, make_batch):
    pair = make_pair("heartbeat_ms: 1000")
    pair.fill(1, make_batch([b"c1"], partition=Partition(HEARTBEATS, "AB" * 16)))
    with pair.running(1):
        found = recovery_points(pair.topology, NOW)
    assert [point.seconds is None for point in found] == [False, True, True, True]


def test_without_heartbeats_there_are_no_points(make_pair):
    assert recovery_points(make_pair("").topology, NOW) == []
