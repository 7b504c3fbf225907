"""`distributor trace`: the seed's example, and what cannot be traced."""

from __future__ import annotations

import json


def hops(out):
    return [
        (hop["source"], hop["level"], hop["target"], hop["flags_before"], hop["flags_after"])
        for hop in json.loads(out)
    ]


def test_the_four_steps_of_the_distribution_model(run, four):
    code, out, _ = run("trace", four, "--from", "cluster-1", "--json")
    assert code == 0
    assert hops(out) == [
        ("cluster-1", 3, "cluster-3", 0b0000, 0b0100),
        ("cluster-1", 1, "cluster-2", 0b0000, 0b0001),
        ("cluster-3", 1, "cluster-4", 0b0100, 0b0101),
    ]


def test_the_table_shows_flags_in_binary(run, four):
    code, out, _ = run("trace", four, "--from", "cluster-1")
    assert code == 0
    for flags in ("0000", "0001", "0100", "0101"):
        assert flags in out
    assert "does not reach" not in out


def test_a_record_with_flags_goes_less_far(run, four):
    code, out, _ = run("trace", four, "--from", "cluster-3", "--flags", "0100")
    assert code == 0
    assert "does not reach cluster-1, cluster-2" in out


def test_the_unbalanced_tree(run, unbalanced):
    _, out, _ = run("trace", unbalanced, "--from", "cluster-2", "--json")
    assert {hop[2] for hop in hops(out)} == {f"cluster-{n}" for n in (1, 3, 4, 5)}


def test_an_unknown_cluster_and_wrong_flags_are_refused(run, four):
    code, _, err = run("trace", four, "--from", "moon")
    assert code == 2
    assert "moon" in err
    assert "cluster-1" in err
    code, _, err = run("trace", four, "--from", "cluster-1", "--flags", "5")
    assert code == 2
    assert "'5'" in err
