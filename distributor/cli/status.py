"""`distributor status`: what a running topology looks like."""

from __future__ import annotations

import json

import typer
from rich.console import Console

from dafka.node.clock import wall_ms
from distributor.cli.options import File, Json
from distributor.cli.view import status_view
from distributor.declared import load
from distributor.status import status_of
from topology import plan


def status(file: File, json_lines: Json = False) -> None:
    """Show every cluster and the lag of every link, worked out from both ends' heads.

    Every link is judged by the target it serves, if the topology has `control` ports; else by its
    preferred one. Exit code 1 if a cluster does not answer, or a link does not copy a partition.

    Example: distributor status config/four-clusters.yaml --json
    """
    found = status_of(plan(load(file)), wall_ms())
    if json_lines:
        print(json.dumps(found.as_json()))
    else:
        Console().print(status_view(found))
    if not found.well:
        raise typer.Exit(1)
