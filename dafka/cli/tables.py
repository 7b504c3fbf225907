"""Tables that lose no name, as those of `topology`, which this package does not import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

WIDTH_ELSEWHERE = 400
"""Columns of a table that goes to a file or a pipe: the longest topic or group, and numbers."""


def print_table(table: Table) -> None:
    """Print it: wide where nobody looks; on a narrow terminal cells go on in the next line."""
    for column in table.columns:
        column.overflow = "fold"
    console = Console()
    (console if console.is_terminal else Console(width=WIDTH_ELSEWHERE)).print(table)
