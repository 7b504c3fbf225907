"""What a crash may leave of a log on disk, made byte by byte, and what is there afterwards."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from dafka.errors import RestartError, StorageError
from dafka.model import Batch, Partition
from dafka.storage.environment import BACKUP_LOCK, DirectoryLock
from dafka.storage.file_calls import FileCalls
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.log import TableEntry

PARTITIONS = [Partition("orders", f"A{number}") for number in range(3)]
APPENDS = 40
RECORDS = 5


def opened(directory, **settings):
    known = {"durability": Durability.OS, "clock": lambda: 7}
    sizes = {"segment_bytes": 1_200, "indexed_bytes": 800, "map_bytes": 1 << 18}
    return LmdbLog(directory, **known | sizes | settings)


def changes(log, chance, number):
    """The next change of a run: records, and now and then all else that there is."""
    partition = chance.choice(PARTITIONS)
    end = log.heads().get(partition, -1) + 1
    if partition not in log.extents():
        end = max([0, *(one.start for one in log.recall([partition]).values())])
    said = {"entries": [TableEntry("t", b"%d" % (number % 5), b"%d" % number)]}
    if number % 7 == 3:
        end += 4
        said["skips"] = {partition: end}
    content = chance.randbytes(chance.randint(1, 40))
    batch = Batch(partition, end, RECORDS, content)
    other = next((one for one in log.extents() if one != partition), None)
    if other is not None:
        extent = log.extents()[other]
        if extent.start > extent.head:
            said["forgets"] = [other]
        else:
            said["trims"] = {other: extent.head + 1 - 5 * chance.randint(0, 3)}
    return [batch], said


def state(log):
    """All that can be seen of a log."""
    kept = {
        partition: (extent, log.outlines(partition, extent.start, 99), contents(log, partition))
        for partition, extent in log.extents().items()
    }
    return kept, log.scan("t", b"", 99), log.recall(PARTITIONS), log.records, log.identity


def contents(log, partition):
    found, at, extent = [], *[log.extents()[partition].start], log.extents()[partition]
    while at <= extent.head:
        batches = log.read(partition, at, 99, 1 << 20)
        found += batches
        at = batches[-1].end if batches else extent.head + 1
    return found


def files(directory):
    names = [directory / "data.mdb", *(directory / "segments").glob("*")]
    return {one.relative_to(directory): one.read_bytes() for one in names if one.exists()}


def laid(directory, held):
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "segments").mkdir(parents=True)
    for name, octets in held.items():
        (directory / name).write_bytes(octets)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run: after each change all that can be seen, and what is on the disk."""
    directory = tmp_path_factory.mktemp("run")
    chance = random.Random(5)
    with closing(opened(directory)) as log:
        moments = [(state(log), files(directory))]
        for number in range(APPENDS):
            batches, said = changes(log, chance, number)
            log.append(batches, **said)
            moments.append((state(log), files(directory)))
    return moments


def torn(before, after):
    """Yield what may be on the disk between two moments, and whether the later one is reached."""
    grown = [name for name in after if name.suffix == ".log" and after[name] != before.get(name)]
    gone = [name for name in before if name not in after]
    (name,) = grown
    # A segment that is used again still has what it had, behind what is written.
    old, new = before.get(name, before[gone[0]] if gone else b""), after[name]
    index = next(one for one in after if one.suffix == ".mdb")
    changed = [at for at, octet in enumerate(new) if old[at : at + 1] != bytes([octet])]
    for cut in range(changed[0], changed[-1] + 2):
        half = new[:cut] + old[cut:]
        for committed in {before[index], after[index]}:
            held = after | {name: half, index: committed}
            yield held, cut > changed[-1]


def test_the_run_has_all_that_is_to_be_shown(run):
    names = [set(held) for _, held in run]
    assert len({name for held in names for name in held}) > 4  # segments
    assert any(before - after for before, after in pairwise(names))
    assert len({held[max(held, key=lambda one: one.suffix == ".mdb")] for _, held in run}) > 4
    assert any(recalled for (_, _, recalled, _, _), _ in run)
    assert run[-1][0][3] >= 150


