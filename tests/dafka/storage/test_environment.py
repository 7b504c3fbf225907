from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from dafka.errors import RestartError, StorageError
from dafka.storage import environment
from dafka.storage.environment import DirectoryLock, Environment


def opened(directory, layout="1", **settings):
    return Environment(directory, kind="thing", tables=(b"table",), layout=layout, **settings)


def put(environment, key, value):
    table = environment.table(b"table")
    environment.write("write to", lambda transaction: transaction.put(key, value, db=table))


def contents(environment):
    table = environment.table(b"table")
    with environment.reading() as transaction:
        return {bytes(key): bytes(value) for key, value in transaction.cursor(table)}


def test_what_is_written_is_there_after_opening_again_and_so_is_the_identity(tmp_path):
    first = opened(tmp_path / "deep" / "down")
    put(first, b"key", b"value")
    identity = first.identity
    first.close()
    first.close()
    again = opened(tmp_path / "deep" / "down")
    assert (contents(again), again.identity) == ({b"key": b"value"}, identity)
    assert len(identity) == 32
    again.close()


def test_what_it_makes_is_its_owners_only(tmp_path):
    opened(tmp_path / "made").close()
    assert modes_below(tmp_path) == {"made": 0o700, "data.mdb": 0o600, **LOCKS}
    again = opened(tmp_path / "made")
    again.compact()
    locks = LOCKS | {"backup.pid": 0o600}
    assert modes_below(tmp_path) == {"made": 0o700, "data.mdb": 0o600, **locks}


LOCKS = {"lock.mdb": 0o600, "owner.pid": 0o600}


def modes_below(directory):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*")}


def test_a_link_in_place_of_its_lock_is_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "owner.pid").symlink_to(elsewhere)
    with pytest.raises(StorageError, match="cannot lock thing directory"):
        opened(tmp_path / "store")
    assert elsewhere.read_text() == "precious"


def test_a_transaction_that_fails_leaves_nothing(tmp_path):
    environment = opened(tmp_path)
    table = environment.table(b"table")

    def work(transaction):
        transaction.put(b"half", b"x", db=table)
        raise OSError("no more")

    with pytest.raises(StorageError, match=r"cannot write to thing at '.*': no more"):
        environment.write("write to", work)
    assert contents(environment) == {}
    environment.close()


def test_it_grows_beyond_its_map_within_one_transaction(tmp_path):
    one = opened(tmp_path, map_bytes=1 << 17)
    put(one, b"key", bytes(1 << 20))
    assert contents(one) == {b"key": bytes(1 << 20)}
    one.close()


def test_another_layout_is_refused_and_left_alone(tmp_path):
    first = opened(tmp_path, "2")
    put(first, b"key", b"value")
    first.close()
    with pytest.raises(StorageError, match="its format is '2', this version reads '1'"):
        opened(tmp_path)
    again = opened(tmp_path, "2")
    assert contents(again) == {b"key": b"value"}
    again.close()


def test_only_one_may_have_it(tmp_path):
    first = opened(tmp_path)
    with pytest.raises(StorageError, match=f"cannot open thing .* in use by process {os.getpid()}"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_a_foreign_environment_is_refused(tmp_path):
    with lmdb.open(str(tmp_path)) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"somebody", b"else")
    with pytest.raises(StorageError, match="not a thing"):
        opened(tmp_path)


def test_damage_is_refused_and_lets_the_next_one_in(tmp_path):
    (tmp_path / "data.mdb").write_bytes(b"not LMDB" * 10_000)
    with pytest.raises(StorageError, match="cannot open thing at"):
        opened(tmp_path)
    (tmp_path / "data.mdb").unlink()
    opened(tmp_path).close()


def test_a_file_is_not_a_directory(tmp_path):
    path = tmp_path / "file"
    path.write_text("here")
    with pytest.raises(StorageError, match="cannot create thing directory"):
        opened(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_directory(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="cannot lock thing directory"):
        opened(tmp_path)


@pytest.mark.parametrize("written", [0, 100, 4_096, 8_000])
def test_a_creation_that_was_killed_at_its_first_write_is_done_again(tmp_path, written):
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "data.mdb").write_bytes(bytes(written))
    opened(tmp_path).close()
    assert {path.name for path in tmp_path.iterdir()} == {"data.mdb", "lock.mdb", "owner.pid"}


