from __future__ import annotations

import json
from pathlib import Path

import pytest

from dafka.model import Partition
from dafka.records.envelope import Envelope
from distributor import status as module
from distributor.control.messages import LinkRow, StoppedRow
from distributor.links import Told
from distributor.status import (
    ClusterStatus,
    LatePartition,
    LinkStatus,
    Status,
    StoppedPartition,
    status_of,
)
from distributor.survey import Holding
from topology import load, plan

pytestmark = pytest.mark.net

NOW = 10_000


@pytest.fixture
def four():
    """The plan of four clusters, in which links have a choice of targets."""
    return plan(load(Path(__file__).parents[2] / "config" / "four-clusters.yaml"))


def status(pair):
    with pair.running():
        return status_of(plan(pair.topology), NOW)


def links(found):
    return {(link.source, link.target): link for link in found.links}


def test_equal_clusters_have_no_lag(pair, make_batch):
    copy = Envelope(origin=1, copy_flags=1)
    pair.fill(1, make_batch([b"1", b"2"]))
    pair.fill(2, make_batch([b"1", b"2"], envelope=copy))
    found = status(pair)
    assert found.well
    assert found.clusters == [ClusterStatus("c1", 1, 2, ""), ClusterStatus("c2", 1, 2, "")]
    assert found.links == [LinkStatus("c1", "c2", 1), LinkStatus("c2", "c1", 1)]


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
        found = status_of(plan(pair.topology), NOW)
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
    found = status_of(four, NOW)
    judged = found.links[four.links.index(link)]
    assert (judged.target, judged.state, judged.error) == (used, "serving", "")
    assert (judged.diverged, judged.overtaken, judged.shortened) == (1, 2, 3)
    assert judged.stopped == (StoppedPartition("orders", "AB", "diverged", 7, 8),)
    others = [one for one in found.links if one.source == link.source and one is not judged]
    assert not any(one.state for one in others)


def test_a_partition_that_is_not_copied_is_not_well():
    clusters = [ClusterStatus("c1", 1, 2, "")]
    assert Status(clusters, [LinkStatus("c1", "c2", 1, shortened=1)]).well
    assert not Status(clusters, [LinkStatus("c1", "c2", 1, diverged=1)]).well
    assert not Status(clusters, [LinkStatus("c1", "c2", 1, overtaken=1)]).well


def test_as_json_it_is_plain_values():
    stopped = (StoppedPartition("orders", "AB", "diverged", 7, 8),)
    link = LinkStatus("c1", "c2", 1, state="serving", diverged=1, stopped=stopped)
    found = Status([ClusterStatus("c1", 1, 2, "")], [link])
    assert json.loads(json.dumps(found.as_json())) == {
        "clusters": [{"cluster": "c1", "partitions": 1, "records": 2, "error": ""}],
        "recovery": [],
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
            }
        ],
    }
