from __future__ import annotations

import pytest

from distributor.link.target import TargetMachine
from distributor.testing import breaking
from distributor.testing.breaking import KINDS, run


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 20, 5))
def test_others_go_on_whatever_breaks_and_all_is_whole_again(first):
    outcomes = [run(seed) for seed in range(first, first + 5)]
    assert [outcome.problems for outcome in outcomes] == [[]] * 5


def test_each_kind_is_among_the_first_seeds_and_a_run_repeats_itself():
    outcomes = [run(seed) for seed in range(6)]
    assert {outcome.broken.split()[1] for outcome in outcomes} == set(KINDS)
    assert run(1) == outcomes[1]


@pytest.mark.parametrize("stuck", [True, False])
def test_it_sees_a_target_that_is_not_left(monkeypatch, stuck):
    if stuck:
        monkeypatch.setattr(TargetMachine, "_leave_stuck", lambda *_: [])
    else:
        monkeypatch.setattr(TargetMachine, "_leave_starving", lambda *_: [])
    found = [problem for seed in range(4) for problem in run(seed).problems]
    assert any("others do not go on while" in problem for problem in found)


def test_the_command_names_seeds_that_fail(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["breaking", "--seed", "1"])
    assert breaking.main() == 0
    assert "1 of 1 seeds pass" in capsys.readouterr().out
    broken = breaking.BreakingOutcome(["it stands"], "c1 full", 0, 0)
    monkeypatch.setattr(breaking, "run", lambda _seed: broken)
    assert breaking.main() == 1
    out = capsys.readouterr().out
    assert "it stands" in out
    assert "0 of 1 seeds pass" in out
