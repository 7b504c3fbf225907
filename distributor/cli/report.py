"""What `distributor demo` shows at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributor.cli.view import verdict_view
from distributor.demo.job import one_record_everywhere
from distributor.demo.latency import hop_latencies
from topology import spread
from topology.copyflags import format_flags
from topology.output import Columns, column, number, table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dafka.model import Record
    from distributor.demo.job import Published, ReadProof
    from distributor.demo.latency import HopLatency
    from distributor.local.processes import Process
    from distributor.verify.verdict import Verdict
    from topology import Plan


def report(
    the_plan: Plan,
    processes: list[Process],
    published: Published,
    proofs: list[ReadProof],
    verdict: Verdict,
    everywhere_s: float,
    console: Console,
) -> None:
    """Print the proof, one record's way, the hops, and the rates."""
    console.print(proofs_view(proofs, published.rows))
    console.print(verdict_view(verdict))
    console.print(_one_record(the_plan, published))
    console.print(table(HOPS, hop_latencies(processes), HOPS_TITLE))
    records = published.rows * len(proofs)
    console.print(
        f"{published.rows:,} records published and stored in {published.seconds:.1f} s "
        f"({published.rows / published.seconds:,.0f}/s, "
        f"{published.size / published.seconds / 1e6:.1f} MB/s); "
        f"all {records:,} copies in place {everywhere_s:.1f} s after the start",
        highlight=False,
        soft_wrap=True,
    )


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
    found = one_record_everywhere(the_plan.topology, published)
    record = next(iter(found.values()))
    columns: Columns[tuple[str, Record]] = (
        column("cluster", lambda copy: copy[0]),
        column("copy flags", lambda copy: format_flags(copy[1].copy_flags)),
        column("came from", lambda copy: came_from.get(copy[0], "published here")),
    )
    name = f"{record.topic}/{record.address[:8]}/{record.sequence}"
    return table(columns, found.items(), f"record {name}")


HOPS_TITLE = "hop latency: delivered at the source to durable at the target"
HOPS: Columns[HopLatency] = (
    column("from", "source"),
    column("to", "target"),
    number("level"),
    number("batches"),
    number("p50 at most", lambda hop: f"{hop.p50_s * 1_000:g} ms"),
    number("p99 at most", lambda hop: f"{hop.p99_s * 1_000:g} ms"),
)
