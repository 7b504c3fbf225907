from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta

import pytest

from distributor.spark.examples import command_line
from distributor.spark.examples import daily as example
from distributor.spark.examples.command_line import StreamJob
from distributor.spark.examples.daily import start

pytestmark = [pytest.mark.slow, pytest.mark.net]


def test_what_is_counted_on_one_cluster_is_read_on_a_third(spark, trio, flights, tmp_path, until):
    for _ in range(2):  # the second time there is nothing new
        job = StreamJob(spark, trio.file, str(tmp_path / "checkpoint"))
        start(job, "c2").awaitTermination()
    departed = [json.loads(row.value) for row in flights]
    latest = max(datetime.fromisoformat(flight["time_hour"]) for flight in departed)
    # A day is over once flights two days after its end have been seen.
    over = (latest - timedelta(days=3)).date().isoformat()
    expected = Counter(
        f"{flight['origin']} {flight['time_hour'][:10]}"
        for flight in departed
        if flight["time_hour"][:10] <= over
    )
    assert len(expected) > 50
    until(lambda: trio.held("c3", "departures") == trio.held("c2", "departures"))
    place = {"topology": trio.file, "cluster": "c3", "subscribe": "departures"}
    records = spark.read.format("dafka").options(**place).load().collect()
    found = {row.key.decode(): json.loads(row.value)["flights"] for row in records}
    assert found == expected
    assert len(records) == len(expected), "every window once"
    assert {row.copy_flags for row in records} == {0b10}


def test_the_command(spark, trio, monkeypatch, tmp_path):
    monkeypatch.setattr(command_line, "open_session", lambda *_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    words = ["daily", trio.file, "c1", str(tmp_path / "checkpoint"), "--available-now"]
    monkeypatch.setattr("sys.argv", words)
    example.main()
    assert trio.held("c1", "departures") > 0