def test_killed_at_any_point_of_its_creation_it_is_created_by_the_next(tmp_path):
    points = 0
    for name in ("mkdir", "replace"):
        for number in range(3):
            directory = tmp_path / f"{name}{number}"
            child = os.fork()
            if child == 0:
                calls = iter(range(10))
                original = getattr(Path, name)

                def killed(*words, original=original, calls=calls, number=number):
                    if next(calls) == number:
                        os._exit(9)
                    return original(*words)

                setattr(Path, name, lambda self, *words, **_: killed(self, *words))
                opened(directory)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            points += os.waitstatus_to_exitcode(status) == 9
            one = opened(directory)
            assert contents(one) == {}
            one.close()
    assert points >= 2


@pytest.mark.parametrize("left", [100, 5_000, 50_000])
def test_a_file_that_was_cut_is_refused_with_what_to_do(tmp_path, left):
    one = opened(tmp_path)
    put(one, b"key", bytes(200_000))
    one.close()
    os.truncate(tmp_path / "data.mdb", left)
    with pytest.raises(StorageError, match="cannot open thing"):
        opened(tmp_path)
    if left > 8_192:
        with pytest.raises(StorageError, match=r"data\.mdb is damaged .* begin anew"):
            opened(tmp_path)


def test_a_page_torn_in_an_unfinished_transaction_was_never_there(tmp_path):
    one = opened(tmp_path)
    put(one, b"key", b"first")
    one.close()
    whole = (tmp_path / "data.mdb").read_bytes()
    one = opened(tmp_path)
    put(one, b"key", b"second")
    one.close()
    torn = bytearray((tmp_path / "data.mdb").read_bytes())
    # Every page that the second transaction has written, but not the one that makes it visible.
    torn[: 2 * 4096] = whole[: 2 * 4096]
    for page in range(2, len(torn) // 4096):
        place = slice(page * 4096, (page + 1) * 4096)
        if torn[place] != whole[place].ljust(4096, b"\0")[: len(torn[place])]:
            torn[page * 4096 + 2048 : (page + 1) * 4096] = bytes(2048)
    (tmp_path / "data.mdb").write_bytes(torn)
    one = opened(tmp_path)
    assert contents(one) == {b"key": b"first"}
    one.close()


def test_compacting_gives_back_what_is_free(tmp_path):
    one = opened(tmp_path)
    put(one, b"large", bytes(1 << 20))
    put(one, b"key", b"value")
    table = one.table(b"table")
    one.write("write to", lambda transaction: transaction.delete(b"large", db=table))
    identity = one.identity
    before, after = one.compact()
    assert after < 100_000 < before
    again = opened(tmp_path)
    assert (contents(again), again.identity) == ({b"key": b"value"}, identity)
    again.close()


def test_compacting_without_room_changes_nothing(tmp_path, monkeypatch):
    one = opened(tmp_path)
    put(one, b"key", b"value")

    def full(*_, **__):
        raise lmdb.DiskError("no space left")

    monkeypatch.setattr(environment, "sync_path", full)
    with pytest.raises(StorageError, match=r"cannot compact thing .* no space left"):
        one.compact()
    monkeypatch.undo()
    one.close()
    again = opened(tmp_path)
    assert contents(again) == {b"key": b"value"}
    assert not (tmp_path / "draft").exists()
    again.close()


def test_one_whose_creation_was_interrupted_is_created(tmp_path):
    lmdb.open(str(tmp_path), max_dbs=3).close()
    environment = opened(tmp_path)
    assert contents(environment) == {}
    environment.close()


def test_names_the_holder(tmp_path):
    lock = DirectoryLock(tmp_path, "log")
    with pytest.raises(StorageError, match=f"in use by process {os.getpid()}"):
        DirectoryLock(tmp_path, "log")
    lock.release()
    DirectoryLock(tmp_path, "log").release()


def test_ends_with_its_process(tmp_path):
    code = "import os, sys, pathlib; from dafka.storage.environment import DirectoryLock; "
    code += "DirectoryLock(pathlib.Path(sys.argv[1]), 'log'); os._exit(9)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, check=False)
    assert died.returncode == 9
    DirectoryLock(tmp_path, "log").release()


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match="cannot lock log directory"):
        DirectoryLock(tmp_path / "missing", "log")


def last_page_refused(directory):
    """Make the next commit fail at its very last write, the page that makes it visible.

    LMDB writes that through a descriptor of its own, which is one for reading from now on.
    """
    for entry in Path("/proc/self/fd").iterdir():
        descriptor = int(entry.name)
        try:
            meant = entry.readlink() == directory / "data.mdb"
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) if meant else 0
        except OSError:
            continue  # the one that listed them
        if flags & os.O_DSYNC:
            with (directory / "data.mdb").open("rb") as reader:
                os.dup2(reader.fileno(), descriptor)


