from __future__ import annotations

import os
from dataclasses import replace

import pytest

from distributor.errors import PlanError
from distributor.running import NOTE, Running, digest_of, find, forget, write_whole


def test_what_runs_is_found_until_it_is_forgotten(tmp_path):
    file = tmp_path / "topology.yaml"
    file.write_text("name: one")
    Running.of(file, "why").note(tmp_path)
    assert find(tmp_path) == Running(os.getpid(), str(file), digest_of(b"name: one"), "why")
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
    replace(Running.of(file), pid=2**22 + 1).note(tmp_path)
    with pytest.raises(PlanError):
        find(tmp_path)


def test_contents_are_replaced_whole(tmp_path):
    file = tmp_path / "file"
    write_whole(file, b"one")
    write_whole(file, b"two")
    assert file.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [file]
