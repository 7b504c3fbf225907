"""The command as the shell runs it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import distributor.cli.judge
import distributor.cli.spark
from distributor.cli import main
from distributor.spark import register
from tests.support import json_outputs

CONFIG = Path(__file__).parents[3] / "config"


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs `distributor`: exit code, standard output, standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["distributor", *map(str, arguments)])
        try:
            main.main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code or 0
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        json_outputs.check("distributor", [*map(str, arguments)], captured.out)
        return code, captured.out, captured.err

    return run


@pytest.fixture
def text():
    """A function that returns what people see of something that can be printed."""

    def text(renderable, width=200):
        file = SimpleNamespace(write=lambda _: None, flush=lambda: None)
        console = Console(width=width, record=True, force_terminal=False, file=file)
        console.print(renderable)
        return console.export_text()

    return text


@pytest.fixture
def four():
    return CONFIG / "four-clusters.yaml"


@pytest.fixture
def unbalanced():
    return CONFIG / "unbalanced.yaml"


@pytest.fixture
def shared_spark(spark, monkeypatch):
    """Commands use the tests' Spark session, and leave it running."""
    register(spark)
    for module in (distributor.cli.spark, distributor.cli.judge):
        monkeypatch.setattr(module, "session", lambda *_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
