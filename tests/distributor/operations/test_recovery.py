from __future__ import annotations

from dataclasses import replace
from threading import Barrier, local

import pytest

from dafka.model import Partition, Record
from distributor.operations import recovery as module
from distributor.operations.recovery import Recovery, RecoveryPoint, recovery_points
from topology.model import HEARTBEATS
from topology.testing import topology_of, tree_of

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
        found = recovery_points(pair.topology, lambda: NOW)
    assert found == [
        RecoveryPoint("c1", "c1", 0.5),
        RecoveryPoint("c2", "c1", None),
        RecoveryPoint("c1", "c2", 9.0),
        RecoveryPoint("c2", "c2", None),
    ]


def test_ages_are_told_by_a_clock_that_is_read_when_a_cluster_has_answered(make_pair, monkeypatch):
    now = local()  # clusters are asked at the same time

    def newest(_cluster):
        now.ms = NOW + 5_000  # a store of it does not answer for so long
        yield heartbeat(b"c1", now.ms - 400)
        yield heartbeat(b"c2", now.ms + 3_000)  # a clock that is ahead

    monkeypatch.setattr(module, "_newest", newest)
    found = recovery_points(make_pair("heartbeat_ms: 1000").topology, lambda: now.ms)
    assert [point.seconds for point in found] == [0.4, 0.0] * 2


def test_a_cluster_that_sends_no_heartbeats_has_no_points(monkeypatch):
    monkeypatch.setattr(module, "_newest", lambda _: [])
    two = replace(topology_of(tree_of((1, "c1", "c2"))), heartbeat_ms=1_000)
    mute = tuple(replace(one, receive_only=one.name == "c2") for one in two.clusters)
    assert {one.origin for one in recovery_points(replace(two, clusters=mute), lambda: NOW)} == {
        "c1"
    }
    alone = replace(topology_of("c1"), heartbeat_ms=1_000)
    assert recovery_points(alone, lambda: NOW) == []


@pytest.mark.net
def test_a_cluster_that_does_not_answer_has_no_points(make_pair, make_batch):
    pair = make_pair("heartbeat_ms: 1000")
    pair.fill(1, make_batch([b"c1"], partition=Partition(HEARTBEATS, "AB" * 16)))
    with pair.running(1):
        found = recovery_points(pair.topology, lambda: NOW)
    assert [point.seconds is None for point in found] == [False, True, True, True]


def test_without_heartbeats_there_are_no_points(make_pair):
    assert recovery_points(make_pair("").topology, lambda: NOW) == []


def test_all_clusters_are_asked_at_the_same_time(monkeypatch):
    topology = replace(topology_of(tree_of((1, "c1", "c2"))), heartbeat_ms=1_000)
    meeting = Barrier(2)

    def newest(_cluster):
        meeting.wait(60)
        return []

    monkeypatch.setattr(module, "_newest", newest)
    found = recovery_points(topology, lambda: NOW)
    assert [one.seconds for one in found] == [None] * 4
