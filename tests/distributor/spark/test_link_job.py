from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from dafka.model import Partition
from dafka.node.mirror import Mirror
from dafka.query.client import StoreClient
from dafka.records.batch import is_compressed, records_of
from dafka.records.envelope import Envelope, unpack
from distributor.errors import ProcessError
from distributor.link.node import LinkNode
from distributor.spark import link_job, register
from distributor.spark.link_job import LinkJob
from distributor.verify.compare import verify
from tests.support.query_port import unanswered
from tests.support.shares import also_shared
from topology import plan
from topology.model import Links

pytestmark = pytest.mark.slow

COPIED = Partition("orders", "AB" * 16)
DONE = Partition("orders", "CD" * 16)
INTERNAL = Partition("__internal", "AB" * 16)


def flags_at(cluster, partition):
    """Flags and origin of every record, in order."""
    with StoreClient(cluster.stores[0].query) as client:
        head = client.heads().get(partition, -1)
        return [
            (record.sequence, record.copy_flags, record.origin)
            for batch in client.scan(partition, 0, head + 1)
            for record in records_of(batch)
        ]


@pytest.fixture
def start(spark, pair):
    """A function that makes the job of the link from c1 to c2."""
    register(spark)
    link = next(link for link in plan(pair.topology).links if link.source == "c1")
    with ExitStack() as jobs:

        def start(**settings):
            job = LinkJob(spark, pair.topology, link, **settings)
            jobs.callback(job.close)
            return job

        yield start


def finish(job, seconds=60):
    deadline = time.monotonic() + seconds
    while not job.join(0.5):
        assert time.monotonic() < deadline


@also_shared("pair")
def test_a_backfill_copies_what_the_native_link_would(pair, make_batch, start):
    pair.fill(
        1,
        make_batch([b"0", b"1", b"2"]),
        make_batch([b"3"], 3, envelope=Envelope(9, 0b100)),
        make_batch([b"x"], partition=DONE, envelope=Envelope(2, 0b1)),
        make_batch([b"i"], partition=INTERNAL),
    )
    # What is there already, in other batches: it is gone on behind that.
    pair.fill(2, make_batch([b"0", b"1"], envelope=Envelope(1, 0b1)))
    with pair.running():
        job = start(available_now=True)
        assert job.unready()
        finish(job)
        assert not job.unready()
        assert not job.unwell()
        c2 = pair.topology.cluster("c2")
        assert flags_at(c2, COPIED) == [(0, 1, 1), (1, 1, 1), (2, 1, 1), (3, 0b101, 9)]
        assert flags_at(c2, DONE) == []
        assert flags_at(c2, INTERNAL) == []
        assert job.copied == 3, "two behind the target's head, and one that was left out"


def test_what_retention_took_at_the_source_is_passed_over(pair, make_batch, start):
    """As the native link does: the target's log begins where the source's does."""
    log = tuple(make_batch([b"%d" % number] * 2, 2 * number) for number in range(4))
    pair.fill(1, *log, *(make_batch([b"x"] * 2, one.sequence, DONE) for one in log))
    pair.fill(2, make_batch([b"0"] * 2, envelope=Envelope(1, 0b1)))
    pair.trim(1, {COPIED: 4, DONE: 6})
    with pair.running():
        job = start(available_now=True)
        assert job.copied == 0
        finish(job)
        assert job.copied == job.total() == 4 + 2
        c2 = pair.topology.cluster("c2")
        with StoreClient(c2.stores[0].query) as client:
            # What it had before stays: behind 0 and 1 there is a gap.
            assert client.ranges() == {COPIED: range(8), DONE: range(6, 8)}
        verdict = verify(pair.topology, deep=True)
        assert verdict.equal, verdict.differences


def test_progress_is_shown_while_the_source_is_away(pair, make_batch, start, monkeypatch):
    pair.fill(1, make_batch([b"0", b"1"]))
    job = start(available_now=True)
    with monkeypatch.context() as away:
        unanswered(away, pair.queries[0])
        assert job.total() == 0
    with pair.running(1):
        assert job.total() == 2
    unanswered(monkeypatch, pair.queries[0])
    assert job.total() == 2


def test_a_partition_that_both_have_otherwise_is_left_out(pair, make_batch, start, caplog):
    """As the native link does: what follows another record would look like its sequel."""
    pair.fill(1, make_batch([b"0", b"1"]), make_batch([b"here", b"1"], partition=DONE))
    pair.fill(2, make_batch([b"there"], partition=DONE, envelope=Envelope(2, 0b1)))
    with pair.running():
        job = start(available_now=True)
        finish(job)
        assert job.parted == {DONE: 0}
        c2 = pair.topology.cluster("c2")
        assert flags_at(c2, COPIED) == [(0, 1, 1), (1, 1, 1)]
        assert len(flags_at(c2, DONE)) == 1
    (record,) = (one for one in caplog.records if "partition has diverged" in one.message)
    assert (record.address, record.first) == (DONE.address, 0)


def test_a_partition_that_parts_while_it_runs_is_left_out_from_then_on(
    pair, make_batch, start, until
):
    pair.fill(1, make_batch([b"0"]), make_batch([b"here"], partition=DONE, envelope=Envelope(2, 1)))
    c1, c2 = pair.topology.clusters
    with (
        pair.running(),
        closing(Mirror(c1.towers[0])) as here,
        closing(Mirror(c2.towers[0])) as there,
    ):

        def publish(mirror, *published):
            for batch in published:
                mirror.publish(batch, 60)
            mirror.flush(60)

        job = start(look_interval_ms=100)
        until(lambda: job.join(0.1) or flags_at(c2, COPIED))
        publish(there, make_batch([b"there"], partition=DONE, envelope=Envelope(2, 1)))
        until(lambda: job.join(0.1) or job.parted == {DONE: 0})
        publish(here, make_batch([b"1"], 1, DONE), make_batch([b"1"], 1))
        until(lambda: job.join(0.1) or len(flags_at(c2, COPIED)) == 2)
        assert len(flags_at(c2, DONE)) == 1


