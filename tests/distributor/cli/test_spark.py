from __future__ import annotations

import sys

import pytest

from dafka.query.client import StoreClient


@pytest.mark.slow
def test_a_backfill_from_the_command_line(run, shared_spark, pair, make_batch):
    pair.fill(1, make_batch([b"0", b"1", b"2"]))
    with pair.running():
        code, out, _ = run(
            *("run", "--topology", pair.file, "--cluster", "c1", "--level", 1),
            *("--engine", "spark", "--available-now"),
        )
        assert (code, out) == (0, "c1 to c2: 3 records read\n")
        with StoreClient(pair.topology.cluster("c2").stores[0].query) as client:
            assert sum(client.heads().values()) == 2


def test_options_that_do_not_fit(run, pair, monkeypatch):
    link = ("run", "--topology", pair.file, "--cluster", "c1", "--level", 1)
    code, _, err = run(*link, "--available-now")
    assert code == 2
    assert "--available-now needs --engine spark" in err
    code, _, err = run(*link, "--engine", "spark", "--conf", "spark.x")
    assert code == 2
    assert "--conf must be NAME=VALUE, got 'spark.x'" in err
    monkeypatch.setitem(sys.modules, "dafka.spark.session", None)
    code, _, err = run(*link, "--engine", "spark")
    assert code == 2
    assert "pip install 'dafka-distributor[spark]'" in err
