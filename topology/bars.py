"""How far a command is, where people look on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from topology.output import open_console

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
