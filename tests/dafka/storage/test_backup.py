from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
from contextlib import closing, contextmanager

import lmdb
import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage import backup
from dafka.storage.backup import back_up, read_manifest, restore
from dafka.storage.check import check
from dafka.storage.environment import BACKUP_LOCK, DirectoryLock, Environment
from dafka.storage.lmdb_log import LmdbLog
from dafka.storage.log import TableEntry
from dafka.storage.log_index import LogIndex
from dafka.storage.new_disk import catch_up, is_new
from tests.support.earlier_log import as_format_5

P, Q = Partition("flights", "AA"), Partition("orders", "BB")
KEPT = ("commits",)


def batch(partition, sequence, octets=10_000):
    builder = BatchBuilder(1 << 16)
    builder.append(sequence, None, os.urandom(octets), ())
    return Batch(partition, sequence, 1, enclosed(builder.build(), sequence))


@contextmanager
def opened(directory, **settings):
    """A log, here: LMDB takes no file twice in a process, so nobody else copies it meanwhile."""
    log = LmdbLog(directory, **settings)
    try:
        yield log
    finally:
        log.close()


@pytest.fixture(autouse=True)
def store(tmp_path):
    """A log with some records, and the address of its store."""
    with opened(tmp_path / "store") as log:
        log.append([batch(P, number) for number in range(40)])
        log.append([batch(Q, 0)], trims={P: 10})
        return log.identity


def made(tmp_path, name="backup", progress=lambda done, most: None, store="store", **settings):
    places = tmp_path / store, tmp_path / name
    return back_up(*places, program="1.0", wall_ms=5, progress=progress, **settings)


def restored(tmp_path, name="restored", source="backup"):
    quiet = lambda done, most: None  # noqa: E731
    return restore(tmp_path / source, tmp_path / name, keeps=KEPT, progress=quiet)


def test_what_is_restored_has_every_record_of_the_moment(tmp_path, store):
    told = []
    manifest = made(tmp_path, progress=lambda *numbers: told.append(numbers))
    assert (manifest.store, manifest.made_ms, manifest.program) == (store, 5, "1.0")
    assert manifest.topics == {"flights": {"AA": (10, 40)}, "orders": {"BB": (0, 1)}}
    assert (manifest.partitions, manifest.records) == (2, 31)
    backup = tmp_path / "backup"
    assert all(done <= most for done, most in told)
    files = {str(one.relative_to(backup)) for one in backup.rglob("*") if one.is_file()}
    assert files == {*manifest.files, "manifest.json"}
    assert [*manifest.files] == ["data.mdb", "segments/0000000001.log"]
    assert manifest.size == sum((backup / name).stat().st_size for name in manifest.files)
    _, identity = restored(tmp_path)
    with opened(tmp_path / "restored") as back, opened(tmp_path / "store") as log:
        assert back.identity == identity
        assert back.heads() == {P: 39, Q: 0}
        assert back.read(P, 10, 1_000, 1 << 24) == log.read(P, 10, 1_000, 1 << 24)
        assert check(back).problems == []


def test_a_restored_disk_is_a_new_one_that_has_said_nothing(tmp_path, store):
    said = [TableEntry(table, b"x", b"y") for table in ("commits", "holds", "links", "registers")]
    with opened(tmp_path / "store") as log:
        log.append((), entries=said)
        catch_up(log)
    made(tmp_path)
    addresses = {store}
    for name in ("first", "second"):
        restored(tmp_path, name)
        with opened(tmp_path / name) as back:
            addresses.add(back.identity)
            assert is_new(back)
            assert back.get("commits", b"x") == b"y"
            gone = [back.get(table, b"x") for table in ("holds", "links", "registers")]
            assert gone == [None] * 3
    assert len(addresses) == 3


def write_on(directory, begin, done):
    with opened(directory) as log:
        begin.wait(60)
        for number in range(40, 60):
            log.append([batch(P, number), batch(Q, number - 39)], trims={P: number - 20})
        done.set()
        begin.clear()
        begin.wait(60)


@pytest.mark.slow
def behind(monkeypatch):
    """Indexes are read, and not written."""

    def refuse(*_):
        raise StorageError("cannot commit: no room")

    monkeypatch.setattr(LogIndex, "commit", refuse)


def said_by(log):
    log.append(
        (), entries=[TableEntry("promises", b"k", b"new"), TableEntry("commits", b"g", b"1")]
    )