@pytest.mark.slow
def test_cut_at_any_byte_an_append_is_there_or_not(run, tmp_path):
    seen = 0
    for (before, held_before), (after, held_after) in pairwise(run):
        for held, reached in torn(held_before, held_after):
            laid(tmp_path, held)
            with closing(opened(tmp_path)) as log:
                assert state(log) == (after if reached else before)
            seen += 1
    assert seen > 1_000


def test_what_was_torn_is_written_over_and_opened_again(run, tmp_path):
    (before, held_before), (_, held_after) = run[20:22]
    for number, (held, reached) in enumerate(torn(held_before, held_after)):
        if reached or number % 10:
            continue
        laid(tmp_path, held)
        with closing(opened(tmp_path)) as log:
            assert state(log) == before
            batches, said = changes(log, random.Random(number), number)
            log.append(batches, **said)
            seen = state(log)
        with closing(opened(tmp_path)) as log:
            assert state(log) == seen


def test_a_killed_process_leaves_the_index_behind_and_nothing_is_missing(run, tmp_path):
    for last, held in run:
        laid(tmp_path, held)
        with closing(opened(tmp_path)) as log:
            assert state(log) == last


def test_segments_that_lack_what_the_index_has_are_told(run, tmp_path):
    held = run[-1][1]
    first = min(one for one in held if one.suffix == ".log")
    for lacking in ({first: held[first][:50]}, {first: b""}):
        laid(tmp_path, held | lacking)
        with pytest.raises(StorageError, match=r"its file segments/.* is damaged"):
            opened(tmp_path)
    laid(tmp_path, {name: octets for name, octets in held.items() if name != first})
    with pytest.raises(StorageError, match=r"its file segments/.* is damaged"):
        opened(tmp_path)


@pytest.mark.slow
def test_a_bit_that_has_changed_behind_the_index_is_told_or_ends_the_log(tmp_path):
    chance, states = random.Random(4), []
    log = opened(tmp_path, indexed_bytes=1 << 20)
    for number in range(8):
        before = files(tmp_path)
        batches, said = changes(log, chance, number)
        log.append(batches, **said)
        states.append(state(log))
    log._release()  # as by kill -9: nothing of it is in the index on the disk
    held = files(tmp_path)
    outcomes = []
    for name in held.keys() - {Path("data.mdb")}:
        last_begins = len(before.get(name, b""))
        for at in range(len(held[name])):
            octets = bytearray(held[name])
            octets[at] ^= 1 << chance.randrange(8)
            laid(tmp_path, held | {name: bytes(octets)})
            if held[name] != before.get(name) and at >= last_begins:
                with closing(opened(tmp_path)) as log:
                    assert state(log) == states[-2]
                outcomes.append("ends")
            else:
                with pytest.raises(StorageError, match=r"its file segments/.* is damaged"):
                    opened(tmp_path)
                outcomes.append("told")
    assert min(outcomes.count("ends"), outcomes.count("told")) > 50


def test_segments_without_their_index_are_not_written_over(run, tmp_path):
    held = run[-1][1]
    laid(tmp_path, {name: octets for name, octets in held.items() if name.suffix == ".log"})
    with pytest.raises(StorageError, match="there are segments that it does not know"):
        opened(tmp_path)
    assert (
        files(tmp_path).items()
        >= {name: octets for name, octets in held.items() if name.suffix == ".log"}.items()
    )


class RefusingCalls(FileCalls):
    """Those of the system, of which some of one kind are refused."""

    def __init__(self, kind, refused=()):
        self.kind, self.refused, self.seen = kind, refused, 0

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name != super().__getattribute__("kind"):
            return found

        def call(*words):
            self.seen += 1
            if self.seen in self.refused:
                raise OSError(errno.ENOSPC, "No space left on device")
            return found(*words)

        return call


