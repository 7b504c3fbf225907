"""Spark's sink with real executors, as drivers that are started by a shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from dafka.errors import MisuseError
from dafka.groups.runs import STAGED
from dafka.process import metrics
from dafka.query.client import StoreClient
from dafka.records.header import checked_fields
from dafka.spark.session import ensure_java
from distributor.testing import spark_daemon
from distributor.testing.standalone import FRUGAL, Standalone
from tests.dafka.spark.conftest import SparkCluster
from tests.support.spark_sink_job import text_of

pytestmark = [pytest.mark.slow, pytest.mark.net]

ROWS = 40_000
JOB_S_MAX = 400.0

WORKERS = {"spark.python.daemon.module": spark_daemon.__name__}

SPECULATION = {
    "spark.speculation": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    cluster = SparkCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    cluster.open()
    before = metrics.DISPUTED._value.get()
    yield cluster
    assert metrics.DISPUTED._value.get() == before
    cluster.close()


@pytest.fixture
def start(cluster):
    """A function that starts a driver in a session of its own."""
    try:
        ensure_java()
    except MisuseError as error:
        pytest.skip(str(error))
    with ExitStack() as started:

        def start(master="local[4,4]", *, conf=(), options=(), **given):
            job = {"first": 0, "rows": ROWS, "tasks": 4, "slow_s": 0.0, "rests": "", "keys": 0}
            job |= given
            job |= {"master": master, "conf": WORKERS | dict(conf)}
            job["options"] = {**cluster.options, "topic": "t", **dict(options)}
            driver = subprocess.Popen(
                [sys.executable, "-m", "tests.support.spark_sink_job", json.dumps(job)],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            started.callback(kill, driver)
            return driver

        yield start


def kill(driver):
    """Kill a driver and all that it has started."""
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=60)


def end(driver):
    """Wait until a driver is done; returns its error, empty if there is none."""
    _, said = driver.communicate(timeout=JOB_S_MAX)
    return said if driver.returncode else ""


def numbers(first=0, rows=ROWS):
    return [text_of(number).encode() for number in range(first, first + rows)]


def staged_rows(cluster):
    return sum(
        checked_fields(record.value).records
        for partition, records in cluster.records().items()
        if partition.topic == STAGED
        for record in records
    )


def has_begun(cluster):
    """Whether anything is published; asked for again and again, so it costs the store little."""
    with StoreClient(cluster.query) as client:
        return bool(client.ranges("t"))


def test_attempts_that_overlap_in_another_order_do_no_harm(start, cluster, free_ports, tmp_path):
    """Spark runs a second attempt of the task that rests half way, beside the first."""
    slow = {"slow_s": 60.0, "rests": str(tmp_path / "rests")}
    executors = {
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.executor.extraJavaOptions": FRUGAL,
    }
    with Standalone(tmp_path, free_ports(1), cores=2) as standalone:
        assert end(start(standalone.master, conf=SPECULATION | executors, **slow)) == ""
    assert staged_rows(cluster) > ROWS, "both had written"
    assert cluster.values() == numbers()


def test_a_job_goes_on_after_its_driver_was_killed_with_other_tasks(start, cluster, until):
    """Killed while it publishes, or nearly; what it had agreed on is ended by the next."""
    options = {"runId": "nightly"}
    killed = start(options=options)
    until(lambda: killed.poll() is not None or has_begun(cluster), JOB_S_MAX)
    kill(killed)
    assert end(start("local[2,4]", options=options, tasks=7)) == ""
    assert cluster.values() == numbers()


@pytest.mark.parametrize("named", [{}, {"runId": "nightly"}])
def test_what_a_killed_driver_has_begun_to_publish_another_job_ends(start, cluster, until, named):
    """One that nobody can repeat, too; the other has other rows, and is behind it."""
    killed = start(options={**named, "partitions": "3"}, keys=17)
    until(lambda: killed.poll() is not None or has_begun(cluster), JOB_S_MAX)
    kill(killed)
    assert end(start("local[2,4]", first=ROWS, tasks=3, keys=17)) == ""
    assert cluster.values() == numbers(0, 2 * ROWS)
    logs = cluster.published()
    assert len(logs) == 3
    for records in logs.values():
        second = [int(record.value) >= ROWS for record in records]
        assert second == sorted(second)


def test_jobs_at_once_share_the_partitions_of_a_topic(start, cluster):
    """Each is whole, and one behind the other in every partition."""
    drivers = [
        start("local[2,4]", first=first, tasks=tasks, keys=17, options={"partitions": "3"})
        for first, tasks in ((0, 4), (ROWS, 3))
    ]
    assert [end(driver) for driver in drivers] == ["", ""]
    assert cluster.values() == numbers(0, 2 * ROWS)
    logs = cluster.published()
    assert len(logs) == 3
    firsts = set()
    for records in logs.values():
        jobs = [int(record.value) // ROWS for record in records]
        assert jobs in (sorted(jobs), sorted(jobs, reverse=True))
        firsts.add(jobs[0])
    assert len(firsts) == 1


def test_of_two_jobs_at_once_with_one_name_one_counts(start, cluster):
    """The other is told so if its rows are others, and has written nothing."""
    options = {"runId": "nightly"}
    drivers = [
        start("local[2,4]", options=options, first=first, tasks=tasks)
        for first, tasks in ((0, 4), (ROWS, 3))
    ]
    said = [end(driver) for driver in drivers]
    assert sorted(map(bool, said)) == [False, True]
    assert "rows that are not these" in "".join(said)
    assert cluster.values() == numbers(ROWS * said.index(""))
