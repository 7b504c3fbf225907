from __future__ import annotations

import json
from statistics import fmean

import pytest

from distributor.spark.examples import delays as example
from distributor.spark.examples.delays import delays

pytestmark = [pytest.mark.slow, pytest.mark.net]


def test_delays_on_a_cluster_the_flights_were_not_published_on(spark, trio, flights):
    expected = {}
    for row in flights:
        flight = json.loads(row.value)
        expected.setdefault(flight["carrier"], []).append(flight["dep_delay"])
    found = {row.carrier: row for row in delays(spark, trio.file, "c2").collect()}
    assert found.keys() == expected.keys()
    for carrier, minutes in expected.items():
        departed = [one for one in minutes if one is not None]
        assert (found[carrier].flights, found[carrier].departed) == (len(minutes), len(departed))
        assert found[carrier].mean_delay == pytest.approx(fmean(departed), abs=0.051)


def test_the_command(spark, trio, monkeypatch, capsys):
    monkeypatch.setattr(example, "open_session", lambda *_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr("sys.argv", ["delays", trio.file, "c2"])
    example.main()
    assert "|carrier|flights|departed|mean_delay|" in capsys.readouterr().out
