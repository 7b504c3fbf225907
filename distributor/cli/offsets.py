"""`distributor offsets`: where groups stand on every cluster, and why."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from dafka.cluster import Cluster
from dafka.groups.commit import CommitKey, checked_group
from dafka.node.committer import Committer
from dafka.process.clock import wall_ms
from dafka.process.signals import stop_event
from distributor.cli.options import File, Json
from distributor.errors import CommandError, PlanError
from distributor.loading import load
from distributor.offsets.explanation import OffsetRow, forced
from distributor.offsets.explanation import explain as explained
from distributor.survey import survey_group
from topology.bars import Once
from topology.output import (
    Columns,
    column,
    number,
    open_console,
    print_json,
    table,
)
from topology.terminal import say

if TYPE_CHECKING:
    from pathlib import Path

    from dafka.groups.commit import Commit
    from dafka.model import Partition
    from distributor.offsets.explanation import GroupView
    from topology.model import ClusterSpec, Topology

LOOK_S = 0.5
"""How often the clusters are asked while positions are waited for."""

Group = Annotated[str, typer.Argument(help="The group of consumers.")]

offsets = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Show the positions of groups on every cluster, and why; or set them.\n\n"
    "Example: distributor offsets explain billing config/four-clusters.yaml",
)


@offsets.command()
def explain(group: Group, file: File, json_lines: Json = False) -> None:
    """Show a group's position in every partition on every cluster, its age, and why it is older.

    Exit code 1 if a cluster does not answer.

    Example: distributor offsets explain billing config/four-clusters.yaml
    """
    declared = load(file)
    views, errors = _asked(declared, group)
    rows = explained(declared, group, views, wall_ms())
    if json_lines:
        print_json({"group": group, "positions": rows})
    elif rows:
        open_console().print(table(POSITIONS, rows, f"group {group}"))
    else:
        say(f"group {group!r} has no position on any cluster that answers")
    if errors:
        raise CommandError("; ".join(errors))


@offsets.command()
def wait(
    group: Group,
    file: File,
    cluster: Annotated[str, typer.Option(help="The cluster where it continues.")],
    timeout: Annotated[
        float, typer.Option(min=0, max=86_400, help="Seconds to wait at most.")
    ] = 60.0,
    json_lines: Json = False,
) -> None:
    """Wait until a group's positions at a cluster are as new as those of any other cluster.

    For a group that is to return to a cluster that was down: members that start there before the
    links have brought what it did elsewhere read that again. Exit code 1 if that is not so in
    time; what is missing is said. What a cluster knows that does not answer cannot be waited for.

    Example: distributor offsets wait billing config/four-clusters.yaml --cluster cluster-1
    """
    declared = load(file)
    _checked_cluster(declared, cluster, file)
    told, deadline = stop_event(), time.monotonic() + timeout
    console, silent = open_console(stderr=True), Once()
    with console.status(f"waiting for positions of {group}", spinner="line"):
        while lacking := _lacking(declared, group, cluster, silent):
            if told.wait(LOOK_S) or time.monotonic() >= deadline:
                break
    if json_lines:
        print_json({"group": group, "cluster": cluster, "lacking": lacking})
    elif not lacking:
        say(f"group {group!r} can go on at {cluster}")
    if lacking:
        raise CommandError(
            f"{cluster} does not have what group {group!r} did elsewhere: {lacking[0]}"
            + (f", and {len(lacking) - 1} more" if lacking[1:] else "")
        )


def _lacking(declared: Topology, group: str, cluster: str, silent: Once) -> list[str]:
    """What stands against going on at a cluster, as sentences; says at once who does not answer."""
    views, errors = _asked(declared, group)
    for view in views:
        if view.error:
            silent.say(view.cluster, view.error)
    rows = [row for row in explained(declared, group, views, wall_ms()) if row.cluster == cluster]
    return errors + [
        f"{row.topic} {row.address[:8]}, behind by {row.behind}: {row.why}"
        for row in rows
        if row.why and declared.topics.wants(row.topic)
    ]


def _checked_cluster(declared: Topology, cluster: str, file: Path) -> None:
    known = [one.name for one in declared.clusters]
    if cluster not in known:
        named = ", ".join(known)
        raise PlanError(f"there is no cluster {cluster!r} in {file}: there are {named}")


@offsets.command()
def force(
    group: Group,
    file: File,
    cluster: Annotated[str, typer.Option(help="The cluster to commit at.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done.")
    ] = False,
    json_lines: Json = False,
) -> None:
    """Commit at a cluster where the group was last anywhere, though it has live members there.

    They form a new generation. A member that keeps a partition goes on where it is, but what it
    commits does not count until it is of that generation. Exit code 1 if the cluster does not
    answer; what others that do not answer know of the group is left out, and said.

    Example: distributor offsets force billing config/four-clusters.yaml --cluster cluster-4
    """
    declared = load(file)
    _checked_cluster(declared, cluster, file)
    views, errors = _asked(declared, group)
    error = next(view.error for view in views if view.cluster == cluster)
    if error:
        raise CommandError(f"cannot commit at {cluster}: {error}")
    commits = forced(views, cluster, wall_ms())
    if commits and not dry_run:
        _commit(declared.cluster(cluster), group, commits)
    forced_to = [ForcedPosition(*partition, commit.position) for partition, commit in commits]
    if json_lines:
        facts = {"group": group, "cluster": cluster, "committed": bool(commits) and not dry_run}
        print_json({**facts, "positions": forced_to})
    elif commits:
        did = "would commit" if dry_run else "committed"
        open_console().print(table(FORCED, forced_to, f"{did} at {cluster}"))
    else:
        say(f"nothing to do: no cluster that answers has a newer position of {group!r}")
    for line in errors:
        say(f"left out {line}", file=sys.stderr)


def _asked(declared: Topology, group: str) -> tuple[list[GroupView], list[str]]:
    """What every cluster knows of a group, and why some do not say.

    Raises:
        PlanError: All answer, and none knows it.
    """
    views = survey_group(declared, checked_group(group))
    errors = [f"{view.cluster}: {view.error}" for view in views if view.error]
    if not errors and not any(view.commits for view in views):
        raise PlanError(f"group {group!r} has no position on any cluster: see `dafka groups`")
    return views, errors


def _commit(cluster: ClusterSpec, group: str, commits: list[tuple[Partition, Commit]]) -> None:
    committer = Committer(Cluster.declared(cluster))
    try:
        committer.write([(CommitKey(group, partition), commit) for partition, commit in commits])
    finally:
        committer.close()


@dataclass(frozen=True, slots=True)
class ForcedPosition:
    """Where a group goes on in one partition, as `--json` tells it."""

    topic: str
    address: str
    position: int | None


FORCED: Columns[ForcedPosition] = (
    column("topic"),
    column("partition", lambda row: row.address[:8]),
    number("position"),
)

POSITIONS: Columns[OffsetRow] = (
    column("topic"),
    column("partition", lambda row: row.address[:8]),
    column("cluster"),
    number("position"),
    number("behind"),
    number("age", lambda row: _seconds(row.age_ms)),
    number("margin", lambda row: "exact" if row.margin_ms is None else _seconds(row.margin_ms)),
    column("from", "origin"),
    column("why not newer", "why"),
)


def _seconds(value_ms: int | None) -> str | None:
    return None if value_ms is None else f"{value_ms / 1_000:,.1f} s"