def test_a_target_with_no_room_for_the_index_takes_no_backup(tmp_path, monkeypatch):
    log = LmdbLog(tmp_path / "store")
    said_by(log)
    log._release()  # as by kill -9
    behind(monkeypatch)
    with pytest.raises(StorageError, match="no room"):
        made(tmp_path)
    assert not (tmp_path / "backup").exists()


def test_a_backup_with_an_index_that_is_behind_says_nothing_when_it_is_restored(
    tmp_path, monkeypatch
):
    """Segments said again what had been taken from the index."""
    log = LmdbLog(tmp_path / "store")
    said_by(log)
    log._release()  # as by kill -9
    with monkeypatch.context() as before:
        behind(before)
        before.setattr(LmdbLog, "commit", lambda _: None)  # as it was
        made(tmp_path)
    restored(tmp_path)
    with opened(tmp_path / "restored") as log:
        assert log.get("promises", b"k") is None
        assert log.get("commits", b"g") == b"1"


def test_a_log_that_was_killed_as_it_was_made_is_refused(tmp_path):
    with closing(Environment(tmp_path / "new", kind="log", tables=(), layout=backup.FORMAT)):
        pass
    with pytest.raises(StorageError, match="killed before it was whole; start the store once"):
        made(tmp_path, store="new")


def test_a_log_that_is_written_to_meanwhile_is_copied_as_it_was_at_one_moment(tmp_path):
    context = multiprocessing.get_context("spawn")
    begin, written = context.Event(), context.Event()
    writing = context.Process(target=write_on, args=(tmp_path / "store", begin, written))
    writing.start()

    def progress(done, most):
        if not written.is_set():
            begin.set()
            assert written.wait(60)

    manifest = made(tmp_path, progress=progress)
    later = made(tmp_path, "later")
    begin.set()
    writing.join(60)
    ends = {topic: next(iter(of.values())) for topic, of in manifest.topics.items()}
    assert ends == {"flights": (10, 40), "orders": (0, 1)}
    ends = {topic: next(iter(of.values())) for topic, of in later.topics.items()}
    assert ends == {"flights": (39, 60), "orders": (0, 21)}
    for source in ("backup", "later"):
        restored(tmp_path, f"of-{source}", source)
        with opened(tmp_path / f"of-{source}") as back:
            assert check(back).problems == []


def test_a_target_that_refuses_leaves_nothing(tmp_path):
    def full(done, most):
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match=r"cannot back up log at .*No space left"):
        made(tmp_path, progress=full)
    assert [one.name for one in tmp_path.iterdir()] == ["store"]
    made(tmp_path)
    with pytest.raises(StorageError, match=r"cannot restore log to .*No space left"):
        restore(tmp_path / "backup", tmp_path / "restored", keeps=KEPT, progress=full)
    restored(tmp_path)


def test_a_backup_has_its_name_once_it_is_whole(tmp_path):
    seen = []
    made(tmp_path, progress=lambda *_: seen.append((tmp_path / "backup").exists()))
    assert seen
    assert not any(seen)
    with pytest.raises(StorageError, match="is there already"):
        made(tmp_path)


def die(tmp_path, begun):
    def stop(done, most):
        begun.set()
        signal.pause()

    made(tmp_path, progress=stop)


@contextmanager
def dying(tmp_path):
    """A process in the middle of a backup; it is killed at the end."""
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    process = context.Process(target=die, args=(tmp_path, begun))
    process.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        process.kill()
        process.join()


@pytest.mark.slow
def test_one_that_is_killed_leaves_a_draft_and_the_next_one_clears_up(tmp_path):
    told = pytest.raises(StorageError, match=r"to compact it at .*in use by process")
    with dying(tmp_path), opened(tmp_path / "store") as log, told:
        log.compact()
    assert (tmp_path / ".backup.draft").is_dir()
    made(tmp_path)
    assert not (tmp_path / ".backup.draft").exists()


@pytest.mark.slow
def test_one_log_is_copied_once_at_a_time(tmp_path):
    with dying(tmp_path), pytest.raises(StorageError, match=r"to back it up at .*by process"):
        made(tmp_path, "other", patience_s=0)


def test_it_waits_for_a_store_that_gives_disk_back(tmp_path, monkeypatch):
    lock = DirectoryLock(tmp_path / "store", "log", BACKUP_LOCK)
    monkeypatch.setattr(backup, "sleep", lambda _seconds: lock.release())
    assert made(tmp_path).records == 31


