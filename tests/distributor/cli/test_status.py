from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from distributor.cli.main import app

pytestmark = [pytest.mark.net, pytest.mark.slow]


def run(*words, columns=200):
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [*words])


def test_status_of_equal_clusters(pair, make_batch):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    with pair.running():
        table = run("status", str(pair.file))
        lines = run("status", str(pair.file), "--json")
    assert [done.exit_code for done in (table, lines)] == [0, 0]
    assert "c1" in table.stdout
    facts = json.loads(lines.stdout)
    assert [cluster["records"] for cluster in facts["clusters"]] == [2, 2]
    assert [link["lag_records"] for link in facts["links"]] == [0, 0]


def test_a_cluster_that_does_not_answer_has_exit_code_1(pair):
    with pair.running(1):
        table = run("status", str(pair.file), columns=40)  # no terminal: no reason to cut
        lines = run("status", str(pair.file), "--json")
    assert (table.exit_code, lines.exit_code) == (1, 1)
    assert pair.topology.clusters[1].stores[0].query in table.stdout
    json.loads(lines.stdout)
