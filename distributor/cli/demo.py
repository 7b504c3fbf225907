"""`distributor demo` and `drill`: a whole topology run to prove what it does, and shown."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dafka.process.signals import stop_event
from distributor.cli.judge import verdict_view
from distributor.cli.kafka_demo import kafka_job
from distributor.cli.options import DEFAULT_LOGS, File, Logs
from distributor.cli.up import supervisor_of, watch
from distributor.demo import drill as steps
from distributor.demo import job
from distributor.demo.dataset import look_for
from distributor.demo.latency import hop_latencies, read_hops
from distributor.demo.publishers import CODEC, Publishers
from distributor.errors import ProcessError
from distributor.loading import load
from distributor.verify.compare import verify
from topology import plan, render_text, spread
from topology.copyflags import format_flags
from topology.output import Columns, column, number, open_console, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.progress import TaskID
    from rich.table import Table

    from dafka.model import Partition, Record
    from distributor.demo.job import Published, ReadProof
    from distributor.demo.latency import HopLatency
    from distributor.local.supervisor import Supervisor
    from distributor.verify.verdict import Verdict
    from topology import Link, Plan, Topology


def demo(
    file: File,
    rows: Annotated[
        int | None, typer.Option(min=1, help="At most so many rows of each topic; all by default.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running at the end, until Ctrl-C.")
    ] = False,
    kafka: Annotated[
        bool,
        typer.Option(
            "--kafka",
            help="From a Kafka producer at the first cluster's gateway to a group at the last's.",
        ),
    ] = False,
    logs: Logs = DEFAULT_LOGS,
) -> None:
    """Publish a real data set on all clusters and prove that all of it arrives on each, once.

    336,776 flights and 26,115 hours of weather, dealt to a producer on every cluster: a few at a
    steady pace, which shows how long a hop takes, then all others as fast as they go. Exit code 1
    if anything is lost, duplicated, out of order or different. With --kafka one Kafka producer
    sends it, and a group reads it at the other end, whose gateway is killed meanwhile.

    Example: distributor demo config/four-clusters.yaml
    """
    the_plan = plan(load(file))
    look_for()
    console = open_console()
    console.print(render_text(the_plan.topology), markup=False, highlight=False)
    supervisor = supervisor_of(the_plan, file, logs)
    began = time.monotonic()
    supervisor.start()
    try:
        if kafka:
            good = kafka_job(the_plan.topology, supervisor, rows, console)
        else:
            good = _job(the_plan, file, supervisor, rows, console, began)
        if keep and good:
            console.print(f"\nrunning; try: distributor status {file}   (Ctrl-C stops all)")
            watch(the_plan, supervisor, console, stop_event())
    finally:
        supervisor.stop()
    console.print(f"all {len(supervisor.children)} processes stopped")
    if not good:
        raise typer.Exit(1)


class Traffic(NamedTuple):
    """What the demo has published, and how it went.

    Attributes:
        ready_s: Seconds from the start until all processes were ready.
        steady: Published at a steady pace.
        hops: Of these rows.
        burst: Published at once, after them.
        everywhere_s: Seconds from the first of the burst until every cluster had all.
    """

    ready_s: float
    steady: Published
    hops: list[HopLatency]
    burst: Published
    everywhere_s: float


def _job(
    the_plan: Plan,
    file: Path,
    supervisor: Supervisor,
    limit: int | None,
    console: Console,
    began: float,
) -> bool:
    """Run the steps; True if the proof holds."""
    topology = the_plan.topology
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as bars:
        starting = bars.add_task("starting processes", total=len(supervisor.children))
        job.wait_until_all_ready(supervisor, lambda ready: bars.update(starting, completed=ready))
        ready_s = time.monotonic() - began
        before = job.wait_until_ready(topology, supervisor)
        # Not earlier: making rows would slow down the start.
        with Publishers(file, [one.name for one in topology.clusters], limit) as publishers:
            traffic = _carry(topology, supervisor, publishers, before, ready_s, bars)
        published = traffic.steady + traffic.burst
        proving = bars.add_task("looking for every row", total=published.rows * len(before))
        proofs = job.prove(topology, published, lambda read: bars.advance(proving, read))
        comparing = bars.add_task("comparing clusters", total=None)
        verdict = verify(
            topology,
            deep=True,
            progress=lambda done, total: bars.update(comparing, completed=done, total=total),
        )
    report(the_plan, traffic, proofs, verdict, console)
    return verdict.equal and all(proof.flawless for proof in proofs)


def _carry(
    topology: Topology,
    supervisor: Supervisor,
    publishers: Publishers,
    before: dict[str, int],
    ready_s: float,
    bars: Progress,
) -> Traffic:
    """Publish first steadily, then at once; each until every cluster has it."""
    processes = [child.process for child in supervisor.children]
    making = bars.add_task("making rows", total=None)
    rows = publishers.prepare()
    bars.update(making, total=rows, completed=rows)
    steadily = bars.add_task("publishing steadily", total=publishers.steady_rows)
    at_once = bars.add_task("publishing at once", total=rows - publishers.steady_rows)
    arriving = {name: bars.add_task(f"arriving at {name}", total=rows) for name in before}

    def show(now: dict[str, int]) -> None:
        for name, records in now.items():
            bars.update(arriving[name], completed=records - before[name])

    def sent(task: TaskID) -> Callable[[int], None]:
        return lambda rows: bars.advance(task, rows)

    idle = read_hops(processes)
    sending = job.in_background(lambda: publishers.publish_steadily(sent(steadily)))
    steady = job.wait_until_everywhere(topology, supervisor, before, sending, show)
    hops = hop_latencies(idle, read_hops(processes))
    held = {name: records + steady.rows for name, records in before.items()}
    began = time.monotonic()
    sending = job.in_background(lambda: publishers.publish(sent(at_once)))
    burst = job.wait_until_everywhere(topology, supervisor, held, sending, show)
    return Traffic(ready_s, steady, hops, burst, time.monotonic() - began)


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
        good = _Drill(the_plan, supervisor, victim, open_console()).run(rate, down)
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
        job.wait_until_ready(self._topology, self._supervisor)
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
        proofs = job.prove(self._topology, published, lambda _: None)
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


def report(
    the_plan: Plan,
    traffic: Traffic,
    proofs: list[ReadProof],
    verdict: Verdict,
    console: Console,
) -> None:
    """Print the proof, one record's way, the hops, and the rates."""
    steady, burst = traffic.steady, traffic.burst
    published = steady + burst
    console.print(proofs_view(proofs, published.rows))
    console.print(verdict_view(verdict))
    console.print(_one_record(the_plan, published))
    title = f"hops at a steady {_rate(steady.rows, steady.seconds)}, {HOPS_TITLE}"
    console.print(table(HOPS, traffic.hops, title))
    everywhere = burst.rows * len(proofs)
    for line in (
        f"all processes ready {traffic.ready_s:.1f} s after the start",
        f"{burst.rows:,} rows at once, compressed by {CODEC}: "
        f"published and stored in {burst.seconds:.1f} s "
        f"({_rate(burst.rows, burst.seconds)}, {burst.size / burst.seconds / 1e6:.1f} MB/s); "
        f"all {everywhere:,} copies in place after {traffic.everywhere_s:.1f} s "
        f"({_rate(burst.rows, traffic.everywhere_s)})",
    ):
        console.print(line, highlight=False, soft_wrap=True)


