"""`distributor demo --kafka`: the data set from a Kafka producer to a Kafka group, and shown."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from distributor.demo import job
from distributor.demo.job import ReadProof
from distributor.errors import ProcessError
from topology.output import Columns, column, number, table

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rich.console import Console

    from distributor.demo.job import Published
    from distributor.demo.kafka import KafkaRun
    from distributor.local.supervisor import Supervisor
    from topology import Topology

_LOOK_S = 0.1


def kafka_job(
    topology: Topology, supervisor: Supervisor, limit: int | None, console: Console
) -> bool:
    """Run the steps; True if every row was read once, in order.

    Raises:
        MissingExtraError: There is no Kafka client.
        PlanError: A cluster has no gateway.
        ProcessError: Nothing goes on any more.
    """
    from distributor.demo import kafka

    here, there = kafka.gateways_of(topology)
    away = topology.clusters[-1].name
    run = kafka.KafkaRun(secrets.token_hex(4), here, there, limit)
    try:
        console.print(f"from {here} at {topology.clusters[0].name} to {there} at {away}")
        job.wait_until_ready(topology, supervisor)
        run.make_topics(supervisor)
        silent_s = _carry(run, supervisor, f"{away}-gateway-1", console)
    finally:
        run.finish()
    proof = run.reading.proof(away, run.published.rows)
    console.print(table(PROOFS, [proof], f"what the group has read of {run.published.rows:,} rows"))
    console.print(
        f"{run.published.rows:,} rows written in {run.published.seconds:.1f} s; after the gateway "
        f"was killed with signal 9 the group read nothing for {silent_s:.1f} s at most\n"
        f"{run.reading.twice:,} records read twice, {run.reading.again:,} of them committed before",
        highlight=False,
        soft_wrap=True,
    )
    return proof.flawless


PROOFS: Columns[ReadProof] = (
    column("cluster"),
    number("read", "found"),
    number("lost"),
    number("read again though committed", "duplicated"),
    number("out of order", "disordered"),
)


def _carry(run: KafkaRun, supervisor: Supervisor, gateway: str, console: Console) -> float:
    """Write and read everything, and kill the gateway meanwhile.

    Returns:
        The longest time in which nothing was read then; what the client had before comes at once.
    """
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as bars:
        writing = bars.add_task("written", total=None)
        reading = bars.add_task("read and committed", total=None)
        writer, reader = job.in_background(run.publish), job.in_background(run.read)
        killed_s = silent_s = 0.0
        moved_s, before = time.monotonic(), -1
        while not reader.done():
            supervisor.watch()
            now_s, rows = time.monotonic(), run.reading.rows
            if not killed_s and run.under_way:
                supervisor.kill(gateway)
                run.go_on()
                killed_s = now_s
                bars.console.print(f"{gateway} is killed with signal 9: {rows:,} rows are read")
            if rows != before:
                if killed_s:
                    silent_s = max(silent_s, now_s - max(moved_s, killed_s))
                moved_s, before = now_s, rows
            _refuse_stalled(writer, now_s - moved_s)
            total = run.published.rows if writer.done() else None
            bars.update(writing, completed=run.published.rows, total=total)
            bars.update(reading, completed=rows, total=total)
            time.sleep(_LOOK_S)
        reader.result()
        if run.reading.rows != before:
            silent_s = max(silent_s, time.monotonic() - max(moved_s, killed_s))
        for task, done in ((writing, run.published.rows), (reading, run.reading.rows)):
            bars.update(task, completed=done, total=run.published.rows)
    return silent_s


def _refuse_stalled(writer: Future[Published], silent_s: float) -> None:
    if writer.done():
        writer.result()
    if silent_s > job.STALLED_S:
        raise ProcessError(f"the group has read nothing for {silent_s:.0f} s")
