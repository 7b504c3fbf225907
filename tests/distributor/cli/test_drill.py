from __future__ import annotations


def test_a_cluster_that_is_not_there_cannot_be_lost(run, four):
    code, _, error = run("drill", four, "--kill", "cluster-9")
    assert code == 2
    assert "no cluster 'cluster-9'" in error


def test_load_has_bounds(run, four):
    assert run("drill", four, "--rate", "1")[0] == 2
    assert run("drill", four, "--down", "0")[0] == 2
