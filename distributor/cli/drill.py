"""`distributor drill`: the loss of a cluster, rehearsed under load, step by step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from distributor.cli.options import DEFAULT_LOGS, File, Logs
from distributor.cli.report import proofs_view
from distributor.cli.up import supervisor_of
from distributor.cli.view import verdict_view
from distributor.demo import drill as steps
from distributor.demo.job import prove, wait_until_ready
from distributor.errors import ProcessError
from distributor.loading import load
from distributor.verify.compare import verify
from topology import plan
from topology.output import Columns, column, console, number, table

if TYPE_CHECKING:
    from dafka.model import Partition
    from distributor.local.supervisor import Supervisor
    from topology import Link, Plan, Topology

CATCH_UP_S = 150.0
"""How long the returned cluster may take."""


def drill(
    file: File,
    kill: Annotated[
        str | None,
        typer.Option("--kill", help="The cluster to lose; by default one that relays for others."),
    ] = None,
    rate: Annotated[
        int, typer.Option(min=20, max=100_000, help="Records a second on each cluster.")
    ] = 200,
    down: Annotated[
        float, typer.Option(min=1, max=3_600, help="Seconds under load without the cluster.")
    ] = 10.0,
    logs: Logs = DEFAULT_LOGS,
) -> None:
    """Rehearse the loss of a cluster: load, kill it, survive, bring it back, compare.

    All its processes are killed with signal 9. Exit code 1 if a record is lost, there twice, out of
    order, or if clusters differ: the survivors while it is away, or all in the end.

    Example: distributor drill config/four-clusters.yaml
    """
    the_plan = plan(load(file))
    victim = steps.victim_of(the_plan, kill)
    supervisor = supervisor_of(the_plan, file, logs)
    supervisor.start()
    try:
        good = _Drill(the_plan, supervisor, victim, console()).run(rate, down)
    finally:
        supervisor.stop()
    if not good:
        raise typer.Exit(1)


STALLS_TITLE = "the longest time each link brought nothing, under load"
STALLS: Columns[tuple[Link, float]] = (
    column("from", lambda stall: stall[0].source),
    column("to", lambda stall: " or ".join(stall[0].targets)),
    number("level", lambda stall: stall[0].level),
    number("stall", lambda stall: f"{stall[1]:.1f} s"),
)


class _Drill:
    """One run of the steps, and what it says about them."""

    def __init__(
        self, the_plan: Plan, supervisor: Supervisor, victim: str, console: Console
    ) -> None:
        self._plan = the_plan
        self._topology = the_plan.topology
        self._survivors = steps.without(the_plan.topology, victim)
        self._supervisor = supervisor
        self._victim = victim
        self._console = console
        self._began_s = time.monotonic()

    def run(self, rate: int, down_s: float) -> bool:
        """Run all steps; True if nothing was lost, repeated or different."""
        wait_until_ready(self._topology, self._supervisor)
        self._say(f"{len(self._supervisor.children)} processes are up")
        load = steps.Load(self._topology, rate)
        try:
            stalls = steps.Stalls(self._plan, load.published.homes)
            self._watch(steps.WARM_UP_S, self._topology, stalls)
            self._say(
                f"load: {rate:,} records/s on each of {len(self._topology.clusters)} clusters"
            )
            self._lose(load)
            self._watch(down_s, self._survivors, stalls)
            survived = self._survive(load, stalls)
            self._bring_back(load, stalls)
            published = load.finish()
        finally:
            load.close()
        expected = steps.union(steps.look(self._topology))
        if self._wait(self._topology, expected, CATCH_UP_S) is None:
            self._say("clusters do not become equal")
        verdict = verify(self._topology, deep=True)
        proofs = prove(self._topology, published, lambda _: None)
        self._say(f"compared: {verdict.records:,} records")
        self._console.print(verdict_view(verdict))
        self._console.print(proofs_view(proofs, published.rows))
        self._console.print(table(STALLS, stalls.longest_s.items(), STALLS_TITLE))
        lost = sum(proof.lost for proof in proofs)
        duplicated = sum(proof.duplicated for proof in proofs)
        self._console.print(f"lost = {lost}, duplicated = {duplicated}", highlight=False)
        return survived and verdict.equal and all(proof.flawless for proof in proofs)

    def _lose(self, load: steps.Load) -> None:
        killed = self._supervisor.take_down(self._victim)
        load.pause(self._victim)
        self._say(f"{self._victim} is lost: {killed} processes killed with signal 9")

    def _survive(self, load: steps.Load, stalls: steps.Stalls) -> bool:
        """Wait under load until the survivors have what any of them has, then compare them."""
        patience_s = steps.patience_s(self._topology)
        due = steps.union(steps.look(self._survivors))
        took_s = self._wait(self._survivors, due, patience_s, stalls)
        if took_s is None:
            self._say(f"survivors are not equal within {patience_s:.0f} s")
            return False
        self._say(f"failed over: every survivor has what any of them had {took_s:.1f} s ago")
        names = [cluster.name for cluster in self._survivors.clusters]
        with load.paused(names), stalls.paused():
            self._wait(self._survivors, steps.union(steps.look(self._survivors)), patience_s)
            verdict = verify(self._survivors, deep=True)
        self._say(f"survivors compared: {'equal' if verdict.equal else 'DIFFERENT'}")
        if not verdict.equal:
            self._console.print(verdict_view(verdict))
        return verdict.equal

    def _bring_back(self, load: steps.Load, stalls: steps.Stalls) -> None:
        due = steps.union(steps.look(self._survivors))
        self._supervisor.bring_back(self._victim)
        steps.wait_until_back(self._topology, self._supervisor, stalls)
        self._say(f"{self._victim} is back, with the data it had")
        load.resume(self._victim)
        took_s = self._wait(self._topology, due, CATCH_UP_S, stalls)
        if took_s is None:
            raise ProcessError(f"{self._victim} has not caught up within {CATCH_UP_S:.0f} s")
        self._say(f"caught up {took_s:.1f} s later")
        self._watch(steps.WARM_UP_S, self._topology, stalls)

    def _watch(self, seconds: float, topology: Topology, stalls: steps.Stalls) -> None:
        steps.watch_until(lambda _: False, seconds, topology, self._supervisor, stalls)

    def _wait(
        self,
        topology: Topology,
        expected: dict[Partition, int],
        seconds: float,
        stalls: steps.Stalls | None = None,
    ) -> float | None:
        condition = steps.all_hold(topology, expected)
        return steps.watch_until(condition, seconds, topology, self._supervisor, stalls)

    def _say(self, what: str) -> None:
        now_s = time.monotonic() - self._began_s
        self._console.print(f"{now_s:6.1f} s  {what}", markup=False, highlight=False)
