from __future__ import annotations

import os
from functools import partial

import pytest

from dafka.errors import MisuseError
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.spark import register
from dafka.spark.access import Access
from dafka.storage.lmdb_log import Durability
from dafka.transport.keys import load_credentials, new_keys, write_secret
from dafka.transport.security import Keyring, authenticator


@pytest.fixture
def ring(monkeypatch):
    ring = Keyring()
    monkeypatch.setattr("dafka.spark.access.keyring", ring)
    return ring


def test_without_keys_nothing_is_said(ring):
    Access().introduce(["tcp://127.0.0.1:1"])
    assert ring.of("tcp://127.0.0.1:1") is None
    assert not ring.insecure("tcp://127.0.0.1:1")


def test_a_cluster_may_be_open(ring):
    Access(insecure=True).introduce(["a"], ["b"])
    assert ring.insecure("a")
    assert ring.insecure("b")


def test_keys_are_read_where_the_process_runs(ring, monkeypatch):
    monkeypatch.setattr("dafka.spark.access.load_credentials", lambda *files: files)
    Access("/keys/access.toml", "/keys/job.secret").introduce(["a"], ["b"])
    assert [os.fspath(file) for file in ring.of("b")] == ["/keys/access.toml", "/keys/job.secret"]


def test_keys_of_another_job_are_not_used(ring, monkeypatch):
    monkeypatch.setattr("dafka.spark.access.load_credentials", lambda *files: files)
    Access("/keys/access.toml", "/keys/job.secret").introduce(["a", "b"])
    Access().introduce(["a"])
    assert ring.of("a") is None
    assert ring.of("b") is not None


def test_a_file_that_is_not_there(ring):
    with pytest.raises(MisuseError, match="nowhere"):
        Access("/nowhere", "/nowhere").introduce(["a"])


@pytest.fixture
def guarded(tmp_path, free_ports, reopened):
    """Options that lead to a cluster with keys: `job` may read and write `orders` only."""
    pairs = {name: new_keys() for name in ("cluster", "job", "stranger")}
    lines = [f'cluster = "{pairs["cluster"][0]}"']
    for name, topics in (("job", '["orders*"]'), ("stranger", "[]")):
        rights = f'public = "{pairs[name][0]}"', f"read = {topics}", f"write = {topics}"
        lines += [f"[keys.{name}]", *rights]
    (tmp_path / "access.toml").write_text("\n".join(lines))
    for name, (_, secret) in pairs.items():
        write_secret(tmp_path / f"{name}.secret", secret)
    first = free_ports(3)
    tower, query = (f"tcp://127.0.0.1:{port}" for port in (first, first + 2))
    own = load_credentials(tmp_path / "access.toml", tmp_path / "cluster.secret")
    store = partial(Store, tmp_path / "store", tower, query=query, durability=Durability.OS)
    with (
        reopened(partial(Tower, tower, credentials=own)),
        reopened(partial(store, credentials=own)),
    ):
        yield {
            "servers": query,
            "towers": tower,
            "access": str(tmp_path / "access.toml"),
            "key": str(tmp_path / "job.secret"),
        }
    authenticator.stop()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_job_in_a_cluster_with_keys(spark, guarded, tmp_path):
    """Written and read by processes that have nothing but the names of key files."""
    register(spark)
    rows = spark.range(100).selectExpr("CAST(id AS STRING) value")
    rows.write.format("dafka").mode("append").options(**guarded, topic="orders").save()
    reading = spark.read.format("dafka").options(**guarded, subscribe="orders")
    assert reading.load().count() == 100
    with pytest.raises(Exception, match="not permitted"):
        reading.option("key", str(tmp_path / "stranger.secret")).load().count()
