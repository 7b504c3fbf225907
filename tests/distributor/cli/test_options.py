"""Shared options are spelled the same everywhere."""

from __future__ import annotations

from typer.main import get_command

from distributor.cli.main import app
from distributor.cli.options import DEFAULT_LOGS


def test_what_a_script_reads_can_be_had_as_json():
    commands = get_command(app).commands
    for name in ("status", "verify", "trace"):
        assert "--json" in {option for p in commands[name].params for option in p.opts}


def test_logs_go_under_data_by_default():
    commands = get_command(app).commands
    for name in ("up", "demo"):
        (logs,) = [p for p in commands[name].params if "--logs" in p.opts]
        assert logs.default == DEFAULT_LOGS
