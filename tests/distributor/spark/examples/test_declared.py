from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

SPEC = Path(__file__).parents[4] / "config" / "spark-pipeline.yml"
LIBRARIES = ("grpc_status", "pandas", "zstandard")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.net,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, LIBRARIES)),
        reason="declarative pipelines need pip install 'pyspark[pipelines]'",
    ),
]


def test_the_declared_pipeline_writes_every_day_once(trio, flights, tmp_path):
    spec = yaml.safe_load(SPEC.read_text())
    spec["storage"] = (tmp_path / "storage").as_uri()
    spec["configuration"] |= {"spark.dafka.topology": trio.file, "spark.dafka.cluster": "c2"}
    (library,) = spec["libraries"]
    code = (SPEC.parent / library["glob"]["include"]).resolve()
    library["glob"]["include"] = os.path.relpath(code, tmp_path)
    file = tmp_path / SPEC.name
    file.write_text(yaml.safe_dump(spec))
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_REMOTE": "local[2]", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.spark_pipelines", "run", "--spec", str(file)],
        env=os.environ | environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6_000:]
    found = trio.records("c2", "departures")
    counted = {row.key.decode(): json.loads(row.value)["flights"] for row in found}
    assert len(found) == len(counted) > 50
    days = Counter(day_of(json.loads(row.value)) for row in flights)
    assert counted == {day: days[day] for day in counted}


def day_of(flight):
    return f"{flight['origin']} {flight['time_hour'][:10]}"