class Running:
    """A query that does nothing."""

    lastProgress = None  # noqa: N815 (Spark's name)

    def __init__(self):
        self.stopped = False

    def awaitTermination(self, _):  # noqa: N802
        return False

    def stop(self):
        self.stopped = True


def test_flags_of_another_epoch_say_that_a_record_was_copied(make_pair, make_batch, spark):
    """Level 1 was another branch's then; what nobody has copied yet is, in this epoch."""
    register(spark)
    pair = make_pair("levels: {epoch: 2}")
    pair.fill(
        1,
        make_batch([b"0"], partition=COPIED),
        make_batch([b"1"], 1, COPIED, envelope=Envelope(9, 0b100, 2)),
        make_batch([b"x"], partition=DONE, envelope=Envelope(9, 0b100, 1)),
    )
    with pair.running():
        (link,) = (link for link in plan(pair.topology).links if link.source == "c1")
        with closing(LinkJob(spark, pair.topology, link, available_now=True)) as job:
            finish(job)
        c2 = pair.topology.cluster("c2")
        assert flags_at(c2, COPIED) == [(0, 0b001, 1), (1, 0b101, 9)]
        assert flags_at(c2, DONE) == []
        with StoreClient(c2.stores[0].query) as client:
            assert {unpack(one.content).epoch for one in client.scan(COPIED, 0, 2)} == {2}


def test_batches_are_compressed_as_the_native_link_would(make_pair, make_batch, spark):
    register(spark)
    pair = make_pair("links: {compression: {1: zstd}}")
    pair.fill(1, make_batch([b"x" * 5_000] * 3))
    with pair.running():
        (link,) = (link for link in plan(pair.topology).links if link.source == "c1")
        with closing(LinkJob(spark, pair.topology, link, available_now=True)) as job:
            finish(job)
        with StoreClient(pair.topology.cluster("c2").stores[0].query) as client:
            (batch,) = client.scan(COPIED, 0, 3)
        assert is_compressed(batch.content)
        assert [record.value for record in records_of(batch)] == [b"x" * 5_000] * 3
        verdict = verify(pair.topology, deep=True)
        assert verdict.equal, verdict.differences


def test_what_is_placed_elsewhere_is_not_copied(make_pair, make_batch, spark):
    register(spark)
    pair = make_pair('placement: [{topics: "local", clusters: [c1]}]')
    pair.fill(1, make_batch([b"0"]), make_batch([b"x"], partition=Partition("local", "AB" * 16)))
    with pair.running():
        for link in plan(pair.topology).links:
            with closing(LinkJob(spark, pair.topology, link, available_now=True)) as job:
                finish(job)
        with StoreClient(pair.topology.cluster("c2").stores[0].query) as client:
            assert set(client.heads()) == {COPIED}


def test_another_target_is_served_by_the_rules_of_the_native_link(spark, pair, monkeypatch):
    """Silence of the preferred one leads to the next, its recovery back where that is wanted."""
    well, clock, queries = {"c1": True, "c2": True}, [0], []
    links = Links(failover_after_ms=2_500, failback=True)
    link = replace(plan(pair.topology).links[0], source="c1", targets=("c2", "c1"))
    monkeypatch.setattr(link_job, "now_ms", lambda: clock[0])
    monkeypatch.setattr(link_job, "gives_sign_of_life", lambda cluster: well[cluster.name])
    monkeypatch.setattr(LinkJob, "_started", lambda _: queries.append(Running()) or queries[-1])
    job = LinkJob(spark, replace(pair.topology, links=links), link)

    def pass_time(ms):
        clock[0] += ms
        job.join(0)

    pass_time(0)
    well["c2"] = False
    pass_time(1_000)
    assert job.target == "c2"
    pass_time(2_000)
    assert (job.target, [query.stopped for query in queries]) == ("c1", [True, False])
    well["c2"] = True
    pass_time(1_000)
    pass_time(2_000)
    assert job.target == "c1"
    pass_time(1_000)
    assert (job.target, [query.stopped for query in queries]) == ("c2", [True, True, False])
    job.close()


def test_it_goes_on_beside_the_native_link_and_through_failures(
    pair, make_batch, start, monkeypatch
):
    link = next(link for link in plan(pair.topology).links if link.source == "c1")
    pair.fill(1, *(make_batch([b"%d" % number], number) for number in range(500)))
    with pair.running(1):
        job = start()
        with monkeypatch.context() as away:
            unanswered(away, pair.queries[1])
            job.join(0.1)
        assert f"cannot reach {pair.queries[1]}" in job.unwell(), "it does not answer yet"
        with pair.running(2):
            native = LinkNode(pair.topology, link)
            deadline = time.monotonic() + 120
            while len(flags_at(pair.topology.cluster("c2"), COPIED)) < 500:
                job.join(0.2)
                assert time.monotonic() < deadline
            native.close()
            job.close()
            verdict = verify(pair.topology, deep=True)
            assert verdict.equal, verdict.differences


def test_a_backfill_that_cannot_succeed_ends(pair, start, monkeypatch):
    unanswered(monkeypatch, *pair.queries)
    job = start(available_now=True, backoff_s_max=0.0)
    with pytest.raises(ProcessError, match="8 failures in a row: cannot reach"):
        finish(job)


def test_nothing_is_left_on_disk(start):
    job = start()
    checkpoint = Path(job._checkpoint)
    assert checkpoint.exists()
    job.close()
    assert not checkpoint.exists()
