from __future__ import annotations

import pytest

from dafka.model import Partition
from distributor.spark import register
from distributor.spark.link_job import LinkJob
from distributor.survey import survey
from distributor.testing import spark_driver
from distributor.testing.spark_driver import ORDERED, PARTITIONS, READ, SHUFFLED, main

pytestmark = [pytest.mark.slow, pytest.mark.net]

ROWS = 20


class DoneError(Exception):
    """All is there."""


def test_two_sinks_and_a_link_run_until_something_ends_them(
    spark, pair, make_batch, tmp_path, monkeypatch
):
    register(spark)
    monkeypatch.setattr(spark_driver, "open_session", lambda *_: spark)
    rows = [b"%d" % number for number in range(ROWS)]
    pair.fill(1, make_batch(rows, partition=Partition(READ, "AB" * 16)))
    join = LinkJob.join

    def join_until_done(job, timeout):
        held = [
            sum(head + 1 for place, head in one.heads.items() if place.topic == topic)
            for one in survey(pair.topology)
            for topic in (READ, ORDERED, SHUFFLED)
        ]
        if held == [ROWS] * 6:
            raise DoneError
        return join(job, timeout)

    monkeypatch.setattr(LinkJob, "join", join_until_done)
    given = {"file": str(pair.file), "master": "local", "conf": {}, "checkpoints": str(tmp_path)}
    with pair.running():
        with pytest.raises(DoneError):
            main(given)
        for query in spark.streams.active:
            query.stop()
        (c1, _) = survey(pair.topology)
    for topic in (ORDERED, SHUFFLED):
        assert 0 < len([place for place in c1.heads if place.topic == topic]) <= PARTITIONS
