from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import lmdb
import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.storage import rows
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.log import TableEntry
from tests.support.earlier_log import as_format_5
from tests.support.last_release import last_release

ORDERS = Partition("orders", "A1")
OTHERS = Partition("orders", "B2")
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

APPEND_FOR_EVER = """
import sys
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import LmdbLog
log = LmdbLog(sys.argv[1])
partitions = [Partition("orders", f"A{n}") for n in range(3)]
while True:
    heads = log.heads()
    batches = []
    for partition in partitions:
        sequence = heads.get(partition, -1) + 1
        batches.append(Batch(partition, sequence, 7, b"%d;" % sequence * 2000))
    log.append(batches)
    print(log.heads()[partitions[0]], flush=True)
"""

APPEND_TO_A_FULL_DISK = """
import resource, sys
from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import LmdbLog
log = LmdbLog(sys.argv[1])
partition = Partition("orders", "A1")
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
appended = 0
try:
    while True:
        log.append([Batch(partition, appended, 1, b"%07d" % appended * 10_000)])
        appended += 1
except StorageError as error:
    print(appended, error, flush=True)
assert log.heads()[partition] == appended - 1
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
for _ in range(5):
    log.append([Batch(partition, appended, 1, b"%07d" % appended * 10_000)])
    appended += 1
print(appended, flush=True)
"""


def content_at(sequence):
    return b"%d;" % sequence * 2000


