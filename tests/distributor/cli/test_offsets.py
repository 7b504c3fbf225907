from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from dafka.cluster import Cluster
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from dafka.node.committer import Committer
from distributor.cli.main import app
from distributor.errors import CommandError, PlanError
from tests.support.json_outputs import rows_of
from tests.support.query_port import unanswered

pytestmark = [pytest.mark.net, pytest.mark.slow]

KEY = CommitKey("billing", Partition("orders", "PRODUCER"))


def run(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["offsets", *words])


@pytest.fixture
def committed(pair):
    with pair.running():
        committer = Committer(Cluster.declared(pair.topology.clusters[0]))
        committer.write([(KEY, Commit(5, 1, 2))])
        committer.close()
        yield str(pair.file)


def test_where_a_group_stands_and_why(committed):
    table = run("explain", "billing", committed)
    assert table.exit_code == 0
    assert "the records are not here yet" in table.stdout
    assert "exact" in table.stdout
    facts = json.loads(run("explain", "billing", committed, "--json").stdout)
    assert [(row["cluster"], row["position"], row["behind"]) for row in facts["positions"]] == [
        ("c1", 5, 0),
        ("c2", None, 5),
    ]


@pytest.mark.parametrize("words", [("explain",), ("force", "--cluster", "c2")])
def test_a_group_that_nobody_knows_is_a_mistake(committed, words):
    command, *options = words
    for more in ([], ["--json"]):
        done = run(command, "nobody", committed, *options, *more)
        assert isinstance(done.exception, PlanError)
        assert "group 'nobody' has no position on any cluster" in str(done.exception)
        assert done.stdout == ""


def test_a_cluster_that_does_not_answer_is_an_error(pair, monkeypatch):
    unanswered(monkeypatch, pair.queries[1])
    with pair.running(1):
        done = run("explain", "billing", str(pair.file))
        assert isinstance(done.exception, CommandError)
        done = run("force", "billing", str(pair.file), "--cluster", "c2")
    assert isinstance(done.exception, CommandError)
    assert "cannot commit at c2" in str(done.exception)


def test_positions_are_waited_for_and_what_is_missing_is_said(committed):
    wait = "wait", "billing", committed, "--cluster"
    assert "group 'billing' can go on at c1" in run(*wait, "c1").stdout
    done = run(*wait, "c2", "--timeout", "0.7", "--json")
    assert isinstance(done.exception, CommandError)
    missing = "orders PRODUCER, behind by 5: the records are not here yet"
    assert missing in str(done.exception)
    facts = {"group": "billing", "cluster": "c2", "lacking": [missing]}
    assert rows_of(done.stdout) == [facts]
    # A process of its own: two commands at once in this one would print into each other's output.
    force = (sys.executable, "-m", "distributor", "offsets", "force", "billing", committed)
    later = threading.Timer(1.0, subprocess.run, [[*force, "--cluster", "c2"]])
    later.start()
    assert "can go on at c2" in run(*wait, "c2", "--timeout", "30").stdout
    later.join()
    done = run(*wait, "c9")
    assert isinstance(done.exception, PlanError)


def test_what_a_silent_cluster_knows_cannot_be_waited_for(pair, monkeypatch):
    unanswered(monkeypatch, pair.queries[1])
    with pair.running(1):
        done = run("wait", "billing", str(pair.file), "--cluster", "c1", "--timeout", "0")
    assert isinstance(done.exception, CommandError)
    assert "c1 does not have what group 'billing' did elsewhere: c2: " in str(done.exception)


def test_a_position_is_forced(committed):
    force = "force", "billing", committed, "--cluster", "c2"
    shown = run(*force, "--dry-run")
    assert shown.exit_code == 0
    assert "would commit at c2" in shown.stdout
    assert [cell.strip() for cell in shown.stdout.splitlines()[-2].split("│")[1:-1]] == [
        "orders",
        "PRODUCER",
        "5",
    ]
    positions = [{"topic": "orders", "address": "PRODUCER", "position": 5}]
    facts = {"group": "billing", "cluster": "c2", "committed": False, "positions": positions}
    assert rows_of(run(*force, "--dry-run", "--json").stdout) == [facts]
    done = run(*force)
    assert "committed at c2" in done.stdout
    assert "would" not in done.stdout
    facts = json.loads(run("explain", "billing", committed, "--json").stdout)
    assert [(row["cluster"], row["position"]) for row in facts["positions"]] == [
        ("c1", 5),
        ("c2", 5),
    ]


def test_a_forced_position_is_said_to_scripts(committed):
    done = run("force", "billing", committed, "--cluster", "c2", "--json")
    assert json.loads(done.stdout)["committed"] is True


def test_a_cluster_with_the_newest_position_has_nothing_to_do(committed):
    force = "force", "billing", committed, "--cluster", "c1"
    for options in ([], ["--dry-run"]):
        done = run(*force, *options)
        assert (done.exit_code, done.stdout) == (
            0,
            "nothing to do: no cluster that answers has a newer position of 'billing'\n",
        )
    facts = {"group": "billing", "cluster": "c1", "committed": False, "positions": []}
    assert rows_of(run(*force, "--json").stdout) == [facts]


def test_what_a_cluster_that_does_not_answer_knows_is_left_out_and_said(pair, monkeypatch):
    unanswered(monkeypatch, pair.queries[0])
    with pair.running(2):
        done = run("force", "billing", str(pair.file), "--cluster", "c2")
    assert (done.exit_code, "nothing to do" in done.stdout) == (0, True)
    assert "left out c1: " in done.stderr


def test_a_cluster_that_is_not_declared_cannot_be_forced(committed):
    done = run("force", "billing", committed, "--cluster", "c9")
    assert isinstance(done.exception, PlanError)
