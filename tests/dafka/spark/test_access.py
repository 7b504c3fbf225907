from __future__ import annotations

import os

import pytest

from dafka.errors import MisuseError
from dafka.spark.access import Access
from dafka.transport.security import Keyring


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


def test_a_file_that_is_not_there(ring):
    with pytest.raises(MisuseError, match="nowhere"):
        Access("/nowhere", "/nowhere").introduce(["a"])