@pytest.mark.slow
def test_kill_9_loses_nothing_acknowledged(tmp_path):
    chance = random.Random(1)
    acknowledged = -1
    for _ in range(10):
        child = subprocess.Popen(
            [sys.executable, "-c", APPEND_FOR_EVER, str(tmp_path)],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(chance.uniform(0, 0.1))
        child.send_signal(signal.SIGKILL)
        lines = (first + child.stdout.read()).split(b"\n")[:-1]
        child.wait()
        child.stdout.close()
        acknowledged = int(lines[-1])
        log = LmdbLog(tmp_path)
        heads = log.heads()
        assert set(heads) == {Partition("orders", f"A{n}") for n in range(3)}
        for partition, head in heads.items():
            # Every append wrote all three: none may be ahead of the others.
            assert head == heads[Partition("orders", "A0")]
            assert head >= acknowledged
            sequence = 0
            while sequence <= head:
                for batch in log.read(partition, sequence, 1_000, 1 << 20):
                    assert batch.sequence == sequence
                    assert batch.content == content_at(sequence)
                    sequence = batch.end
            assert sequence == head + 1
        log.close()
    assert acknowledged > 0


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", APPEND_TO_A_FULL_DISK, str(tmp_path)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    full, end = done.stdout.splitlines()
    assert f"cannot append to log at {str(tmp_path)!r}" in full
    log = LmdbLog(tmp_path)
    assert log.heads() == {ORDERS: int(end) - 1}
    for sequence in range(int(end)):
        (batch,) = log.read(ORDERS, sequence, 1, 1)
        assert batch.content == b"%07d" % sequence * 10_000
    log.close()


def test_one_process_at_a_time(tmp_path):
    log = LmdbLog(tmp_path)
    with pytest.raises(StorageError, match=f"in use by process {os.getpid()}"):
        LmdbLog(tmp_path)
    other = subprocess.run(
        [sys.executable, "-c", APPEND_FOR_EVER, str(tmp_path)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"in use by process {os.getpid()}" in other.stderr
    log.close()
    LmdbLog(tmp_path).close()


def test_closing_twice_is_harmless(tmp_path):
    log = LmdbLog(tmp_path)
    log.close()
    log.close()


def _set_format(directory, value):
    with lmdb.open(str(directory), max_dbs=8) as environment:
        meta = environment.open_db(b"meta")
        with environment.begin(write=True) as transaction:
            transaction.put(b"format", value, db=meta)


@pytest.mark.parametrize("value", [b"7", b"1", b"", b"\xff", b"2 "])
def test_another_format_is_refused_and_left_alone(tmp_path, value):
    log = LmdbLog(tmp_path)
    log.append([Batch(ORDERS, 0, 1, b"x")])
    log.close()
    _set_format(tmp_path, value)
    with pytest.raises(StorageError, match="this version reads '6'"):
        LmdbLog(tmp_path)
    _set_format(tmp_path, b"6")
    log = LmdbLog(tmp_path)
    assert log.heads() == {ORDERS: 0}
    log.close()


def test_the_format_without_gaps_is_read_and_not_left(tmp_path):
    log = LmdbLog(tmp_path)
    log.append([Batch(ORDERS, 0, 1, b"x")])
    log.close()
    _set_format(tmp_path, b"2")
    log = LmdbLog(tmp_path)
    assert log.heads() == {ORDERS: 0}
    log.append([Batch(ORDERS, 9, 1, b"y")], skips={ORDERS: 9})
    log.close()
    with lmdb.open(str(tmp_path), max_dbs=8) as opened:
        meta = opened.open_db(b"meta")
        with opened.begin() as transaction:
            assert transaction.get(b"format", db=meta) == b"6"


def test_what_format_5_has_in_rows_is_read_beside_what_comes(tmp_path):
    times = iter(range(100, 200))
    settings = {"clock": lambda: next(times)}
    log = LmdbLog(tmp_path, **settings)
    for sequence in range(6):
        log.append([Batch(ORDERS, sequence, 1, b"%d" % sequence)])
    log.append([Batch(OTHERS, 9, 1, b"x")], skips={OTHERS: 9})
    log.close()
    as_format_5(tmp_path)
    log = LmdbLog(tmp_path, **settings)
    assert log.heads() == {ORDERS: 5, OTHERS: 9}
    log.append([Batch(ORDERS, 6, 1, b"6")], trims={ORDERS: 2})
    for _ in range(2):
        assert [one.content for one in log.read(ORDERS, 2, 9, 99)] == [b"2", b"3", b"4", b"5", b"6"]
        assert [log.find(ORDERS, time_ms) for time_ms in (0, 104, 107)] == [2, 4, 6]
        assert log.extents()[ORDERS].size == 5
        assert log.strays(9) == []
        log.close()
        log = LmdbLog(tmp_path, **settings)
    log.append([Batch(ORDERS, 7, 1, b"7")], trims={ORDERS: 7})
    log.compact()
    log = LmdbLog(tmp_path, **settings)
    assert [one.content for one in log.read(ORDERS, 7, 9, 99)] == [b"7"]
    log.close()


APPEND_ONCE = """
import sys
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import LmdbLog
log = LmdbLog(sys.argv[1])
log.append([Batch(Partition("orders", "A1"), 0, 2, b"x" * 3_000)])
print(log.identity)
"""


@pytest.mark.slow
def test_a_directory_of_the_last_release_is_read(tmp_path):
    release = last_release(tmp_path / "release")
    done = subprocess.run(
        [sys.executable, "-c", APPEND_ONCE, str(tmp_path / "log")],
        env=os.environ | {"PYTHONPATH": str(release)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for _ in range(2):
        log = LmdbLog(tmp_path / "log")
        assert log.identity == done.stdout.strip()
        (batch,) = log.read(ORDERS, 0, 9, 1 << 20)
        assert (batch.count, batch.content) == (2, b"x" * 3_000)
        log.close()


def test_a_batch_where_another_one_should_be_is_told(tmp_path):
    log = LmdbLog(tmp_path)
    log.append([Batch(ORDERS, 0, 2, b"one"), Batch(OTHERS, 0, 2, b"two")])
    log.close()
    with _rows(tmp_path, b"batches") as transaction:
        (first, one), (second, two) = list(transaction.cursor())
        transaction.put(first, two)
        transaction.put(second, one)
    log = LmdbLog(tmp_path)
    assert log.strays(9) == [(ORDERS, 0), (OTHERS, 0)]
    assert log.strays(1) == [(ORDERS, 0)]
    log.close()


@contextmanager
def _rows(directory, table):
    with lmdb.open(str(directory), max_dbs=8) as opened:
        database = opened.open_db(table)
        with opened.begin(write=True, db=database) as transaction:
            yield transaction


def _filled(directory):
    log = LmdbLog(directory)
    log.append([Batch(ORDERS, 0, 2, b"x")], entries=[TableEntry("groups", b"shop", b"7")])
    log.append([Batch(OTHERS, 0, 1, b"y")], entries=[TableEntry("groups", b"till", b"8")])
    log.close()


def _holds(directory):
    log = LmdbLog(directory)
    try:
        return log.heads(), log.scan("groups", b"", 10), log.get("groups", b"shop")
    finally:
        log.close()


def test_rows_of_before_there_were_checksums_get_them(tmp_path):
    _filled(tmp_path)
    whole = _holds(tmp_path)
    assert whole == ({ORDERS: 1, OTHERS: 0}, [(b"shop", b"7"), (b"till", b"8")], b"7")
    # As version 3 has left it, and as a crash has left it half-way.
    for table, moved in ((b"partitions", b"partitions"), (b"entries", b"tables")):
        with _rows(tmp_path, table) as transaction:
            rows = {bytes(key): bytes(value) for key, value in transaction.cursor()}
            for key in rows:
                transaction.delete(key)
        with _rows(tmp_path, moved) as transaction:
            for key, value in rows.items():
                transaction.put(key, value[:-4])
    _set_format(tmp_path, b"3")
    assert _holds(tmp_path) == whole
    assert _holds(tmp_path) == whole
    for table, size in ((b"partitions", 48), (b"entries", 5)):
        with _rows(tmp_path, table) as transaction:
            assert {len(value) for _, value in transaction.cursor()} == {size}
    with _rows(tmp_path, b"tables") as transaction:
        assert transaction.stat()["entries"] == 0


def test_a_bit_that_has_changed_in_a_partitions_row_is_found_before_anything_is_served(tmp_path):
    _filled(tmp_path)
    key = b"orders\0A1"
    with _rows(tmp_path, b"partitions") as transaction:
        value = bytearray(transaction.get(key))
    for place in range(len(key) + len(value)):
        changed = bytearray(key) + value
        changed[place] ^= 4
        with _rows(tmp_path, b"partitions") as transaction:
            transaction.delete(key)
            transaction.put(bytes(changed[: len(key)]), bytes(changed[len(key) :]))
        with pytest.raises(StorageError, match=r"data\.mdb is damaged .*is not what was written"):
            LmdbLog(tmp_path)
        with _rows(tmp_path, b"partitions") as transaction:
            transaction.delete(bytes(changed[: len(key)]))
            transaction.put(key, bytes(value))
    assert _holds(tmp_path)[0] == {ORDERS: 1, OTHERS: 0}


def test_a_bit_that_has_changed_in_an_entry_is_found_when_it_is_read(tmp_path):
    _filled(tmp_path)
    with _rows(tmp_path, b"entries") as transaction:
        value = bytearray(transaction.get(b"groups\0shop"))
        value[0] ^= 1
        transaction.put(b"groups\0shop", bytes(value))
    log = LmdbLog(tmp_path)
    for read in (lambda: log.get("groups", b"shop"), lambda: log.scan("groups", b"", 10)):
        with pytest.raises(StorageError, match=r"cannot read log .*is not what was written"):
            read()
    assert log.get("groups", b"till") == b"8"
    log.close()


def test_the_map_grows(tmp_path):
    log = LmdbLog(tmp_path / "log", durability=Durability.OS, map_bytes=1 << 17)
    batches = [Batch(ORDERS, sequence, 1, bytes([sequence]) * 100_000) for sequence in range(50)]
    for batch in batches[:25]:
        log.append([batch])
    log.append(batches[25:])
    log.close()
    log = LmdbLog(tmp_path / "log", map_bytes=1 << 17)  # smaller than the file
    assert log.read(ORDERS, 0, 100, 10_000_000) == batches
    log.append([Batch(ORDERS, 50, 1, bytes(1_000_000))])
    assert log.heads() == {ORDERS: 50}
    log.close()


@pytest.mark.parametrize("durability", Durability)
def test_both_durabilities_survive_a_restart(tmp_path, durability):
    log = LmdbLog(tmp_path, durability=durability)
    log.append([Batch(ORDERS, 0, 1, b"x")])
    log.close()
    log = LmdbLog(tmp_path, durability=durability)
    assert log.read(ORDERS, 0, 1, 1) == [Batch(ORDERS, 0, 1, b"x")]
    log.close()


@pytest.mark.parametrize(
    ("durability", "synced"), [(Durability.FSYNC, True), (Durability.OS, False)]
)
def test_durability_reaches_the_library(tmp_path, durability, synced):
    log = LmdbLog(tmp_path, durability=durability)
    assert log._environment._lmdb.flags()["sync"] is synced
    log.close()


def test_trimming_gives_room_back(tmp_path):
    log = LmdbLog(tmp_path, durability=Durability.OS, segment_bytes=1 << 20)
    log.append([Batch(OTHERS, 0, 1, b"x")])  # so that its segment is never empty
    for sequence in range(200):
        log.append(
            [Batch(ORDERS, sequence, 1, bytes(100_000))], trims={ORDERS: max(0, sequence - 5)}
        )
    assert log.extents()[ORDERS].start == 194
    log.commit()
    # Six are kept; of a segment each there are the last one, one to be used again, and holes that
    # wait; and the index.
    kept = [tmp_path / "data.mdb", *(tmp_path / "segments").iterdir()]
    assert sum(512 * one.stat().st_blocks for one in kept) < 600_000 + 3 * (1 << 20) + 200_000
    log.close()


def test_searching_a_time_reads_few_batches(tmp_path, monkeypatch):
    times = iter(range(2_000))
    log = LmdbLog(tmp_path, durability=Durability.OS, clock=lambda: next(times))
    batches = [Batch(ORDERS, sequence, 1, b"x") for sequence in range(2_000)]
    for batch in batches:
        log.append([batch])
    looked = []
    outline = rows.outline_of
    monkeypatch.setattr(rows, "outline_of", lambda *of: looked.append(of[0]) or outline(*of))
    assert log.find(ORDERS, 1_234) == 1_234
    assert len(looked) <= 12
    log.close()


def test_reading_leaves_no_reader_behind(tmp_path):
    log = LmdbLog(tmp_path, durability=Durability.OS, indexed_bytes=1)
    for sequence in range(200):
        log.append([Batch(ORDERS, sequence, 1, bytes(10_000))])
        log.read(ORDERS, 0, 1_000, 1 << 20)
        log.commit()
        log.read(ORDERS, 0, 1_000, 1 << 20)
    # Pages that a commit has rewritten are used again; else 200 would take five each, at least.
    assert (tmp_path / "data.mdb").stat().st_size < 60 * 4096
    log.close()
