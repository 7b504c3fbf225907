from __future__ import annotations

from dataclasses import replace
from threading import Barrier

import pytest

from dafka.cluster import Cluster
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from dafka.node.committer import Committer
from dafka.query.client import StoreClient
from dafka.records.envelope import Envelope
from distributor.survey import (
    Holding,
    at_once,
    furthest,
    gives_sign_of_life,
    lacking,
    look_up,
    record_at,
    survey,
    survey_group,
)
from tests.support.query_port import unanswered
from tests.support.shares import also_shared

pytestmark = pytest.mark.net

P = Partition("orders", "AB" * 16)
OTHER = Partition("other", "CD" * 16)


def test_all_are_asked_at_once_and_answer_in_order():
    together = Barrier(3, timeout=120)
    assert at_once(lambda number: (together.wait(), number)[1], [3, 1, 2]) == [3, 1, 2]
    assert at_once(str, []) == []


def test_the_furthest_heads_and_who_lacks_how_much_of_them():
    due = furthest([{P: 4, OTHER: 0}, {P: 2}, {}])
    assert due == {P: 4, OTHER: 0}
    assert lacking(due, {P: 2}) == {P: 2, OTHER: 1}
    assert lacking(due, {P: 5, OTHER: 0}) == {}


def test_a_record_of_a_store_is_read_by_its_sequence(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2", b"3"]))
    with pair.running(1), StoreClient(pair.topology.clusters[0].stores[0].query) as client:
        assert record_at(client, P, 1).value == b"2"
        assert record_at(client, P, 3) is None
        assert record_at(client, OTHER, 0) is None


@also_shared("pair")
def test_every_cluster_says_what_it_holds(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    other = Partition("other", "CD" * 16)
    pair.fill(2, make_batch([b"1"], partition=other))
    with pair.running():
        first, second = survey(pair.topology)
    assert first.cluster == "c1"
    assert first.heads == {P: 2}
    assert (first.records, first.error) == (3, "")
    assert (second.cluster, second.heads) == ("c2", {other: 0})


def test_a_cluster_that_does_not_answer_is_reported(pair):
    with pair.running(1):
        first, second = survey(pair.topology, timeout_ms=100)
    assert first.store == pair.topology.clusters[0].stores[0].query
    assert second.store is None
    assert second.heads == {}
    assert second.records == 0
    assert pair.topology.clusters[1].stores[0].query in second.error


def test_topics_that_are_not_copied_are_left_out(make_pair, make_batch):
    pair = make_pair('topics: {include: ["a*"], exclude: ["ab*"]}')
    for topic in ("a", "ab", "b"):
        pair.fill(1, make_batch([b"x"], partition=Partition(topic, "AB" * 16)))
    with pair.running():
        first, _ = survey(pair.topology)
    assert {partition.topic for partition in first.heads} == {"a"}


def test_where_each_partition_begins_is_told(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    pair.trim(1, {P: 2})
    with pair.running():
        first, second = survey(pair.topology)
    assert (first.heads, first.starts) == ({P: 2}, {P: 2})
    assert second.starts == {}


@also_shared("pair")
def test_a_cluster_that_has_forgotten_a_partition_still_says_where_it_ended(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    pair.fill(2, make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    pair.trim(2, {P: 3})
    pair.forget(2, [P])
    with pair.running():
        first, second = survey(pair.topology)
    assert (first.heads, first.starts) == ({P: 2}, {P: 0})
    assert (second.heads, second.starts) == ({P: 2}, {P: 3})


def test_records_are_counted_from_heads():
    heads = {Partition("a", "A"): 0, Partition("b", "A"): 9}
    assert Holding("c", None, heads).records == 11


def test_a_cluster_whose_stores_are_all_silent_gives_no_sign_of_life(pair, monkeypatch):
    unanswered(monkeypatch, pair.queries[1])
    with pair.running(1):
        assert [gives_sign_of_life(cluster) for cluster in pair.topology.clusters] == [True, False]


def test_topics_are_looked_for_only_where_they_are_placed(make_pair, make_batch):
    pair = make_pair('placement: [{topics: "eu-*", clusters: [c1]}]')
    for number in (1, 2):
        pair.fill(number, make_batch([b"x"], partition=Partition("eu-a", "AB" * 16)))
    with pair.running():
        first, second = survey(pair.topology)
    assert (len(first.heads), len(second.heads)) == (1, 0)


def test_what_is_published_where_nothing_is_sent_from_is_nobody_elses(pair, make_batch):
    other = Partition("other", "CD" * 16)
    pair.fill(1, make_batch([b"1", b"2"]))
    pair.fill(2, make_batch([b"1"]), make_batch([b"1"], partition=other))
    mute = tuple(replace(one, receive_only=one.name == "c2") for one in pair.topology.clusters)
    with pair.running():
        _, second = survey(replace(pair.topology, clusters=mute))
    assert second.heads == {P: 0}


ORDERS = Partition("orders", "AB" * 16)


@also_shared("pair")
def test_every_cluster_tells_its_copy(pair, make_batch):
    pair.fill(1, make_batch([b"a", b"b"]))
    pair.fill(2, make_batch([b"a", b"b"], envelope=Envelope(origin=1, copy_flags=1, epoch=0)))
    with pair.running():
        one, two = look_up(pair.topology, ORDERS, 1)
        nowhere = look_up(pair.topology, ORDERS, 2)
    assert (one.cluster, one.record.value, one.record.copy_flags) == ("c1", b"b", 0)
    assert (two.cluster, two.record.value, two.record.copy_flags) == ("c2", b"b", 1)
    assert [(copy.record, copy.error) for copy in nowhere] == [(None, "")] * 2


def test_a_cluster_that_does_not_answer_is_said(pair, make_batch):
    pair.fill(1, make_batch([b"a"]))
    with pair.running(1):
        one, two = look_up(pair.topology, ORDERS, 0)
    assert one.record is not None
    assert two.record is None
    assert "cannot reach" in two.error


KEY = CommitKey("billing", Partition("orders", "PRODUCER"))


def test_what_clusters_know_of_a_group_and_which_do_not_answer(pair, monkeypatch):
    unanswered(monkeypatch, pair.queries[1])
    with pair.running(1):
        committer = Committer(Cluster.declared(pair.topology.clusters[0]))
        committer.write([(KEY, Commit(5, 1, 2))])
        committer.close()
        answers, silent = survey_group(pair.topology, "billing")
    assert answers.commits == {KEY.partition: Commit(5, 1, 2)}
    assert (answers.live, answers.error) == (False, "")
    assert list(answers.ends.values()) == [1]
    assert pair.topology.clusters[1].stores[0].query in silent.error
