"""What commands print: rows described once, as a table for people or as JSON for scripts.

Tables lose no name: they are wide where nobody looks; on a narrow terminal their cells fold.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from rich.console import Console, RenderHook
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from topology.terminal import complain, printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal

    from rich.console import ConsoleOptions, ConsoleRenderable, RenderResult

WIDTH_ELSEWHERE = 400
"""Columns of a table that goes to a file or a pipe: three of the longest names, flags twice."""

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column of a table of rows.

    Attributes:
        heading: Its first line.
        value: What it shows of a row: None is `-`, numbers have commas or one decimal place.
        justify: Where cells stand.
    """

    heading: str
    value: Callable[[Row], object]
    justify: Literal["left", "right"]


def column(heading: str, of: str | Callable[[Row], object] = "") -> Column[Row]:
    """Describe a column.

    Args:
        heading: Its first line.
        of: The rows' attribute, or a function of a row; by default the attribute that is headed.
    """
    return Column(heading, of if callable(of) else attrgetter(of or heading), "left")


def number(heading: str, of: str | Callable[[Row], object] = "") -> Column[Row]:
    """Describe a column of numbers; see `column`."""
    return Column(heading, column(heading, of).value, "right")


Columns = tuple[Column[Row], ...]


def table(
    columns: Columns[Row],
    rows: Iterable[Row],
    title: str | None = None,
    *,
    numbered: str | None = None,
    section: Callable[[Row], object] | None = None,
    style: Callable[[Row], str] | None = None,
    more: int = 0,
) -> Table:
    """Lay rows out.

    Args:
        columns: What is shown of a row.
        rows: In their order.
        title: Above the table.
        numbered: Heading of the rows' numbers; without it they have none.
        section: Rows of which it says the same stand together, a line between them and others.
        style: Colour of a row.
        more: How many are left out; said below the table.
    """
    made = Table(title=None if title is None else Text(title, "table.title"))
    if numbered is not None:
        made.add_column(Text(numbered), overflow="fold")
    for one in columns:
        made.add_column(Text(one.heading), justify=one.justify, overflow="fold")
    if more:
        made.caption = f"and {more:,} more"
    before: object = None
    for place, row in enumerate(rows, 1):
        if section is not None:
            if before not in (None, section(row)):
                made.add_section()
            before = section(row)
        cells = [_cell(one.value(row)) for one in columns]
        if numbered is not None:
            cells.insert(0, Text(str(place)))
        made.add_row(*cells, style=style and style(row))
    return made


def _cell(value: object) -> Text:
    """Names are data, never markup; what is not known is no number."""
    match value:
        case Text():
            return value
        case None:
            return Text("-")
        case int():
            return Text(f"{value:,}")
        case float():
            return Text(f"{value:.1f}")
        case _:
            return Text(printable(str(value)))


def print_rows(
    rows: Iterable[Row],
    columns: Columns[Row],
    title: str | None = None,
    *,
    as_json: bool,
    lines: bool = False,
) -> None:
    """Print rows: as a table, or their fields as JSON.

    Args:
        rows: Dataclasses.
        columns: What people see of a row.
        title: Above the table.
        as_json: Whether a script has asked.
        lines: For scripts, an object a line instead of one array.
    """
    if not as_json:
        open_console().print(table(columns, rows, title))
    elif lines:
        for row in rows:
            print_json(row)
    else:
        print_json([*rows])


def print_json(value: object) -> None:
    """Print a value in one line of JSON; a dataclass is an object of its fields."""
    print(json.dumps(value, default=_plain), flush=True)  # which escapes all but ASCII


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return fields_of(value)


def fields_of(value: object) -> dict[str, Any]:
    """Return the fields of a dataclass, or of msgspec's, by name: of a JSON object that says more.

    Raises:
        TypeError: It is none.
    """
    names = getattr(value, "__struct_fields__", None)
    if names is None:
        if not is_dataclass(value):
            raise TypeError(f"{value!r} has no fields")
        names = [field.name for field in fields(value)]
    return {name: getattr(value, name) for name in names}


def open_console(*, stderr: bool = False) -> Console:
    """Standard output, or standard error; names are not wrapped where nobody looks.

    Whatever it is given, what a terminal would obey is shown and not sent.
    """
    found = Console(stderr=stderr)
    if not (found.is_terminal or stderr):
        found = Console(width=WIDTH_ELSEWHERE)
    found.push_render_hook(_Shown())
    return found


class _Shown(RenderHook):
    """Has all that is printed go through `_Printable`."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(one) for one in renderables]


class _Printable:
    """Something to print, less what a terminal would obey; its style is rich's own."""

    def __init__(self, shown: ConsoleRenderable) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._shown, options):
            text, style, control = segment
            yield segment if control else Segment(printable_lines(text), style)


_UNWRITTEN = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""What an output without a file name says that takes no more: ours is the only one."""


def end_unwritten(program: str, error: OSError) -> NoReturn:
    """End with exit code 1, as standard output takes no more, and say so.

    A pipe that was closed is not told: whoever read it has seen enough.

    Args:
        program: Its name, before what is said.
        error: What writing has raised.

    Raises:
        OSError: `error` is not of standard output.
    """
    if not isinstance(error, BrokenPipeError):
        if error.filename is not None or error.errno not in _UNWRITTEN:
            raise error
        reason = os.strerror(error.errno)
        complain(
            program, f"cannot write to standard output: {reason}; make room, or write elsewhere"
        )
    # Let what is not written yet go nowhere, else Python complains of it when it ends.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    sys.exit(1)
