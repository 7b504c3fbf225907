"""Links in shares, of which the number changes: each record comes everywhere, once and in order."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from dafka.model import PartitionShare, range_of, slot_of
from dafka.records.batch import is_compressed
from dafka.records.compression import Codec
from dafka.testing.world import Faults
from distributor.testing import shares
from distributor.testing.checkers import settled
from distributor.testing.links import SimSettings
from distributor.testing.shares import SharesOutcome, run
from distributor.testing.world import SimWorld
from topology.plan import plan
from topology.testing import random_topology


@pytest.mark.sim
def test_whatever_the_shares_all_records_come_once_and_in_order():
    outcomes = [run(seed) for seed in range(12)]
    assert [outcome.problems for outcome in outcomes] == [[]] * 12
    assert all(outcome.records for outcome in outcomes)
    assert max(len(outcome.numbers) for outcome in outcomes) > 3


def of_two_clusters():
    """A plan of two links."""
    plans = (plan(random_topology(Random(seed), 2)) for seed in count())
    return next(one for one in plans if len(one.links) == 2)


@pytest.mark.sim
@pytest.mark.parametrize(("of", "busiest"), [(1, 960), (2, 480), (4, 240), (8, 120), (16, 70)])
def test_what_each_of_more_shares_has_to_copy_is_less(of, busiest):
    """Beyond this machine's cores: 96 producers' records, of which each is copied by one share."""
    sim = SimWorld(of_two_clusters(), 1, Faults(), 96)
    whole, back = sim.links
    whole.crash()
    for producer in sim.clusters[whole.link.source].producers:
        for topic in ("flights", "weather"):
            producer.send(topic, 5)
    sim.world.run_until(sim.world.now_ms + 5_000)
    parts = [whole.divided(PartitionShare(number, of), f"-{number}") for number in range(of)]
    sim.links = [*parts, back]
    for link in parts:
        link.boot()
    began_ms = sim.world.now_ms
    while not settled(sim) and sim.world.now_ms < began_ms + 120_000:
        sim.world.run_until(sim.world.now_ms + 250)
    assert settled(sim)
    copied = [link.forwarded for link in parts]
    assert sum(copied) == 960
    assert max(copied) == busiest


def test_the_same_seed_is_the_same_run():
    assert run(3) == run(3)
    assert run(3).fingerprint != run(4).fingerprint


def leave_the_last_out(monkeypatch):
    monkeypatch.setattr(
        PartitionShare,
        "has",
        lambda self, address: range_of(slot_of(address), self.of + 1) == self.number,
    )


def count_from_one(monkeypatch):
    monkeypatch.setattr(
        PartitionShare,
        "has",
        lambda self, address: range_of(slot_of(address), self.of) == self.number + 1,
    )


@pytest.mark.sim
@pytest.mark.parametrize("mutant", [leave_the_last_out, count_from_one])
def test_partitions_in_no_share_are_noticed(mutant, monkeypatch):
    mutant(monkeypatch)
    assert any("not settled" in run(seed, 20_000).problems for seed in range(3))


def test_the_command_names_seeds_that_fail(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["shares", "--seed", "1"])
    assert shares.main() == 0
    assert "1 of 1 seeds pass" in capsys.readouterr().out
    failed = SharesOutcome(["not settled"], [2], 0, "")
    monkeypatch.setattr(shares, "run", lambda _seed: failed)
    assert shares.main() == 1
    assert "not settled" in capsys.readouterr().out


@pytest.mark.sim
@pytest.mark.parametrize(("codecs", "compressed"), [((Codec.LZ4,), True), ((Codec.NONE,), False)])
def test_where_links_compress_targets_have_it_so(codecs, compressed):
    sim = SimWorld(of_two_clusters(), 1, Faults(), 1, SimSettings(codecs=codecs))
    link = sim.links[0]
    (producer,) = sim.clusters[link.link.source].producers
    producer.send("flights", 5)
    while not settled(sim) and sim.world.now_ms < 60_000:
        sim.world.run_until(sim.world.now_ms + 250)
    assert settled(sim)
    (partition,) = producer.partitions
    (batch,) = link.target.store.log.read(partition, 0, 5, 1 << 20)
    assert is_compressed(batch.content) == compressed
