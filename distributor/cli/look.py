"""`distributor status`, `doctor`, `trace`, `dashboard`: a topology looked at, nothing changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.text import Text

from dafka.plural import counted
from dafka.process.signals import stop_event
from distributor.cli.options import File, Json
from distributor.errors import PlanError
from distributor.loading import load
from distributor.local.processes import processes_of
from distributor.operations.doctor import examine
from distributor.operations.status import ILL, status_of
from topology import plan, spread
from topology.cli import top_level, trace_table
from topology.model import ClusterName
from topology.output import Column, Columns, column, number, open_console, print_json, table

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from distributor.operations.recovery import RecoveryPoint
    from distributor.operations.status import (
        ClusterStatus,
        LatePartition,
        LinkStatus,
        Status,
        StoppedPartition,
    )


def status(
    file: File,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Show the partitions that lag, too.")
    ] = False,
    json_lines: Json = False,
) -> None:
    """Show every cluster and the lag of every link, worked out from both ends' heads.

    Every link is judged by the target it serves, if the topology has `control` ports or replicas;
    else by its preferred one. Exit code 1 if a cluster does not answer, or a link does not run,
    stands still, does not copy a partition, or has just left a target that relayed too little; or
    if no replica does what one should.

    Example: distributor status config/four-clusters.yaml --json
    """
    found = status_of(plan(load(file)))
    if json_lines:
        print_json(found)
    else:
        open_console().print(status_view(found))
        if partitions:
            open_console().print(late_view(found.links))
    if not found.well:
        raise typer.Exit(1)


def as_good(what: str, good: bool) -> Text:
    """Say something in the colour of what is good, or bad."""
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
    parts += [Text(line, style="red") for line in status.idle]
    return Group(*parts)


CLUSTERS: Columns[ClusterStatus] = (
    column("cluster"),
    number("partitions"),
    number("records"),
    column(
        "state",
        lambda cluster: as_good(
            cluster.error or "; ".join(cluster.moving) or "ok", not cluster.error
        ),
    ),
)


def _recovery(status: Status) -> Table:
    """What each cluster would lack of another, were that one lost now."""
    origins = list(dict.fromkeys(point.origin for point in status.recovery))
    clusters = dict.fromkeys(point.cluster for point in status.recovery)
    silent = {cluster.cluster for cluster in status.clusters if cluster.error}
    cells = {(one.origin, one.cluster): _age(one, silent) for one in status.recovery}

    def lacks(cluster: str) -> Column[str]:
        return number(cluster, lambda origin: cells[origin, cluster])

    origin: Column[str] = column("records of", str)
    return table(
        (origin, *map(lacks, clusters)),
        origins,
        "recovery points: seconds that each cluster would lack",
    )


def _age(point: RecoveryPoint, silent: Container[str]) -> float | Text | None:
    """What a cluster has heard nobody knows if it does not answer."""
    if point.seconds is None and point.cluster not in silent:
        return Text("never", style="red")
    return point.seconds


def _state_of(link: LinkStatus) -> Text:
    if link.error:
        return Text(link.error, style="red")
    without = link.diverged + link.overtaken + link.refused
    if without:
        return Text(f"does not copy {counted(without, 'partition')}", style="red")
    if link.state not in ("", "serving"):
        return Text(link.state, style="red" if link.state in ILL else "yellow")
    if link.left:
        return Text(f"ok; {link.left} relays too little", style="yellow")
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
    partitions = sum(link.partitions or 0 for link in links)
    return table(LATE, rows, "partitions that lag", more=partitions - len(rows))


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


STOPPED_SHOWN_MAX = 20
"""More would scroll the rest away; --json has as many as links name."""


def _stopped(links: Sequence[LinkStatus]) -> Table:
    """Partitions that links do not copy."""
    rows = [(link, one) for link in links for one in link.stopped][:STOPPED_SHOWN_MAX]
    stopped = sum(link.diverged + link.overtaken + link.refused for link in links)
    return table(STOPPED, rows, "not copied", more=stopped - len(rows))


STOPPED: Columns[tuple[LinkStatus, StoppedPartition]] = (
    column("link", _link_of),
    column("partition", _partition_of),
    column("reason", lambda row: row[1].reason),
    number("from", lambda row: row[1].first),
    number("to", lambda row: row[1].end - 1),
)


def doctor(file: File, json_lines: Json = False) -> None:
    """Say in plain words what is wrong with a running topology and what to do about it.

    Causes come before what suffers from them. Exit code 1 if anything is wrong.

    Example: distributor doctor config/four-clusters.yaml
    """
    the_plan = plan(load(file))
    findings = examine(the_plan, processes_of(the_plan, file))
    if json_lines:
        print_json({"well": not findings, "findings": findings})
    else:
        out = open_console()
        for place, finding in enumerate(findings, 1):
            out.print(Text(f"{place}. {finding.about}", style="bold"))
            out.print(Text(f"   {finding.what}", style="red"), soft_wrap=True)
            out.print(Text(f"   → {finding.do}"), soft_wrap=True)
        if not findings:
            clusters = counted(len(the_plan.topology.clusters), "cluster")
            links = counted(len(the_plan.links), "link")
            out.print(Text(f"all well: {clusters}, {links}", style="green"))
    if findings:
        raise typer.Exit(1)


_FLAGS = re.compile("[01]{1,64}")
"""`int` would take more: signs, spaces, "0b1" and "1_0"."""


def trace(
    file: File,
    origin: Annotated[str, typer.Option("--from", help="The cluster it is published on.")],
    flags: Annotated[
        str, typer.Option(help="Copy flags it already has, in binary, as in 0100.")
    ] = "0",
    topic: Annotated[
        str, typer.Option(help="Its topic, where not all topics are on all clusters.")
    ] = "",
    json_lines: Json = False,
) -> None:
    """Follow a record through the tree, hop by hop, with its copy flags.

    Example: distributor trace config/four-clusters.yaml --from cluster-1
    """
    the_plan = plan(load(file))
    known = [cluster.name for cluster in the_plan.topology.clusters]
    if origin not in known:
        raise PlanError(f"no cluster {origin!r} in {file}: there are {', '.join(known)}")
    if not _FLAGS.fullmatch(flags):
        raise PlanError(f"flags {flags!r} are not up to 64 binary digits, as in 0100")
    part = the_plan.on(the_plan.topology.placed_on(topic))
    found = spread(part, ClusterName(origin), int(flags, 2))
    if json_lines:
        print_json({"hops": found.hops})
        return
    out = open_console()
    out.print(trace_table(found, top_level(the_plan.topology)))
    reached = {hop.target for hop in found.hops} | {origin}
    rest = [one.name for one in part.topology.clusters if one.name not in reached]
    if rest:
        out.print(f"does not reach {', '.join(rest)}", markup=False)


def dashboard(
    file: File,
    listen: Annotated[
        str, typer.Option(help="Where to serve the page, HOST:PORT. Without web: anybody may look.")
    ] = "127.0.0.1:8090",
) -> None:
    """Serve one web page: the tree, health, lag and rates as they change, records' ways.

    It only looks, and may be started and stopped at any time, on any machine that reaches the
    clusters.

    Example: distributor dashboard config/four-clusters.yaml
    """
    # Only who serves pages need wait for what serves them.
    from distributor.dashboard.server import Dashboard

    the_plan = plan(load(file))
    told = stop_event()
    with Dashboard(the_plan, processes_of(the_plan, file), listen) as running:
        open_console(stderr=True).print(
            f"dashboard at {running.url}   (Ctrl-C ends it)", markup=False
        )
        while not told.wait(0.5):
            if running.join(0):
                return
