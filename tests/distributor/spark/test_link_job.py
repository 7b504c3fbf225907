from __future__ import annotations

import re
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from dafka.model import Partition
from dafka.query.client import StoreClient
from dafka.records.batch import records_of
from dafka.records.envelope import Envelope
from distributor.errors import ProcessError
from distributor.link_node import LinkNode
from distributor.spark import link_job, register
from distributor.spark.link_job import LinkJob, pattern_of
from distributor.verify import verify
from topology import plan
from topology.model import Topics

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


def test_it_goes_on_beside_the_native_link_and_through_failures(
    pair, make_batch, start, monkeypatch
):
    monkeypatch.setattr("dafka.spark.stores.ANSWER_TIMEOUT_MS", 500)
    link = next(link for link in plan(pair.topology).links if link.source == "c1")
    pair.fill(1, *(make_batch([b"%d" % number], number) for number in range(500)))
    with pair.running(1):
        job = start()
        job.join(0.1)
        assert "within 500 ms" in job.unwell(), "the target does not answer yet"
        with pair.running(2):
            native = LinkNode(pair.topology, link)
            deadline = time.monotonic() + 60
            while len(flags_at(pair.topology.cluster("c2"), COPIED)) < 500:
                job.join(0.2)
                assert time.monotonic() < deadline
            native.close()
            job.close()
            verdict = verify(pair.topology, deep=True)
            assert verdict.equal, verdict.differences


def test_a_backfill_that_cannot_succeed_ends(pair, start, monkeypatch):
    monkeypatch.setattr("dafka.spark.stores.ANSWER_TIMEOUT_MS", 20)
    monkeypatch.setattr(link_job, "BACKOFF_S_MAX", 0.0)
    job = start(available_now=True)
    with pytest.raises(ProcessError, match="8 failures in a row: cannot reach"):
        finish(job)


def test_nothing_is_left_on_disk(start):
    job = start()
    checkpoint = Path(job._checkpoint)
    assert checkpoint.exists()
    job.close()
    assert not checkpoint.exists()


def test_topics_of_the_cluster_itself_are_never_copied_whatever_the_file_includes(pair):
    for topics in (Topics(), Topics(include=("_schemas", "orders"), exclude=())):
        pattern = re.compile(pattern_of(replace(pair.topology, topics=topics)))
        for topic in ("_schemas", "__offsets", "orders"):
            assert bool(pattern.fullmatch(topic)) is topics.wants(topic)
