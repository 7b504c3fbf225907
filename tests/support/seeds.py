"""Trying the seeds of a simulator."""

from __future__ import annotations

import pytest

from dafka.testing.seeds import replay_command


def shown_by(seed, count):
    """The first seeds, in front of them the one that is known to show what is looked for.

    A simulator that has changed may show it by another one: then all are tried in turn.
    """
    return [seed, *(one for one in range(count) if one != seed)]


def assert_all_pass(run, module, seeds):
    """Fail with what repeats the first run that ends in an assertion."""
    for seed in seeds:
        try:
            run(seed)
        except AssertionError as error:
            pytest.fail(f"{error}: {replay_command(module, seed)}")


def broken_by(run, seeds):
    """Whether one of the seeds ends in an assertion; the rest is not run."""
    for seed in seeds:
        try:
            run(seed)
        except AssertionError:
            return True
    return False
