from __future__ import annotations

from contextlib import closing

import pytest

from dafka.model import Partition
from dafka.storage.lmdb_log import LmdbLog
from distributor.operations import arrival
from distributor.operations.arrival import lacked, lacks, left_on_disks
from distributor.survey import Holding
from tests.support.shares import also_shared
from topology.model import HEARTBEATS

ORDERS = Partition("orders", "AB" * 16)


def test_who_lacks_something_that_is_due_is_named(pair):
    there = Holding("c1", "tcp://127.0.0.1:1", {ORDERS: 4})
    assert lacks(pair.topology, {ORDERS: 4}, [there]) == ""
    assert lacks(pair.topology, {ORDERS: 5}, [there]) == "c1, which lacks records of 1 partition"
    assert lacks(pair.topology, {ORDERS: 4}, [Holding("c2", None, {})]) == "c2 to answer"


@pytest.mark.net
@also_shared("pair")
def test_what_was_there_until_retention_took_it_is_not_lacking(pair, make_batch):
    """No cluster lists it any more; who is asked for it says where it ended."""
    pair.fill(1, make_batch([b"1", b"2"]))
    pair.trim(1, {ORDERS: 2})
    pair.forget(1, [ORDERS])
    with pair.running():
        assert lacked(pair.topology, {ORDERS: 1}, "c1") == ""
        assert lacked(pair.topology, {ORDERS: 2}, "c1") == "c1, which lacks records of 1 partition"
        assert lacked(pair.topology, {ORDERS: 1}) == "c2, which lacks records of 1 partition"


@pytest.mark.net
@also_shared("pair")
def test_what_a_cluster_says_of_itself_is_looked_for_there_and_heartbeats_are_not(pair, make_batch):
    """Whoever is taken out has commits and schemas that no link brings back."""
    commits, beats = (Partition(topic, "AB" * 16) for topic in ("__consumer_offsets", HEARTBEATS))
    due = {commits: 1, beats: 7}
    waits_for = "c1, which lacks records of 1 partition"
    with pair.running():
        assert lacked(pair.topology, due, "c1") == waits_for
        assert lacked(pair.topology, due) == "", "with a whole cluster they are needed no more"
    pair.fill(1, make_batch([b"1", b"2"], 0, commits))
    pair.trim(1, {commits: 2})
    pair.forget(1, [commits])
    with pair.running():
        assert lacked(pair.topology, due, "c1") == ""
        assert lacked(pair.topology, {commits: 2}, "c1") == waits_for


@pytest.mark.net
def test_who_does_not_say_whether_it_has_it_is_waited_for(pair, monkeypatch):
    commits = Partition("__consumer_offsets", "AB" * 16)
    monkeypatch.setattr(arrival, "survey", lambda topology, due=(): [])
    store = pair.topology.clusters[0].stores[0].query
    assert lacked(pair.topology, {commits: 1}, "c1").startswith(f"{store} to answer: ")


def test_what_only_a_stopped_store_has_is_said_and_where(make_batch, tmp_path):
    due = []

    def asked(heads):
        due.append(heads)
        return "c1, which lacks it" if len(due) == 1 else ""

    places = [tmp_path / "none", tmp_path / "store"]
    assert left_on_disks(places[:1], "c1", asked, "start it") == ""
    with closing(LmdbLog(places[1])) as log:
        log.append([make_batch([b"1"], 0)])
        assert left_on_disks(places, "c1", asked, "start it").startswith(
            "the store of c1 to end: cannot open log at"
        )
    told = left_on_disks(places, "c1", asked, "start it")
    assert told.startswith("c1, which lacks it: c1 has them in")
    assert told.endswith(f"{places[1]}, which is stopped; start it")
    assert left_on_disks(places, "c1", asked, "start it") == ""
    assert list(due[0].values()) == [0]
