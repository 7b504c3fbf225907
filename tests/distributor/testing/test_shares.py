"""Links in shares, of which the number changes: each record comes everywhere, once and in order."""

from __future__ import annotations

import pytest

from dafka.model import PartitionShare, range_of, slot_of
from distributor.testing import shares
from distributor.testing.shares import SharesOutcome, run


@pytest.mark.sim
def test_whatever_the_shares_all_records_come_once_and_in_order():
    outcomes = [run(seed) for seed in range(12)]
    assert [outcome.problems for outcome in outcomes] == [[]] * 12
    assert all(outcome.records for outcome in outcomes)
    assert max(len(outcome.numbers) for outcome in outcomes) > 3


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
