"""`make mutants`: faults are put into the product one at a time; which simulator sees each?

A simulator that passes while the product is wrong proves nothing. So a list of faults is kept,
`mutant_list.py`; a copy of the packages is made with one of them, and
every simulator runs some seeds of it. What none of them sees is the next thing to model.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rich.table import Table

from distributor.testing.mutant_list import MUTANTS
from topology.output import open_console

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributor.testing.mutant_list import Mutant

PACKAGES = "dafka", "distributor", "topology"
ROOT = Path(__file__).parents[2]

SIMULATORS = {
    "agreement": "dafka.testing.membership",
    "cluster": "dafka.testing.scenario",
    "registry": "dafka.testing.registry",
    "groups": "dafka.testing.groups",
    "trees": "distributor.testing.scenario",
    "breaking": "distributor.testing.breaking",
}
"""The quickest first."""

SEED_S = 60.0
"""Of a processor's time: a seed that takes more hangs, which is seen, too. So does one that takes
ten times that by the clock, as it waits for ever."""

HANGS, ENDS = "hangs", "ends"

# By these signals the process ends, whatever it does.
_RUN = """
import signal
import sys
from importlib import import_module
from dafka.testing.world import mute
mute()
run = import_module(sys.argv[1]).run
for seed in range(int(sys.argv[2])):
    signal.setitimer(signal.ITIMER_PROF, float(sys.argv[3]))
    signal.setitimer(signal.ITIMER_REAL, 10 * float(sys.argv[3]))
    try:
        outcome = run(seed)
    except Exception as error:
        told = error
        while told is not None:
            if isinstance(told, NameError):
                raise
            told = told.__cause__ or told.__context__
        sys.exit(f"{seed}")
    if getattr(outcome, "anomalies", None) or getattr(outcome, "problems", None):
        sys.exit(f"{seed}")
"""


@dataclass(frozen=True, slots=True)
class MutantVerdict:
    """What the simulators say of one.

    Attributes:
        name: Of the mutant.
        seen: By simulator, the first seed that shows it; `HANGS`; None if none of those tried does;
            `ENDS` where it does not run at all, which shows nothing.
    """

    name: str
    seen: dict[str, str | None]


def mutated(mutant: Mutant, root: Path) -> None:
    """Put a fault into the packages below `root`.

    Raises:
        AssertionError: What is to be replaced does not stand there once.
    """
    file = root / mutant.file
    text = file.read_text()
    assert text.count(mutant.old) == 1, f"{mutant.name}: {mutant.file} has changed"
    file.write_text(text.replace(mutant.old, mutant.new))


def verdict_of(
    mutant: Mutant,
    seeds: int,
    simulators: Mapping[str, str] = SIMULATORS,
    *,
    first: bool = False,
    seed_s: float = SEED_S,
) -> MutantVerdict:
    """Run simulators, by default all, of a copy with the fault in it.

    Args:
        mutant: The fault.
        seeds: Of each simulator, at most.
        simulators: Which, by name.
        first: Whether the first simulator that sees it is enough; the quickest come first.
        seed_s: See `SEED_S`.
    """
    with TemporaryDirectory() as directory:
        for package in PACKAGES:
            shutil.copytree(ROOT / package, Path(directory) / package)
        mutated(mutant, Path(directory))
        run = partial(_seen, directory=directory, seeds=seeds, seed_s=seed_s)
        if first:
            seen = {}
            for name, module in simulators.items():
                seen[name] = run(module)
                if seen[name] not in (None, ENDS):
                    break
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = pool.map(run, simulators.values())
                seen = dict(zip(simulators, found, strict=True))
    return MutantVerdict(mutant.name, seen)


def _seen(module: str, directory: str, seeds: int, seed_s: float) -> str | None:
    done = subprocess.run(  # noqa: S603 (our own Python)
        [sys.executable, "-c", _RUN, module, str(seeds), str(seed_s)],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": directory},
        capture_output=True,
        text=True,
        check=False,
    )
    if -done.returncode in (signal.SIGPROF, signal.SIGALRM):
        return HANGS
    if done.returncode == 0:
        return None
    last = done.stderr.split()[-1:]
    return f"seed {last[0]}" if last and last[0].isdecimal() else ENDS


def main() -> int:
    """Run all of them, or some; 0 if each is seen by a simulator."""
    parser = argparse.ArgumentParser(description="See which simulators see which faults.")
    parser.add_argument("--seeds", type=int, default=40, help="of each simulator, at most")
    parser.add_argument("--only", default="", help="those with these words in their names")
    parser.add_argument(
        "--first", action="store_true", help="the first simulator that sees a fault is enough"
    )
    parser.add_argument("--json", action="store_true", help="one object for each, for scripts")
    arguments = parser.parse_args()
    console = open_console(stderr=True)
    table = Table("fault", *SIMULATORS)
    unseen = 0
    for mutant in (one for one in MUTANTS if arguments.only in one.name):
        with console.status(mutant.name, spinner="line"):
            verdict = verdict_of(mutant, arguments.seeds, first=arguments.first)
        unseen += not any(one not in (None, ENDS) for one in verdict.seen.values())
        table.add_row(verdict.name, *(verdict.seen.get(name) or "-" for name in SIMULATORS))
        if arguments.json:
            sys.stdout.write(json.dumps(asdict(verdict)) + "\n")
            sys.stdout.flush()
    if not arguments.json:
        open_console().print(table)
    console.print(f"{unseen} are seen by none" if unseen else "each is seen")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
