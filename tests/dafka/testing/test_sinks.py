from __future__ import annotations

import pytest

from dafka.groups.runs import AgreedRun, enrolled_sink, sink_in
from dafka.spark.placing import Placing
from dafka.spark.publication import Publisher
from dafka.spark.topic_sinks import group_for
from dafka.testing import sinks
from dafka.testing.sinks import main, run
from tests.support.seeds import assert_all_pass, broken_by

SEEDS = range(60)


@pytest.mark.sim
@pytest.mark.slow
def test_runs_have_one_order_in_a_topic_whatever_happens(seeds):
    assert_all_pass(run, "dafka.testing.sinks", seeds)


def test_the_same_seed_is_the_same_run():
    assert run(5) == run(5)


def test_much_happens():
    outcomes = [run(seed) for seed in range(4)]
    assert sum(outcome.runs for outcome in outcomes) > 20
    assert sum(outcome.drivers for outcome in outcomes) > 40


def unchecked(placing, topic, manifest, before):
    """Place a run as if nobody had come between."""
    if before.last is not None:
        placing._settled(topic, before, before.last)
    after = placing._seen[topic] = before.after(topic, manifest)
    register = placing._register(group_for(placing._cluster, topic))
    return sink_in(register.change(lambda _: enrolled_sink(after, len(placing._cluster.stores))))


LEFT_OUT = {
    "the run before is not ended": lambda patch: patch.setattr(
        Placing, "_settled", lambda *_: True
    ),
    "nobody tells of a run that it is whole": lambda patch: patch.setattr(
        Placing, "_tell", lambda *_: None
    ),
    "nobody looks whether a run is ended": lambda patch: patch.setattr(
        Placing, "_is_ended", lambda *_, **__: False
    ),
    "nobody looks whether somebody came between": lambda patch: patch.setattr(
        Placing, "_placed", unchecked
    ),
    "each has a manifest of its own": lambda patch: patch.setattr(
        Placing, "agreed", lambda _, mine: AgreedRun(mine)
    ),
    "a query goes on without ending its run": lambda patch: patch.setattr(
        Placing, "end_earlier", lambda *_: None
    ),
    "what others have left is taken for published": lambda patch: patch.setattr(
        Publisher, "complete", lambda *_, **__: None
    ),
    "all are taken to keep all": lambda patch: patch.setattr(
        Publisher, "_enough", lambda publisher, _: publisher._options.min_acks
    ),
    "nothing is published": lambda patch: patch.setattr(Publisher, "publish", lambda *_: None),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", LEFT_OUT)
def test_what_is_left_out_is_found(monkeypatch, what):
    LEFT_OUT[what](monkeypatch)
    assert broken_by(run, SEEDS)


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sinks", "--seed", "3"])
    assert main() == 0
    assert "1 of 1 seeds pass" in capsys.readouterr().out


def test_the_command_says_what_failed(monkeypatch, capsys):
    def broken(seed):
        raise AssertionError("begun before another one is ended")

    monkeypatch.setattr(sinks, "run", broken)
    monkeypatch.setattr("sys.argv", ["sinks", "--seed", "3", "--count", "2"])
    assert main() == 1
    assert "seed 4: begun before another one is ended" in capsys.readouterr().out
