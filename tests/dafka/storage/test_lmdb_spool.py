from __future__ import annotations

import os

import lmdb
import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.lmdb_log import LmdbLog
from dafka.storage.lmdb_spool import LmdbSpool


def batch(spool, sequence, topic="orders", value=b"x"):
    builder = BatchBuilder(1 << 20)
    builder.append(0, None, value, ())
    content = enclosed(builder.build(), sequence)
    return Batch(Partition(topic, spool.address), sequence, 1, content)


def test_opened_again_it_goes_on_under_the_same_address(tmp_path):
    first = LmdbSpool(tmp_path)
    topics = ("orders", "\udcff", "x" * 249)
    kept = [batch(first, 0, topic, os.urandom(10)) for topic in topics]
    first.append(kept)
    address = first.address
    first.close()
    again = LmdbSpool(tmp_path)
    assert again.address == address
    assert sorted(again.batches(), key=lambda one: topics.index(one.partition.topic)) == kept
    assert again.ends() == dict.fromkeys(topics, 1)
    again.close()


def test_closing_deletes_what_is_stored(tmp_path):
    first = LmdbSpool(tmp_path)
    first.append([batch(first, 0), batch(first, 1)])
    first.forget("orders", 1)
    first.close()
    again = LmdbSpool(tmp_path)
    assert [one.sequence for one in again.batches()] == [1]
    again.close()


def test_it_stays_as_small_as_what_is_in_it(tmp_path):
    spool = LmdbSpool(tmp_path)
    for sequence in range(500):
        spool.append([batch(spool, sequence, value=bytes(10_000))])
        spool.forget("orders", sequence - 3)
    assert (tmp_path / "data.mdb").stat().st_size < 60 * 10_000
    spool.close()


def test_two_producers_cannot_have_one(tmp_path):
    spool = LmdbSpool(tmp_path)
    with pytest.raises(StorageError, match=f"cannot open spool .* by process {os.getpid()}"):
        LmdbSpool(tmp_path)
    spool.close()


def test_a_store_and_a_producer_do_not_open_each_others_directory(tmp_path):
    LmdbSpool(tmp_path / "spool").close()
    LmdbLog(tmp_path / "log").close()
    with pytest.raises(StorageError, match="its format is 'spool 1', this version reads '6'"):
        LmdbLog(tmp_path / "spool")
    with pytest.raises(StorageError, match="its format is '6', this version reads 'spool 1'"):
        LmdbSpool(tmp_path / "log")


def change(directory, table, work):
    """Change rows of a spool behind its back, as a bad disk does."""
    with (
        lmdb.open(str(directory), max_dbs=8) as environment,
        environment.begin(write=True, db=environment.open_db(table)) as transaction,
    ):
        (row,) = transaction.cursor()
        work(transaction, *row)


@pytest.mark.parametrize(
    ("table", "work"),
    [
        (b"topics", lambda rows, key, value: rows.put(key, value[:-1])),
        (b"batches", lambda rows, key, value: rows.put(key, value[:3])),
        (b"batches", lambda rows, key, value: rows.put(key, value[:4])),
        (b"batches", lambda rows, key, value: rows.put(key, value[:-1])),
        (b"batches", lambda rows, key, value: rows.put(key, value[:-1] + b"?")),
        (b"batches", lambda rows, key, value: rows.put(key, b"\0\0\0\7" + value[4:])),
        (b"batches", lambda rows, key, value: rows.put(b"short", value)),
        (b"batches", lambda rows, key, value: rows.put(key[:-1] + b"\7", value)),
    ],
    ids=range(8),
)
def test_a_row_that_is_not_what_was_written_is_said(tmp_path, table, work):
    first = LmdbSpool(tmp_path)
    first.append([batch(first, 0)])
    first.close()
    change(tmp_path, table, work)
    with pytest.raises(StorageError, match=r"spool at .*data\.mdb is damaged"):
        LmdbSpool(tmp_path).batches()
