from __future__ import annotations

import json

import pytest

from distributor.spark.examples.command_line import StreamJob
from distributor.spark.examples.hourly import start

pandas = pytest.importorskip("pandas", reason="the check needs pip install pandas")

pytestmark = [pytest.mark.slow, pytest.mark.net]


def test_a_table_of_hours_is_what_pandas_makes_of_the_same_flights(spark, trio, flights, tmp_path):
    """On a cluster that the flights were copied to, in several micro-batches and with a restart."""
    table = tmp_path / "table"
    job = StreamJob(spark, trio.file, str(tmp_path / "checkpoint"), rows=len(flights) // 3)
    for _ in range(2):
        start(job, "c2", str(table)).awaitTermination()
    departed = pandas.DataFrame([json.loads(row.value) for row in flights])
    departed["hour"] = pandas.to_datetime(departed["time_hour"])
    # An hour is over once flights two days after its end have been seen.
    over = departed["hour"].max() - pandas.Timedelta(days=2, hours=1)
    expected = (
        departed[departed["hour"] <= over]
        .groupby(["origin", "hour"])
        .agg(flights=("hour", "size"), mean_delay=("dep_delay", "mean"))
        .reset_index()
    )
    found = pandas.DataFrame(
        [row.asDict() for row in spark.read.parquet(str(table)).collect()]
    ).sort_values(["origin", "hour"], ignore_index=True)
    assert len(found) > 300
    assert not found.duplicated(["origin", "hour"]).any()
    places = ["origin", "hour", "flights"]
    pandas.testing.assert_frame_equal(found[places], expected[places], check_dtype=False)
    assert (found["mean_delay"] - expected["mean_delay"]).abs().max() <= 0.0501