EVERY = range(1, 1_000_000)
TAKES_THE_APPEND = ["write", "sync"]
CALLS = [*TAKES_THE_APPEND, "open", "cut", "sync_directory", "rename", "remove", "punch"]


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("nth", range(1, 7))
def test_a_call_that_fails_once_takes_one_append_and_no_more(tmp_path, kind, nth):
    calls = RefusingCalls(kind)
    chance = random.Random(nth)
    refused = []
    with closing(opened(tmp_path, durability=Durability.FSYNC, calls=calls)) as log:
        for number in range(40):
            if number == 10:
                calls.seen, calls.refused = 0, {nth}
            before = state(log)
            batches, said = changes(log, chance, number)
            try:
                log.append(batches, **said)
            except StorageError as error:
                refused.append(str(error))
                assert state(log) == before
            else:
                assert state(log) != before
        last = state(log)
    assert len(refused) == 1 if kind in TAKES_THE_APPEND else len(refused) <= 1
    assert all("No space left" in one for one in refused)
    with closing(opened(tmp_path)) as log:
        assert state(log) == last


def test_what_cannot_be_taken_back_ends_the_process(tmp_path):
    calls = RefusingCalls("sync")
    with closing(opened(tmp_path, durability=Durability.FSYNC, calls=calls)) as log:
        log.append([Batch(PARTITIONS[0], 0, 1, b"x")])
        calls.refused = EVERY
        with pytest.raises(RestartError, match="nor can what was written be taken back"):
            log.append([Batch(PARTITIONS[0], 1, 1, b"y")])
    with closing(opened(tmp_path)) as log:
        assert log.heads()[PARTITIONS[0]] in (0, 1)


def test_what_a_killed_process_wrote_is_on_the_disk_before_it_is_told(run, tmp_path):
    laid(tmp_path, run[-1][1])
    calls = RefusingCalls("sync", EVERY)
    with pytest.raises(StorageError, match="No space left"):
        opened(tmp_path, durability=Durability.FSYNC, calls=calls)
    calls.refused = ()
    with closing(opened(tmp_path, durability=Durability.FSYNC, calls=calls)) as log:
        assert state(log) == run[-1][0]


def test_segments_that_nothing_needs_go_when_it_is_opened_again(tmp_path):
    with closing(opened(tmp_path)) as log:
        for number in range(80):
            log.append([Batch(PARTITIONS[0], number, 1, bytes(400))])
        log.append([], trims={PARTITIONS[0]: 79})
        lock = DirectoryLock(tmp_path, "log to back it up", BACKUP_LOCK)
    assert len([*(tmp_path / "segments").iterdir()]) > 20
    lock.release()
    with closing(opened(tmp_path)) as log:
        assert log.heads() == {PARTITIONS[0]: 79}
    assert len([*(tmp_path / "segments").iterdir()]) <= 3  # in use, the last one, a spare


def test_on_a_full_disk_nothing_is_taken_in_and_room_can_be_made(tmp_path):
    calls = RefusingCalls("write")
    with closing(opened(tmp_path, calls=calls)) as log:
        for number in range(20):
            log.append([Batch(PARTITIONS[0], number, 1, bytes(400))])
        taken = len([*(tmp_path / "segments").iterdir()])
        calls.refused = EVERY
        with pytest.raises(StorageError, match="No space left"):
            log.append([Batch(PARTITIONS[0], 20, 1, b"y")])
        log.append([], trims={PARTITIONS[0]: 15})
        assert len([*(tmp_path / "segments").iterdir()]) < taken
        calls.refused = ()
        log.append([Batch(PARTITIONS[0], 20, 1, b"z")], trims={PARTITIONS[0]: 16})
        before = state(log)
        assert log.extents()[PARTITIONS[0]].start == 16
    with closing(opened(tmp_path)) as log:
        assert state(log) == before


