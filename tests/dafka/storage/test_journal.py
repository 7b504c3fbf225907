"""What the journal does by itself; what a log on it promises is in tests/contracts."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

import pytest

from dafka.errors import RestartError, StorageError
from dafka.model import Batch, Partition
from dafka.storage.environment import BACKUP_LOCK, DirectoryLock, Environment
from dafka.storage.file_calls import FILE_CALLS, FileCalls
from dafka.storage.journal import INDEXED_APPENDS, Journal
from dafka.storage.log import ChangeOrder, TableEntry
from dafka.storage.log_index import TABLES, LogChange, LogIndex
from dafka.storage.segment_files import SegmentFiles

P = Partition("orders", "A1")


@contextmanager
def opened(
    directory,
    indexed_bytes=1 << 20,
    calls=FILE_CALLS,
    bytes_max=1_000,
    index_of=LogIndex,
    **settings,
):
    with ExitStack() as things:
        environment = Environment(directory, kind="log", tables=TABLES, layout="6", **settings)
        things.callback(environment.close)
        index = index_of(environment, ChangeOrder("x"), 10)
        files = SegmentFiles(directory, sync=True, bytes_max=bytes_max, calls=calls)
        made = Journal(environment, index, files, indexed_bytes)
        things.callback(made.close)
        yield made


def appended(journal_, sequence, octets=400, arrival_ms=7):
    batch = Batch(P, sequence, 1, bytes([sequence]) * octets)
    journal_.change(LogChange([batch], {}, {}, (), (), arrival_ms))


def entered(journal_, key, value):
    journal_.change(LogChange([], {}, {}, [TableEntry("table", key, value)], (), 7))


def trimmed(journal_, sequence):
    journal_.change(LogChange([], {P: sequence}, {}, (), (), 7))


def written(directory):
    return sorted(one.name for one in (directory / "segments").iterdir())


def test_what_is_not_committed_is_read_again_from_segments(tmp_path):
    with opened(tmp_path) as one:
        for sequence in range(5):
            appended(one, sequence)
    with opened(tmp_path) as one:
        index = one.index()
        assert index.extents[P][:2] == (0, 4)
        rows = [row for _, row in index.batches(P, 0)]
        assert [one.content(row) for row in rows] == [bytes([n]) * 400 for n in range(5)]
        assert one.strays(P) == []


def test_the_index_is_committed_behind_so_many_bytes_and_gives_back_what_is_free(tmp_path):
    with opened(tmp_path, indexed_bytes=1_500) as one:
        for sequence in range(20):
            appended(one, sequence)
            trimmed(one, sequence)
        assert len(written(tmp_path)) <= 6  # of ten: those behind the last commit, and a spare


def test_what_is_held_off_by_a_backup_goes_with_a_later_commit(tmp_path):
    with opened(tmp_path) as one:
        for sequence in range(20):
            appended(one, sequence)
        trimmed(one, 19)
        lock = DirectoryLock(tmp_path, "log", BACKUP_LOCK)
        one.commit()
        assert len(written(tmp_path)) == 10
        lock.release()
        one.commit()
        assert len(written(tmp_path)) == 2  # the last one, and one to be used again


def test_holes_wait_until_a_segments_worth_of_them_is_there(tmp_path):
    with opened(tmp_path, bytes_max=1 << 20) as one:
        for sequence in range(16):
            appended(one, sequence, 100_000)  # ten in a segment
        trimmed(one, 9)
        one.commit()
        segment = tmp_path / "segments/0000000001.log"
        assert segment.stat().st_blocks * 512 > 1_000_000
        for sequence in range(16, 30):
            appended(one, sequence, 100_000)
        trimmed(one, 19)  # the first one is empty as a whole
        one.commit()
        assert segment.stat().st_blocks * 512 > 1_000_000  # and has all its blocks


def test_holes_wait_no_longer_than_until_the_log_is_closed(tmp_path):
    segment = tmp_path / "segments/0000000001.log"
    with opened(tmp_path, bytes_max=1 << 20) as one:
        for sequence in range(16):
            appended(one, sequence, 100_000)
        trimmed(one, 9)
        one.commit()
        blocks = segment.stat().st_blocks
    assert segment.stat().st_blocks < blocks / 2
    with opened(tmp_path, bytes_max=1 << 20) as one:
        assert one.strays(P) == []


def refuse(*_):
    raise OSError(5, "no")


def test_what_cannot_be_given_back_is_said_and_tried_again(tmp_path, caplog, monkeypatch):
    with opened(tmp_path) as one:
        for sequence in range(20):
            appended(one, sequence)
        trimmed(one, 19)
        with monkeypatch.context() as refusing:
            refusing.setattr(SegmentFiles, "let_go", refuse)
            one.commit()
        assert "cannot give back what is free: [Errno 5] no" in caplog.text
        assert len(written(tmp_path)) == 10
        one.commit()
        assert len(written(tmp_path)) == 2


class FullDisk(FileCalls):
    full = False

    def write(self, file, pieces, at):
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(file, pieces, at)


def test_a_disk_that_is_full_gets_back_what_waits_to_be_used_again(tmp_path):
    disk = FullDisk()
    with opened(tmp_path, calls=disk, bytes_max=1 << 20) as one:
        for sequence in range(26):
            appended(one, sequence, 100_000)  # ten in a segment
        trimmed(one, 21)  # two segments as a whole, and a hole in the third
        one.commit()
        hollow = tmp_path / "segments/0000000003.log"
        blocks = hollow.stat().st_blocks
        assert len(written(tmp_path)) == 2  # it, and one to be used again
        disk.full = True
        with pytest.raises(StorageError, match="No space left on device"):
            appended(one, 26, 100_000)
        assert written(tmp_path) == [hollow.name]
        assert hollow.stat().st_blocks < blocks
        disk.full = False
        appended(one, 26, 100_000)
        assert one.index().extents[P][:2] == (21, 26)


class LittleRoom(FileCalls):
    def free(self, file):
        return 1 << 20


def test_a_disk_is_not_filled_up_so_that_what_is_there_can_be_dropped(tmp_path):
    with opened(tmp_path) as one:
        appended(one, 0)
    with opened(tmp_path, calls=LittleRoom()) as one:
        with pytest.raises(StorageError, match="No space left on device but 16 MiB for the index"):
            appended(one, 1)
        trimmed(one, 1)
        assert one.index().extents[P][:2] == (1, 0)


def test_what_neither_segment_nor_index_takes_is_not_there(tmp_path, monkeypatch):
    disk = FullDisk()
    with opened(tmp_path, calls=disk) as one:
        appended(one, 0)
        appended(one, 1)
        one.commit()
        disk.full = True
        with monkeypatch.context() as refusing:
            refusing.setattr(LogIndex, "commit", refuse_to_commit)
            with pytest.raises(StorageError, match="cannot commit"):
                trimmed(one, 1)
            assert one.index().extents[P].start == 0
        trimmed(one, 1)
        assert one.index().extents[P].start == 1


def test_the_index_is_committed_behind_so_many_appends(tmp_path, monkeypatch):
    commits = []
    real = LogIndex.commit
    monkeypatch.setattr(
        LogIndex, "commit", lambda self, at: commits.append(at.number) or real(self, at)
    )
    with opened(tmp_path, indexed_bytes=1 << 30) as one:
        for sequence in range(INDEXED_APPENDS + 1):
            one.change(LogChange([Batch(P, sequence, 1, b"x")], {}, {}, (), (), 7))
        assert commits == [1, INDEXED_APPENDS + 1]


def test_what_neither_segment_nor_index_takes_is_as_it_was_before(tmp_path, monkeypatch):
    calls = FileCalls()
    with opened(tmp_path, calls=calls) as one:
        for sequence in range(5):
            appended(one, sequence)
        one.commit()
        monkeypatch.setattr(calls, "write", refuse)
        change = Environment.change

        def refused(self, attempt, work):
            change(self, attempt, work)  # and all is lost
            self.drop()
            raise StorageError("cannot append: no room")

        with monkeypatch.context() as refusing:
            refusing.setattr(Environment, "change", refused)
            with pytest.raises(StorageError):
                trimmed(one, 3)
        assert one.index().extents[P][:2] == (0, 4)
        assert len(list(one.index().batches(P, 0))) == 5
        trimmed(one, 3)
        assert one.index().extents[P][:2] == (3, 4)


@pytest.mark.parametrize("name", ["1.log", "0000000050.log", "99999999999999999999.log"])
def test_a_stray_file_takes_the_place_of_no_segment(tmp_path, name):
    """Records that the first was read for were lost, and the last ended a store at its append."""
    with opened(tmp_path) as one:
        appended(one, 0)
    stray = tmp_path / "segments" / name
    stray.write_bytes(b"not ours")
    with pytest.raises(StorageError, match=name), opened(tmp_path):
        pass
    assert stray.read_bytes() == b"not ours"
    stray.unlink()
    with opened(tmp_path) as one:
        assert one.index().extents[P].head == 0


class RefusesRead(FileCalls):
    """A disk that refuses the next call of this name but so many."""

    name, left = "", 0

    def __getattribute__(self, name):
        if name == object.__getattribute__(self, "name"):
            self.left -= 1
            if self.left < 0:
                self.name = ""
                return refuse
        return object.__getattribute__(self, name)


def refuse_to_commit(*_):
    raise StorageError("cannot commit")


@pytest.mark.parametrize(("name", "left"), [("open", 0), ("sync", 0), ("read", 0), ("read", 1)])
def test_a_log_is_whole_whatever_refused_to_be_read_again(tmp_path, monkeypatch, name, left):
    """The index had what was read so far, and not up to where: it could not be opened any more."""
    calls = RefusesRead()
    with opened(tmp_path, calls=calls) as one:
        for sequence in range(20):
            appended(one, sequence)
        with monkeypatch.context() as refusing:
            refusing.setattr(LogIndex, "commit", refuse_to_commit)
            with pytest.raises(StorageError, match="cannot commit"):
                one.commit()
        calls.name, calls.left = name, left
        with pytest.raises(RestartError):
            one.index()
        one.settle()  # as a log does that is closed
    with opened(tmp_path) as one:
        assert one.index().extents[P][:2] == (0, 19)


class LosesAll(LogIndex):
    """An index that ends with an error behind a call of this name, and loses all it has not
    committed."""

    name = ""

    def behind(self, name, done):
        if name == self.name:
            self._environment.drop()
            raise MemoryError
        return done

    def perform(self, *given):
        return self.behind("perform", super().perform(*given))

    def write(self):
        return self.behind("write", super().write())

    def commit(self, standpoint):
        return self.behind("commit", super().commit(standpoint))

    def move(self, *given):
        return self.behind("move", super().move(*given))


def entered_and_compacted(journal_):
    entered(journal_, b"key", b"two")
    journal_.compact()


@pytest.mark.parametrize("name", ["perform", "write", "commit", "move"])
def test_a_log_is_whole_whatever_went_wrong_with_its_index(tmp_path, name):
    """What had been acknowledged since the last commit was lost by closing it in order."""
    with opened(tmp_path, index_of=LosesAll) as one:
        for sequence in range(10):
            appended(one, sequence, 400 - sequence)
        trimmed(one, 3)
        one.commit()
        for sequence in range(10, 20):
            appended(one, sequence, 400 - sequence)
        entered(one, b"key", b"one")
        index = one.index()
        index.name = name
        with pytest.raises(MemoryError):
            entered_and_compacted(one)
        index.name = ""
        one.settle()
    with opened(tmp_path) as one:
        assert one.index().extents[P][:2] == (3, 19)
        rows = [row for _, row in one.index().batches(P, 3)]
        assert [one.content(row) for row in rows] == [bytes([n]) * (400 - n) for n in range(3, 20)]
        assert one.strays(P) == []


def test_what_the_index_has_alone_is_there_also_if_its_map_was_too_small(tmp_path):
    """At one of so many the map is full as it is committed: that one was lost."""
    disk = FullDisk()
    with opened(tmp_path, calls=disk, map_bytes=1 << 17, sync=False) as one:
        appended(one, 0)
        disk.full = True
        for number in range(400):
            entered(one, b"%d" % number, bytes(number))
            with one._environment.reading() as transaction:
                table = one._environment.table(b"entries")
                assert transaction.stat(table)["entries"] == number + 1


def test_what_is_read_again_is_written_over_before_it_is_synced(tmp_path):
    """A system that could not write it says so once, and then takes it for written."""
    with opened(tmp_path, bytes_max=1 << 20) as one:
        for sequence in range(3):
            appended(one, sequence)
    segment = tmp_path / "segments/0000000001.log"
    octets = segment.read_bytes()
    calls = []

    class Written(FileCalls):
        def write(self, file, pieces, at):
            calls.append((at, b"".join(pieces)))
            return super().write(file, pieces, at)

        def sync(self, file):
            calls.append("sync")
            super().sync(file)

    with opened(tmp_path, calls=Written()) as one:
        assert calls == [(0, octets), "sync"]
    assert segment.read_bytes() == octets


def test_where_the_index_is_refused_records_are_for_a_second(tmp_path, monkeypatch):
    """Each try costs the next read to read segments again, which takes up to a second."""
    tries = []

    def refuse_to_commit(*_):
        tries.append(1)
        raise StorageError("cannot commit: no room")

    with opened(tmp_path, indexed_bytes=1_000) as one:
        for sequence in range(3):
            appended(one, sequence)
        with monkeypatch.context() as refusing:
            refusing.setattr(LogIndex, "commit", refuse_to_commit)
            for arrival_ms in (7, 8, 1_006, 1_007, 1_008, 5):
                with pytest.raises(StorageError, match="cannot commit: no room"):
                    appended(one, 3, arrival_ms=arrival_ms)
            assert len(tries) == 3  # a clock that goes back is no reason to wait
            with pytest.raises(StorageError, match="cannot commit: no room"):
                trimmed(one, 1)
            assert len(tries) == 4  # it makes room
        appended(one, 3, arrival_ms=5_000)
        assert one.index().extents[P][:2] == (0, 3)


def test_what_is_no_segment_is_named_where_the_index_is_new(tmp_path):
    (tmp_path / "segments").mkdir()
    (tmp_path / "segments/1.log").write_bytes(b"not ours")
    with pytest.raises(StorageError, match=r"1\.log"), opened(tmp_path):
        pass
