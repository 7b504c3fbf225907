"""What commands print with `--json` has a schema in docs/, and is as that says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.main import get_command

import distributor.cli.main
import topology.cli
from tests.support.json_outputs import FILE, OUTPUTS, check, document, written
from tests.test_silence import ASKING, COMMANDS, file, leaves, words_of

__all__ = ["file"]

CONFIG = Path(__file__).parents[1] / "config"
FOUR, SCHEMAS, UNBALANCED = (
    str(CONFIG / f"{name}.yaml") for name in ("four-clusters", "schemas", "unbalanced")
)


def has_json(command):
    return any("--json" in option.opts for option in command.params)


PRINTING = {
    name
    for name, command in (*COMMANDS.items(), *leaves("topology", get_command(topology.cli.app)))
    if has_json(command) and name != "dafka produce"  # which reads it
}


def test_every_command_that_prints_json_has_a_schema():
    assert OUTPUTS.keys() == PRINTING


def test_the_document_has_the_schemas_of_these_commands():
    assert FILE.read_text() == written(), "python -m tests.support.json_outputs"
    Draft202012Validator.check_schema(document())


@pytest.mark.parametrize(
    "words",
    [
        ("check", FOUR),
        ("check", "no-such-file.yaml"),
        ("plan", UNBALANCED),
        ("names", SCHEMAS, "orders", "--field", "environment=dev"),
        ("prove", FOUR),
        ("diff", FOUR, UNBALANCED),
        ("diff", FOUR, FOUR),
    ],
)
def test_what_is_said_of_a_topology_is_as_its_schema_says(words, monkeypatch, capsys):
    words = (*words, "--json")
    monkeypatch.setattr(sys, "argv", ["topology", *words])
    with pytest.raises(SystemExit):
        topology.cli.main()
    assert check("topology", words, capsys.readouterr().out) == 1


@pytest.mark.net
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "printed"),
    [
        *((f"distributor {one}", 1) for one in ("status", "verify", "wait", "doctor", "links")),
        *((f"distributor {one}", 1) for one in ("lost", "offsets explain", "schemas diff")),
        ("distributor offsets wait", 1),
    ],
)
def test_what_is_said_of_clusters_that_are_away_is_as_its_schema_says(
    name, printed, file, monkeypatch, capsys
):
    assert name in ASKING
    words = [*words_of(name, file), "--json"]
    monkeypatch.setattr(sys, "argv", ["distributor", *words])
    with pytest.raises(SystemExit):
        distributor.cli.main.main()
    assert check("distributor", words, capsys.readouterr().out) == printed


def test_a_trace_is_as_its_schema_says(monkeypatch, capsys):
    words = ["trace", FOUR, "--from", "cluster-1", "--json"]
    monkeypatch.setattr(sys, "argv", ["distributor", *words])
    with pytest.raises(SystemExit):
        distributor.cli.main.main()
    out = capsys.readouterr().out
    assert check("distributor", words, out) == 1
    assert json.loads(out)["version"] == 1
