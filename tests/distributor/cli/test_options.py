from __future__ import annotations

from typing import get_args

import pytest
from typer.testing import CliRunner

from distributor.cli import options
from distributor.cli.main import app


@pytest.mark.parametrize("shared", ["File", "Json", "Logs"])
def test_shared_options_are_explained(shared):
    _, option = get_args(getattr(options, shared))
    assert option.help.endswith(".")


def test_logs_go_below_the_data():
    assert not options.DEFAULT_LOGS.is_absolute()


@pytest.mark.parametrize("command", ["run", "up", "status", "verify", "trace", "demo"])
def test_an_unknown_option_is_refused(command):
    assert CliRunner().invoke(app, [command, "--no-such-option"]).exit_code == 2
