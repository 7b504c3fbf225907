"""Tables of processes, clusters and links, for a terminal. Names are data, never markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from distributor.comparing.verdict import Verdict
    from distributor.status import Status
    from distributor.supervisor import Child


def up_view(children: Sequence[Child], status: Status | None) -> RenderableType:
    """The live view of `distributor up`."""
    parts: list[RenderableType] = [_processes(children)]
    if status is not None:
        parts.append(status_view(status))
    parts.append(Text("Ctrl-C stops everything in order", style="dim"))
    return Group(*parts)


def _processes(children: Sequence[Child]) -> Table:
    table = Table("process", "kind", "state", "metrics", title="processes")
    table.add_column("pid", justify="right")
    table.add_column("restarts", justify="right")
    for child in children:
        pid = str(child.running.pid) if child.running is not None else ""
        restarts = f"{child.restarts} ({child.last_exit})" if child.restarts else "0"
        table.add_row(
            Text(child.process.name),
            child.process.kind.value,
            Text(child.state, style="green" if child.running is not None else "red"),
            child.process.metrics or "",
            pid,
            restarts,
        )
    return table


def status_view(status: Status) -> RenderableType:
    """Clusters and links with their lag."""
    clusters = Table("cluster", title="clusters")
    for column in ("partitions", "records"):
        clusters.add_column(column, justify="right")
    clusters.add_column("state")
    for cluster in status.clusters:
        state = Text(cluster.error, style="red") if cluster.error else Text("ok", style="green")
        clusters.add_row(
            Text(cluster.cluster), f"{cluster.partitions:,}", f"{cluster.records:,}", state
        )
    links = Table("source", "target", title="links")
    for column in ("level", "lag in records", "in seconds", "partitions"):
        links.add_column(column, justify="right")
    links.add_column("state")
    for link in status.links:
        links.add_row(
            Text(link.source),
            Text(link.target),
            str(link.level),
            f"{link.lag_records:,}",
            f"{link.lag_seconds:.1f}",
            f"{link.partitions:,}",
            Text(link.error, style="red") if link.error else Text("ok", style="green"),
        )
    return Group(clusters, links)


DIFFERENCES_SHOWN_MAX = 20
"""More would scroll the summary away; --json has them all."""


def verdict_view(verdict: Verdict, left: Sequence[str] = ()) -> RenderableType:
    """Records per cluster, what differs, and what a repair has left alone."""
    table = Table("cluster", title="clusters compared")
    table.add_column("records", justify="right")
    for cluster, records in verdict.clusters.items():
        table.add_row(Text(cluster), f"{records:,}")
    parts: list[RenderableType] = [table]
    if verdict.repaired:
        parts.append(Text(f"repaired: {verdict.repaired:,} records were missing and are there"))
    parts += [Text(line, style="yellow") for line in left[:DIFFERENCES_SHOWN_MAX]]
    if verdict.equal:
        parts.append(Text(_equal(verdict), style="green"))
        return Group(*parts)
    problems = verdict.problems
    lines = problems[:DIFFERENCES_SHOWN_MAX]
    more = len(problems) - len(lines) + verdict.more
    if more:
        lines.append(f"and {more:,} more: see --json")
    return Group(*parts, *(Text(line, style="red") for line in lines))


def _equal(verdict: Verdict) -> str:
    what = "heads"
    if verdict.deep:
        what = f"heads and contents; {verdict.records:,} records read"
    sentence = f"equal: {verdict.partitions:,} partitions, {what}"
    if verdict.shortened:
        sentence += f"; {verdict.shortened:,} partitions from their log start on"
    return sentence
