"""`distributor controller run`: what it refuses; it runs in tests/processes/test_controller.py."""

from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from distributor.cli.controller import _replicas

FOUR = "config/four-clusters.yaml"


def test_replicas_have_names_or_are_called_by_their_place():
    found = _replicas(["127.0.0.1:1", "left=host:2"])
    assert found == {"127.0.0.1:1": "127.0.0.1:1", "left": "host:2"}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (["nowhere"], "expected HOST:PORT or NAME=HOST:PORT"),
        (["a=host:1", "a=host:2"], "given twice"),
    ],
)
def test_replicas_that_cannot_be_reached_are_refused(given, what):
    with pytest.raises(MisuseError, match=what):
        _replicas(given)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--cluster", "c9", "--replica", "127.0.0.1:1"), "no cluster 'c9'"),
        (("--cluster", "cluster-1"), "give --replica HOST:PORT for each"),
        (("--cluster", "cluster-1", "--replica", "here"), "expected HOST:PORT"),
        (("--cluster", "cluster-1", "--replica", "a=10.0.0.7:7001"), "would be believed"),
        (
            ("--cluster", "cluster-1", "--replica", "127.0.0.1:1", "--replica-ca", FOUR),
            "belong together",
        ),
    ],
    ids=range(5),
)
def test_a_mistake_is_one_line_and_exit_code_2(run, words, what):
    code, _, complaint = run("controller", "run", "--topology", FOUR, *words)
    assert code == 2
    (line,) = complaint.splitlines()
    assert line.startswith("distributor: ")
    assert what in line


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--listen", "here"), "cannot serve operators at 'here': expected HOST:PORT"),
        (("--listen", "10.0.0.7:1"), "whoever reaches it would be obeyed"),
        (("--listen", "127.0.0.1:1", "--operator-ca", FOUR), "--operator-ca goes with"),
    ],
    ids=range(3),
)
def test_where_operators_cannot_be_served_that_is_said(run, words, what):
    common = ("--topology", FOUR, "--cluster", "cluster-1", "--replica", "127.0.0.1:1")
    code, _, complaint = run("controller", "run", *common, *words)
    assert code == 2
    (line,) = complaint.splitlines()
    assert what in line
