from __future__ import annotations

import pytest

from dafka.groups.consumer import GroupMachine
from dafka.groups.events import Revoked
from dafka.node.progress import Hand
from dafka.testing import groups
from dafka.testing.groups import main, run
from tests.support.seeds import broken_by


@pytest.mark.sim
@pytest.mark.slow
def test_a_group_keeps_its_promises(seeds):
    # A third of the seeds: one costs as much as ten of most other simulations.
    outcomes = [run(seed) for seed in seeds[: len(seeds) // 3]]
    assert all(outcome.records for outcome in outcomes)


def test_some_runs_have_something_to_repeat():
    assert any(run(seed).repeated for seed in range(8))


def test_the_same_seed_is_the_same_run():
    assert run(3) == run(3)


def test_an_application_that_is_not_waited_for_is_found(monkeypatch):
    revoke = Hand.revoke

    def hasty(self, effect):
        waits = revoke(self, effect)
        if waits is None:
            with self._lock:
                return self._give_back(effect)
        return waits

    monkeypatch.setattr(Hand, "revoke", hasty)
    assert broken_by(run, range(60))


def test_positions_that_are_not_committed_when_they_are_given_back_are_found(monkeypatch):
    revoked = GroupMachine._revoked

    def forgetful(self, event, now_ms):
        return revoked(self, Revoked(event.token, {}), now_ms)

    monkeypatch.setattr(GroupMachine, "_revoked", forgetful)
    assert broken_by(run, range(60))


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["groups", "--seed", "3"])
    assert main() == 0
    assert "1 of 1 seeds pass" in capsys.readouterr().out


def test_the_command_says_what_failed(monkeypatch, capsys):
    def broken(seed):
        raise AssertionError("two owners")

    monkeypatch.setattr(groups, "run", broken)
    monkeypatch.setattr("sys.argv", ["groups", "--seed", "3", "--count", "2"])
    assert main() == 1
    assert "seed 4: two owners" in capsys.readouterr().out
