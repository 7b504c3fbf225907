from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from distributor.cli.main import app
from distributor.errors import CommandError
from distributor.local.pidfile import PidFile
from distributor.operations.apply import Applying

pytestmark = pytest.mark.net


@pytest.fixture
def apply(pair, tmp_path):
    """Run the command with a change of the pair that runs."""
    logs = tmp_path / "logs"
    logs.mkdir()
    PidFile.of(pair.file).note(logs)

    def run(old, new, *words):
        file = pair.file.with_name("new.yaml")
        file.write_text(pair.file.read_text().replace(old, new))
        words = ("apply", str(file), "--logs", str(logs), *words)
        return CliRunner(env={"COLUMNS": "200"}).invoke(app, words)

    return run


def answers(monkeypatch, *found):
    """What looks at a step find, one after the other."""
    left = list(found)
    monkeypatch.setattr(Applying, "look", lambda self, step: left.pop(0))
    monkeypatch.setattr("distributor.cli.apply.LOOK_S", 0.0)


def test_every_step_is_waited_for_and_told(apply, monkeypatch):
    answers(monkeypatch, "a while", "")
    found = apply("name: pair", "name: other")
    assert (found.exit_code, found.stdout) == (0, "applied\n")
    assert "1 of 1  run the new file  (0 s)" in found.stderr
    answers(monkeypatch, "")
    told = json.loads(apply("name: pair", "name: other", "--json").stdout)
    assert told["applied"]
    assert [step["action"] for step in told["steps"]] == ["switch"]


def test_the_same_needs_nothing(apply):
    assert apply("name: pair", "name: pair").stdout == "nothing has to be done\n"


def test_a_change_that_loses_records_is_refused_with_the_rule(apply):
    found = apply("level: 1", "level: 2")
    assert found.exit_code == 1
    assert "relabel: the branch over c1, c2 has level 1, would have 2" in found.stderr
    told = json.loads(apply("level: 1", "level: 2", "--json").stdout)
    assert told == {"applied": False, "steps": [], "refused": ["relabel"]}


def test_a_step_without_end_is_given_up(apply, monkeypatch):
    answers(monkeypatch, *["c2 to answer"] * 100_000)
    found = apply("name: pair", "name: other", "--patience-s", "1", "--json")
    assert isinstance(found.exception, CommandError)
    assert "given up after 1 s of waiting for c2 to answer" in str(found.exception)
    assert json.loads(found.stdout) == {
        "applied": False,
        "steps": [],
        "waits_for": "c2 to answer",
    }
