"""Tables that lose no name: wide where nobody looks; on a narrow terminal their cells fold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult

WIDTH_ELSEWHERE = 400
"""Columns of a table that goes to a file or a pipe: three of the longest names, flags twice."""


def console() -> Console:
    """Standard output; names are not wrapped where nobody looks."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_ELSEWHERE)


class WholeTable(Table):
    """A table whose cells go on in the next line where there is no room, instead of being cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for column in self.columns:
            column.overflow = "fold"
        return super().__rich_console__(console, options)
