"""What every log does with commits is in tests/contracts/test_commits.py."""

from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.groups.commit import TOPIC, CommitKey
from dafka.groups.commit_table import NONE, commit_of, epoch_of, fold
from dafka.limits import GROUP_NUMBERS_AHEAD_MAX
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed, is_compressed
from dafka.records.compression import Codec
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


def test_commits_that_are_compressed_are_not_expanded():
    builder = BatchBuilder(1 << 16, codec=Codec.ZSTD)
    builder.append(0, None, bytes(10_000), ())
    content = enclosed(builder.build(), 0)
    assert is_compressed(content)
    folded = fold(MemoryLog("AB" * 16), [Batch(Partition(TOPIC, "A1"), 0, 1, content)])
    assert (folded.entries, folded.refused) == ([], 1)


def test_a_disk_that_cannot_be_read_is_the_stores_trouble(monkeypatch, committed):
    log = MemoryLog("AB" * 16)

    def broken(*_):
        raise StorageError("cannot read log: I/O error")

    monkeypatch.setattr(log, "get", broken)
    with pytest.raises(StorageError):
        fold(log, [committed(0, ("billing", Partition("orders", "A1"), 3, 1, 1))])


P = Partition("orders", "A1")


def test_an_epoch_far_beyond_what_is_known_changes_nothing_and_the_group_goes_on(committed):
    log = MemoryLog("AB" * 16)
    rows = [
        ("billing", P, 5, 3, 1),
        ("billing", P, 9, 4 + GROUP_NUMBERS_AHEAD_MAX, 2),
        ("billing", P, 6, 4, 3),
    ]
    for sequence, row in enumerate(rows):
        batch = committed(sequence, row)
        folded = fold(log, [batch])
        assert folded.refused == (row[2] == 9)
        log.append([batch], entries=folded.entries)
    assert commit_of(log, CommitKey("billing", P)).position == 6
    assert epoch_of(log, "billing") == 4
    assert fold(log, [committed(3, ("new", P, 1, GROUP_NUMBERS_AHEAD_MAX, 1))]).refused == 0
    assert fold(log, [committed(3, ("new", P, 1, GROUP_NUMBERS_AHEAD_MAX + 1, 1))]).refused == 1


def test_who_may_not_commit_for_a_group_changes_nothing_of_it(committed):
    log = MemoryLog("AB" * 16)
    rows = ("billing", P, 5, 3, 1), ("shop", P, 7, 1, 1)

    def may_commit(address, group):
        return (address, group) != ("C1", "billing")

    folded = fold(log, [committed(0, *rows)], may_commit)
    assert (folded.commits, folded.refused) == (1, 1)
    log.append([committed(0, *rows)], entries=folded.entries)
    assert commit_of(log, CommitKey("billing", P)) is None
    assert commit_of(log, CommitKey("shop", P)).position == 7