def test_a_commit_that_fails_at_its_last_page_fails_alone(tmp_path):
    one = opened(tmp_path)
    put(one, b"before", b"1")
    last_page_refused(tmp_path)
    with pytest.raises(StorageError, match=r"cannot write to thing at '[^']*': .*descriptor"):
        put(one, b"lost", b"2")
    assert contents(one) == {b"before": b"1"}
    put(one, b"after", b"3")
    assert contents(one) == {b"before": b"1", b"after": b"3"}
    one.close()
    again = opened(tmp_path)
    assert contents(again) == {b"before": b"1", b"after": b"3"}
    again.close()


class Deceived:
    """An environment of LMDB whose next commit is said to have failed, though it is there."""

    def __init__(self, inner):
        self._inner = inner
        self._failed = False

    def __getattr__(self, name):
        return getattr(self._inner, name)

    @contextmanager
    def begin(self, **how):
        if self._failed:
            raise lmdb.PanicError("given up")
        with self._inner.begin(**how) as transaction:
            yield transaction
        self._failed = True
        raise lmdb.DiskError("Input/output error")


def test_a_commit_that_is_there_after_all_is_none_that_failed(tmp_path):
    one = opened(tmp_path)
    put(one, b"before", b"1")
    one._lmdb = Deceived(one._lmdb)
    put(one, b"there", b"2")
    put(one, b"after", b"3")
    assert contents(one) == {b"before": b"1", b"there": b"2", b"after": b"3"}
    one.close()


def test_what_cannot_be_opened_again_has_to_be_started_again(tmp_path, monkeypatch):
    one = opened(tmp_path)
    put(one, b"before", b"1")
    last_page_refused(tmp_path)

    def refuse(*_, **__):
        raise lmdb.DiskError("No such device")

    monkeypatch.setattr(environment, "_opened", refuse)
    with pytest.raises(RestartError, match=r"cannot be opened again: .*No such device; start"):
        put(one, b"lost", b"2")
    one.close()


def change(environment, key, value):
    table = environment.table(b"table")
    return environment.change("write to", lambda transaction: transaction.put(key, value, db=table))


def test_what_is_changed_is_seen_and_stays_once_it_is_committed(tmp_path):
    one = opened(tmp_path)
    assert one.commit("write to")  # nothing
    assert change(one, b"kept", b"1")
    assert one.commit("write to")
    assert change(one, b"lost", b"2")
    assert contents(one) == {b"kept": b"1", b"lost": b"2"}
    one.close()
    one = opened(tmp_path)
    assert contents(one) == {b"kept": b"1"}
    assert change(one, b"dropped", b"3")
    one.drop()
    assert contents(one) == {b"kept": b"1"}
    one.close()


def test_a_change_that_fails_takes_what_was_not_committed(tmp_path):
    one = opened(tmp_path)
    assert change(one, b"before", b"1")

    def work(_transaction):
        raise OSError("no more")

    with pytest.raises(StorageError, match=r"cannot write to thing at '.*': no more"):
        one.change("write to", work)
    assert contents(one) == {}
    one.close()


def test_a_change_without_room_is_said_and_has_room_then(tmp_path):
    one = opened(tmp_path, map_bytes=1 << 17)
    assert change(one, b"before", b"1")
    tries = 0
    while not change(one, b"key", bytes(1 << 20)):
        assert contents(one) == {}
        tries += 1
    assert 1 <= tries <= 5
    assert one.commit("write to")
    assert contents(one) == {b"key": bytes(1 << 20)}
    one.close()


def test_a_commit_of_changes_that_fails_at_its_last_page_loses_them_alone(tmp_path):
    one = opened(tmp_path)
    assert change(one, b"before", b"1")
    assert one.commit("commit")
    assert change(one, b"lost", b"2")
    last_page_refused(tmp_path)
    with pytest.raises(StorageError, match=r"cannot commit thing at '[^']*': .*descriptor"):
        one.commit("commit")
    assert contents(one) == {b"before": b"1"}
    assert change(one, b"after", b"3")
    assert one.commit("commit")
    assert contents(one) == {b"before": b"1", b"after": b"3"}
    one.close()


def test_what_one_thread_has_changed_no_other_one_goes_on_with(tmp_path):
    one = opened(tmp_path)
    assert change(one, b"key", b"1")
    with ThreadPoolExecutor(1) as other:
        with pytest.raises(AssertionError, match="changed by another thread"):
            other.submit(contents, one).result()
        assert one.commit("write to")
        assert other.submit(contents, one).result() == {b"key": b"1"}
    one.close()
