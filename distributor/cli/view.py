"""Tables of processes, clusters and links, for a terminal. Names are data, never markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from dafka.plural import counted
from topology.output import Column, Columns, column, number, table

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from distributor.local.supervisor import Child
    from distributor.operations.recovery import RecoveryPoint
    from distributor.operations.status import (
        ClusterStatus,
        LatePartition,
        LinkStatus,
        Status,
        StoppedPartition,
    )
    from distributor.verify.verdict import Verdict


def up_view(children: Sequence[Child], status: Status | None) -> RenderableType:
    """The live view of `distributor up`."""
    parts: list[RenderableType] = [table(PROCESSES, children, "processes")]
    if status is not None:
        parts.append(status_view(status))
    parts.append(Text("Ctrl-C stops everything in order", style="dim"))
    return Group(*parts)


def _restarts(child: Child) -> str:
    return f"{child.restarts} ({child.last_exit})" if child.restarts else "0"


PROCESSES: Columns[Child] = (
    column("process", lambda child: child.process.name),
    column("kind", lambda child: child.process.kind.value),
    column("state", lambda child: _good(child.state, child.running is not None)),
    column("metrics", lambda child: child.process.metrics or ""),
    number("pid", lambda child: "" if child.running is None else str(child.running.pid)),
    number("restarts", _restarts),
)


def _good(what: str, good: bool) -> Text:
    return Text(what, style="green" if good else "red")


def status_view(status: Status) -> RenderableType:
    """Clusters and links with their lag."""
    parts: list[RenderableType] = [
        table(CLUSTERS, status.clusters, "clusters"),
        table(LINKS, status.links, "links"),
    ]
    if any(link.stopped for link in status.links):
        parts.append(_stopped(status.links))
    if status.recovery:
        parts.append(_recovery(status))
    return Group(*parts)


CLUSTERS: Columns[ClusterStatus] = (
    column("cluster"),
    number("partitions"),
    number("records"),
    column("state", lambda cluster: _good(cluster.error or "ok", not cluster.error)),
)


def _recovery(status: Status) -> Table:
    """What each cluster would lack of another, were that one lost now."""
    names = list(dict.fromkeys(point.origin for point in status.recovery))
    silent = {cluster.cluster for cluster in status.clusters if cluster.error}
    cells = {(one.origin, one.cluster): _age(one, silent) for one in status.recovery}

    def lacks(cluster: str) -> Column[str]:
        return number(cluster, lambda origin: cells[origin, cluster])

    origin: Column[str] = column("records of", str)
    return table(
        (origin, *map(lacks, names)), names, "recovery points: seconds that each cluster would lack"
    )


def _age(point: RecoveryPoint, silent: Container[str]) -> float | Text | None:
    """What a cluster has heard nobody knows if it does not answer."""
    if point.seconds is None and point.cluster not in silent:
        return Text("never", style="red")
    return point.seconds


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


LINKS: Columns[LinkStatus] = (
    column("source"),
    column("target"),
    number("level"),
    number("lag in records", "lag_records"),
    number("in seconds", "lag_seconds"),
    number("partitions"),
    column("state", _state_of),
)

LATE_SHOWN_MAX = 50
"""Of each link; --json has more."""


def late_view(links: Sequence[LinkStatus]) -> RenderableType:
    """The partitions that lag, by link, the latest first."""
    rows = [(link, one) for link in links for one in link.late[:LATE_SHOWN_MAX]]
    made = table(LATE, rows, "partitions that lag")
    return _and_more(made, sum(link.partitions or 0 for link in links) - len(rows))


def _link_of(row: tuple[LinkStatus, object]) -> str:
    return f"{row[0].source} → {row[0].target}"


def _partition_of(row: tuple[LinkStatus, LatePartition | StoppedPartition]) -> str:
    return f"{row[1].topic!r}/{row[1].address[:8]}"


LATE: Columns[tuple[LinkStatus, LatePartition]] = (
    column("link", _link_of),
    column("partition", _partition_of),
    number("records", lambda row: row[1].lag_records),
    number("seconds", lambda row: row[1].lag_seconds),
)


def _and_more(made: Table, more: int) -> Table:
    """Say below it how many rows are left out."""
    if more:
        made.caption = f"and {more:,} more"
    return made


STOPPED_SHOWN_MAX = 20
"""More would scroll the rest away; --json has as many as links name."""


def _stopped(links: Sequence[LinkStatus]) -> Table:
    """Partitions that links do not copy."""
    rows = [(link, one) for link in links for one in link.stopped][:STOPPED_SHOWN_MAX]
    stopped = sum(link.diverged + link.overtaken for link in links)
    return _and_more(table(STOPPED, rows, "not copied"), stopped - len(rows))


STOPPED: Columns[tuple[LinkStatus, StoppedPartition]] = (
    column("link", _link_of),
    column("partition", _partition_of),
    column("reason", lambda row: row[1].reason),
    number("from", lambda row: row[1].first),
    number("to", lambda row: row[1].end - 1),
)


DIFFERENCES_SHOWN_MAX = 20
"""More would scroll the summary away; --json has them all."""


COMPARED: Columns[tuple[str, int | None]] = (
    column("cluster", lambda one: one[0]),
    number("records", lambda one: one[1]),
)


def verdict_view(verdict: Verdict, left: Sequence[str] = ()) -> RenderableType:
    """Records per cluster, what differs, and what a repair has left alone."""
    compared = table(COMPARED, verdict.clusters.items(), "clusters compared")
    parts: list[RenderableType] = [compared]
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
