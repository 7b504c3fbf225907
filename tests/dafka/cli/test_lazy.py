from __future__ import annotations

import subprocess
import sys

import pytest
from typer import Typer
from typer.main import get_command
from typer.testing import CliRunner

from dafka.cli.lazy import group_of

PLACES = {
    "store": "dafka.cli.servers:store",
    "topics": "dafka.cli.queries:topics",
    "wrong": "no.such.module:command",
}


@pytest.fixture
def app():
    return Typer(cls=group_of(PLACES), callback=lambda: None)


def test_functions_and_groups_become_commands_of_the_name_given(app):
    commands = get_command(app).commands
    assert list(commands) == [*PLACES]
    assert commands["topics"].name == "topics"
    assert list(commands["store"].commands) == ["check", "compact"]
    assert commands.get("teleport") is None


def test_only_the_module_that_is_asked_for_is_imported(app):
    done = CliRunner().invoke(app, ["topics", "--help"])
    assert done.exit_code == 0
    assert "topics [OPTIONS]" in done.output


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        ("from dafka.cli.main import app; words = ['store', '--help']", "jsonschema"),
        ("from distributor.cli.main import app; words = ['run', '--help']", "starlette"),
    ],
)
def test_what_another_command_needs_is_not_loaded(command, unneeded):
    program = f"import sys; {command}; app(words, standalone_mode=False); "
    done = subprocess.run(
        [sys.executable, "-c", program + f"print('{unneeded}' in sys.modules)"],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False"
