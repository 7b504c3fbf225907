from __future__ import annotations

from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

from dafka.cli import options
from dafka.cli.main import app
from dafka.model import Endpoint, TowerEndpoints

COMMANDS = ("tower", "store", "produce", "consume", "topics", "peek")


def test_the_default_endpoints_do_not_collide():
    tower = TowerEndpoints.parse(options.DEFAULT_TOWER)
    ports = {Endpoint.parse(text).port for text in (*tower, options.DEFAULT_QUERY)}
    assert len(ports) == 3


@pytest.mark.parametrize(
    "shared",
    ["Towers", "Stores", "Host", "Json", "Metrics", "LogLevel", "LogFormat", "ShutdownMs"],
)
def test_shared_options_are_spelled_out(shared):
    _, option = get_args(getattr(options, shared))
    assert all(name.startswith("--") for name in option.param_decls)
    assert option.help.endswith((".", ";", "stderr.", "line."))


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_refused(command):
    assert CliRunner().invoke(app, [command, "--no-such-option"]).exit_code == 2


@pytest.mark.parametrize("command", ["produce", "consume", "topics", "peek"])
@pytest.mark.parametrize("seconds", ["inf", "nan", "-1", "1e300"])
def test_a_wait_that_cannot_be_waited_is_refused(command, seconds):
    words = [command, *(["orders"] if command != "topics" else []), "--timeout", seconds]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "is not between 0 and 1,000,000 seconds" in " ".join(done.output.split())


@pytest.mark.parametrize("endpoint", ["inproc://t", ["tcp://h:1", "inproc://t"]])
def test_commands_cannot_share_what_is_within_a_process(endpoint):
    with pytest.raises(typer.BadParameter, match="within one process only"):
        options.between_processes(endpoint)


@pytest.mark.parametrize("endpoint", ["ipc:///run/t", ["tcp://h:1", "ipc:///run/t"], "127.0.0.1"])
def test_commands_can_share_what_is_on_a_machine(endpoint):
    assert options.between_processes(endpoint) == endpoint
