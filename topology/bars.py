"""How far a command is, and what it waits for: on standard error, for people who look on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from topology.output import open_console
from topology.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, and what moves it. Without a terminal not even an empty line."""
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn())
    console = open_console(stderr=True)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


class Once:
    """Says what is in a waiting command's way, each once, as soon as it is known."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, who: str, why: str) -> None:
        """Say why somebody is waited for, if it was not said of that one before."""
        if who not in self._said:
            self._said.add(who)
            complain("distributor", f"still waiting for {who}: {why}")
