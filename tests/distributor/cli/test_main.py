from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from distributor.cli import main as module
from distributor.cli.main import COMMANDS as PLACES
from distributor.cli.main import app, main

FOUR = str(Path(__file__).parents[3] / "config" / "four-clusters.yaml")
COMMANDS = (
    *("run", "up", "status", "verify", "wait", "audit", "trace", "doctor", "dashboard"),
    *("demo", "drill", "links", "retarget", "resume", "lost", "apply"),
)


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs a command line and returns exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["distributor", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


def test_every_command_is_there():
    assert list(get_command(app).commands) == [
        *COMMANDS,
        "offsets",
        "schemas",
        "spark",
        "replica",
        "controller",
    ]


def test_it_says_its_version():
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"{version('dafka-distributor')}\n")


def test_a_shell_completes_its_commands():
    asked = {
        "_DISTRIBUTOR_COMPLETE": "complete_bash",
        "COMP_WORDS": "distributor r",
        "COMP_CWORD": "1",
    }
    done = CliRunner().invoke(app, prog_name="distributor", env=asked)
    assert done.output.split() == [name for name in PLACES if name.startswith("r")]


def test_the_list_of_commands_says_what_the_commands_say():
    for name, command in get_command(app).commands.items():
        first, _, _ = command.help.partition("\n\n")
        assert PLACES[name].does == " ".join(first.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Example:" in out
    assert f"distributor {command}" in out


@pytest.mark.parametrize("command", ["up", "status", "verify", "wait", "demo", "trace"])
def test_a_file_that_is_not_there_has_exit_code_2(run, command):
    words = ("--from", "c1") if command == "trace" else ()
    code, _, error = run(command, "no-such-file.yaml", *words)
    assert code == 2
    assert error.startswith("distributor: cannot read 'no-such-file.yaml'")
    assert len(error.splitlines()) == 1


def test_a_file_that_is_wrong_has_exit_code_2_and_names_what(run, tmp_path):
    (tmp_path / "t.yaml").write_text("version: 1\nname: x\n")
    code, _, error = run("status", str(tmp_path / "t.yaml"))
    assert code == 2
    assert "clusters" in error


def test_an_unknown_command_has_exit_code_2(run):
    code, _, error = run("teleport")
    assert code == 2
    assert "teleport" in error


def test_a_command_that_is_misspelt_is_guessed(run):
    code, _, error = run("statu")
    assert code == 2
    assert "Did you mean 'status'?" in error


@pytest.mark.parametrize("group", ["offsets", "schemas", "spark"])
def test_commands_of_a_group_have_examples(run, group):
    code, out, _ = run(group, "--help")
    assert code == 0
    assert "Example:" in out
    assert "--install-completion" not in out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (module.PlanError("reason"), 2),
        (module.DistributorError("reason"), 1),
        (module.DafkaError("reason"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=repr,
)
def test_an_error_decides_the_exit_code(run, monkeypatch, error, code):
    def fail():
        raise error

    monkeypatch.setattr(module, "app", fail)
    assert run()[0] == code
