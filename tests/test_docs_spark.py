"""docs/spark.md stays true: its example runs, its tables are the options there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dafka.model import Partition
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.query.client import StoreClient
from dafka.spark import session
from dafka.spark.columns import TYPES, WRITABLE
from dafka.spark.options import RECORDS_PER_TASK, SINK_OPTIONS, SOURCE_OPTIONS

PAGE = (Path(__file__).parent.parent / "docs" / "spark.md").read_text()
SOURCE, SINK = PAGE.partition("## Source")[2].split("## Sink")


def options_in(text):
    cells = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_options_and_columns():
    assert options_in(SOURCE) == set(SOURCE_OPTIONS)
    assert options_in(SINK.partition("## Links")[0]) == set(SINK_OPTIONS)
    assert str(RECORDS_PER_TASK) in SOURCE
    columns = SOURCE.partition("Columns:")[2]
    assert all(f"`{name}`" in columns for name in TYPES)
    assert all(f"`{name}`" in SINK for name in WRITABLE)


@pytest.mark.slow
def test_the_example_runs(spark, tmp_path, free_ports, monkeypatch, capsys):
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    port = free_ports(3)
    tower, query = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 2}"
    file = tmp_path / "one.yaml"
    file.write_text(
        f"version: 1\nname: one\ntree: cluster-1\nclusters: [{{name: cluster-1, id: 1, "
        f'towers: ["{tower}"], stores: [{{query: "{query}", data: "x"}}]}}]'
    )
    code = example[1].replace("config/four-clusters.yaml", str(file))
    code = code.replace("data/checkpoint", str(tmp_path / "checkpoint"))
    monkeypatch.setattr(session, "open_session", lambda *_: spark)
    with Tower(tower), Store(tmp_path / "store", tower, query=query):
        with Producer(tower) as producer:
            producer.send("orders", b"hello", key=b"k")
        exec(compile(code, "docs/spark.md", "exec"), {})
        assert f"|{producer.address[:17]}...|    1|" in capsys.readouterr().out
        with StoreClient(query) as client:
            (shouted,) = client.heads("shouted")
            (batch,) = client.read(Partition(*shouted), 0)
    assert b"HELLO" in batch.content
