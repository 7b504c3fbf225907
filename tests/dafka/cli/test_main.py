from __future__ import annotations

from importlib.metadata import version

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from dafka.cli.main import COMMANDS as PLACES
from dafka.cli.main import app

pytestmark = pytest.mark.slow

COMMANDS = (
    *("tower", "store", "produce", "consume", "topics", "peek", "keys", "schemas"),
    "holes",
    "groups",
    "context",
    "gateway",
)


def test_every_command_is_there():
    assert set(get_command(app).commands) == set(COMMANDS)


def test_it_says_its_version():
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"{version('dafka-distributor')}\n")


def test_a_shell_completes_its_commands():
    asked = {"_DAFKA_COMPLETE": "complete_bash", "COMP_WORDS": "dafka t", "COMP_CWORD": "1"}
    done = CliRunner().invoke(app, prog_name="dafka", env=asked)
    assert done.output.split() == [name for name in PLACES if name.startswith("t")]


def test_the_list_of_commands_says_what_the_commands_say():
    for name, command in get_command(app).commands.items():
        first, _, _ = command.help.partition("\n\n")
        assert PLACES[name].does == " ".join(first.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(dafka, command):
    done = dafka(command, "--help")
    assert done.returncode == 0
    assert b"Example:" in done.stdout
    assert f"dafka {command}".encode() in done.stdout


def test_without_arguments_it_explains_itself(dafka):
    done = dafka()
    assert done.returncode == 2
    for command in COMMANDS:
        assert command.encode() in done.stdout + done.stderr


def test_an_unknown_command_is_refused(dafka):
    done = dafka("teleport")
    assert done.returncode == 2
    assert b"teleport" in done.stderr
    assert b"Traceback" not in done.stderr


def test_what_the_user_can_mend_has_exit_code_2(refused):
    assert "'here'" in refused(2, "topics", "--store", "here")


def test_what_does_not_answer_has_exit_code_1(refused):
    nobody = "tcp://127.0.0.1:9"
    assert nobody in refused(1, "topics", "--store", nobody, "--timeout", "0.1")
