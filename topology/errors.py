"""Every error `topology` raises. They are all the operator's to mend, so they say where and how."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a topology file.

    Attributes:
        path: Where, as in `$.clusters[2].stores[0].query`.
        message: What is wrong, with the offending value.
        hint: What to do.
        line: Of the file, from 1; 0 if not known.
    """

    path: str
    message: str
    hint: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class TopologyError(Exception):
    """Base of every error raised by `topology`."""


class UnreadableError(TopologyError):
    """The file cannot be read, or is not YAML that we accept."""


class TooLargeError(TopologyError):
    """The topology is right, and too large for what was asked."""


class UnnamedError(TopologyError):
    """A topic or subject has no name at a cluster, or a cluster is not there."""


class InvalidError(TopologyError):
    """The file is readable and wrong.

    Attributes:
        problems: All of them, in the order of the file's lines.
    """

    def __init__(self, source: str, problems: list[Problem]) -> None:
        count = f"{len(problems)} problem" + ("s" if len(problems) > 1 else "")
        lines = "".join(_paragraph(problem) for problem in problems)
        super().__init__(f"cannot use {source}: {count}{lines}")
        self.problems = problems


def _paragraph(problem: Problem) -> str:
    where = f"  (line {problem.line})" if problem.line else ""
    hint = f"\n      hint: {problem.hint}" if problem.hint else ""
    return f"\n  {problem.path}{where}\n      {problem.message}{hint}"


_WORD = re.compile(r"[\w-]{1,63}")


def below(path: str, key: object) -> str:
    """The path of a key's value. What is no plain word is quoted: it may hold escape codes."""
    text = str(key)
    return f"{path}.{text}" if _WORD.fullmatch(text) else f"{path}[{short(text)}]"


def short(value: object) -> str:
    """A value as a message shows it: on one line, of bounded length, without escape codes."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
