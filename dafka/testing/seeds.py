"""What every simulator's command line does: run seeds, and say which of them fail and how."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dafka.testing.world import mute

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def replay_command(module: str, seed: int) -> str:
    """What repeats a run."""
    return f"python -m {module} --seed {seed}"


def run_seeds(
    module: str, description: str, judged: Callable[[int], tuple[str, Sequence[str]]]
) -> int:
    """Run the seeds that the command line asks for.

    Args:
        module: Whose seeds.
        description: For `--help`.
        judged: Runs a seed; says what came of it, and what was found wrong. What it asserts in
            vain was found wrong, too.

    Returns:
        0 if nothing was found wrong, else 1.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    arguments = parser.parse_args()
    mute()
    failed = 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        try:
            summary, problems = judged(seed)
        except AssertionError as error:
            summary, problems = str(error), ["refused by its own checks"]
        failed += bool(problems)
        if problems or arguments.count == 1:
            sys.stdout.write(f"seed {seed}: {summary}\n")
        for problem in problems:
            sys.stdout.write(f"  {problem}\n")
        if problems:
            sys.stdout.write(f"  {replay_command(module, seed)}\n")
    sys.stdout.write(f"{arguments.count - failed} of {arguments.count} seeds pass\n")
    return 1 if failed else 0