def _rate(rows: int, seconds: float) -> str:
    return f"{rows / seconds:,.0f} rows/s"


PROOFS: Columns[ReadProof] = (
    column("cluster"),
    number("found"),
    number("lost"),
    number("duplicated"),
    number("out of order", "disordered"),
)


def proofs_view(proofs: list[ReadProof], rows: int) -> Table:
    """What reading every row back has shown, for each cluster."""
    title = f"every one of {rows:,} rows, looked for by number"
    return table(PROOFS, proofs, title, style=lambda proof: "green" if proof.flawless else "red")


def _one_record(the_plan: Plan, published: Published) -> Table:
    """One record's copy flags as each cluster has them, beside those the plan predicts."""
    origin = the_plan.topology.clusters[0].name
    came_from = {
        str(hop.target): f"{hop.source}, level {hop.level}"
        for hop in spread(the_plan.everywhere, origin).hops
    }
    found = job.one_record_everywhere(the_plan.topology, published)
    record = next(iter(found.values()))
    columns: Columns[tuple[str, Record]] = (
        column("cluster", lambda copy: copy[0]),
        column("copy flags", lambda copy: format_flags(copy[1].copy_flags)),
        column("came from", lambda copy: came_from.get(copy[0], "published here")),
    )
    name = f"{record.topic}/{record.address[:8]}/{record.sequence}"
    return table(columns, found.items(), f"record {name}")


HOPS_TITLE = "from delivery at the source to durability at the target"
HOPS: Columns[HopLatency] = (
    column("from", "source"),
    column("to", "target"),
    number("level"),
    number("batches"),
    number("p50 at most", lambda hop: f"{hop.p50_s * 1_000:g} ms"),
    number("p99 at most", lambda hop: f"{hop.p99_s * 1_000:g} ms"),
)
