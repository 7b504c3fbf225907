"""`distributor run`: what it refuses; that it runs is for the real-process tests."""

from __future__ import annotations


def test_a_cluster_or_level_without_a_distributor_is_refused_with_those_there_are(run, four):
    for cluster, level in (("cluster-1", "2"), ("moon", "1")):
        arguments = ("run", "--topology", four, "--cluster", cluster, "--level", level)
        code, _, err = run(*arguments)
        assert code == 2
        assert f"{cluster!r} and level {level}" in err
        assert "cluster-1/1, cluster-1/3" in err


def test_everything_must_be_said(run, four):
    assert run("run", "--topology", four)[0] == 2
