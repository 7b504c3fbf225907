from __future__ import annotations

import os

import pytest

from dafka.errors import MisuseError
from dafka.process.files import private_directory, replace_text, text_of, write_secret


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
