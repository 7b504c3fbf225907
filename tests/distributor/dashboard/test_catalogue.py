from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.groups.commit import Commit
from dafka.model import Partition
from dafka.schemas.entries import Schema, SchemaEntry, SchemaKey, Stamp, Version, VersionKey
from distributor.dashboard import catalogue as module
from distributor.dashboard.catalogue import (
    MESSAGES_MAX,
    ROWS_MAX,
    SCHEMA_CHARACTERS_MAX,
    Schemas,
    group,
    newest,
    shortened,
    topic_at,
    topics,
)
from distributor.offsets.explanation import GroupView
from distributor.survey import Holding, survey
from tests.support.batches import unreadable_from
from tests.support.shares import also_shared
from topology.testing import topology_of, tree_of

A, B = Partition("orders", "AB" * 16), Partition("orders", "CD" * 16)
OTHER = Partition("zoo", "AB" * 16)
LONG = '"' + "x" * SCHEMA_CHARACTERS_MAX + '"'
TWO = topology_of(tree_of((1, "c1", "c2")))


def held(cluster, heads, starts=None, store="tcp://127.0.0.1:1", error=""):
    return Holding(cluster, store, heads, error, starts or dict.fromkeys(heads, 0))


def test_a_topic_lacks_what_the_cluster_that_is_furthest_behind_lacks():
    holdings = [held("c1", {A: 9, B: 0, OTHER: 4}), held("c2", {A: 7}), held("c3", {OTHER: 3})]
    assert topics(holdings) == {
        "topics": [
            {"topic": "orders", "partitions": 2, "records": 11, "lacking": 11},
            {"topic": "zoo", "partitions": 1, "records": 5, "lacking": 5},
        ],
        "more": 0,
        "silent": [],
    }


def test_a_cluster_that_does_not_answer_lacks_nothing_that_is_known():
    away = held("c2", {}, store=None, error="is away")
    found = topics([held("c1", {A: 9}), away])
    assert (found["topics"][0]["lacking"], found["silent"]) == (0, ["c2"])
    one, two = topic_at("orders", [held("c1", {A: 9, OTHER: 1}, {A: 4, OTHER: 0}), away])
    assert (one["partitions"], one["records"], one["kept"], one["lacking"]) == (1, 10, 6, 0)
    assert two == {
        "cluster": "c2",
        "error": "is away",
        **dict.fromkeys(("partitions", "records", "kept", "lacking")),
    }


def test_more_topics_than_a_page_shows_are_counted():
    heads = {Partition(f"t{number:05}", "A"): 0 for number in range(ROWS_MAX + 3)}
    found = topics([held("c1", heads)])
    assert (len(found["topics"]), found["more"]) == (ROWS_MAX, 3)


@pytest.mark.net
@also_shared("pair")
def test_the_newest_messages_of_many_partitions_come_first(pair, make_batch):
    batches = [make_batch([b"%d" % n for n in range(50)], timestamp_ms=5)]
    batches += [make_batch([b"small"], sequence=50, timestamp_ms=7)]
    batches += [make_batch([b"newest"], partition=B, timestamp_ms=9)]
    pair.fill(1, *batches)
    with pair.running():
        holding = survey(pair.topology)[0]
        found = newest(pair.topology.clusters[0], holding, "orders", 1)
    told = found["messages"]
    assert [row["value"] for row in told] == [
        *("newest", "small"),
        *(str(n) for n in range(49, 49 - MESSAGES_MAX + 2, -1)),
    ]
    assert told[0] == {
        "address": B.address,
        "sequence": 0,
        "timestamp_ms": 9,
        "flags": "0000",
        "key": "key",
        "value": "newest",
    }
    assert (found["error"], found["asked"], found["partitions"]) == ("", 2, 2)


@pytest.mark.net
def test_large_batches_do_not_hide_the_newest_message(pair, make_batch):
    large = [make_batch([b"x" * 300_000], sequence=number) for number in range(12)]
    pair.fill(1, *large[:-1], make_batch([b"newest"], sequence=11))
    with pair.running():
        holding = survey(pair.topology)[0]
        found = newest(pair.topology.clusters[0], holding, "orders", 1)
    assert found["messages"][0]["value"] == "newest"


