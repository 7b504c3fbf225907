"""`distributor offsets`: where groups stand on every cluster, and why."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dafka.groups.commit import CommitKey, checked_group
from dafka.process.clock import wall_ms
from distributor.cli.options import File, Json
from distributor.errors import CommandError, PlanError
from distributor.loading import load
from distributor.offsets.explanation import OffsetRow, forced
from distributor.offsets.explanation import explain as explained
from distributor.offsets.node import Committer
from distributor.survey import survey_group
from topology.tables import WholeTable, console

if TYPE_CHECKING:
    from dafka.groups.commit import Commit
    from dafka.model import Partition
    from distributor.offsets.explanation import GroupView
    from topology.model import ClusterSpec, Topology

Group = Annotated[str, typer.Argument(help="The group of consumers.")]

offsets = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Show where groups stand on every cluster, and why; or say where they are to go on.\n\n"
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
        print(json.dumps({"group": group, "positions": [row._asdict() for row in rows]}))
    elif rows:
        console().print(_table(group, rows))
    else:
        print(f"group {group!r} has no position on any cluster that answers")
    if errors:
        raise CommandError("; ".join(errors))


@offsets.command()
def force(
    group: Group,
    file: File,
    cluster: Annotated[str, typer.Option(help="The cluster to commit at.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be.")] = False,
    json_lines: Json = False,
) -> None:
    """Commit at a cluster where the group was last anywhere, though it has live members there.

    They form a new generation. A member that keeps a partition goes on where it is, but what it
    commits does not count until it is of that generation. Exit code 1 if the cluster does not
    answer; what others that do not answer know of the group is left out, and said.

    Example: distributor offsets force billing config/four-clusters.yaml --cluster cluster-4
    """
    declared = load(file)
    if cluster not in {one.name for one in declared.clusters}:
        known = ", ".join(one.name for one in declared.clusters)
        raise PlanError(f"there is no cluster {cluster!r} in {file}: there are {known}")
    views, errors = _asked(declared, group)
    error = next(view.error for view in views if view.cluster == cluster)
    if error:
        raise CommandError(f"cannot commit at {cluster}: {error}")
    commits = forced(views, cluster, wall_ms())
    if commits and not dry_run:
        _commit(declared.cluster(cluster), group, commits)
    if json_lines:
        print(json.dumps(_as_json(group, cluster, commits, bool(commits) and not dry_run)))
    elif commits:
        did = "would commit" if dry_run else "committed"
        console().print(_commits_table(f"{did} at {cluster}", commits))
    else:
        print(f"nothing to do: no cluster that answers has a newer position of {group!r}")
    for line in errors:
        print(f"left out {line}", file=sys.stderr)


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
    committer = Committer(cluster, cluster.host)
    try:
        committer.write([(CommitKey(group, partition), commit) for partition, commit in commits])
    finally:
        committer.close()


def _as_json(
    group: str, cluster: str, commits: list[tuple[Partition, Commit]], committed: bool
) -> dict[str, Any]:
    positions = [
        {"topic": partition.topic, "address": partition.address, "position": commit.position}
        for partition, commit in commits
    ]
    return {"group": group, "cluster": cluster, "committed": committed, "positions": positions}


def _commits_table(title: str, commits: list[tuple[Partition, Commit]]) -> WholeTable:
    table = WholeTable("topic", "partition", title=Text(title))
    table.add_column("position", justify="right")
    for partition, commit in commits:
        table.add_row(Text(partition.topic), Text(partition.address[:8]), _number(commit.position))
    return table


def _table(group: str, rows: list[OffsetRow]) -> WholeTable:
    table = WholeTable("topic", "partition", "cluster", title=Text(f"group {group}"))
    for name in ("position", "behind", "age", "margin"):
        table.add_column(name, justify="right")
    table.add_column("from")
    table.add_column("why not newer")
    for row in rows:
        table.add_row(
            Text(row.topic),
            Text(row.address[:8]),
            Text(row.cluster),
            _number(row.position),
            _number(row.behind),
            _seconds(row.age_ms),
            "exact" if row.margin_ms is None else _seconds(row.margin_ms),
            Text(row.origin),
            Text(row.why),
        )
    return table


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _seconds(value_ms: int | None) -> str:
    return "-" if value_ms is None else f"{value_ms / 1_000:,.1f} s"
