"""What `distributor demo` shows at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from distributor.cli.view import verdict_view
from distributor.demo.job import one_record_everywhere
from distributor.demo.latency import hop_latencies
from topology import spread
from topology.copyflags import format_flags
from topology.tables import WholeTable

if TYPE_CHECKING:
    from rich.console import Console

    from distributor.demo.job import Published, ReadProof
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
    console.print(_hops(processes))
    records = published.rows * len(proofs)
    console.print(
        f"{published.rows:,} records published and stored in {published.seconds:.1f} s "
        f"({published.rows / published.seconds:,.0f}/s, "
        f"{published.size / published.seconds / 1e6:.1f} MB/s); "
        f"all {records:,} copies in place {everywhere_s:.1f} s after the start",
        highlight=False,
        soft_wrap=True,
    )


def proofs_view(proofs: list[ReadProof], rows: int) -> WholeTable:
    """What reading every row back has shown, for each cluster."""
    table = WholeTable("cluster", title=f"every one of {rows:,} rows, looked for by number")
    for column in ("found", "lost", "duplicated", "out of order"):
        table.add_column(column, justify="right")
    for proof in proofs:
        numbers = (proof.found, proof.lost, proof.duplicated, proof.disordered)
        style = "green" if proof.flawless else "red"
        table.add_row(Text(proof.cluster), *(f"{number:,}" for number in numbers), style=style)
    return table


def _one_record(the_plan: Plan, published: Published) -> WholeTable:
    """One record's copy flags as each cluster has them, beside those the plan predicts."""
    origin = the_plan.topology.clusters[0].name
    came_from = {str(hop.target): hop for hop in spread(the_plan.everywhere, origin).hops}
    found = one_record_everywhere(the_plan.topology, published)
    record = next(iter(found.values()))
    name = f"{record.topic}/{record.address[:8]}/{record.sequence}"
    table = WholeTable("cluster", "copy flags", "came from", title=Text(f"record {name}"))
    for cluster, copy in found.items():
        hop = came_from.get(cluster)
        way = f"{hop.source}, level {hop.level}" if hop else "published here"
        table.add_row(Text(cluster), format_flags(copy.copy_flags), Text(way))
    return table


def _hops(processes: list[Process]) -> WholeTable:
    table = WholeTable(
        "from", "to", title="hop latency: delivered at the source to durable at the target"
    )
    for column in ("level", "batches", "p50 at most", "p99 at most"):
        table.add_column(column, justify="right")
    for hop in hop_latencies(processes):
        table.add_row(
            Text(hop.source),
            Text(hop.target),
            hop.level,
            f"{hop.batches:,}",
            f"{hop.p50_s * 1_000:g} ms",
            f"{hop.p99_s * 1_000:g} ms",
        )
    return table
