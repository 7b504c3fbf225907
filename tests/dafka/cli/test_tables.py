from __future__ import annotations

from rich.table import Table

from dafka.cli.tables import print_table

NAME = "production-of-the-western-region"


def printed(capsys):
    table = Table(*"abcd")
    table.add_row(*[NAME] * 4)
    print_table(table)
    return capsys.readouterr().out


def test_where_nobody_looks_names_are_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    assert printed(capsys).count(NAME) == 4


def test_on_a_narrow_terminal_names_fold(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = printed(capsys)
    assert NAME not in shown
    assert "…" not in shown
