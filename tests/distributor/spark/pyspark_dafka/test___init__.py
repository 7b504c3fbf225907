"""With the wheel Spark finds `format("dafka")` by itself."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from distributor.spark import pyspark_dafka
from distributor.spark.source import TopologySource
from tests.support.batches import make_batch
from tests.support.query_port import QueryPort

ROOT = Path(__file__).parents[4]

JOB = """
import sys
import distributor
from dafka.spark.session import open_session

assert distributor.__file__.startswith(sys.argv[1]), distributor.__file__
spark = open_session("local[1]", "found", {"spark.driver.host": "127.0.0.1"})
options = {"servers": sys.argv[2], "subscribe": "orders"}
rows = spark.read.format("dafka").options(**options).load()
print("rows", [bytes(row.value) for row in rows.select("value").collect()])
given = f"servers '{sys.argv[2]}', subscribe 'orders'"
spark.sql(f"CREATE TEMPORARY VIEW orders USING dafka OPTIONS ({given})")
print("sql", spark.sql("SELECT count(*) AS n FROM orders").collect()[0].n)
spark.stop()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A directory with what is in the wheel, and nothing else."""
    home = tmp_path_factory.mktemp("wheel")
    source, wheels, target = home / "source", home / "wheels", home / "target"
    source.mkdir()  # setuptools leaves what it builds where it builds it
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("dafka", "distributor", "topology"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, source)
    subprocess.run([*pip, *build], check=True, timeout=300)
    (wheel,) = wheels.iterdir()
    subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True)
    return target


@pytest.mark.slow
@pytest.mark.net
@pytest.mark.usefixtures("spark")  # skips where there is no Java
def test_a_session_knows_the_format_without_registration(installed, tmp_path):
    port = QueryPort()
    port.log.append([make_batch([b"1", b"2"])])
    try:
        done = subprocess.run(
            [sys.executable, "-c", JOB, installed, port.endpoint],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    finally:
        port.stop()
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "rows [b'1', b'2']" in done.stdout
    assert "sql 2" in done.stdout


def test_the_source_is_the_one_that_is_registered():
    assert pyspark_dafka.DefaultSource is TopologySource
    assert pyspark_dafka.DefaultSource.name() == "dafka"


def test_without_the_libraries_it_can_be_imported_all_the_same(monkeypatch, caplog):
    """Otherwise Spark would find no source of anybody's."""
    monkeypatch.setitem(sys.modules, "distributor.spark.source", None)
    monkeypatch.delitem(sys.modules, pyspark_dafka.__name__)
    found = importlib.import_module(pyspark_dafka.__name__)
    assert not hasattr(found, "DefaultSource")
    assert "pip install" in caplog.text
