"""Whether a machine that is only busy makes a link leave its target: it must not.

python -m distributor.testing.busy --minutes 60

The shipped tree of four clusters runs as real processes. Beside them as many loops compute as make
the load average what is wanted, at the same nice level, while each cluster publishes at a steady
rate. At the end no link may have left its target, no process may have been started again, and every
record has to be on every cluster, once and in order.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.process.logs import set_up_logs
from distributor.demo import drill, job
from distributor.errors import PlanError
from distributor.local.processes import processes_of, refuse_taken
from distributor.local.supervisor import Supervisor
from topology import load, plan
from topology.output import Columns, number, open_console, table
from topology.processes import ProcessKind
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from distributor.demo.job import Published, ReadProof
    from topology.model import Topology

SHIPPED = Path(__file__).parents[2] / "config" / "four-clusters.yaml"

LOAD_PER_CORE = 10
"""What is wanted, by loops alone; what the tree does comes on top."""

RATE = 40
"""Records a second on each cluster."""

LOOK_S = 10.0
"""How often the load average is noted, which the kernel makes anew each 5 s."""

TICK_S = 0.25

READY_S = 300.0
"""How long the tree may take to start, and to become equal at the end, which is not judged."""

_LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Ends by itself if whoever started it is killed."""

_LEFT = "link is retargeted"
"""What a distributor's log says of a link that goes elsewhere, with whether that was planned."""


@dataclass(frozen=True, slots=True)
class BusyRun:
    """What came of it.

    Attributes:
        loads: The load average of a minute for each core, at every look.
        failovers: Lines of logs that say that a link has left its target.
        restarts: Processes that were started again, with how often.
        published: Records.
        rate: How many a second on each cluster, as it came to be on a machine that is busy.
        proofs: What each cluster has of them.
    """

    loads: tuple[float, ...]
    failovers: tuple[str, ...]
    restarts: tuple[str, ...]
    published: int
    rate: float
    proofs: tuple[ReadProof, ...]

    @property
    def problems(self) -> list[str]:
        """What must not have been, for people."""
        found = [f"a link left its target: {line}" for line in self.failovers]
        found += [f"started again: {one}" for one in self.restarts]
        found += [
            f"{one.cluster}: {one.lost} lost, {one.duplicated} twice, {one.disordered} out of order"
            for one in self.proofs
            if not one.flawless
        ]
        if not self.published:
            found.append("nothing was published")
        return found

    def __str__(self) -> str:
        return (
            f"load average for each core {fmean(self.loads):.1f} on average, "
            f"{min(self.loads):.1f} to {max(self.loads):.1f} in {len(self.loads)} looks; "
            f"{len(self.failovers)} failovers, {len(self.restarts)} processes started again, "
            f"{self.published} records published, {self.rate:.1f} a second on each cluster"
        )


def failovers_in(logs: Iterable[Path]) -> tuple[str, ...]:
    """The lines of distributors' logs that say that a link has left its target."""
    return tuple(
        f"{file.stem}: {line}"
        for file in logs
        for line in file.read_text().splitlines()
        if _LEFT in line and "planned=False" in line
    )


