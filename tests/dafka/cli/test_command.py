from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer import Typer
from typer.main import get_command
from typer.testing import CliRunner

from dafka.cli import command
from dafka.cli.command import CommandPlace, group_of
from dafka.errors import DafkaError, MisuseError

PLACES = {
    "store": CommandPlace("dafka.cli.store:store", "Keeps."),
    "peek": CommandPlace("dafka.cli.queries:peek", "Lists."),
    "wrong": CommandPlace("no.such.module:command", "Fails."),
}


@pytest.fixture
def app():
    return Typer(cls=group_of(PLACES), callback=lambda: None)


def test_functions_and_groups_become_commands_of_the_name_given(app):
    commands = get_command(app).commands
    assert list(commands) == [*PLACES]
    assert commands["peek"].name == "peek"
    assert list(commands["store"].commands) == ["check", "compact", "backup", "restore"]
    assert commands.get("teleport") is None


def test_only_the_module_that_is_asked_for_is_imported(app):
    done = CliRunner().invoke(app, ["peek", "--help"])
    assert done.exit_code == 0
    assert "peek [OPTIONS]" in done.output


def test_the_list_of_commands_imports_none_of_them(app):
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    assert "Fails." in done.output
    assert "peek [OPTIONS]" in CliRunner().invoke(app, ["peek", "--help"]).output


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


SCRIPT = """
import sys
from dafka.cli.command import run
def app():
    print("x" * {size})
    {then}
run("dafka", app, (), ())
"""
FULL = (
    b"dafka: cannot write to standard output: No space left on device; "
    b"make room, or write elsewhere\n"
)
SIZES = pytest.mark.parametrize("size", [1, 100_000])
"""One that is written at the end only, one that is written at once."""


def script(size, then="pass"):
    return [sys.executable, "-c", SCRIPT.format(size=size, then=then)]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (MisuseError("reason"), 2, "dafka: reason\n"),
        (DafkaError("reason"), 1, "dafka: reason\n"),
        (KeyboardInterrupt(), 130, ""),
        (SystemExit(3), 3, ""),
    ],
    ids=repr,
)
def test_an_error_decides_the_exit_code(capsys, error, code, said):
    def fail():
        raise error

    with pytest.raises(SystemExit) as ended:
        command.run("dafka", fail, (MisuseError,), (DafkaError,))
    assert (ended.value.code, capsys.readouterr().err) == (code, said)


@pytest.mark.parametrize("error", [FileNotFoundError(2, "reason", "file"), OSError("reason")])
def test_what_is_not_of_the_output_is_raised(error):
    def fail():
        raise error

    with pytest.raises(OSError, match="reason"):
        command.run("dafka", fail, (MisuseError,), (DafkaError,))


@pytest.mark.slow
@SIZES
@pytest.mark.parametrize("then", ["pass", "sys.exit(0)", "sys.exit(2)"])
def test_an_output_that_is_full_is_one_line(size, then):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            script(size, then), stdout=full, stderr=subprocess.PIPE, check=False, timeout=120
        )
    assert (done.returncode, done.stderr) == (1, FULL)


@pytest.mark.slow
@SIZES
def test_a_pipe_that_is_closed_is_no_news(size):
    with subprocess.Popen(
        script(size, "sys.exit(0)"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(120) == 1


@pytest.mark.slow
def test_without_an_output_there_is_nothing_to_write():
    words = ["sh", "-c", 'exec "$@" >&-', "sh", *script(1)]
    done = subprocess.run(words, stderr=subprocess.PIPE, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
