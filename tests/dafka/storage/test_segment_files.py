from __future__ import annotations

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from dafka.storage.environment import BACKUP_LOCK, DirectoryLock
from dafka.storage.file_calls import FileCalls
from dafka.storage.segment_files import LEFT_BYTES, FreedRange, SegmentFiles


@pytest.fixture
def files(tmp_path):
    with closing(SegmentFiles(tmp_path, sync=True, bytes_max=100_000)) as files:
        yield files


def test_frames_lie_one_behind_the_other_and_begin_segments(files):
    assert [files.append([bytes([one]) * 60_000]) for one in (1, 2)] == [(1, 0), (2, 0)]
    assert files.append([b"3" * 40_000]) == (2, 60_000)
    assert files.append([b"4" * 300_000]) == (3, 0)  # larger than a segment
    assert files.sizes() == {1: 60_000, 2: 100_000, 3: 300_000}
    assert files.read(2, 59_999, 3) == b"\x0233"
    assert files.read(3, 299_999, 3) == b"4"
    assert b"".join(files.chunks(3, 299_000)) == b"4" * 299_000


def test_what_lies_behind_where_it_goes_on_is_written_over(files):
    files.append([b"12345"])
    files.go_on(1, 3)
    assert files.append([b"x"]) == (1, 3)
    assert files.read(1, 0, 9) == b"123x5"
    assert files.append([b"yz"]) == (1, 4)
    assert files.read(1, 0, 9) == b"123xyz"


def test_a_spare_segment_is_given_back_but_not_while_a_backup_is_made(files, tmp_path):
    for octets in (b"1", b"2"):
        files.append([octets * 90_000])
    assert files.let_go([1], [])
    lock = DirectoryLock(tmp_path, "backup", BACKUP_LOCK)
    files.drop_spare()
    assert files.sizes().keys() == {1, 2}
    lock.release()
    files.drop_spare()
    assert files.sizes().keys() == {2}


def test_one_segment_is_used_again_and_others_go(files):
    for octets in (b"1", b"2", b"3", b"4"):
        files.append([octets * 90_000])
    assert files.let_go([1, 2], [])
    assert files.sizes().keys() == {1, 3, 4}
    files.append([b"5" * 20_000])
    assert files.sizes() == {3: 90_000, 4: 90_000, 5: 90_000}
    assert files.read(5, 19_999, 2) == b"51"


def test_a_backup_keeps_what_is_let_go(files, tmp_path):
    for octets in (b"1", b"2", b"3"):
        files.append([octets * 90_000])
    lock = DirectoryLock(tmp_path, "backup", BACKUP_LOCK)
    assert not files.let_go([1], [FreedRange(2, 0, 90_000)])
    assert files.sizes().keys() == {1, 2, 3}
    lock.release()
    assert files.let_go([1], [])
    lock = DirectoryLock(tmp_path, "backup", BACKUP_LOCK)
    files.append([b"4" * 90_000])
    assert files.sizes().keys() == {1, 2, 3, 4}
    lock.release()


def test_holes_next_to_each_other_give_whole_pages_back(files):
    files.append([os.urandom(80_000)])
    before = files.read(1, 0, 80_000)
    taken = files.taken()
    assert files.let_go([], [FreedRange(1, 10_000, 13_000), FreedRange(1, 13_000, 40_100)])
    after = files.read(1, 0, 80_000)
    assert after[12_288:36_864] == bytes(36_864 - 12_288)
    assert after[:12_288] + after[36_864:] == before[:12_288] + before[36_864:]
    assert files.taken() < taken


class RefusedOnce(FileCalls):
    """A system that refuses its next call of this name."""

    name = ""

    def refuses(self, name):
        if name == self.name:
            self.name = ""
            raise OSError(errno.EIO, "Input/output error")

    def open(self, path):
        self.refuses("open")
        return super().open(path)

    def taken(self, file):
        self.refuses("taken")
        return super().taken(file)

    def sync_directory(self, path):
        self.refuses(f"sync {path.name}")
        super().sync_directory(path)


@pytest.mark.parametrize("name", ["open", "taken", "sync segments"])
def test_a_segment_that_cannot_be_begun_leaves_the_last_one_as_it_is(tmp_path, name):
    """What came next was written to the new one, as if it were the old."""
    calls = RefusedOnce()
    with closing(SegmentFiles(tmp_path, sync=True, bytes_max=100_000, calls=calls)) as files:
        files.append([b"1" * 90_000])
        calls.name = name
        with pytest.raises(OSError, match="Input/output error"):
            files.append([b"2" * 90_000])
        assert files.append([b"3" * 5_000]) == (1, 90_000)
        assert files.read(1, 89_999, 9_999) == b"1" + b"3" * 5_000
        assert files.append([b"4" * 90_000]) == (2, 0)


