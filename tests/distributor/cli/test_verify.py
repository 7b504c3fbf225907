from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from distributor.cli.main import app

pytestmark = [pytest.mark.net, pytest.mark.slow]


def run(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["verify", *map(str, words)])


def test_equal_clusters(pair, make_batch):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    with pair.running():
        heads = run(pair.file)
        deep = run(pair.file, "--deep")
        lines = run(pair.file, "--json")
    assert [done.exit_code for done in (heads, deep, lines)] == [0] * 3
    assert [done.stderr for done in (heads, deep, lines)] == [""] * 3
    assert "equal: 1 partition, heads\n" in heads.stdout
    assert "equal: 1 partition, heads and contents; 4 records read" in deep.stdout
    assert json.loads(lines.stdout)["equal"] is True


def test_other_contents_have_exit_code_3_and_are_left_alone(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    pair.fill(2, make_batch([b"1", b"x"]))
    with pair.running():
        table = run(pair.file, "--deep", "--settle", 0)
        lines = run(pair.file, "--repair", "--settle", 0, "--json")
    assert (table.exit_code, lines.exit_code) == (3, 3)
    assert "c2 has other records than c1: 1" in table.stdout
    told = json.loads(lines.stdout)
    assert [one["kind"] for one in told["differences"]] == ["behind", "differs"]
    assert told["repaired"] == 0
    assert "history differs" in told["left"][0]


def test_missing_records_have_exit_code_1_until_they_are_repaired(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    pair.fill(2, make_batch([b"1", b"2"]))
    with pair.running():
        missing = run(pair.file, "--settle", 0)
        repaired = run(pair.file, "--repair", "--settle", 0, "--json")
        equal = run(pair.file, "--deep", "--settle", 0)
    assert [done.exit_code for done in (missing, repaired, equal)] == [1, 0, 0]
    told = json.loads(repaired.stdout)
    assert (told["equal"], told["repaired"], told["clusters"]) == (True, 1, {"c1": 3, "c2": 3})
    assert told["left"] == []


def test_a_cluster_that_does_not_answer_has_exit_code_4(pair):
    with pair.running(1):
        table = run(pair.file)
    assert table.exit_code == 4
    assert pair.topology.clusters[1].stores[0].query in table.stdout


@pytest.mark.parametrize("words", [("--watch", "--repair"), ("--metrics", "127.0.0.1:1")])
def test_what_does_not_go_together_is_refused(pair, words, monkeypatch):
    done = run(pair.file, *words)
    assert done.exit_code != 0
    assert "--watch" in str(done.exception)
