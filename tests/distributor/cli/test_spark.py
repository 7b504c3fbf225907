from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

import dafka
import distributor
import topology
from dafka.cluster import Cluster
from dafka.model import Partition
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.query.client import StoreClient
from dafka.records.batch import records_of
from dafka.spark.session import ensure_java
from distributor.cli.spark import _at_driver
from distributor.errors import ProcessError
from distributor.testing.standalone import FRUGAL, Standalone, signal_all
from distributor.verify.compare import verify
from topology.model import HEARTBEATS


@pytest.mark.slow
def test_a_backfill_from_the_command_line(run, shared_spark, pair, make_batch):
    pair.fill(1, make_batch([b"0", b"1", b"2"]))
    with pair.running():
        code, out, _ = run(
            *("run", "--topology", pair.file, "--cluster", "c1", "--level", 1),
            *("--engine", "spark", "--available-now"),
        )
        assert (code, out) == (0, "c1 to c2: 3 records read\n")
        with StoreClient(pair.topology.cluster("c2").stores[0].query) as client:
            assert sum(client.heads().values()) == 2


@pytest.mark.slow
def test_a_backfill_that_has_left_something_out_says_so(run, shared_spark, pair, make_batch):
    pair.fill(1, make_batch([b"here"]))
    pair.fill(2, make_batch([b"there"]))
    with pair.running():
        code, out, err = run(
            *("run", "--topology", pair.file, "--cluster", "c1", "--level", 1),
            *("--engine", "spark", "--available-now"),
        )
    assert (code, out) == (1, "c1 to c2: 0 records read\n")
    assert "1 partition was not copied, as both ends hold other records" in err


def test_where_there_is_no_way_to_a_tower_it_is_named(pair):
    c1, c2 = pair.topology.clusters
    away = replace(c1, towers=("tcp://no-such-host.invalid:1",))
    with pytest.raises(ProcessError, match=r"no way to tower tcp://no-such-host\.inv"):
        _at_driver(replace(pair.topology, clusters=(away, c2)), "c1")
    assert _at_driver(pair.topology, "c1") is pair.topology


def test_options_that_do_not_fit(run, pair, monkeypatch):
    link = ("run", "--topology", pair.file, "--cluster", "c1", "--level", 1)
    code, _, err = run(*link, "--available-now")
    assert code == 2
    assert "--available-now needs --engine spark" in err
    code, _, err = run(*link, "--engine", "spark", "--metrics", "127.0.0.1:1")
    assert code == 2
    assert "--metrics needs --engine native" in err
    code, _, err = run(*link, "--engine", "spark", "--conf", "spark.x")
    assert code == 2
    assert "--conf must be NAME=VALUE, got 'spark.x'" in err
    monkeypatch.delitem(sys.modules, "dafka.spark.session")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    code, _, err = run(*link, "--engine", "spark")
    assert code == 2
    assert "pip install 'dafka-distributor[spark]'" in err


RECORDS = 300_000