def test_the_name_of_the_directory_is_synced_until_that_has_been_done(tmp_path):
    calls = RefusedOnce()
    with closing(SegmentFiles(tmp_path / "log", sync=True, calls=calls)) as files:
        (tmp_path / "log").mkdir()
        for _ in range(2):
            calls.name = "sync log"
            with pytest.raises(OSError, match="Input/output error"):
                files.append([b"1"])
        assert files.append([b"1"]) == (1, 0)


class SlowCalls(FileCalls):
    """Write so many bytes at once, and no more than the system's number of pieces."""

    def __init__(self, bytes_max):
        self.bytes_max = bytes_max

    def write(self, file, pieces, at):
        assert len(pieces) <= os.sysconf("SC_IOV_MAX")
        return super().write(file, [b"".join(pieces)[: self.bytes_max]], at)


@pytest.mark.parametrize("bytes_max", [1, 2, 3, 1_000])
def test_what_is_written_bit_by_bit_is_whole(tmp_path, bytes_max):
    pieces = [b"one", b"", b"two", *(b"%d" % number for number in range(1_500)), b""]
    with closing(SegmentFiles(tmp_path, sync=True, calls=SlowCalls(bytes_max))) as files:
        files.append([b"before"])
        assert files.append(pieces) == (1, 6)
        whole = b"before" + b"".join(pieces)
        assert files.place == (1, len(whole))
        assert files.read(1, 0, 9_999) == whole


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("here")])
def test_what_is_no_file_is_named_and_not_opened(files, tmp_path, make):
    files.append([b"12345"])
    make(tmp_path / "segments/0000000002.log")
    with pytest.raises(OSError, match=r"it is not a file: '.*/segments/0000000002.log'"):
        files.sizes()


@pytest.mark.parametrize("name", ["2.log", "٣.log", "99999999999999999999999.log"])
def test_what_has_no_name_of_a_segment_hides_none(files, tmp_path, name):
    files.append([b"12345"])
    (tmp_path / "segments" / name).write_bytes(b"")
    with pytest.raises(OSError, match=rf"'.*/segments/{name}'"):
        files.sizes_from(1)


def test_segments_follow_each_other(files, tmp_path):
    assert files.sizes_from(1) == {}
    for octets in (b"1", b"2", b"3"):
        files.append([octets * 90_000])
    assert files.sizes_from(2) == {2: 90_000, 3: 90_000}
    assert files.sizes_from(4) == {}
    (tmp_path / "segments/0000000005.log").write_bytes(b"")
    with pytest.raises(OSError, match=r"0000000004.log is missing before it.*0000000005.log'"):
        files.sizes_from(2)
    assert files.sizes_from(4) == {5: 0}


class LittleRoom(FileCalls):
    """A disk of which so many bytes are left."""

    left = LEFT_BYTES + 150_000
    looks = 0

    def free(self, file):
        self.looks += 1
        return self.left


@pytest.fixture
def small(tmp_path):
    calls = LittleRoom()
    with closing(SegmentFiles(tmp_path, sync=True, bytes_max=100_000, calls=calls)) as files:
        yield files, calls


def test_room_is_left_for_the_index(small):
    files, calls = small
    assert files.append([bytes(90_000)]) == (1, 0)
    calls.left -= 90_000
    with pytest.raises(OSError, match="No space left on device but 16 MiB for the index"):
        files.append([bytes(90_000)])
    assert files.append([bytes(9_000)]) == (2, 0)  # it had begun
    calls.left += 90_000
    assert files.append([bytes(90_000)]) == (2, 9_000)


def test_what_is_written_over_takes_no_room(small):
    files, calls = small
    calls.left += 30_000
    for _ in range(2):
        files.append([os.urandom(90_000)])
    files.let_go([1], [])
    calls.left = 0
    assert files.append([b"3" * 80_000]) == (3, 0)
    with pytest.raises(OSError, match="No space left"):
        files.append([b"4" * 90_000])


def test_it_is_not_looked_each_time_what_is_left(small):
    files, calls = small
    calls.left += 10 << 20
    for _ in range(100):
        files.append([bytes(50_000)])
    assert calls.looks in range(3, 9)
