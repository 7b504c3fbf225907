"""Texts on a terminal: what peers and files name may hold anything, also what a terminal obeys."""

from __future__ import annotations

import sys
from typing import TextIO


def printable(text: str) -> str:
    """Return `text` with escapes for what is not printable."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def printable_lines(text: str) -> str:
    """Return `text` like `printable`, its line breaks as they are."""
    return "\n".join(printable(line) for line in text.split("\n"))


def paragraphs(text: str) -> str:
    """Return `text` with its paragraphs in a line each, which a terminal of any width can wrap."""
    return "\n\n".join(" ".join(one.split()) for one in text.split("\n\n"))


def say(text: str, *, file: TextIO | None = None, end: str = "\n") -> None:
    """Print a text of some lines that need not be ours, to standard output by default."""
    print(printable_lines(text), file=file, end=end, flush=True)


def end_with_version(wanted: bool) -> None:
    """End a program that was asked for its version; what does it where `--version` is an option."""
    if wanted:
        say(installed_version())
        sys.exit(0)


def installed_version() -> str:
    """The version of what is installed."""
    from importlib.metadata import version

    return version("dafka-distributor")


def complain(program: str, error: object) -> None:
    """Say on standard error why a program ends."""
    say(f"{program}: {error}", file=sys.stderr)
