from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from topology.output import (
    WIDTH_ELSEWHERE,
    Columns,
    column,
    end_unwritten,
    fields_of,
    number,
    open_console,
    print_json,
    print_rows,
    table,
)

NAME = "production-of-the-western-region"
EVIL = "[red]x[/red]"


class Kind(Enum):
    BIG = "big"


@dataclass(frozen=True)
class Thing:
    name: str
    kind: Kind = Kind.BIG
    records: int | None = None
    age_s: float = 0.0
    parts: tuple[Thing, ...] = ()


class Value(Struct, frozen=True):
    name: str
    parts: tuple[Thing, ...]


THINGS: Columns[Thing] = (
    column("name"),
    column("kind", lambda thing: Text(thing.kind.value, style="red")),
    number("records"),
    number("age", "age_s"),
)


def cells(shown):
    lines = [line for line in shown.splitlines() if "│" in line]
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]


def printed(made, width=100):
    out = io.StringIO()
    Console(file=out, width=width).print(made)
    return out.getvalue()


def test_a_row_is_shown_as_its_columns_say():
    shown = printed(table(THINGS, [Thing(EVIL, records=1_234, age_s=5.55)], "[b]things"))
    assert shown.splitlines()[0].strip() == "[b]things"
    assert cells(shown) == [[EVIL, "big", "1,234", "5.5"]]
    assert "│   1,234 │" in shown


def test_what_is_not_known_is_no_number():
    assert cells(printed(table(THINGS, [Thing("a")])))[0][2] == "-"


def test_rows_may_be_numbered_and_stand_in_sections():
    rows = [Thing("a"), Thing("a"), Thing("b")]
    shown = printed(table(THINGS, rows, numbered="hop", section=lambda thing: thing.name))
    assert "hop" in shown.splitlines()[1]
    assert [row[0] for row in cells(shown)] == ["1", "2", "3"]
    assert shown.count("├") == 1


def test_a_row_may_have_a_colour():
    out = io.StringIO()
    made = table(THINGS[:1], [Thing("a")], style=lambda thing: "green")
    Console(file=out, force_terminal=True, color_system="standard").print(made)
    assert "\x1b[32m" in out.getvalue()


REST = {"kind": "big", "records": None, "age_s": 0.0, "parts": []}


@pytest.mark.parametrize("lines", [True, False])
def test_scripts_get_the_fields_of_rows(capsys, lines):
    print_rows([Thing("a"), Thing("b")], THINGS, as_json=True, lines=lines)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    whole = [{"name": "a"} | REST, {"name": "b"} | REST]
    assert told == (whole if lines else [whole])


def test_people_get_a_table(capsys):
    print_rows([Thing("a")], THINGS, "things", as_json=False)
    assert cells(capsys.readouterr().out) == [["a", "big", "-", "0.0"]]


def test_json_goes_down_into_what_it_holds(capsys):
    print_json({"things": [Thing("a", parts=(Thing("b"),))], "kind": Kind.BIG})
    told = json.loads(capsys.readouterr().out)
    assert told["things"][0]["parts"][0]["kind"] == told["kind"] == "big"


def test_values_of_msgspec_have_fields_too(capsys):
    print_json([Value("a", (Thing("b"),))])
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["name"], told["parts"][0]["name"]) == ("a", "b")


def test_what_has_no_fields_is_no_json():
    with pytest.raises(TypeError, match="has no fields"):
        print_json(b"octets")
    with pytest.raises(TypeError, match="has no fields"):
        fields_of(Kind)


def test_where_nobody_looks_tables_are_wide(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    assert open_console().width == WIDTH_ELSEWHERE
    open_console().print(table([column(letter, lambda row: row) for letter in "abcd"], [NAME]))
    assert capsys.readouterr().out.count(NAME) == 4


def test_a_terminal_is_as_wide_as_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert open_console().width == 60


@pytest.mark.parametrize("width", [60, 40])
def test_on_a_narrow_terminal_nothing_is_cut(width):
    whole = [NAME, "tcp://127.0.0.1:1234567890", "1,234,567"]
    columns = (column("cluster", lambda _: whole[0]), column("endpoint", lambda _: whole[1]))
    shown = printed(table((*columns, number("records", lambda _: 1_234_567)), [whole]), width)
    parts = [line.split("│")[1:-1] for line in shown.splitlines() if "│" in line]
    assert ["".join(part).replace(" ", "") for part in zip(*parts, strict=True)] == whole
    assert "…" not in shown


@pytest.mark.parametrize("error", [FileNotFoundError(2, "reason", "file"), OSError("reason")])
def test_what_is_not_of_the_output_is_raised(error):
    with pytest.raises(OSError, match="reason"):
        end_unwritten("topology", error)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("check",), ("show",), ("plan",), ("plan", "--json")])
def test_an_output_that_is_full_is_one_line(words):
    command, *options = words
    four = Path(__file__).parents[2] / "config" / "four-clusters.yaml"
    line = [sys.executable, "-m", "topology", command, str(four), *options]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, check=False, timeout=120)
    assert (done.returncode, done.stderr.decode()) == (
        1,
        "topology: cannot write to standard output: No space left on device; "
        "make room, or write elsewhere\n",
    )


def test_what_a_terminal_would_obey_is_shown(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    clear = "\x1b[2J"
    for stderr in (False, True):
        console = open_console(stderr=stderr)
        console.print(f"[red]topic[/red] {clear}", highlight=False)
        console.print(Text(clear, style="red"), table((column("name", str),), [clear], clear))
    told = capsys.readouterr()
    for shown in (told.out, told.err):
        assert clear not in shown
        assert shown.count("\\x1b[2J") == 4
        assert "\x1b[31m" in shown


def test_nobody_else_opens_a_console_for_a_terminal():
    root = Path(__file__).parents[2]
    found = [
        line.strip()
        for package in ("dafka", "distributor", "topology")
        for path in (root / package).rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"\bConsole\(", line) and path.name != "output.py"
    ]
    assert found == ["wide = Console(width=120, record=True, file=StringIO())"]
