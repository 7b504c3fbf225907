"""The command line of the simulators."""

from __future__ import annotations

from dafka.testing.seeds import replay_command, run_seeds


def test_one_seed_is_told_whatever_comes_of_it(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["x", "--seed", "7"])
    assert run_seeds("x.y", "X.", lambda seed: (f"{seed} records", ())) == 0
    assert capsys.readouterr().out == "seed 7: 7 records\n1 of 1 seeds pass\n"


def test_of_many_those_that_fail_are_told_and_how_to_repeat_them(monkeypatch, capsys):
    def judged(seed):
        if seed == 2:
            raise AssertionError("two owners")
        return "ran", ["a skip"] if seed == 1 else []

    monkeypatch.setattr("sys.argv", ["x", "--count", "3"])
    assert run_seeds("x.y", "X.", judged) == 1
    assert capsys.readouterr().out.splitlines() == [
        "seed 1: ran",
        "  a skip",
        f"  {replay_command('x.y', 1)}",
        "seed 2: two owners",
        "  refused by its own checks",
        f"  {replay_command('x.y', 2)}",
        "1 of 3 seeds pass",
    ]
