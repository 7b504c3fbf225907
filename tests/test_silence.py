"""Commands that ask a cluster which is not there: each says so, by name, and none is forgotten."""

from __future__ import annotations

import io
import sys

import pytest
from typer.main import get_command

import dafka.cli.main
import distributor.cli.main

pytestmark = [pytest.mark.net, pytest.mark.slow]

MODULES = {"dafka": dafka.cli.main, "distributor": distributor.cli.main}
TOWER, STORE, OTHER = (f"tcp://127.0.0.1:{port}" for port in (10, 12, 16))
PORT = "127.0.0.1:20"

ASK_NOBODY = {
    *(f"dafka store {name}" for name in ("check", "compact", "backup", "restore")),
    "dafka keys",
    *(f"dafka context {name}" for name in ("create", "use", "delete", "list", "show")),
    *("distributor trace", "distributor spark package"),
    # These start what they need, or need what runs on this machine.
    *("distributor up", "distributor demo", "distributor drill", "distributor apply"),
    # A page that says it, and a job of Spark, whose tests do.
    *("distributor dashboard", "distributor audit"),
}
ARGUMENTS = {
    "topic": "orders",
    "group": "billing",
    "cluster": "a",
    "level": "1",
    "to": "b",
    "controller": PORT,
    "gateway": PORT,
    "what": "orders",
    "tower": TOWER,
    "store": STORE,
}
ALSO = {
    "dafka groups reset": ("--to-latest", "--topic", "orders"),
    "dafka gateway ledger check": ("--all",),
    "dafka topics delete": ("--yes",),
    "dafka produce": ("--timeout", "3"),  # a tower is missed after two
}
NAMES = ("127.0.0.1:10", "127.0.0.1:12", "127.0.0.1:16", PORT, "-level-1.sock")


def leaves(name, command):
    below = getattr(command, "commands", {})
    for one, found in below.items():
        yield from leaves(f"{name} {one}", found)
    if not below:
        yield name, command


COMMANDS = dict(leaf for one in MODULES for leaf in leaves(one, get_command(MODULES[one].app)))
ASKING = [
    name
    for name, command in COMMANDS.items()
    if name not in ASK_NOBODY and "shutdown_ms" not in {option.name for option in command.params}
]
"""All but what serves, which waits for its cluster and says so in its log."""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "nobody.yaml"
    file.write_text(f"""
version: 1
name: nobody
control: {{directory: control}}
schemas: {{primary: a}}
clusters:
  - {{name: a, id: 1, towers: ['{TOWER}'], stores: [{{query: '{STORE}', data: a}}],
      registry: 'http://127.0.0.1:13'}}
  - {{name: b, id: 2, towers: ['tcp://127.0.0.1:14'], stores: [{{query: '{OTHER}', data: b}}],
      registry: 'http://127.0.0.1:17'}}
tree: {{level: 1, children: [a, b]}}
""")
    return file


def words_of(name, file):
    """A call of a command, from what it must be told and where it says whom it asks."""
    told = {**ARGUMENTS, "file": str(file)}
    words = [*name.split()[1:]]
    for option in COMMANDS[name].params:
        if option.required or option.name in ("tower", "store"):
            value = told[option.name]
            words += [value] if option.param_type_name == "argument" else [option.opts[0], value]
        elif option.name == "timeout":
            words += ["--timeout", "0.3"]
    return [*words, *ALSO.get(name, ())]


def test_nothing_is_excepted_that_is_not_there():
    assert COMMANDS.keys() >= ASK_NOBODY
    assert ALSO.keys() <= {*ASKING}


@pytest.mark.parametrize("name", ASKING)
def test_a_cluster_that_cannot_be_reached_is_named_and_is_no_success(
    name, file, monkeypatch, capsys
):
    program = name.split()[0]
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(sys, "argv", [program, *words_of(name, file)])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1\n")))
    with pytest.raises(SystemExit) as ended:
        MODULES[program].main()
    told = capsys.readouterr()
    # `verify` and those that wait have finer codes: 4 is that somebody does not answer.
    assert ended.value.code in (1, 4), told
    assert any(one in told.out + told.err for one in NAMES), told
    assert "Traceback" not in told.err


@pytest.mark.parametrize("name", ["distributor wait", "distributor offsets wait"])
def test_who_waits_says_at_once_who_does_not_answer(name, file, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["distributor", *words_of(name, file)])
    with pytest.raises(SystemExit):
        distributor.cli.main.main()
    first, second, *_ = capsys.readouterr().err.splitlines()
    for line, cluster, store in ((first, "a", STORE), (second, "b", OTHER)):
        assert line.startswith(f"distributor: still waiting for {cluster}: cannot reach {store}")
