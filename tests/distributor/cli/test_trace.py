from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from distributor.cli.main import main

FOUR = str(Path(__file__).parents[3] / "config" / "four-clusters.yaml")


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs `distributor trace` and returns exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["distributor", "trace", FOUR, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


def hops(out):
    return {
        (row["source"], row["target"]): (row["level"], row["flags_before"], row["flags_after"])
        for row in json.loads(out)
    }


def test_a_record_of_the_first_cluster_reaches_all_with_these_flags(run):
    code, out, _ = run("--from", "cluster-1", "--json")
    assert code == 0
    assert hops(out) == {
        ("cluster-1", "cluster-3"): (3, 0b0000, 0b0100),
        ("cluster-1", "cluster-2"): (1, 0b0000, 0b0001),
        ("cluster-3", "cluster-4"): (1, 0b0100, 0b0101),
    }


def test_the_table_shows_the_same_flags(run):
    code, out, _ = run("--from", "cluster-1")
    assert code == 0
    for flags in ("0000", "0100", "0001", "0101"):
        assert flags in out
    assert "does not reach" not in out


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_every_cluster_reaches_every_other(run, number):
    _, out, _ = run("--from", f"cluster-{number}", "--json")
    found = {target for _, target in hops(out)}
    assert found == {f"cluster-{n}" for n in range(1, 5)} - {f"cluster-{number}"}


def test_flags_it_has_already_keep_it_from_crossing_those_levels(run):
    _, out, _ = run("--from", "cluster-3", "--flags", "0100", "--json")
    assert hops(out) == {("cluster-3", "cluster-4"): (1, 0b0100, 0b0101)}
    _, out, _ = run("--from", "cluster-3", "--flags", "0100")
    assert "does not reach cluster-1, cluster-2" in out


def test_a_record_that_crossed_everything_goes_nowhere(run):
    code, out, _ = run("--from", "cluster-1", "--flags", "0101", "--json")
    assert (code, json.loads(out)) == (0, [])


def test_an_unknown_cluster_is_refused(run):
    code, _, error = run("--from", "cluster-9")
    assert code == 2
    assert "no cluster 'cluster-9'" in error
    assert "cluster-1, cluster-2, cluster-3, cluster-4" in error


@pytest.mark.parametrize("flags", ["2", "", "x", "-1", "0b1", "1_0", "+1", " 1", "1" * 65])
def test_flags_that_are_not_binary_are_refused(run, flags):
    code, _, error = run("--from", "cluster-1", f"--flags={flags}")
    assert code == 2
    assert f"{flags!r}" in error
    assert len(error.splitlines()) == 1


def test_64_flags_are_as_many_as_there_are(run):
    assert run("--from", "cluster-1", "--flags", "1" * 64)[0] == 0