def fill_with_many(pair, make_batch):
    """So many that a copy takes a while."""
    for number in range(4):
        partition = Partition("orders", f"{number:032X}")
        pair.fill(
            1,
            *(
                make_batch([b"x" * 100] * 500, first, partition)
                for first in range(0, RECORDS // 4, 500)
            ),
        )


@contextmanager
def command(pair, master, *settings, env=None, until_told=False):
    """The command, running; ended whatever happens."""
    words = ["run", "--topology", str(pair.file), "--cluster", "c1", "--level", "1"]
    words += ["--engine", "spark", "--master", master]
    words += [] if until_told else ["--available-now"]
    settings = ("spark.driver.host=127.0.0.1", "spark.executor.memory=600m", *settings)
    settings += (f"spark.executor.extraJavaOptions={FRUGAL}",)
    for setting in settings:
        words += ["--conf", setting]
    with subprocess.Popen(
        [sys.executable, "-m", "distributor", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
    ) as job:
        try:
            yield job
        finally:
            job.kill()


def held(pair):
    with StoreClient(pair.topology.cluster("c2").stores[0].query) as client:
        return client.health().records


@pytest.fixture
def standalone(tmp_path, free_ports):
    with Standalone(tmp_path, free_ports(1)) as running:
        yield running


@pytest.fixture
def archive(tmp_path):
    """Our packages and nothing else, as `pip install --target` and tar would leave them."""
    path = tmp_path / "deps.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for package in (dafka, distributor, topology):
            folder = Path(package.__file__).parent
            archive.add(folder, folder.name)
    return path


@pytest.mark.slow
@pytest.mark.net
def test_a_real_cluster_survives_the_death_of_an_executor(
    standalone, archive, pair, make_batch, until
):
    """Executors have a bare Python and get our packages as an archive."""
    fill_with_many(pair, make_batch)
    libraries = Path(pyspark.__file__).parents[1]
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    root = Path(dafka.__file__).parents[1]
    driver = {**os.environ, "PYTHONPATH": f"{root}:{libraries}", "PYSPARK_PYTHON": str(python)}
    settings = (
        f"spark.archives={archive}#deps",
        f"spark.executorEnv.PYTHONPATH=deps:{libraries}",
    )
    with (
        pair.running(),
        command(pair, standalone.master, *settings, env=driver) as job,
    ):
        until(lambda: job.poll() is not None or held(pair) > 0, 600)
        killed = [pid for worker in (1, 2) for pid in standalone.executors(worker)][:1]
        signal_all(killed, signal.SIGKILL)
        out, _ = job.communicate(timeout=300)
        assert job.returncode == 0, out
        assert killed, out
        assert f"c1 to c2: {RECORDS:,} records read" in out
        verdict = verify(pair.topology, deep=True)
        assert verdict.equal, verdict.differences
        assert verdict.clusters == {"c1": RECORDS, "c2": RECORDS}


@pytest.mark.slow
@pytest.mark.net
def test_a_cluster_on_this_machine(pair, make_batch):
    ensure_java()
    pair.fill(1, make_batch([b"0", b"1", b"2"]))
    work = Path(pyspark.__file__).parent / "work"
    there = work.exists()
    with pair.running(), command(pair, "local-cluster[2,1,1024]") as job:
        out, _ = job.communicate(timeout=500)
        assert job.returncode == 0, out
        assert held(pair) == 3
    if not there:
        shutil.rmtree(work)


WAIT_S = 300
WRITTEN = 2_000
GROUP = "billing"


def positions(client):
    return {one: commit.position for one, commit in client.offsets(GROUP).items()}


def heartbeats(client):
    """Who has sent those that came."""
    return [
        record.value
        for partition, head in client.heads(HEARTBEATS).items()
        for batch in client.scan(partition, 0, head + 1)
        for record in records_of(batch)
    ]


@pytest.mark.slow
@pytest.mark.net
def test_a_driver_that_is_killed_brings_all_there_is_and_nothing_twice(make_pair, until):
    """Records, the positions of a group and heartbeats, as the native link does."""
    ensure_java()
    pair = make_pair("heartbeat_ms: 500")
    c1, c2 = pair.topology.clusters

    with (
        pair.running(),
        closing(StoreClient(c1.stores[0].query)) as here,
        closing(StoreClient(c2.stores[0].query)) as there,
        Producer(c1.towers[0]) as producer,
        Consumer(Cluster(c1.towers, c1.stores[0].query), "orders", group=GROUP) as group,
    ):

        def write(first):
            for number in range(first, first + WRITTEN):
                producer.send("orders", b"%d" % number)
            producer.flush(60)

        def process(count):
            for _ in range(count):
                assert group.poll(WAIT_S) is not None
            group.commit()

        def arrived(records):
            return (
                sum(head + 1 for head in there.heads("orders").values()) == records
                and positions(there) == positions(here) != {}
                and b"c1" in heartbeats(there)
            )

        write(0)
        process(WRITTEN // 2)
        with command(pair, "local[2]", until_told=True) as job:
            until(lambda: job.poll() is not None or arrived(WRITTEN), WAIT_S)
            assert job.poll() is None, job.stdout.read()[-4_000:]
            write(WRITTEN)
            process(WRITTEN)
            job.kill()
        beats = len(heartbeats(there))
        with command(pair, "local[2]", until_told=True) as job:
            until(lambda: job.poll() is not None or arrived(2 * WRITTEN), WAIT_S)
            until(lambda: job.poll() is not None or len(heartbeats(there)) > beats, WAIT_S)
            job.terminate()
            out, _ = job.communicate(timeout=120)
            assert job.returncode == 0, out[-4_000:]
        verdict = verify(pair.topology, deep=True)
        assert verdict.equal, verdict.differences
