from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.model import Partition
from distributor.survey import Holding, gives_sign_of_life, survey

pytestmark = pytest.mark.net

P = Partition("orders", "AB" * 16)


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


def test_records_are_counted_from_heads():
    heads = {Partition("a", "A"): 0, Partition("b", "A"): 9}
    assert Holding("c", None, heads).records == 11


def test_a_cluster_whose_stores_are_all_silent_gives_no_sign_of_life(pair, monkeypatch):
    monkeypatch.setattr("distributor.survey.SIGN_TIMEOUT_MS", 200)
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
