from __future__ import annotations

import multiprocessing
import os
from contextlib import suppress
from pathlib import Path

import pytest

from dafka.errors import MisuseError
from dafka.process.files import (
    is_open_to_others,
    locked,
    private_directory,
    replace_text,
    text_of,
    write_secret,
)


def test_a_secret_is_its_owners_and_is_never_written_over(tmp_path):
    file = tmp_path / "a.secret"
    write_secret(file, "deep")
    assert file.stat().st_mode & 0o777 == 0o600
    assert text_of(file, 100, private=True) == "deep\n"
    with pytest.raises(MisuseError, match="File exists"):
        write_secret(file, "other")
    file.chmod(0o640)
    with pytest.raises(MisuseError, match=r"others may read it \(mode 640\)"):
        text_of(file, 100, private=True)
    assert text_of(file, 100) == "deep\n"


@pytest.mark.parametrize(
    ("mode", "owner", "user", "is_open"),
    [
        (0o100600, 1_000, 1_000, False),
        (0o100440, 1_000, 1_000, True),
        (0o100440, 0, 10_001, False),
        (0o100640, 0, 10_001, False),
        (0o100640, 0, 0, True),
        (0o100640, 1_001, 10_001, True),
        (0o100660, 0, 10_001, True),
        (0o100444, 0, 10_001, True),
        (0o100604, 0, 10_001, True),
    ],
)
def test_a_secret_of_roots_may_be_read_by_the_group_of_who_reads_it(mode, owner, user, is_open):
    assert is_open_to_others(mode, owner, user) is is_open


def test_what_is_no_small_text_is_refused(tmp_path):
    file = tmp_path / "a"
    with pytest.raises(MisuseError, match="No such file"):
        text_of(file, 100)
    file.write_bytes(b"\xff")
    with pytest.raises(MisuseError, match="not UTF-8"):
        text_of(file, 100)
    file.write_text("12345")
    assert text_of(file, 5) == "12345"
    with pytest.raises(MisuseError, match="larger than 4 bytes"):
        text_of(file, 4)


def test_a_private_directory_is_made_or_found_as_one(tmp_path):
    path = tmp_path / "run" / "dafka"
    for _ in range(2):
        private_directory(path)
        assert path.stat().st_mode & 0o777 == 0o700
    path.chmod(0o710)
    with pytest.raises(MisuseError, match=r"others may enter it \(mode 710\); chmod 700 "):
        private_directory(path)
    (tmp_path / "file").touch()
    with pytest.raises(MisuseError, match="cannot make directory"):
        private_directory(tmp_path / "file" / "run")


def test_a_directory_of_another_user_is_not_private(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(MisuseError, match="another user's"):
        private_directory(tmp_path)


def test_a_text_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "web.toml"
    replace_text(file, "one")
    replace_text(file, "two")
    assert file.read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["web.toml"]


def test_what_is_replaced_keeps_its_mode_and_what_is_private_is_private(tmp_path):
    file = tmp_path / "web.toml"
    file.write_text("")
    file.chmod(0o640)
    replace_text(file, "one")
    assert file.stat().st_mode & 0o777 == 0o640
    replace_text(file, "two", private=True)
    assert file.stat().st_mode & 0o777 == 0o600
    replace_text(tmp_path / "kafka.toml", "three", private=True)
    assert (tmp_path / "kafka.toml").stat().st_mode & 0o777 == 0o600


def test_a_draft_that_somebody_has_left_open_to_all_is_not_used(tmp_path):
    (tmp_path / "kafka.new").touch(0o666)
    with (tmp_path / "kafka.new").open() as opened:
        replace_text(tmp_path / "kafka.toml", "secret", private=True)
        assert opened.read() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_is_replaced_keeps_its_owner(tmp_path):
    file = tmp_path / "kafka.toml"
    file.touch()
    os.chown(file, 1234, 2345)
    replace_text(file, "one", private=True)
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 2345)


def test_who_may_not_give_files_away_owns_what_he_writes(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    file = tmp_path / "web.toml"
    replace_text(file, "one")
    replace_text(file, "two")
    assert file.read_text() == "two"


def test_what_is_written_is_on_disk_before_it_is_there(tmp_path, monkeypatch):
    done = []
    sync = os.fsync

    def noted_sync(descriptor):
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted_sync)
    replace_text(tmp_path / "web.toml", "one")
    assert done == ["web.new", tmp_path.name]


def add_lines(directory, file, lines):
    for line in lines:
        with locked(directory):
            before = file.read_text() if file.exists() else ""
            replace_text(file, f"{before}{line}\n")


def test_processes_that_change_one_file_at_once_lose_nothing(tmp_path):
    file = tmp_path / "kafka.toml"
    processes = [
        multiprocessing.get_context("fork").Process(
            target=add_lines, args=(tmp_path, file, range(first, first + 20))
        )
        for first in (0, 20, 40)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(map(int, file.read_text().split())) == list(range(60))
    assert [path.name for path in tmp_path.iterdir()] == ["kafka.toml"]


def test_a_directory_that_stays_locked_is_not_waited_for_without_end(tmp_path):
    taken = pytest.raises(MisuseError, match="another process is changing files")
    with locked(tmp_path), taken, locked(tmp_path, wait_s=0.05):
        pass
    with suppress(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path, wait_s=0):
        pass
    with pytest.raises(MisuseError, match="cannot open directory"), locked(tmp_path / "none"):
        pass
