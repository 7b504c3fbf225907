from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from distributor.cli.main import app

pytestmark = [pytest.mark.net, pytest.mark.slow]


def run(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [*words])


def test_status_and_verify_of_equal_clusters(pair, make_batch):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    with pair.running():
        status = run("status", str(pair.file))
        status_json = run("status", str(pair.file), "--json")
        verify = run("verify", str(pair.file))
        verify_json = run("verify", str(pair.file), "--json")
    assert [done.exit_code for done in (status, status_json, verify, verify_json)] == [0] * 4
    assert "c1" in status.stdout
    facts = json.loads(status_json.stdout)
    assert [cluster["records"] for cluster in facts["clusters"]] == [2, 2]
    assert [link["lag_records"] for link in facts["links"]] == [0, 0]
    assert "equal: 1 partitions" in verify.stdout
    assert json.loads(verify_json.stdout)["equal"] is True


def test_verify_of_clusters_that_differ_has_exit_code_1(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]))
    pair.fill(2, make_batch([b"1", b"3"]))
    with pair.running():
        table = run("verify", str(pair.file))
        lines = run("verify", str(pair.file), "--json")
    assert (table.exit_code, lines.exit_code) == (1, 1)
    assert "contents differ from 0 to below 2" in table.stdout
    (difference,) = json.loads(lines.stdout)["differences"]
    assert "contents differ from 0 to below 2" in difference


@pytest.mark.parametrize("command", ["status", "verify"])
def test_a_cluster_that_does_not_answer_has_exit_code_1(pair, command):
    with pair.running(1):
        table = run(command, str(pair.file))
        lines = run(command, str(pair.file), "--json")
    assert (table.exit_code, lines.exit_code) == (1, 1)
    assert pair.topology.clusters[1].stores[0].query in table.stdout
    json.loads(lines.stdout)
