from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dafka.schemas.entries import ConfigKey, SchemaEntry, Stamp
from distributor.cli import schemas as cli
from distributor.cli.main import app
from distributor.errors import CommandError, PlanError
from tests.support.json_outputs import rows_of

FILE = str(Path(__file__).parents[3] / "config" / "schemas.yaml")


@pytest.fixture
def called(world, monkeypatch):
    """A function that runs a subcommand on the world's registries."""
    monkeypatch.setattr(cli, "sites_of", lambda _: world.sites("c2"))
    return lambda *words: CliRunner().invoke(app, ["schemas", *words])


def test_diff_says_what_differs_and_by_its_exit_code_whether(called, world, avro):
    world.register("c1", "orders", avro("int"))
    world.rest()
    done = called("diff", FILE)
    assert done.exit_code == 0, done.output
    assert "primary: c1 since epoch 1" in done.output
    assert "equal: every registry says the same" in done.output
    assert json.loads(called("diff", FILE, "--json").output)["equal"] is True
    world.records["c3"].append(SchemaEntry(ConfigKey(None), Stamp(1, 9), "NONE"))
    done = called("diff", FILE)
    assert done.exit_code == 1
    assert "compatibility of all" in done.output
    found = json.loads(called("diff", FILE, "--json").output)
    (difference,) = found["differences"]
    assert difference == {
        "cluster": "c3",
        "about": "compatibility of all",
        "here": "NONE",
        "there": "",
    }
    assert (found["equal"], found["primary"]) == (False, "c1")


def test_diff_shows_no_more_than_fits_a_screen_and_who_does_not_answer(called, world, avro):
    world.records["c3"] += [
        SchemaEntry(ConfigKey(f"s{number}"), Stamp(1, 9), "NONE") for number in range(60)
    ]
    world.cut("c1", "c2")
    done = called("diff", FILE)
    assert done.exit_code == 1
    assert "10 more" in done.output.replace("\n", " ")
    assert "stores can be read" in done.output.replace("\n", " ")


def test_names_that_cannot_be_compared_are_counted(called, world, avro):
    world.services["c1"].decide(lambda registry, id_: registry.register("odd", avro("int"), id_))
    world.rest()
    done = called("diff", FILE)
    assert done.exit_code == 0
    assert "not comparable, c1 to c2: spelling: 1" in done.output


def test_promote_says_what_it_did(called, world, avro):
    world.register("c1", "orders", avro("int"))
    done = called("promote", FILE, "--cluster", "c2")
    assert done.exit_code == 0, done.output
    assert "c2 is the primary since epoch 1026, instead of c1; 2 decisions were" in done.output
    assert "as before" in called("promote", FILE, "--cluster", "c2").output
    world.cut("c2", "c3")
    refused = called("promote", FILE, "--cluster", "c1")
    assert isinstance(refused.exception, CommandError)
    forced = called("promote", FILE, "--cluster", "c1", "--force")
    assert "c3 does not answer" in forced.output
    (told,) = rows_of(called("promote", FILE, "--cluster", "c1", "--json", "--force").output)
    assert told == {
        "cluster": "c1",
        "epoch": 18_689,
        "before": "c1",
        "copied": 0,
        "silent": ["c3"],
    }


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "needs --topology and --cluster, or a subcommand"),
        (("--topology", FILE, "--cluster", "c9"), "no cluster 'c9' in"),
        (("diff", str(Path(FILE).with_name("unbalanced.yaml"))), "has a registry"),
    ],
    ids=range(3),
)
def test_what_cannot_be_done_is_said(words, what):
    done = CliRunner().invoke(app, ["schemas", *words])
    assert what in str(done.exception)


def test_it_does_nothing_that_replicas_do():
    file = Path(__file__).parents[3] / "deploy" / "controlled.yaml"
    words = ("--topology", str(file), "--cluster", "cluster-1")
    done = CliRunner().invoke(app, ["schemas", *words])
    assert isinstance(done.exception, PlanError)
    assert "distributor schemas has nothing to do for cluster-1" in str(done.exception)


def test_it_runs_until_it_is_told_to_stop(monkeypatch):
    ran = []

    class Node:
        def __init__(self, topology, cluster):
            ran.append((topology.name, cluster))

        def close(self):
            ran.append("closed")

    monkeypatch.setattr(cli, "SchemaNode", Node)
    monkeypatch.setattr(cli, "run_until_told", partial(ran.append))
    monkeypatch.setattr(cli, "end_within", lambda _: None)
    words = ["schemas", "--topology", FILE, "--cluster", "cluster-1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert ran[0] == ("schemas", "cluster-1")
    assert ran[-1] == "closed"
