"""Jobs on a cluster of Spark whose master, workers and executors have nothing of ours.

What executors need comes to them as `distributor spark package` has packed it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyspark
import pytest
from pyarrow import parquet

import distributor
from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.process.files import write_secret
from dafka.query.client import StoreClient
from dafka.spark.session import ensure_java, program
from dafka.storage.lmdb_log import Durability
from dafka.transport.curve import authenticator
from dafka.transport.keys import load_credentials, new_keys
from distributor.testing.standalone import FRUGAL, Standalone
from tests.support.trio import Trio, some_flights
from topology import load

pytestmark = [pytest.mark.net, pytest.mark.slow]

JOB_S_MAX = 400.0

ROOT = Path(distributor.__file__).parents[1]
EXAMPLES = ROOT / "distributor" / "spark" / "examples"

BARE = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
"""A Python without any of our libraries: what stands on the machines of a cluster."""


@pytest.fixture(scope="module")
def standalone(tmp_path_factory, free_ports):
    try:
        ensure_java()
    except MisuseError as error:
        pytest.skip(str(error))
    with Standalone(tmp_path_factory.mktemp("spark"), free_ports(1)) as running:
        yield running


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Made by the documented command."""
    file = tmp_path_factory.mktemp("archive") / "deps.tar.gz"
    subprocess.run(
        [sys.executable, "-m", "distributor", "spark", "package", str(file)],
        check=True,
        timeout=JOB_S_MAX,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return file


@pytest.fixture(scope="module")
def settings(archive):
    """What is said of a job beside its master: it travels as an archive, and spares the machine."""
    said = {
        "spark.archives": f"{archive}#deps",
        "spark.executorEnv.PYTHONPATH": "deps",
        "spark.executor.memory": "600m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.extraJavaOptions": FRUGAL,
        "spark.sql.session.timeZone": "UTC",
    }
    return [word for name, value in said.items() for word in ("--conf", f"{name}={value}")]


@pytest.fixture
def environment():
    """Of a driver: executors have the bare Python, which also plans on the driver."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(Path(pyspark.__file__).parents[1]))),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": str(BARE),
    }


@pytest.fixture
def submit(standalone, settings, environment):
    """A function that runs a program by `spark-submit`, and returns what it has printed."""

    def submit(*words):
        command = [program("spark-submit"), "--master", standalone.master, *settings]
        return said_by([*command, *map(str, words)], environment)

    return submit


def said_by(command, environment):
    """What a command has printed that came to a good end."""
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=JOB_S_MAX, check=False
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return done.stdout


@pytest.fixture
def trio(tmp_path, free_ports, until):
    """Three clusters, and some flights on the first two."""
    with Trio(tmp_path, free_ports(9)).running(some_flights(), until) as trio:
        yield trio


def test_the_documented_jobs_go_where_spark_submit_says(submit, standalone, trio, tmp_path):
    """Not where the program says: their own default is this machine."""
    table = submit(EXAMPLES / "delays.py", trio.file, "c2")
    counted = [int(count) for count in re.findall(r"\| +\w\w\| +(\d+)\|", table)]
    assert sum(counted) == trio.held("c2", "flights")
    checkpoint = tmp_path / "checkpoint"
    submit(EXAMPLES / "daily.py", trio.file, "c2", checkpoint, "--available-now")
    assert trio.held("c2", "departures") > 50
    assert standalone.applications()[-2:] == ["delays", "daily"]


@pytest.fixture
def guarded(tmp_path, free_ports, reopened):
    """The topology of a cluster with keys, and what its jobs' key may do is all but mirror."""
    keys = {name: new_keys() for name in ("cluster", "job")}
    (tmp_path / "access.toml").write_text(
        f'cluster = "{keys["cluster"][0]}"\n'
        f'[keys.job]\npublic = "{keys["job"][0]}"\nread = ["*"]\nwrite = ["*"]\n'
    )
    for name, (_, secret) in keys.items():
        write_secret(tmp_path / f"{name}.secret", secret)
    port = free_ports(3)
    tower, query = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 2}"
    file = tmp_path / "guarded.yaml"
    file.write_text(
        "version: 1\nname: guarded\ntree: c1\nclusters:\n"
        f'  - {{name: c1, id: 1, towers: ["{tower}"],\n'
        f'     stores: [{{query: "{query}", data: "{tmp_path / "data"}"}}],\n'
        "     security: {access: access.toml, cluster_key: cluster.secret, key: job.secret}}\n"
    )
    own, job = (
        Cluster(tower, credentials=load_credentials(tmp_path / "access.toml", tmp_path / secret))
        for secret in ("cluster.secret", "job.secret")
    )
    store = partial(Store, tmp_path / "data", own, query=query, durability=Durability.OS)
    with reopened(partial(Tower, own)), reopened(store):
        with Producer(job) as producer:
            for row in some_flights():
                producer.send(row.topic, row.value, key=row.key)
        yield file
    authenticator.stop()


def test_executors_show_their_keys(submit, guarded, tmp_path):
    """To stores that they read, and to stores where they stage and publish."""
    assert "mean_delay" in submit(EXAMPLES / "delays.py", guarded, "c1")
    submit(EXAMPLES / "daily.py", guarded, "c1", tmp_path / "checkpoint", "--available-now")
    key = load_credentials(tmp_path / "access.toml", tmp_path / "job.secret")
    (spec,) = load(guarded).cluster("c1").stores
    with StoreClient(spec.query, credentials=key) as client:
        assert {partition.topic for partition in client.heads()} == {
            "__staged",
            "flights",
            "departures",
        }


def test_an_audit_reports_where_executors_write(
    standalone, settings, environment, trio, tmp_path, until
):
    until(lambda: trio.held("c3", "flights") == trio.held("c1", "flights"))
    report = (tmp_path / "report").as_uri()
    words = ["audit", trio.file, "--master", standalone.master, "--report", report, *settings]
    said_by([sys.executable, "-m", "distributor", *words], environment)
    (written,) = (tmp_path / "report" / "report.txt").glob("part-*")
    assert "equal: every record is everywhere" in written.read_text()
    assert parquet.read_table(tmp_path / "report" / "findings.parquet").num_rows == 0


@pytest.fixture
def connect_server(standalone, settings, environment, free_ports, tmp_path, until):
    """Spark's server for clients without a JVM; its jobs run on the cluster."""
    port = free_ports(1)
    served = {"address": "127.0.0.1", "port": str(port)}
    where = [f"spark.connect.grpc.binding.{name}={text}" for name, text in served.items()]
    log = tmp_path / "connect.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(program("spark-submit"), "--master", standalone.master, *settings),
                *(word for setting in where for word in ("--conf", setting)),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                "spark-internal",
            ],
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        until(lambda: process.poll() is not None or "server started at" in log.read_text())
        assert process.poll() is None, log.read_text()[-4_000:]
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("grpc_status", "pandas", "zstandard"))),
    reason="Spark Connect needs pip install 'pyspark[connect]'",
)
def test_a_client_without_a_jvm(connect_server, archive, trio, tmp_path):
    """It reads, writes and streams; sources plan in the server's Python."""
    words = ["-m", "tests.support.spark_connect_client", connect_server]
    words += [str(archive), trio.file, str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=JOB_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    flights = trio.held("c1", "flights")
    assert done.stdout.split() == [str(flights), "100"]
    assert trio.held("c1", "numbers") == 100
    assert trio.held("c1", "streamed") == flights
