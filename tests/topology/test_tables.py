from __future__ import annotations

import io

import pytest
from rich.console import Console

from topology.tables import WIDTH_ELSEWHERE, WholeTable, console

NAME = "production-of-the-western-region"


def test_where_nobody_looks_tables_are_wide(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    assert console().width == WIDTH_ELSEWHERE
    table = WholeTable(*"abcd")
    table.add_row(*[NAME] * 4)
    console().print(table)
    assert capsys.readouterr().out.count(NAME) == 4


def test_a_terminal_is_as_wide_as_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert console().width == 60


@pytest.mark.parametrize("width", [60, 40])
def test_on_a_narrow_terminal_nothing_is_cut(width):
    out = io.StringIO()
    table = WholeTable("cluster", "endpoint")
    table.add_column("records", justify="right")
    table.add_row(NAME, "tcp://127.0.0.1:1234567890", "1,234,567")
    Console(file=out, width=width).print(table)
    cells = [line.split("│")[1:-1] for line in out.getvalue().splitlines() if "│" in line]
    whole = ["".join(parts).replace(" ", "") for parts in zip(*cells, strict=True)]
    assert whole == [NAME, "tcp://127.0.0.1:1234567890", "1,234,567"]
    assert "…" not in out.getvalue()
