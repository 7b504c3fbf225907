from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace

import pytest

from dafka.model import Partition
from dafka.records.envelope import Envelope
from distributor.control.agent import ControlServer
from distributor.control.protocol import LinkRow, StoppedRow
from distributor.local.processes import control_endpoints
from distributor.operations import status as module
from distributor.operations.recovery import RecoveryPoint
from distributor.operations.status import (
    ClusterStatus,
    LatePartition,
    LinkStatus,
    Status,
    StoppedPartition,
    Told,
    ask_links,
    status_of,
)
from distributor.survey import Holding
from tests.support.shares import also_shared
from topology import load, plan
from topology.model import Links
from topology.output import print_json

pytestmark = pytest.mark.net


@pytest.fixture
def controlled(make_pair):
    """The plan of two clusters whose distributors take commands."""
    return plan(make_pair("control: {}").topology)


@contextmanager
def serving(the_plan, index, *rows):
    """A distributor that says this of its links."""
    links = [SimpleNamespace(targets=(row.target,), row=lambda row=row: row) for row in rows]
    server = ControlServer(control_endpoints(the_plan)[index][1], links)
    yield
    server.close()


def row(source="c1", target="c2", branch=1, **facts):
    return LinkRow(source, 1, branch, target, "serving", "", "", 0, 0, **facts)


def test_every_link_of_the_plan_is_given_what_it_says(controlled):
    one, two = row(), row("c2", "c1", 0, diverged=3)
    with serving(controlled, 0, one), serving(controlled, 1, two):
        told = ask_links(controlled)
    assert told.rows == dict(zip(controlled.links, [one, two], strict=True))
    assert told.silent == []


def test_who_says_nothing_is_named(controlled):
    with serving(controlled, 0, row()):
        told = ask_links(controlled)
    assert list(told.rows) == [controlled.links[0]]
    (silent,) = told.silent
    assert silent.startswith("c2 level 1: distributor at ipc://")


def test_who_runs_another_plan_is_named(controlled):
    with serving(controlled, 0, row(branch=0)), serving(controlled, 1):
        told = ask_links(controlled)
    assert told.rows == {}
    assert [line.partition(":")[0] for line in told.silent] == ["c1 level 1", "c2 level 1"]
    assert all("restart it" in line for line in told.silent)


def test_a_link_in_shares_is_what_all_of_them_say(controlled):
    topology = replace(controlled.topology, links=Links(shares=2))
    the_plan = plan(topology)
    with serving(the_plan, 0, row(diverged=1)), serving(the_plan, 1, row(diverged=2)):
        told = ask_links(the_plan)
        assert told.rows == {the_plan.links[0]: row(diverged=3)}
    assert [line.partition(":")[0] for line in told.silent] == [
        "c2 level 1 share 0/2",
        "c2 level 1 share 1/2",
    ]


def test_without_control_sockets_nobody_is_asked(pair):
    told = ask_links(plan(pair.topology))
    assert (told.rows, told.silent) == ({}, [])


NOW = 10_000


@pytest.fixture
def four():
    """The plan of four clusters, in which links have a choice of targets."""
    return plan(load(Path(__file__).parents[3] / "config" / "four-clusters.yaml"))


def status(pair):
    with pair.running():
        return status_of(plan(pair.topology), lambda: NOW)


def links(found):
    return {(link.source, link.target): link for link in found.links}


def test_what_no_replica_does_is_told_and_is_not_well(pair, monkeypatch):
    told = Told(idle=["c1: no replica runs its schema distributor"])
    monkeypatch.setattr(module, "ask_links", lambda _plan: told)
    found = status(pair)
    assert (found.idle, found.well) == (told.idle, False)


