from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dafka.cli import ending
from dafka.errors import DafkaError, MisuseError

SCRIPT = """
import sys
from dafka.cli.ending import run
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
        ending.run("dafka", fail, (MisuseError,), (DafkaError,))
    assert (ended.value.code, capsys.readouterr().err) == (code, said)


@pytest.mark.parametrize("error", [FileNotFoundError(2, "reason", "file"), OSError("reason")])
def test_what_is_not_of_the_output_is_raised(error):
    def fail():
        raise error

    with pytest.raises(OSError, match="reason"):
        ending.run("dafka", fail, (MisuseError,), (DafkaError,))


@pytest.mark.slow
@SIZES
@pytest.mark.parametrize("then", ["pass", "sys.exit(0)", "sys.exit(2)"])
def test_an_output_that_is_full_is_one_line(size, then):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            script(size, then), stdout=full, stderr=subprocess.PIPE, check=False, timeout=20
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
        assert running.wait(20) == 1


@pytest.mark.slow
def test_without_an_output_there_is_nothing_to_write():
    words = ["sh", "-c", 'exec "$@" >&-', "sh", *script(1)]
    done = subprocess.run(words, stderr=subprocess.PIPE, check=False, timeout=20)
    assert (done.returncode, done.stderr) == (0, b"")
