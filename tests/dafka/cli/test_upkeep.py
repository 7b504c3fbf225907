from __future__ import annotations

import json
import os
import signal

import pytest

from dafka.cli import upkeep
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.lmdb_log import Durability, LmdbLog

pytestmark = pytest.mark.slow

P = Partition("flights", "AA")


@pytest.fixture
def directory(tmp_path):
    log = LmdbLog(tmp_path / "store", durability=Durability.OS)
    for number in range(20):
        builder = BatchBuilder(1 << 16)
        builder.append(number, None, bytes([number]) * 20_000, ())
        log.append([Batch(P, number, 1, enclosed(builder.build(), number))])
    log.append([], trims={P: 15})
    log.close()
    return tmp_path / "store"


def test_a_store_that_is_whole(dafka, directory):
    done = dafka("store", "check", str(directory), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["partitions"], found["records"], found["problems"]) == (1, 5, [])
    assert b"1 partition, 5 batches, 5 records" in dafka("store", "check", str(directory)).stdout


def test_a_damaged_store_is_told_and_ends_with_1(dafka, directory):
    file = directory / "data.mdb"
    octets = file.read_bytes()
    file.write_bytes(octets.replace(bytes([17]) * 8_000, bytes([18]) * 8_000))
    done = dafka("store", "check", str(directory))
    assert done.returncode == 1
    assert b"flights/AA at 17: batch checksum" in done.stdout


def test_a_process_that_dies_of_a_damaged_page_is_told(directory, monkeypatch):
    monkeypatch.setattr(upkeep, "check_log", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(upkeep.StorageError, match="damaged so that reading it ends the process"):
        upkeep.check(directory)


def test_compacting(dafka, directory):
    done = dafka("store", "compact", str(directory), "--json")
    sizes = json.loads(done.stdout)
    assert sizes["bytes_after"] < sizes["bytes_before"]
    assert sizes["bytes_after"] == (directory / "data.mdb").stat().st_size
    assert dafka("store", "check", str(directory)).returncode == 0
    assert b"bytes before" in dafka("store", "compact", str(directory)).stdout


@pytest.mark.parametrize("command", ["check", "compact"])
def test_what_is_in_use_or_no_store_is_refused(refused, directory, tmp_path, command):
    assert "is not a store's" in refused(2, "store", command, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()
    log = LmdbLog(directory)
    assert "in use by process" in refused(2, "store", command, str(directory))
    log.close()