def test_clusters_links_and_heartbeats_are_asked_at_the_same_time(pair, monkeypatch):
    """Each that is away takes seconds to be given up: an operator waits for that once."""
    meeting = Barrier(3)

    def meets(answer):
        def ask(*_):
            meeting.wait(60)
            return answer

        return ask

    gone = [Holding(one.name, None, {}, error="no answer") for one in pair.topology.clusters]
    monkeypatch.setattr(module, "survey", meets(gone))
    monkeypatch.setattr(module, "ask_links", meets(Told()))
    monkeypatch.setattr(module, "recovery_points", meets([]))
    found = status_of(plan(pair.topology))
    assert [one.error for one in found.clusters] == ["no answer", "no answer"]


@also_shared("pair")
def test_equal_clusters_have_no_lag(pair, make_batch):
    copy = Envelope(origin=1, copy_flags=1)
    pair.fill(1, make_batch([b"1", b"2"]))
    pair.fill(2, make_batch([b"1", b"2"], envelope=copy))
    found = status(pair)
    assert found.well
    assert found.clusters == [ClusterStatus("c1", 1, 2, ""), ClusterStatus("c2", 1, 2, "")]
    assert found.links == [LinkStatus("c1", "c2", 1), LinkStatus("c2", "c1", 1)]


@also_shared("pair")
def test_lag_is_what_the_target_lacks_and_as_old_as_the_first_of_it(pair, make_batch):
    pair.fill(1, make_batch([b"1"], timestamp_ms=0))
    pair.fill(1, make_batch([b"2", b"3"], 1, timestamp_ms=4_000))
    pair.fill(1, make_batch([b"4"], 3, timestamp_ms=9_000))
    other = Partition("other", "CD" * 16)
    pair.fill(1, make_batch([b"1"], partition=other, timestamp_ms=8_000))
    pair.fill(2, make_batch([b"1", b"2"], envelope=Envelope(1, 1)))
    by_ends = links(status(pair))
    late = (LatePartition("orders", "AB" * 16, 2, 6.0), LatePartition("other", "CD" * 16, 1, 2.0))
    assert by_ends["c1", "c2"] == LinkStatus("c1", "c2", 1, 2, 3, 6.0, late=late)
    assert by_ends["c2", "c1"] == LinkStatus("c2", "c1", 1)


def test_what_retention_has_taken_at_the_source_is_no_lag(pair, make_batch):
    pair.fill(1, make_batch([b"1"]), make_batch([b"2", b"3"], 1), make_batch([b"4"], 3))
    pair.fill(2, make_batch([b"1"], envelope=Envelope(1, 1)))
    pair.trim(1, {Partition("orders", "AB" * 16): 3})
    assert links(status(pair))["c1", "c2"].lag_records == 1


def test_only_the_link_that_is_responsible_lags(pair, make_batch):
    # It came to c1 across level 1 already: c2 lacks it, and no link of level 1 will bring it.
    pair.fill(1, make_batch([b"1", b"2"], envelope=Envelope(origin=2, copy_flags=1)))
    by_ends = links(status(pair))
    assert by_ends["c1", "c2"].lag_records == 0
    assert by_ends["c1", "c2"].partitions == 0


