from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from distributor.cli.main import app
from distributor.committer import Committer
from distributor.errors import CommandError, PlanError

pytestmark = [pytest.mark.net, pytest.mark.slow]

KEY = CommitKey("billing", Partition("orders", "PRODUCER"))


def run(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["offsets", *words])


@pytest.fixture
def committed(pair):
    with pair.running():
        committer = Committer(pair.topology.clusters[0], "127.0.0.1")
        committer.write([(KEY, Commit(5, 1, 2))])
        committer.close()
        yield str(pair.file)


def test_where_a_group_stands_and_why(committed):
    table = run("explain", "billing", committed)
    assert table.exit_code == 0
    assert "the records are not here yet" in table.stdout
    assert "60.0 s" in table.stdout
    facts = json.loads(run("explain", "billing", committed, "--json").stdout)
    assert [(row["cluster"], row["position"], row["behind"]) for row in facts["positions"]] == [
        ("c1", 5, 0),
        ("c2", None, 5),
    ]


def test_a_group_that_nobody_knows(committed):
    done = run("explain", "nobody", committed)
    assert (done.exit_code, "has no position" in done.stdout) == (0, True)


def test_a_cluster_that_does_not_answer_is_an_error(pair, monkeypatch):
    monkeypatch.setattr("distributor.group_survey.ANSWER_TIMEOUT_MS", 300)
    with pair.running(1):
        done = run("explain", "billing", str(pair.file))
        assert isinstance(done.exception, CommandError)
        done = run("force", "billing", str(pair.file), "--cluster", "c2")
    assert isinstance(done.exception, CommandError)
    assert "cannot commit at c2" in str(done.exception)


def test_a_position_is_forced(committed):
    shown = run("force", "billing", committed, "--cluster", "c2", "--dry-run")
    assert (shown.exit_code, shown.stdout) == (0, "orders PRODUCER 5\n")
    assert "5" not in run("force", "billing", committed, "--cluster", "c1").stdout
    assert run("force", "billing", committed, "--cluster", "c2").stdout == "orders PRODUCER 5\n"
    facts = json.loads(run("explain", "billing", committed, "--json").stdout)
    assert [(row["cluster"], row["position"]) for row in facts["positions"]] == [
        ("c1", 5),
        ("c2", 5),
    ]


def test_a_cluster_that_is_not_declared_cannot_be_forced(committed):
    done = run("force", "billing", committed, "--cluster", "c9")
    assert isinstance(done.exception, PlanError)
