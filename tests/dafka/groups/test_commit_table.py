"""What every log does with commits is in tests/contracts/test_commits.py."""

from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.groups.commit import TOPIC
from dafka.groups.commit_table import NONE, fold
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.memory import MemoryLog


def test_batches_of_other_topics_are_not_even_opened():
    log = MemoryLog("AB" * 16)
    assert fold(log, [Batch(Partition("orders", "A1"), 0, 1, b"anything")]) is NONE


def test_records_that_are_no_commits_are_counted_and_passed_over():
    builder = BatchBuilder(1 << 16)
    for key, value in ((None, None), (b"{}", b"{}"), (b"key", None)):
        builder.append(0, key, value, ())
    batch = Batch(Partition(TOPIC, "A1"), 0, 3, enclosed(builder.build(), 0))
    folded = fold(MemoryLog("AB" * 16), [batch])
    assert (folded.entries, folded.commits, folded.refused) == ([], 0, 3)


def test_a_batch_that_cannot_be_read_is_counted_once():
    builder = BatchBuilder(1 << 16)
    builder.append(0, None, b"value", ())
    content = enclosed(builder.build(), 0)[:-3]
    folded = fold(MemoryLog("AB" * 16), [Batch(Partition(TOPIC, "A1"), 0, 1, content)])
    assert (folded.entries, folded.refused) == ([], 1)


def test_a_disk_that_cannot_be_read_is_the_stores_trouble(monkeypatch, committed):
    log = MemoryLog("AB" * 16)

    def broken(*_):
        raise StorageError("cannot read log: I/O error")

    monkeypatch.setattr(log, "get", broken)
    with pytest.raises(StorageError):
        fold(log, [committed(0, ("billing", Partition("orders", "A1"), 3, 1, 1))])
