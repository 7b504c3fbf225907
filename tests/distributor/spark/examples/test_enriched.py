from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import pytest

from distributor.demo.dataset import rows
from distributor.testing.standalone import family, signal_all

pytestmark = [pytest.mark.slow, pytest.mark.net]

JOB_S_MAX = 400.0


@pytest.fixture
def start(trio, tmp_path):
    """A function that starts the job as a process."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_SUBMIT_ARGS": "--conf spark.sql.shuffle.partitions=2 pyspark-shell",
    }
    words = ["-m", "distributor.spark.examples.enriched", trio.file, "c2", "c3"]
    words += [str(tmp_path / "checkpoint"), "--available-now", "--rows", "400"]
    words += ["--master", "local[2]"]
    with ExitStack() as started:

        def start():
            job = subprocess.Popen(
                [sys.executable, *words], env=environment, stderr=subprocess.PIPE, text=True
            )
            started.callback(kill, job)
            return job

        yield start


def kill(job):
    """Kill a driver and all that it has started."""
    if job.returncode is None:
        signal_all(list(family(job.pid)), signal.SIGKILL)
        job.communicate()


@pytest.fixture
def weather():
    """The weather of the flights' month, as it came: hour by hour at all airports."""
    month = [
        row for row in rows() if row.topic == "weather" and json.loads(row.value)["month"] == 1
    ]
    return sorted(month, key=lambda row: json.loads(row.value)["time_hour"])


def test_a_join_is_exact_though_its_driver_was_killed(trio, flights, weather, start, until):
    """Two topics of one cluster, in a topic on another; killed in the midst and begun again."""
    trio.publish(weather)
    until(lambda: trio.held("c2", "weather") == len(weather))
    by_hour = Counter(hour_of(row) for row in weather)
    expected = Counter(flight_of(row) for row in flights if by_hour[hour_of(row)])
    assert max(by_hour.values()) == 1
    assert len(expected) > 500

    killed = start()
    until(lambda: killed.poll() is not None or trio.held("c3", "flights-weather") > 0, JOB_S_MAX)
    assert killed.poll() is None, killed.communicate()[1]
    kill(killed)
    assert trio.held("c3", "flights-weather") < expected.total()
    again = start()
    _, said = again.communicate(timeout=JOB_S_MAX)
    assert again.returncode == 0, said
    until(lambda: trio.held("c1", "flights-weather") == trio.held("c3", "flights-weather"))
    for cluster in ("c3", "c1"):
        joined = [json.loads(row.value) for row in trio.records(cluster, "flights-weather")]
        assert all("wind_speed" in one for one in joined)
        assert Counter(map(flight_of_fields, joined)) == expected


def hour_of(row):
    fields = json.loads(row.value)
    return fields["origin"], fields["time_hour"][:13]


def flight_of(row):
    return flight_of_fields(json.loads(row.value))


def flight_of_fields(fields):
    hour = fields["time_hour"][:13].replace("T", " ")
    return fields["carrier"], fields["flight"], fields["origin"], hour
