from __future__ import annotations

import json
import os
import signal

import pytest

from dafka.cli import store_disk
from dafka.errors import MisuseError, StorageError
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.lmdb_log import Durability, LmdbLog

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
    file = directory / "segments/0000000001.log"
    octets = file.read_bytes()
    file.write_bytes(octets.replace(bytes([17]) * 8_000, bytes([18]) * 8_000))
    done = dafka("store", "check", str(directory))
    assert done.returncode == 1
    assert b"flights/AA at 17: batch checksum" in done.stdout


def test_a_process_that_dies_of_a_damaged_page_is_told(directory, monkeypatch):
    monkeypatch.setattr(store_disk, "check_log", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(StorageError, match="damaged so that reading it ends the process"):
        store_disk.check(directory)


def test_compacting(dafka, directory):
    done = dafka("store", "compact", str(directory), "--json")
    sizes = json.loads(done.stdout)
    assert sizes["bytes_after"] < sizes["bytes_before"]
    # What segments take on the disk: holes take nothing, though they count as bytes of the file.
    segments = (512 * one.stat().st_blocks for one in (directory / "segments").iterdir())
    assert sizes["bytes_after"] == (directory / "data.mdb").stat().st_size + sum(segments)
    assert dafka("store", "check", str(directory)).returncode == 0
    assert b"bytes before" in dafka("store", "compact", str(directory)).stdout


@pytest.mark.parametrize("command", ["check", "compact"])
def test_what_is_in_use_or_no_store_is_refused(refused, directory, tmp_path, command):
    assert "is not a store's" in refused(2, "store", command, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()
    log = LmdbLog(directory)
    assert "in use by process" in refused(2, "store", command, str(directory))
    log.close()


def test_a_running_store_is_backed_up_and_restored(dafka, directory, tmp_path):
    log = LmdbLog(directory)
    place, back = tmp_path / "monday", tmp_path / "back"
    done = dafka("store", "backup", str(directory), "--to", place.as_uri(), "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["partitions"], made["records"], made["store"]) == (1, 5, log.identity)
    files = [one for one in place.rglob("*") if one.suffix in (".mdb", ".log")]
    assert made["bytes"] == sum(one.stat().st_size for one in files)
    log.close()
    done = dafka("store", "restore", str(place), str(back))
    assert b": 1 partition, 5 records as of 20" in done.stdout, done.stderr
    assert dafka("store", "check", str(back)).returncode == 0
    done = dafka("store", "restore", str(place), str(tmp_path / "again"), "--json")
    told = json.loads(done.stdout)
    assert told["store_before"] == made["store"]
    assert told["store"] != made["store"]
    done = dafka("store", "backup", str(directory), "--to", str(tmp_path / "tuesday"))
    assert b": 1 partition, 5 records, " in done.stdout


def test_a_place_that_is_taken_or_elsewhere_is_refused(refused, directory, tmp_path):
    said = refused(2, "store", "backup", str(directory), "--to", str(tmp_path))
    assert "is there already" in said
    said = refused(2, "store", "backup", str(directory), "--to", "s3://ours/monday")
    assert "'s3://ours/monday': backups are directories of this machine" in said
    said = refused(2, "store", "restore", str(tmp_path / "none"), str(tmp_path / "back"))
    assert "cannot read backup at" in said
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("place", ["file://elsewhere/data", "hdfs://a/b"])
def test_places_on_other_machines_are_none(place):
    with pytest.raises(MisuseError, match=place):
        store_disk.local_path(place)
