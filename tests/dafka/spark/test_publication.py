from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.cluster import Cluster
from dafka.groups.runs import STAGED, Manifest, StagedRows, TopicSink
from dafka.model import ALL_SLOTS, Partition, Slots, range_of, slot_of
from dafka.query.client import StoreClient
from dafka.query.cluster_client import ClusterClient
from dafka.spark.options import sink_options
from dafka.spark.publication import CommitPorts, LostRowsError, Publisher, address_for
from dafka.spark.staging import mirror_of
from dafka.transport.access import Access, Rights, fingerprint
from dafka.transport.keys import Credentials, new_keys
from tests.dafka.query.test_sharing_store import DRAWN, SharingPorts
from tests.dafka.spark.conftest import close_mirrors
from tests.support.batches import make_batch
from tests.support.sink_runs import staged


@given(st.text("0123456789abcdef", max_size=8), st.integers(1, 4_096), st.data())
def test_a_client_of_kafka_finds_a_partition_under_its_number(seed, partitions, data):
    number = data.draw(st.integers(0, partitions - 1))
    address = address_for(Cluster(), seed, number, partitions)
    assert range_of(slot_of(address), partitions) == number
    assert address == address_for(Cluster(), seed, number, partitions)
    assert len(address) == 32
    assert address == address.upper()


def test_names_follow_from_seed_number_and_how_many_there_are():
    found = {
        address_for(Cluster(), seed, number, partitions)
        for seed in ("a", "b")
        for partitions in (1, 4, 7)
        for number in range(partitions)
    }
    assert len(found) == 2 * (1 + 4 + 7)


def test_names_are_of_the_jobs_key():
    public, secret = new_keys()
    keys = Credentials(Access(new_keys()[0], {public: Rights()}), public, secret)
    name = address_for(Cluster(credentials=keys), "5eed", 3, 8)
    assert name[:16] == fingerprint(public)
    assert range_of(slot_of(name), 8) == 3


@pytest.fixture
def options(cluster):
    given = {**cluster.options, "topic": "out", "partitions": "2"}
    return replace(sink_options(given, stream=True), batch_bytes=1, silence_s=5.0)


@pytest.fixture
def publisher(options):
    cluster = options.cluster.open()
    with ClusterClient(cluster) as stores:
        yield Publisher(options, cluster, stores, CommitPorts(mirror_of))


KEYS = [b"%d" % number for number in range(6)]


@pytest.fixture
def sink(options):
    """Where a run of six rows is placed behind one of three in each partition."""
    segments = staged(options, [(None, key, key) for key in KEYS])
    before = TopicSink(1, "5eed", (0, 0))
    return before.after("out", Manifest("query q", 0, True, tuple(segments)))


class SendsError(Exception):
    """What lacks is sent."""


def sends(_options):
    raise SendsError


@pytest.mark.parametrize("moved", [False, True])
def test_a_store_that_gave_slots_up_does_not_count_for_another_that_keeps_them(moved):
    """What stores keep is remembered; one that refuses has not what the others have."""
    ports = SharingPorts(**dict.fromkeys("acb", ALL_SLOTS))
    cluster = Cluster(stores=tuple("acb"))
    address = address_for(cluster, "5eed", 0, 1)
    half = Slots.of([range(slot_of(address), slot_of(address) + 1)])
    rows = make_batch([b"1", b"2", b"3"], 0, Partition("out", address))
    for name in "c" if moved else "ac":
        ports.logs[name].append([rows])
    segment = StagedRows("out", 0, DRAWN, 0, 1, 1, ((0, 3),), 0)
    sink = TopicSink(1, "5eed", (0,)).after("out", Manifest("query q", 0, True, (segment,)))
    given = {"towers": "tcp://127.0.0.1:1", "servers": "tcp://127.0.0.1:2", "topic": "out"}
    options = replace(sink_options(given, stream=True), min_acks=2)
    stores = ports.client()
    publisher = Publisher(options, cluster, stores, CommitPorts(sends))
    stores.all(lambda store: store.kept)
    if not moved:
        publisher.complete("out", sink, patient=False)
        return
    ports.kept["a"] = ALL_SLOTS.without(half)
    with pytest.raises(SendsError):
        publisher.complete("out", sink, patient=False)


@pytest.mark.slow
@pytest.mark.net
class TestPublisher:
    def test_what_is_published_is_not_published_again(self, cluster, publisher, sink, monkeypatch):
        publisher.publish("out", sink)
        assert cluster.values() == KEYS
        close_mirrors()
        monkeypatch.setattr(publisher, "_ports", None)
        publisher.complete("out", sink, patient=False)

    def test_what_is_not_known_to_be_published_is(self, cluster, options, publisher, sink):
        """By another driver: this one knows what it has published."""
        (one, part), (other, _) = sink.parts("out").items()
        publisher._send("out", sink, {one: part})
        assert len(cluster.values()) == len(part)
        publisher.complete("out", sink, patient=False)
        assert cluster.values() == KEYS
        assert {one, other} == {0, 1}

    def test_a_topic_that_the_run_has_nothing_for(self, publisher, sink):
        publisher.publish("another", sink)
        publisher.complete("another", sink, patient=True)
        publisher.complete("out", TopicSink(1, "5eed", (3, 3)), patient=True)

    def test_what_is_lost_is_told_unless_a_store_has_it(self, cluster, options, publisher, sink):
        cluster.running.close()
        cluster.running = cluster.store(deletable=True)
        (one, part), _ = sink.parts("out").items()
        publisher._send("out", sink, {one: part})
        with StoreClient(cluster.query) as client:
            client.delete(STAGED)
        with pytest.raises(LostRowsError, match="are in no store any more"):
            publisher.complete("out", sink, patient=False)
        half = sink._replace(last=_only(sink.last, one))
        around = publisher._cluster, publisher._stores, publisher._ports
        needing = Publisher(replace(options, min_acks=2, acks_given=True), *around)
        needing.complete("out", half, patient=True)

    def test_the_mirror_goes_on_with_other_runs(self, cluster, options, publisher, sink):
        """What a failed one left in it is given up."""
        publisher.publish("out", sink)
        publisher.publish("out", sink)
        assert mirror_of(options).alive
        assert cluster.values() == KEYS


def _only(manifest, number):
    """Of a run what goes to one partition."""
    segments = [
        one._replace(rows=tuple(pair for pair in one.rows if pair[0] == number))
        for one in manifest.segments
    ]
    return manifest._replace(segments=tuple(segments))
