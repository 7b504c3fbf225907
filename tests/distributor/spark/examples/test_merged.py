from __future__ import annotations

import csv
from importlib import metadata

import pytest

from dafka.node.producer import Producer
from distributor.spark.examples.command_line import StreamJob

deltalake = pytest.importorskip("deltalake", reason="the example needs pip install deltalake")

from distributor.spark.examples.merged import COLUMNS, merge, start  # noqa: E402 (it needs the above)

pytestmark = [pytest.mark.slow, pytest.mark.net]


@pytest.fixture(scope="session")
def stocks():
    """Prices of five stocks, month by month from 2000 to 2010: symbol, and month with price."""
    try:
        files = metadata.files("vega_datasets")
    except metadata.PackageNotFoundError:
        pytest.skip("needs pip install --no-deps vega_datasets")
    (file,) = (one for one in files if one.name == "stocks.csv")
    with file.locate().open() as lines:
        return [(row["symbol"], f"{row['date']} {row['price']}") for row in csv.DictReader(lines)]


def kept(table):
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    assert len(rows) == len({row["key"] for row in rows})
    return {row["key"]: row["value"] for row in rows}


def publish(trio, changes):
    with Producer(trio.topology.cluster("c1").towers[0]) as producer:
        for key, value in changes:
            data = None if value is None else value.encode()
            producer.send("stocks", data, key=key.encode())


def test_a_table_has_the_last_of_each_key(spark, trio, stocks, tmp_path, until):
    """On another cluster than that of the changes; one stock is taken off, and one comes back."""
    changes = [*stocks, ("MSFT", None), ("IBM", None), ("IBM", "back")]
    publish(trio, changes[:300])
    until(lambda: trio.held("c2", "stocks") == 300)
    table = str(tmp_path / "table")
    job = StreamJob(spark, trio.file, str(tmp_path / "checkpoint"), rows=70)
    start(job, "c2", "stocks", table).awaitTermination()
    assert kept(table) == dict(changes[:300])
    publish(trio, changes[300:])
    until(lambda: trio.held("c2", "stocks") == len(changes))
    start(job, "c2", "stocks", table).awaitTermination()
    last = dict(changes)
    assert last.pop("MSFT") is None
    assert kept(table) == last
    assert len(last) == 4


def test_a_micro_batch_that_is_repeated_changes_nothing(spark, tmp_path):
    """As after a driver that died behind the commit of the table, and before Spark's."""
    table = str(tmp_path / "table")
    deltalake.DeltaTable.create(table, COLUMNS)
    columns = "key BINARY, value BINARY, timestamp INT, offset INT"
    for batch, value in ((0, b"1"), (1, b"2"), (0, b"1"), (1, b"3")):
        merge(table, spark.createDataFrame([(b"k", value, 0, 0)], columns), "t", batch)
    assert kept(table) == {"k": "2"}
    assert deltalake.DeltaTable(table).version() == 2