def test_a_backup_of_the_version_before_is_restored(tmp_path, store):
    as_format_5(tmp_path / "store")
    file = tmp_path / "store/data.mdb"
    (tmp_path / "backup").mkdir()
    shutil.copy(file, tmp_path / "backup")
    said = {
        "version": 1,
        "program": "0.9",
        "log_format": "5",
        "store": store,
        "made_ms": 4,
        "size": file.stat().st_size,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "topics": {"flights": {"AA": [10, 40]}, "orders": {"BB": [0, 1]}},
    }
    (tmp_path / "backup/manifest.json").write_text(json.dumps(said))
    manifest, identity = restored(tmp_path)
    assert (manifest.store, manifest.records) == (store, 31)
    with opened(tmp_path / "restored") as back:
        assert back.identity == identity != store
        assert {one: extent[:2] for one, extent in back.extents().items()} == {
            P: (10, 39),
            Q: (0, 0),
        }
        assert check(back).problems == []
        back.append([batch(P, 40)])


@pytest.mark.slow
def test_a_store_whose_map_is_full_looks_first_for_who_was_killed(tmp_path):
    with opened(tmp_path / "store", map_bytes=1 << 21) as log:
        with dying(tmp_path):
            pass
        for number in range(40, 400):
            log.append([batch(P, number)], trims={P: number - 40})
        assert log._environment._lmdb.info()["map_size"] == 1 << 21


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda said: said | {"log_format": "9", "program": "7.0"}, "format '9'.*use '7.0'"),
        (lambda said: said | {"version": 3}, "cannot restore"),
        (lambda said: {"version": 1}, "is none of this version's"),
        (lambda said: said | {"topics": 3}, "is none of this version's"),
        (lambda said: [], "is none of this version's"),
        (lambda said: said | {"files": {"data.mdb": [1, said["files"]["data.mdb"][1]]}}, "damaged"),
        (
            lambda said: said | {"files": {"data.mdb": [said["files"]["data.mdb"][0], ""]}},
            "damaged",
        ),
        (lambda said: said | {"files": said["files"] | {"../x": [0, ""]}}, "is no file of a log"),
        (lambda said: said | {"files": {}}, "is no file of a log"),
    ],
)
def test_what_is_no_backup_of_this_version_is_refused(tmp_path, change, told):
    made(tmp_path)
    file = tmp_path / "backup/manifest.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    with pytest.raises(StorageError, match=told):
        restored(tmp_path)
    assert not (tmp_path / "restored/data.mdb").exists()


def test_a_directory_that_is_not_empty_is_refused(tmp_path):
    made(tmp_path)
    restored(tmp_path)
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange/file").touch()
    for name, holds in (("restored", "data.mdb"), ("strange", "file")):
        with pytest.raises(StorageError, match=rf"it has '{holds}'; .*empty directory"):
            restored(tmp_path, name)


def test_a_restore_that_was_killed_is_done_again(tmp_path):
    made(tmp_path)
    (tmp_path / "restored/draft").mkdir(parents=True)
    (tmp_path / "restored/draft/data.mdb").write_bytes(b"half")
    restored(tmp_path)
    with opened(tmp_path / "restored") as back:
        assert back.heads() == {P: 39, Q: 0}


def test_a_log_of_another_version_is_refused(tmp_path):
    with (
        lmdb.open(str(tmp_path / "store"), max_dbs=8) as opened,
        opened.begin(write=True) as changing,
    ):
        changing.put(b"format", b"4", db=opened.open_db(b"meta", changing))
    with pytest.raises(StorageError, match="its format is '4', this version copies '6'"):
        made(tmp_path)
    with lmdb.open(str(tmp_path / "strange")) as opened, opened.begin(write=True) as changing:
        changing.put(b"x", b"y")
    with pytest.raises(StorageError, match="its format is 'none'"):
        made(tmp_path, store="strange")


def test_a_manifest_is_read_back(tmp_path, store):
    manifest = made(tmp_path)
    read = read_manifest(tmp_path / "backup")
    assert (read.records, read.sha256, read.store) == (31, manifest.sha256, store)
    with pytest.raises(StorageError, match="cannot read backup at"):
        read_manifest(tmp_path / "none")
