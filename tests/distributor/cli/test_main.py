"""Exit codes and errors of the whole command."""

from __future__ import annotations

import pytest
from typer.main import get_command

from distributor.cli.main import app

COMMANDS = ("run", "up", "status", "verify", "trace", "demo")


def test_these_are_the_commands():
    assert tuple(get_command(app).commands) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Example: distributor {command}" in out


@pytest.mark.parametrize("command", ["up", "status", "verify", "demo"])
def test_a_file_that_is_not_there_is_said_in_one_line(run, command, tmp_path):
    code, out, err = run(command, tmp_path / "none.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("distributor: ")
    assert "none.yaml" in err
    assert len(err.splitlines()) == 1


def test_a_wrong_file_is_refused_with_every_problem(run, tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text("version: 2\nname: x\nclusters: []\ntree: y\nextra: 1\n")
    code, _, err = run("status", file)
    assert code == 2
    for part in ("$.version", "$.clusters", "extra"):
        assert part in err


def test_an_unknown_command_is_a_usage_error(run):
    assert run("replicate")[0] == 2
