from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from distributor.errors import PlanError
from distributor.local.pidfile import (
    NOTE,
    PidFile,
    digest_of,
    find,
    forget,
    refuse_second,
    write_whole,
)


@pytest.fixture
def other(tmp_path):
    """A process that lives, and has its note in the directory."""
    file = tmp_path / "topology.yaml"
    file.write_text("name: one")
    code = (
        "import sys; from pathlib import Path; from distributor.local.pidfile import PidFile;"
        "PidFile.of(Path(sys.argv[1])).note(Path(sys.argv[2])); print(flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(file), str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_what_runs_is_found_until_it_is_forgotten(tmp_path):
    file = tmp_path / "topology.yaml"
    file.write_text("name: one")
    PidFile.of(file, "why").note(tmp_path)
    found = find(tmp_path)
    assert replace(found, began="") == PidFile(
        os.getpid(), str(file), digest_of(b"name: one"), "why", directory=str(Path.cwd())
    )
    forget(tmp_path)
    forget(tmp_path)
    with pytest.raises(PlanError, match="no `distributor up` has its logs in"):
        find(tmp_path)


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"pid": 1}', b'{"pid": "x"}'])
def test_a_note_that_cannot_be_read_is_none(tmp_path, note):
    (tmp_path / NOTE).write_bytes(note)
    with pytest.raises(PlanError):
        find(tmp_path)


def test_a_note_of_a_process_that_is_gone_is_none(tmp_path):
    file = tmp_path / "topology.yaml"
    file.write_text("name: one")
    replace(PidFile.of(file), pid=2**22 + 1).note(tmp_path)
    with pytest.raises(PlanError):
        find(tmp_path)


def test_a_note_of_a_process_whose_number_is_another_one_s_by_now_is_none(tmp_path):
    file = tmp_path / "topology.yaml"
    file.write_text("name: one")
    replace(PidFile.of(file), began="1").note(tmp_path)
    with pytest.raises(PlanError):
        find(tmp_path)


def test_a_second_one_is_refused_while_the_first_one_lives(tmp_path, other):
    with pytest.raises(PlanError) as refused:
        refuse_second(tmp_path)
    for part in (str(tmp_path / "topology.yaml"), str(tmp_path), f"process {other.pid}", "--logs"):
        assert part in str(refused.value)
    other.kill()
    other.wait()
    refuse_second(tmp_path)


def test_one_s_own_note_and_no_note_refuse_nothing(tmp_path):
    refuse_second(tmp_path)
    file = tmp_path / "topology.yaml"
    file.write_text("name: one")
    PidFile.of(file).note(tmp_path)
    refuse_second(tmp_path)


def test_the_note_of_another_one_stays(tmp_path, other):
    forget(tmp_path)
    assert find(tmp_path).pid == other.pid


def test_contents_are_replaced_whole(tmp_path):
    file = tmp_path / "file"
    write_whole(file, b"one")
    write_whole(file, b"two")
    assert file.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_keeps_its_mode_and_a_new_one_is_its_owners_only(tmp_path):
    write_whole(tmp_path / "new", b"1")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    (tmp_path / "new").chmod(0o644)
    write_whole(tmp_path / "new", b"2")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o644


def test_no_link_is_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    for name in (".note.draft", "note"):
        (tmp_path / name).symlink_to(elsewhere)
    write_whole(tmp_path / "note", b"1")
    assert elsewhere.read_text() == "precious"
    assert (tmp_path / "note").read_bytes() == b"1"
