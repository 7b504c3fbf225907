from __future__ import annotations

import os

import pytest

from dafka.storage.file_calls import FILE_CALLS


def test_a_file_is_written_read_cut_and_named(tmp_path):
    one, other = tmp_path / "made/one", tmp_path / "made/other"
    FILE_CALLS.make_directory(tmp_path / "made")
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    file = FILE_CALLS.open(one)
    assert one.stat().st_mode & 0o777 == 0o600
    assert FILE_CALLS.write(file, [b"123", b"", b"456"], 2) == 6
    FILE_CALLS.sync(file)
    FILE_CALLS.cut(file, 5)
    os.close(file)
    FILE_CALLS.rename(one, other)
    FILE_CALLS.sync_directory(tmp_path / "made")
    file = FILE_CALLS.open_to_read(other)
    assert FILE_CALLS.read(file, 99, 1) == b"\x00123"
    os.close(file)
    FILE_CALLS.remove(other)
    FILE_CALLS.remove(other)
    assert not other.exists()


def test_links_are_not_followed(tmp_path):
    (tmp_path / "aim").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "aim")
    for call in (FILE_CALLS.open, FILE_CALLS.open_to_read):
        with pytest.raises(OSError, match="symbolic"):
            call(tmp_path / "link")


def test_what_cannot_be_punched_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(bytes(8192))
    file = FILE_CALLS.open_to_read(tmp_path / "file")
    with pytest.raises(OSError, match="Bad file descriptor"):
        FILE_CALLS.punch(file, 0, 4096)
    os.close(file)