@contextmanager
def loops(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute, at this one's nice level.

    Each in a session of its own, as the tree's processes are: Linux may give all of one session
    together no more than it gives to one process of another (`sched_autogroup_enabled`).
    """
    with ExitStack() as opened:
        for _ in range(count):
            running = subprocess.Popen(  # noqa: S603 (our own)
                [sys.executable, "-c", _LOOP], start_new_session=True
            )
            opened.callback(running.wait)
            opened.callback(running.kill)
        yield


class BusyTree:
    """A tree beside loops.

    Args:
        file: Its topology; data, logs and sockets go into the same directory.
        rate: Records a second on each cluster.

    Raises:
        PlanError: Somebody listens already where its processes are to.
    """

    def __init__(self, file: Path, rate: int) -> None:
        the_plan = plan(load(file))
        refuse_taken(the_plan)
        self.topology: Topology = the_plan.topology
        self._rate = rate
        self._supervisor = Supervisor(processes_of(the_plan, file), file.parent / "logs")

    def run(self, seconds: float, busy: int) -> BusyRun:
        """Start the tree, keep the machine busy for so long, and read everything back.

        Args:
            seconds: For how long.
            busy: How many loops.

        Raises:
            ProcessError: The tree does not start.
            NotStoredError: What was published is not stored.
        """
        with ExitStack() as opened:
            opened.callback(self._supervisor.stop)
            self._supervisor.start()
            job.wait_until_ready(self.topology, self._supervisor, READY_S)
            published, loads = self._under_load(seconds, busy)
            # Until all has come over, or for so long: what lacks then is told by the proofs.
            due = drill.union(drill.look(self.topology))
            holds = drill.all_hold(self.topology, due)
            drill.watch_until(holds, READY_S, self.topology, self._supervisor)
            proofs = job.prove(self.topology, published, lambda _: None)
            failovers, restarts = self._failovers(), self._restarts()
        rate = published.rows / published.seconds / len(self.topology.clusters)
        return BusyRun(loads, failovers, restarts, published.rows, rate, tuple(proofs))

    def _under_load(self, seconds: float, busy: int) -> tuple[Published, tuple[float, ...]]:
        traffic = drill.Load(self.topology, self._rate)
        try:
            with loops(busy):
                loads = tuple(self._watched(seconds))
            return traffic.finish(), loads
        finally:
            traffic.close()

    def _watched(self, seconds: float) -> Iterator[float]:
        """Keep the processes alive, and yield the load average now and then."""
        began = look_due = time.monotonic()
        while (now := time.monotonic()) - began < seconds:
            self._supervisor.watch()
            if now >= look_due:
                look_due = now + LOOK_S
                average = os.getloadavg()[0] / cores()
                say(
                    f"  {now - began:.0f} s: load average {average:.1f} for each core, "
                    f"{len(self._failovers())} failovers",
                    file=sys.stderr,
                )
                yield average
            time.sleep(TICK_S)

    def _failovers(self) -> tuple[str, ...]:
        return failovers_in(
            self._supervisor.log_file(child)
            for child in self._supervisor.children
            if child.process.kind is ProcessKind.DISTRIBUTOR
        )

    def _restarts(self) -> tuple[str, ...]:
        return tuple(
            f"{child.process.name}, {child.restarts} times, after {child.last_exit}"
            for child in self._supervisor.children
            if child.restarts
        )


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def run(file: Path, seconds: float, busy: int, rate: int) -> BusyRun:
    """Run a copy of a topology in a directory of its own; see `BusyTree.run`."""
    with tempfile.TemporaryDirectory(prefix="dafka-busy-") as directory:
        copy = Path(directory) / "topology.yaml"
        shutil.copyfile(file, copy)
        return BusyTree(copy, rate).run(seconds, busy)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="See whether a busy machine is taken for broken.")
    parser.add_argument("--minutes", type=_positive, default=60.0, help="of load")
    parser.add_argument(
        "--loops",
        type=_count,
        default=LOAD_PER_CORE * cores(),
        help=f"that compute beside the tree; {LOAD_PER_CORE} for each core by default",
    )
    parser.add_argument(
        "--rate", type=_rate, default=RATE, help="records a second on each cluster, 20 at least"
    )
    parser.add_argument("--file", type=Path, default=SHIPPED, help="the topology")
    return parser.parse_args(words)


def _positive(word: str) -> float:
    if not float(word) > 0:
        raise argparse.ArgumentTypeError(f"{word} is not above 0")
    return float(word)


def _count(word: str) -> int:
    if int(word) < 0:
        raise argparse.ArgumentTypeError(f"{word} is below 0")
    return int(word)


def _rate(word: str) -> int:
    least = round(1 / drill.TICK_S)
    if int(word) < least:
        raise argparse.ArgumentTypeError(f"{word} is below {least}: it sends one at a time")
    return int(word)


def main() -> int:
    """Keep a machine busy from the command line; 0 if nothing came of it."""
    given = arguments()
    set_up_logs("error")  # that nodes do not find each other for a while is meant
    try:
        came = run(given.file, given.minutes * 60, given.loops, given.rate)
    except (MisuseError, PlanError) as error:
        say(str(error), file=sys.stderr)
        return 2
    open_console().print(table(PROOFS_SHOWN, came.proofs, "records of each cluster"))
    for problem in came.problems:
        say(problem)
    say(f"{came}, {len(came.problems)} problems")
    return 1 if came.problems else 0


PROOFS_SHOWN: Columns[ReadProof] = (
    number("cluster", "cluster"),
    number("found", "found"),
    number("lost", "lost"),
    number("twice", "duplicated"),
    number("out of order", "disordered"),
)


if __name__ == "__main__":
    sys.exit(main())