@pytest.mark.net
def test_of_many_partitions_some_are_asked_and_that_is_said(pair, make_batch):
    places = [Partition("orders", f"{number:032X}") for number in range(MESSAGES_MAX + 5)]
    pair.fill(1, *(make_batch([b"x"], partition=place) for place in places))
    with pair.running():
        holding = survey(pair.topology)[0]
        found = newest(pair.topology.clusters[0], holding, "orders", 1)
    assert (found["asked"], found["partitions"]) == (MESSAGES_MAX, MESSAGES_MAX + 5)
    assert len(found["messages"]) == MESSAGES_MAX


@pytest.mark.net
def test_a_message_that_nobody_can_read_is_an_error_that_is_told(pair, make_batch):
    pair.fill(1, unreadable_from(make_batch([b"a", b"b", b"c"]), 1))
    with pair.running():
        holding = survey(pair.topology)[0]
        found = newest(pair.topology.clusters[0], holding, "orders", 1)
    assert found["error"]
    assert found["messages"] == []


def test_messages_of_a_cluster_that_does_not_answer_are_not_asked_for():
    away = held("c2", {}, store=None, error="is away")
    found = newest(TWO.clusters[1], away, "orders", 1)
    assert (found["error"], found["messages"]) == ("is away", [])


def test_a_group_is_as_late_as_its_positions(monkeypatch):
    commits = {
        A: Commit(4, 1, 5),
        B: Commit(None, 1, 5),
        Partition("__kafka_offsets", "orders/3"): Commit(70, 1, 5),
        Partition("__kafka_reached", "orders/3"): Commit(70, 1, 5),
    }
    views = [
        GroupView("c1", 1, commits, {A: 10, B: 5}, live=True),
        GroupView("c2", 2, error="is away"),
    ]
    monkeypatch.setattr(module, "survey_group", lambda *_: views)
    found = group(TWO, "billing")
    assert found["clusters"] == [
        {"cluster": "c1", "error": "", "live": True, "partitions": 2, "lag": 6},
        {"cluster": "c2", "error": "is away", "live": None, "partitions": None, "lag": None},
    ]
    kafka, ours = found["positions"]
    assert (kafka["topic"], kafka["address"], kafka["end"], kafka["lag"]) == (
        *("orders", "orders/3"),
        *(None, None),
    )
    assert (ours["position"], ours["end"], ours["lag"]) == (4, 10, 6)
    assert found["more"] == 0


def test_more_positions_than_a_page_shows_are_counted_and_their_lag_is(monkeypatch):
    places = [Partition("orders", f"{number:032X}") for number in range(ROWS_MAX + 3)]
    commits = dict.fromkeys(places, Commit(1, 1, 5))
    view = GroupView("c1", 1, commits, dict.fromkeys(places, 2))
    monkeypatch.setattr(module, "survey_group", lambda *_: [view])
    found = group(TWO, "billing")
    assert (len(found["positions"]), found["more"]) == (ROWS_MAX, 3)
    assert found["clusters"][0]["lag"] == ROWS_MAX + 3


def with_registry():
    """Two clusters, of which the second spells subjects in its own way and has a registry."""
    one, two = TWO.clusters
    spelled = replace(two, registry="http://127.0.0.1:1", subject_format="eu.{topic}")
    return replace(TWO, clusters=(one, spelled))


def entries(subject):
    stamp = Stamp(1, 1)
    yield SchemaEntry(SchemaKey(7), stamp, Schema("AVRO", '"string"'))
    yield SchemaEntry(SchemaKey(8), stamp, Schema("AVRO", LONG))
    for number, version in ((1, Version(7)), (2, Version(8)), (3, Version(7, deleted=True))):
        yield SchemaEntry(VersionKey(subject, number), stamp, version)


def test_the_newest_schema_that_is_not_deleted_is_shown_under_each_clusters_name():
    schemas = Schemas(with_registry())
    (site,) = schemas._sites
    for entry in entries("eu.orders-value"):
        site.state.apply(entry)
    site.read = lambda: True
    (row,) = schemas.of_topic("orders")
    assert row["text"] == shortened(LONG) != LONG
    assert row["text"].endswith(f"… ({len(LONG):,} characters)")
    del row["text"]
    assert row == {
        "cluster": "c2",
        "error": "",
        "subject": "eu.orders-value",
        "version": 2,
        "id": 8,
        "language": "AVRO",
    }
    assert schemas.of_topic("zoo") == []


def test_a_registry_that_cannot_be_read_says_why():
    schemas = Schemas(with_registry())
    (row,) = schemas.of_topic("orders")
    assert row["cluster"] == "c2"
    assert row["error"]
    schemas.close()
