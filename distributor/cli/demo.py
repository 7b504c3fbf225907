"""`distributor demo`: the main job with a bar for each step, and its proof as tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dafka.process.signals import stop_event
from distributor.cli.options import DEFAULT_LOGS, File, Logs
from distributor.cli.report import report
from distributor.cli.up import supervisor_of, watch
from distributor.demo import job
from distributor.loading import load
from distributor.verify.compare import verify
from topology import plan, render_text

if TYPE_CHECKING:
    from distributor.local.supervisor import Supervisor
    from topology import Plan


def demo(
    file: File,
    rows: Annotated[
        int | None, typer.Option(min=1, help="At most so many rows of each topic; all by default.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running at the end, until Ctrl-C.")
    ] = False,
    logs: Logs = DEFAULT_LOGS,
) -> None:
    """Publish a real data set on all clusters and prove that all of it arrives on each, once.

    336,776 flights and 26,115 hours of weather, dealt to a producer on every cluster. Exit code 1
    if anything is lost, duplicated, out of order or different.

    Example: distributor demo config/four-clusters.yaml
    """
    the_plan = plan(load(file))
    console = Console()
    console.print(render_text(the_plan.topology), markup=False, highlight=False)
    supervisor = supervisor_of(the_plan, file, logs)
    began = time.monotonic()
    supervisor.start()
    try:
        good = _job(the_plan, supervisor, rows, console, began)
        if keep and good:
            console.print(f"\nrunning; try: distributor status {file}   (Ctrl-C stops all)")
            watch(the_plan, supervisor, console, stop_event())
    finally:
        supervisor.stop()
    console.print(f"all {len(supervisor.children)} processes stopped")
    if not good:
        raise typer.Exit(1)


def _job(
    the_plan: Plan, supervisor: Supervisor, limit: int | None, console: Console, began: float
) -> bool:
    """Run the steps; True if the proof holds."""
    topology = the_plan.topology
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as bars:
        starting = bars.add_task("starting processes", total=len(supervisor.children))
        before = job.wait_until_ready(topology, supervisor)
        bars.update(starting, completed=len(supervisor.children))

        publishing = bars.add_task("publishing", total=None)
        arriving = {name: bars.add_task(f"arriving at {name}", total=None) for name in before}

        def show(now: dict[str, int], total: int | None) -> None:
            for name, records in now.items():
                bars.update(arriving[name], completed=records - before[name], total=total)

        sending = job.in_background(
            lambda: job.publish(topology, limit, lambda sent: bars.advance(publishing, sent))
        )
        published = job.wait_until_everywhere(topology, supervisor, before, sending, show)
        bars.update(publishing, total=published.rows, completed=published.rows)
        everywhere_s = time.monotonic() - began

        proving = bars.add_task("looking for every row", total=published.rows * len(before))
        proofs = job.prove(topology, published, lambda read: bars.advance(proving, read))
        comparing = bars.add_task("comparing clusters", total=None)
        verdict = verify(
            topology,
            deep=True,
            progress=lambda done, total: bars.update(comparing, completed=done, total=total),
        )
    processes = [child.process for child in supervisor.children]
    report(the_plan, processes, published, proofs, verdict, everywhere_s, console)
    return verdict.equal and all(proof.flawless for proof in proofs)
