"""Every error `topology` raises. They are all the operator's to mend, so they say where and how."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a topology file.

    Attributes:
        path: Where, as in `$.clusters[2].stores[0].query`.
        message: What is wrong, with the offending value.
        hint: What to do.
    """

    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class TopologyError(Exception):
    """Base of every error raised by `topology`."""


class UnreadableError(TopologyError):
    """The file cannot be read, or is not YAML that we accept."""


class InvalidError(TopologyError):
    """The file is readable and wrong.

    Attributes:
        problems: All of them, in the order of the file's parts.
    """

    def __init__(self, source: str, problems: list[Problem]) -> None:
        lines = "".join(f"\n  {problem}" for problem in problems)
        count = f"{len(problems)} problem" + ("s" if len(problems) > 1 else "")
        super().__init__(f"cannot use {source}: {count}{lines}")
        self.problems = problems
