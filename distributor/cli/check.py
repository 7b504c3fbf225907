"""`distributor status` and `distributor verify`: what a running topology looks like."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from dafka.node.clock import wall_ms
from distributor.cli.options import File, Json
from distributor.cli.view import status_view, verdict_view
from distributor.declared import load
from distributor.status import status_of
from distributor.verify import Verdict
from distributor.verify import verify as compare
from topology import Topology, plan


def status(file: File, json_lines: Json = False) -> None:
    """Show every cluster and the lag of every link, worked out from both ends' heads.

    Exit code 1 if a cluster does not answer.

    Example: distributor status config/four-clusters.yaml --json
    """
    found = status_of(plan(load(file)), wall_ms())
    if json_lines:
        print(json.dumps(found.as_json()))
    else:
        Console().print(status_view(found))
    if not found.reachable:
        raise typer.Exit(1)


def verify(file: File, json_lines: Json = False) -> None:
    """Compare all clusters: heads, then the contents of every partition.

    Exit code 1 if they differ or one does not answer. While records flow, the last of them may
    not be everywhere yet: that is reported as a difference of heads.

    Example: distributor verify config/four-clusters.yaml
    """
    verdict = verify_with_progress(load(file), Console(stderr=True))
    if json_lines:
        print(json.dumps(verdict.as_json()))
    else:
        Console().print(verdict_view(verdict))
    if not verdict.equal:
        raise typer.Exit(1)


def verify_with_progress(topology: Topology, console: Console) -> Verdict:
    """Compare all clusters, with a bar."""
    columns = (TextColumn("comparing"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("comparing", total=None)
        return compare(topology, lambda done, total: bar.update(task, completed=done, total=total))