def test_a_record_that_crossed_another_level_is_still_due(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"], envelope=Envelope(origin=3, copy_flags=0b100)))
    assert links(status(pair))["c1", "c2"].lag_records == 2


def test_a_cluster_that_does_not_answer_is_named_at_both_its_links(pair):
    with pair.running(1):
        found = status_of(plan(pair.topology), lambda: NOW)
    assert not found.well
    assert [bool(cluster.error) for cluster in found.clusters] == [False, True]
    assert all(link.error.startswith("c2: ") for link in found.links)
    assert (found.clusters[0].records, found.clusters[1].records) == (0, None)
    assert found.clusters[1].partitions is None
    for link in found.links:
        assert (link.partitions, link.lag_records, link.lag_seconds) == (None, None, None)


STOPPED = StoppedRow(b"orders", b"AB", "diverged", 7, 8)


def test_what_links_say_of_themselves_is_shown_and_links_are_judged_by_the_target_they_serve(
    four, monkeypatch
):
    link = next(one for one in four.links if len(one.targets) > 1)
    preferred, used = link.targets[:2]
    holdings = [
        Holding(cluster.name, "tcp://127.0.0.1:1", {}) for cluster in four.topology.clusters
    ]
    dead = Holding(preferred, None, {}, "is away")
    monkeypatch.setattr(
        module, "survey", lambda _: [dead if one.cluster == preferred else one for one in holdings]
    )
    facts = {"diverged": 1, "overtaken": 2, "shortened": 3, "stopped": (STOPPED,)}
    row = LinkRow(link.source, link.level, link.branch, used, "serving", "", "", 1, 9, **facts)
    monkeypatch.setattr(module, "ask_links", lambda _: Told({link: row}))
    found = status_of(four, lambda: NOW)
    judged = found.links[four.links.index(link)]
    assert (judged.target, judged.state, judged.error) == (used, "serving", "")
    assert (judged.diverged, judged.overtaken, judged.shortened) == (1, 2, 3)
    assert judged.stopped == (StoppedPartition("orders", "AB", "diverged", 7, 8),)
    others = [one for one in found.links if one is not judged]
    assert {one.state for one in others} == {"no answer"}
    assert not found.well
    no_ports = plan(replace(four.topology, control=None))
    monkeypatch.setattr(module, "ask_links", lambda _: Told())
    assert {one.state for one in status_of(no_ports, lambda: NOW).links} == {""}


def test_never_and_all_well_do_not_stand_side_by_side():
    clusters = [ClusterStatus(name, 1, 2, "") for name in ("c1", "c2")]
    never, heard = RecoveryPoint("c1", "c2", None), RecoveryPoint("c1", "c1", 0.4)
    found = Status(clusters, [], [heard, never])
    assert (found.unheard, found.well) == ([never], False)
    assert Status(clusters, [], [heard]).well
    away = [clusters[0], ClusterStatus("c2", None, None, "away")]
    assert Status(away, [], [never]).unheard == [], "that is not known"


def test_a_partition_that_is_not_copied_is_not_well():
    clusters = [ClusterStatus("c1", 1, 2, "")]
    assert Status(clusters, [LinkStatus("c1", "c2", 1, shortened=1)]).well
    assert not Status(clusters, [LinkStatus("c1", "c2", 1, diverged=1)]).well
    assert not Status(clusters, [LinkStatus("c1", "c2", 1, overtaken=1)]).well


@pytest.mark.parametrize("state", ["no answer", "silent", "stuck", "serving", "draining", ""])
def test_a_link_that_copies_nothing_unasked_is_not_well(state):
    clusters = [ClusterStatus("c1", 1, 2, "")]
    copies = state in ("serving", "draining", "")
    assert Status(clusters, [LinkStatus("c1", "c2", 1, state=state)]).well == copies


def test_as_json_it_is_plain_values(capsys):
    stopped = (StoppedPartition("orders", "AB", "diverged", 7, 8),)
    link = LinkStatus("c1", "c2", 1, state="serving", diverged=1, stopped=stopped)
    found = Status([ClusterStatus("c1", 1, 2, "")], [link])
    print_json(found)
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "clusters": [{"cluster": "c1", "partitions": 1, "records": 2, "error": "", "moving": []}],
        "recovery": [],
        "idle": [],
        "links": [
            {
                "source": "c1",
                "target": "c2",
                "level": 1,
                "partitions": 0,
                "lag_records": 0,
                "lag_seconds": 0.0,
                "error": "",
                "state": "serving",
                "diverged": 1,
                "overtaken": 0,
                "refused": 0,
                "shortened": 0,
                "stopped": [
                    {
                        "topic": "orders",
                        "address": "AB",
                        "reason": "diverged",
                        "first": 7,
                        "end": 8,
                    }
                ],
                "late": [],
                "topics": "",
                "waits_for": "",
                "left": "",
                "starved": "",
                "left_seconds": 0.0,
            }
        ],
    }