OPEN_ON_A_FULL_DISK = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import LmdbLog
partition = Partition("orders", "A0")
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
seconds = iter(range(0, 1_000_000, 1_000))  # that one is tried again
log = LmdbLog(sys.argv[1], indexed_bytes=100, clock=seconds.__next__)
log.settle()
def work():
    print(len(log.read(partition, 0, 99, 1 << 20)), log.get("t", b"k"), flush=True)
    try:
        log.append([Batch(partition, 9, 1, b"y")])
    except StorageError as error:
        print(error, flush=True)
    print(log.heads()[partition], len(log.read(partition, 0, 99, 1 << 20)), flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    log.append([Batch(partition, 9, 1, b"y")])
    print(log.heads()[partition], flush=True)
    log.close()
with ThreadPoolExecutor(1) as other:
    other.submit(work).result()
"""


@pytest.mark.slow
def test_a_disk_that_is_too_full_for_the_index_serves_what_is_there(tmp_path):
    log = opened(tmp_path, indexed_bytes=1 << 20)
    for number in range(9):
        log.append([Batch(PARTITIONS[0], number, 1, b"x")], entries=[TableEntry("t", b"k", b"v")])
    log._release()  # as by kill -9
    done = subprocess.run(
        [sys.executable, "-c", OPEN_ON_A_FULL_DISK, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    first, refusal, *rest = done.stdout.splitlines()
    assert first == "9 b'v'"
    assert "cannot" in refusal
    assert rest == ["8 9", "9"]
    assert "the index stays behind the segments" in done.stderr
    with closing(opened(tmp_path)) as log:
        assert log.heads() == {PARTITIONS[0]: 9}


CHANGE_FOR_EVER = """
import sys
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import LmdbLog
log = LmdbLog(sys.argv[1], segment_bytes=30_000, indexed_bytes=int(sys.argv[2]))
partitions = [Partition("orders", f"A{n}") for n in range(3)]
while True:
    end = log.heads().get(partitions[0], -1) + 1
    said = [b"%s %d;" % (one.address.encode(), end) for one in partitions]
    log.append([Batch(one, end, 3, what * 50) for one, what in zip(partitions, said)])
    log.append([], trims={one: end - 90 for one in partitions[:2]})
    print(end, flush=True)
"""


@pytest.mark.slow
def test_kills_leave_whole_segments_whatever_the_index_has(tmp_path):
    chance = random.Random(3)
    acknowledged = -1
    for _ in range(12):
        words = [str(tmp_path), str(chance.choice([2_000, 50_000, 1 << 20]))]
        child = subprocess.Popen(
            [sys.executable, "-c", CHANGE_FOR_EVER, *words],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
        )
        lines = [child.stdout.readline() for _ in range(chance.randint(1, 300))]
        child.kill()
        told = [*lines, *child.stdout.read().splitlines()]
        child.wait()
        child.stdout.close()
        acknowledged = max(acknowledged, *(int(one) for one in told if one.strip()))
        with closing(opened(tmp_path, segment_bytes=30_000)) as log:
            assert log.strays(9) == []
            for one in PARTITIONS:
                extent = log.extents()[one]
                assert extent.head >= acknowledged + 2
                kept = contents(log, one)
                assert kept[0].sequence == extent.start
                for batch in kept:
                    said = b"%s %d;" % (one.address.encode(), batch.sequence)
                    assert batch.content == said * 50


def test_what_is_left_of_sparse_segments_is_moved(tmp_path):
    with closing(opened(tmp_path, segment_bytes=200_000, indexed_bytes=80_000)) as log:
        for number in range(100):
            log.append(
                [
                    Batch(one, number, 1, b"%s %d;" % (one.address.encode(), number) * 500)
                    for one in PARTITIONS
                ]
            )
        log.append([], trims=dict.fromkeys(PARTITIONS[:2], 90))
        before = state(log)
        taken, left = log.compact()
    # A third is kept whole, of the rest a tenth: 0.4, and the index.
    assert left < 0.5 * taken
    with closing(opened(tmp_path)) as log:
        assert state(log) == before
    assert sum(one.stat().st_size for one in (tmp_path / "segments").iterdir()) < 0.5 * taken
