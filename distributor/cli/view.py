"""Tables of processes, clusters and links, for a terminal. Names are data, never markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from dafka.plural import counted
from topology.tables import WholeTable

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rich.console import RenderableType

    from distributor.local.supervisor import Child
    from distributor.operations.recovery import RecoveryPoint
    from distributor.operations.status import LinkStatus, Status
    from distributor.verify.verdict import Verdict


def up_view(children: Sequence[Child], status: Status | None) -> RenderableType:
    """The live view of `distributor up`."""
    parts: list[RenderableType] = [_processes(children)]
    if status is not None:
        parts.append(status_view(status))
    parts.append(Text("Ctrl-C stops everything in order", style="dim"))
    return Group(*parts)


def _processes(children: Sequence[Child]) -> WholeTable:
    table = WholeTable("process", "kind", "state", "metrics", title="processes")
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
    clusters = WholeTable("cluster", title="clusters")
    for column in ("partitions", "records"):
        clusters.add_column(column, justify="right")
    clusters.add_column("state")
    for cluster in status.clusters:
        state = Text(cluster.error, style="red") if cluster.error else Text("ok", style="green")
        clusters.add_row(
            Text(cluster.cluster), _count(cluster.partitions), _count(cluster.records), state
        )
    links = WholeTable("source", "target", title="links")
    for column in ("level", "lag in records", "in seconds", "partitions"):
        links.add_column(column, justify="right")
    links.add_column("state")
    for link in status.links:
        links.add_row(
            Text(link.source),
            Text(link.target),
            str(link.level),
            _count(link.lag_records),
            "-" if link.lag_seconds is None else f"{link.lag_seconds:.1f}",
            _count(link.partitions),
            _state_of(link),
        )
    parts: list[RenderableType] = [clusters, links]
    if any(link.stopped for link in status.links):
        parts.append(_stopped(status.links))
    if status.recovery:
        parts.append(_recovery(status))
    return Group(*parts)


def _count(number: int | None) -> str:
    """What is not known is no number."""
    return "-" if number is None else f"{number:,}"


def _recovery(status: Status) -> WholeTable:
    """What each cluster would lack of another, were that one lost now."""
    origins = list(dict.fromkeys(point.origin for point in status.recovery))
    silent = {cluster.cluster for cluster in status.clusters if cluster.error}
    cells = {(one.origin, one.cluster): _age(one, silent) for one in status.recovery}
    table = WholeTable("records of", title="recovery points: seconds that each cluster would lack")
    for cluster in origins:
        table.add_column(Text(cluster), justify="right")
    for origin in origins:
        table.add_row(Text(origin), *(cells[origin, cluster] for cluster in origins))
    return table


def _age(point: RecoveryPoint, silent: Container[str]) -> Text:
    """What a cluster has heard nobody knows if it does not answer."""
    if point.seconds is not None:
        return Text(f"{point.seconds:.1f}")
    return Text("-") if point.cluster in silent else Text("never", style="red")


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
    table = WholeTable("link", "partition", title="partitions that lag")
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
    more = sum((link.partitions or 0) - min(len(link.late), LATE_SHOWN_MAX) for link in links)
    if more:
        table.caption = f"and {more:,} more"
    return table


STOPPED_SHOWN_MAX = 20
"""More would scroll the rest away; --json has as many as links name."""


def _stopped(links: Sequence[LinkStatus]) -> WholeTable:
    """Partitions that links do not copy."""
    table = WholeTable("link", "partition", "reason", title="not copied")
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
    table = WholeTable("cluster", title="clusters compared")
    table.add_column("records", justify="right")
    for cluster, records in verdict.clusters.items():
        table.add_row(Text(cluster), _count(records))
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
