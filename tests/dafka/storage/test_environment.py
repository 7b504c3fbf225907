from __future__ import annotations

import os

import lmdb
import pytest

from dafka.errors import StorageError
from dafka.storage import environment
from dafka.storage.environment import Environment


def opened(directory, layout="1"):
    return Environment(directory, kind="thing", layout=layout)


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


def test_it_grows_beyond_its_map_within_one_transaction(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "MAP_BYTES", 1 << 17)
    one = opened(tmp_path)
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


def test_one_whose_creation_was_interrupted_is_created(tmp_path):
    lmdb.open(str(tmp_path), max_dbs=3).close()
    environment = opened(tmp_path)
    assert contents(environment) == {}
    environment.close()
