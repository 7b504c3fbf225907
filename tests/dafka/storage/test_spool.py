"""The contract of the port `Spool`, against every implementation."""

from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.lmdb_spool import LmdbSpool
from dafka.storage.spool import MemorySpool


@pytest.fixture(params=["memory", "lmdb"])
def spool(request, tmp_path):
    spool = MemorySpool("AB" * 16) if request.param == "memory" else LmdbSpool(tmp_path)
    yield spool
    spool.close()


def batch(spool, topic, sequence, count=2):
    builder = BatchBuilder(1 << 20)
    for _ in range(count):
        builder.append(0, None, f"{topic}{sequence}".encode(), ())
    content = enclosed(builder.build(), sequence)
    return Batch(Partition(topic, spool.address), sequence, count, content)


def test_a_new_one_is_empty(spool):
    assert (spool.ends(), spool.batches()) == ({}, [])
    assert len(spool.address) == 32


def test_what_is_appended_is_there_each_topic_in_order(spool):
    first, second = batch(spool, "a", 0), batch(spool, "b", 0, 3)
    third = batch(spool, "a", 2, 1)
    spool.append([first, second])
    spool.append([third])
    assert spool.ends() == {"a": 3, "b": 3}
    assert [one for one in spool.batches() if one.partition.topic == "a"] == [first, third]
    assert [one for one in spool.batches() if one.partition.topic == "b"] == [second]


def test_what_does_not_follow_is_refused_whole(spool):
    spool.append([batch(spool, "a", 0)])
    for wrong in (0, 1, 3):
        with pytest.raises(StorageError, match="follows 1"):
            spool.append([batch(spool, "b", 0), batch(spool, "a", wrong)])
    assert spool.ends() == {"a": 2}


def test_stored_batches_are_forgotten_and_their_sequences_are_not(spool):
    spool.append([batch(spool, "a", 0), batch(spool, "a", 2), batch(spool, "aa", 0)])
    spool.forget("a", 3)
    spool.append([batch(spool, "a", 4)])
    kept = {(one.partition.topic, one.sequence) for one in spool.batches()}
    assert kept == {("a", 2), ("a", 4), ("aa", 0)}
    spool.forget("a", 6)
    spool.forget("aa", 2)
    spool.append([batch(spool, "b", 0)])
    assert [one.partition.topic for one in spool.batches()] == ["b"]
    assert spool.ends() == {"a": 6, "aa": 2, "b": 2}
    with pytest.raises(StorageError):
        spool.append([batch(spool, "a", 0)])


def test_forgetting_what_was_never_there_is_nothing(spool):
    spool.forget("a", 5)
    spool.append([batch(spool, "b", 0)])
    assert len(spool.batches()) == 1
