"""The command as the shell runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import distributor.cli.audit
import distributor.cli.spark
from distributor.cli import main
from distributor.spark import register

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
        return code, captured.out, captured.err

    return run


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
    for module in (distributor.cli.spark, distributor.cli.audit):
        monkeypatch.setattr(module, "session", lambda *_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
