"""`dafka` as a process that need not start: it is forked off one that has loaded everything.

What somebody at a shell sees is the same: standard input and output, exit code, signals. Only what
Python loads before is saved, half a second of CPU a command.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.reduction import DupFd
from pathlib import Path

from dafka.cli import main

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["typer.rich_utils", *(place.where.partition(":")[0] for place in main.COMMANDS.values())]
)


def run_dafka(*words, given=b"", seconds=60, **variables):
    """Run the command to its end, with further variables in its environment."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout:
        stdin.write(given)
        stdin.seek(0)
        with tempfile.TemporaryFile() as stderr:
            files = [DupFd(file.fileno()) for file in (stdin, stdout, stderr)]
            process = FORKS.Process(
                target=_command, args=(words, files, Path.cwd(), os.environ | variables)
            )
            process.start()
            process.join(seconds)
            if process.exitcode is None:
                process.kill()
                raise subprocess.TimeoutExpired(words, seconds)
            for file in (stdout, stderr):
                file.seek(0)
            code = process.exitcode
            process.close()
            return subprocess.CompletedProcess(words, code, stdout.read(), stderr.read())


def _command(words, files, directory, environment):
    for number, file in enumerate(files):
        os.dup2(file.detach(), number)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(number, mode, closefd=False), line_buffering=number == 2)
        for number, mode in ((0, "rb"), (1, "wb"), (2, "wb"))
    )
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["dafka", *words]
    main.main()
