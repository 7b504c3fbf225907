"""How a command line ends: what went wrong is one line on standard error, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Errors = tuple[type[Exception], ...]

_UNWRITTEN = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""What an output without a file name says that takes no more: ours is the only one."""


def run(program: str, app: Callable[[], None], misuse: Errors, failures: Errors) -> None:
    """Run a command line.

    Args:
        program: Its name, before what is said.
        app: What it does.
        misuse: Errors of exit code 2.
        failures: Errors of exit code 1, unless they are of `misuse`.
    """
    with _written_out(program):
        try:
            app()
        except misuse as error:
            print(f"{program}: {error}", file=sys.stderr)
            sys.exit(2)
        except failures as error:
            print(f"{program}: {error}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)


@contextmanager
def _written_out(program: str) -> Iterator[None]:
    """Have on its way what was printed within, or say with exit code 1 that it could not be.

    A pipe that was closed is not told: whoever read it has seen enough.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # as it is where there is none at all
                sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITTEN:
            raise
        _drop_output()
        reason = os.strerror(error.errno)
        print(
            f"{program}: cannot write to standard output: {reason}; make room, or write elsewhere",
            file=sys.stderr,
        )
        sys.exit(1)


def _drop_output() -> None:
    """Let what is not written yet go nowhere, else Python complains of it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
