"""`distributor offsets`: where groups stand on every cluster, and why."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from dafka.groups.commit import CommitKey, checked_group
from dafka.node.clock import wall_ms
from distributor.cli.options import File, Json
from distributor.committer import Committer
from distributor.declared import load
from distributor.errors import CommandError, PlanError
from distributor.group_survey import survey_group
from distributor.offsets.explanation import Row, forced
from distributor.offsets.explanation import explain as explained
from topology.tables import WholeTable, console

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
    views = survey_group(declared, checked_group(group))
    rows = explained(declared, group, views, wall_ms())
    if json_lines:
        print(json.dumps({"group": group, "positions": [row._asdict() for row in rows]}))
    elif rows:
        console().print(_table(group, rows))
    else:
        print(f"group {group!r} has no position on any cluster that answers")
    errors = [f"{view.cluster}: {view.error}" for view in views if view.error]
    if errors:
        raise CommandError("; ".join(errors))


@offsets.command()
def force(
    group: Group,
    file: File,
    cluster: Annotated[str, typer.Option(help="The cluster to commit at.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be.")] = False,
) -> None:
    """Commit at a cluster where the group was last anywhere, though it has live members there.

    They form a new generation. A member that keeps a partition goes on where it is, but what it
    commits does not count until it is of that generation.

    Example: distributor offsets force billing config/four-clusters.yaml --cluster cluster-4
    """
    declared = load(file)
    if cluster not in {one.name for one in declared.clusters}:
        known = ", ".join(one.name for one in declared.clusters)
        raise PlanError(f"there is no cluster {cluster!r} in {file}: there are {known}")
    views = survey_group(declared, checked_group(group))
    error = next(view.error for view in views if view.cluster == cluster)
    if error:
        raise CommandError(f"cannot commit at {cluster}: {error}")
    commits = forced(views, cluster, wall_ms())
    for partition, commit in commits:
        print(f"{partition.topic} {partition.address} {commit.position}")
    if dry_run or not commits:
        return
    place = declared.cluster(cluster)
    committer = Committer(place, place.host)
    try:
        committer.write([(CommitKey(group, partition), commit) for partition, commit in commits])
    finally:
        committer.close()


def _table(group: str, rows: list[Row]) -> WholeTable:
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
