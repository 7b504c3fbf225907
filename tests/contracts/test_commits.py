"""What a store's table of commits says, whatever log it is in."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import StorageError
from dafka.groups.commit import TOPIC, Commit, CommitKey, decode, encode
from dafka.groups.commit_table import commit_of, commits_of, fold, groups_of
from dafka.limits import GROUP_NUMBERS_AHEAD_MAX
from dafka.model import Batch, Partition
from dafka.records.envelope import FRESH
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.memory import MemoryLog
from dafka.testing.strategies import RawRecord, batch_of, commits
from dafka.wire.primitives import text

A1, B2 = Partition("orders", "A1"), Partition("orders", "B2")


def open_memory(directory):
    return MemoryLog("AB" * 16)


def open_lmdb(directory):
    return LmdbLog(Path(directory) / "log", durability=Durability.OS)


@pytest.fixture(params=[open_memory, open_lmdb], scope="module")
def opened(request):
    return request.param


@pytest.fixture
def log(opened, tmp_path):
    log = opened(tmp_path)
    yield log
    log.close()


def take(log, *batches):
    """What a store does with batches."""
    log.append(batches, entries=fold(log, batches).entries)


def held(log, group, partition):
    commit = commit_of(log, CommitKey(group, partition))
    return None if commit is None else commit.position


def test_nothing_was_committed_yet(log):
    assert held(log, "billing", A1) is None
    assert commits_of(log, "billing", 10) == []
    assert groups_of(log, 10) == []


def test_the_last_commit_holds(log, committed):
    take(log, committed(0, ("billing", A1, 3, 1, 10), ("billing", A1, 5, 1, 11)))
    take(log, committed(2, ("billing", A1, 9, 1, 12), ("billing", B2, 1, 1, 12)))
    take(log, committed(4, ("audit", A1, 2, 1, 12)))
    assert held(log, "billing", A1) == 9
    assert held(log, "billing", B2) == 1
    assert held(log, "audit", A1) == 2
    assert held(log, "audit", B2) is None


def test_a_commit_of_an_older_epoch_changes_nothing_however_late_it_is(log, committed):
    take(log, committed(0, ("billing", A1, 50, 8, 10)))
    take(log, committed(1, ("billing", A1, 90, 7, 99)))
    assert held(log, "billing", A1) == 50


def test_a_later_commit_may_go_back(log, committed):
    take(log, committed(0, ("billing", A1, 50, 1, 10)))
    take(log, committed(1, ("billing", A1, 20, 1, 11)))
    assert held(log, "billing", A1) == 20


def test_a_forgotten_position_stays_forgotten(log, committed):
    take(log, committed(0, ("billing", A1, 50, 1, 10)))
    take(log, committed(1, ("billing", A1, None, 1, 20)))
    take(log, committed(0, ("billing", A1, 60, 1, 15), address="D2"))
    assert commit_of(log, CommitKey("billing", A1)) == Commit(None, 1, 20)
    take(log, committed(2, ("billing", A1, 70, 1, 21)))
    assert held(log, "billing", A1) == 70


def test_a_record_without_a_value_forgets_nothing(log, committed):
    take(log, committed(0, ("billing", A1, 50, 1, 10)))
    key, _ = encode(CommitKey("billing", A1), Commit(50, 1, 10))
    take(log, batch_of(Partition(TOPIC, "C1"), 1, [RawRecord(0, 99, key, None, [])], FRESH))
    assert held(log, "billing", A1) == 50


def test_the_table_changes_with_the_records_or_not_at_all(log, committed):
    take(log, committed(0, ("billing", A1, 3, 1, 10)))
    with pytest.raises(StorageError):
        take(log, committed(1, ("billing", A1, 5, 1, 11)), Batch(A1, 7, 1, b""))
    assert held(log, "billing", A1) == 3
    assert log.heads() == {Partition(TOPIC, "C1"): 0}


def test_commits_outlast_their_records(log, committed):
    take(log, committed(0, ("billing", A1, 3, 1, 10)))
    log.append((), trims={Partition(TOPIC, "C1"): 1})
    assert held(log, "billing", A1) == 3


def test_commits_survive_a_restart(tmp_path, committed):
    log = open_lmdb(tmp_path)
    take(log, committed(0, ("billing", A1, 3, 1, 10)))
    log.close()
    log = open_lmdb(tmp_path)
    assert held(log, "billing", A1) == 3
    log.close()


def test_a_group_is_read_in_pages_and_by_itself(log, committed):
    places = [Partition("orders", f"{n:X}") for n in range(25)]
    take(log, committed(0, *(("billing", place, n, 1, 1) for n, place in enumerate(places))))
    take(log, committed(25, ("billing2", A1, 1, 1, 1), ("billin", A1, 1, 1, 1)))
    found, after = {}, None
    while True:
        page = [decode(*record) for record in commits_of(log, "billing", 10, after)]
        found |= {key.partition: commit.position for key, commit in page}
        if len(page) < 10:
            break
        after = page[-1][0].partition
    assert found == {place: n for n, place in enumerate(places)}


def test_groups_are_listed_once_each_and_in_pages(log, committed):
    names = ["a", "a!", "ab", "b", "é"]
    places = [Partition("orders", f"{n:X}") for n in range(10)]
    take(log, committed(0, *((name, place, 1, 1, 1) for name in names for place in places)))
    assert groups_of(log, 10) == names
    assert groups_of(log, 2) == names[:2]
    assert groups_of(log, 2, "a!") == names[2:4]
    assert groups_of(log, 2, "é") == []


def test_the_longest_names_have_room(log, committed):
    group = "g" * 249
    place = Partition(text(b"\xff" * 249), text(b"\xfe" * 255))
    take(log, committed(0, (group, place, 4, 1, 1)))
    assert held(log, group, place) == 4
    assert groups_of(log, 10) == [group]


@given(found=st.lists(commits, min_size=1, max_size=8), data=st.data())
def test_stores_that_hear_of_commits_in_another_order_hold_the_same(opened, found, data):
    # Beyond, whose order counts is whoever makes it up; members count up by one.
    found = [replace(one, epoch=one.epoch % GROUP_NUMBERS_AHEAD_MAX) for one in found]
    key = CommitKey("billing", A1)
    other = data.draw(st.permutations(found))
    cuts = data.draw(st.sets(st.integers(1, len(found))))
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        logs = opened(first), opened(second)
        take(logs[0], *batches_of(found, {len(found)}))
        for batch in batches_of(other, cuts | {len(found)}):
            take(logs[1], batch)
        assert commit_of(logs[0], key) == commit_of(logs[1], key) == max(found, key=Commit.rank)
        for log in logs:
            log.close()


def batches_of(found, cuts):
    start = 0
    for end in sorted(cuts):
        records = [
            RawRecord(0, 0, *encode(CommitKey("billing", A1), commit), [])
            for commit in found[start:end]
        ]
        yield batch_of(Partition(TOPIC, "C1"), start, records, FRESH)
        start = end
