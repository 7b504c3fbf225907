from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from dafka.cluster import Cluster
from dafka.errors import QueryError, RefusedError
from dafka.gateway.broker import Topic
from dafka.gateway.catalog import CATALOG, TopicState, encoded_state
from dafka.model import Partition
from dafka.process.clock import Clock
from dafka.query.client import StoreClient
from dafka.spark import topic_sinks
from dafka.spark.options import sink_options
from dafka.spark.topic_sinks import KEPT_MS, group_for, partitions_of
from dafka.transport.access import Access, Rights
from dafka.transport.keys import Credentials, new_keys
from tests.support.sink_runs import committed

pytestmark = [pytest.mark.slow, pytest.mark.net]


@pytest.fixture(autouse=True)
def knows_nothing(monkeypatch):
    """Each test is a process that knows nothing yet."""
    monkeypatch.setattr(topic_sinks, "_known", {})


@pytest.fixture
def now():
    """What time it is."""
    return [1_000]


@pytest.fixture
def clock(now):
    return Clock(now_ms=lambda: now[0], wall_ms=lambda: 0)


@pytest.fixture
def options(cluster):
    return sink_options({**cluster.options, "topic": "out"}, stream=True)


def test_what_is_said_counts_and_nobody_is_asked():
    given = {"servers": "tcp://127.0.0.1:9", "towers": "tcp://127.0.0.1:9", "partitions": "7"}
    assert partitions_of(sink_options(given, stream=True), "out") == 7


def test_a_topic_that_nobody_knows_has_as_many_as_a_gateway_would_give_it(options):
    assert partitions_of(options, "out") == 1


def test_a_topic_of_kafka_clients_has_as_many_as_they_see(serve, make_batch):
    topics = [Topic(name, count, uuid4(), {}) for name, count in (("out", 12), ("x", 3))]
    values = [encoded_state(TopicState(topic)) for topic in topics]
    store = serve(make_batch(values, partition=Partition(CATALOG, "AB" * 16)))
    given = {"servers": store.endpoint, "towers": "tcp://127.0.0.1:9"}
    options = sink_options(given, stream=True)
    assert [partitions_of(options, name) for name in ("out", "x", "y")] == [12, 3, 1]


def test_what_was_written_first_counts_from_then_on(options, clock, now, monkeypatch):
    assert partitions_of(options, "out", clock) == 1, "asked again the next time"
    committed(replace(options, partitions=3), [(None, b"k", b"v")])
    assert partitions_of(options, "out", clock) == 3
    with monkeypatch.context() as patch:
        patch.setattr(topic_sinks, "ClusterClient", None)
        now[0] += KEPT_MS - 1
        assert partitions_of(options, "out", clock) == 3
        now[0] += 1
        with pytest.raises(TypeError):
            partitions_of(options, "out", clock)
    assert partitions_of(options, "out", clock) == 3


def test_a_key_that_may_not_read_what_kafka_clients_see(serve, monkeypatch):
    store = serve()
    options = sink_options({"servers": store.endpoint, "towers": "tcp://127.0.0.1:9"}, stream=True)

    def refused(*_):
        raise RefusedError("not permitted")

    monkeypatch.setattr(StoreClient, "ranges", refused)
    assert partitions_of(options, "out") == 1


def test_where_no_store_answers_it_is_not_known(silent):
    options = sink_options({"servers": silent, "towers": silent}, stream=True)
    with pytest.raises(QueryError):
        partitions_of(options, "out")


def test_each_key_has_sinks_of_its_own():
    clusters = [Cluster()]
    for _ in range(2):
        public, secret = new_keys()
        keys = Credentials(Access(new_keys()[0], {public: Rights()}), public, secret)
        clusters.append(Cluster(credentials=keys))
    assert len({group_for(one, "out") for one in clusters}) == 3
    assert all(group_for(one, "out") == group_for(one, "out") for one in clusters)
