"""Tables of processes, clusters and links, for a terminal. Names are data, never markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from dafka.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from distributor.comparing.verdict import Verdict
    from distributor.recovery import RecoveryPoint
    from distributor.status import LinkStatus, Status
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
            _state_of(link),
        )
    parts: list[RenderableType] = [clusters, links]
    if any(link.stopped for link in status.links):
        parts.append(_stopped(status.links))
    if status.recovery:
        parts.append(_recovery(status.recovery))
    return Group(*parts)


def _recovery(points: Sequence[RecoveryPoint]) -> Table:
    """What each cluster would lack of another, were that one lost now."""
    origins = list(dict.fromkeys(point.origin for point in points))
    by_ends = {(point.origin, point.cluster): point for point in points}
    table = Table("records of", title="recovery points: seconds that each cluster would lack")
    for cluster in origins:
        table.add_column(Text(cluster), justify="right")
    for origin in origins:
        ages = [by_ends[origin, cluster].seconds for cluster in origins]
        cells = [Text("never", style="red") if age is None else f"{age:.1f}" for age in ages]
        table.add_row(Text(origin), *cells)
    return table


def _state_of(link: LinkStatus) -> Text:
    if link.error:
        return Text(link.error, style="red")
    without = link.diverged + link.overtaken
    if without:
        return Text(f"does not copy {counted(without, 'partition')}", style="red")
    if link.state not in ("", "serving"):
        return Text(link.state, style="yellow")
    if link.shortened:
        shortened = counted(link.shortened, "partition")
        return Text(f"ok; {shortened} without the beginning", style="yellow")
    return Text("ok", style="green")


LATE_SHOWN_MAX = 50
"""Of each link; --json has more."""


def late_view(links: Sequence[LinkStatus]) -> RenderableType:
    """The partitions that lag, by link, the latest first."""
    table = Table("link", "partition", title="partitions that lag")
    table.add_column("records", justify="right")
    table.add_column("seconds", justify="right")
    for link in links:
        for one in link.late[:LATE_SHOWN_MAX]:
            table.add_row(
                Text(f"{link.source} → {link.target}"),
                Text(f"{one.topic!r}/{one.address[:8]}"),
                f"{one.lag_records:,}",
                f"{one.lag_seconds:.1f}",
            )
    more = sum(link.partitions - min(len(link.late), LATE_SHOWN_MAX) for link in links)
    if more:
        table.caption = f"and {more:,} more"
    return table


STOPPED_SHOWN_MAX = 20
"""More would scroll the rest away; --json has as many as links name."""


def _stopped(links: Sequence[LinkStatus]) -> Table:
    """Partitions that links do not copy."""
    table = Table("link", "partition", "reason", title="not copied")
    table.add_column("from", justify="right")
    table.add_column("to", justify="right")
    rows = [(link, one) for link in links for one in link.stopped]
    for link, one in rows[:STOPPED_SHOWN_MAX]:
        table.add_row(
            Text(f"{link.source} → {link.target}"),
            Text(f"{one.topic!r}/{one.address[:8]}"),
            one.reason,
            f"{one.first:,}",
            f"{one.end - 1:,}",
        )
    more = sum(link.diverged + link.overtaken for link in links)
    more -= min(len(rows), STOPPED_SHOWN_MAX)
    if more:
        table.caption = f"and {more:,} more"
    return table


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
        parts.append(Text(f"repaired: {counted(verdict.repaired, 'record')} brought"))
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
        what = f"heads and contents; {counted(verdict.records, 'record')} read"
    sentence = f"equal: {counted(verdict.partitions, 'partition')}, {what}"
    if verdict.shortened:
        sentence += f"; {counted(verdict.shortened, 'partition')} from the log start on"
    return sentence
