"""`distributor status`: what a running topology looks like."""

from __future__ import annotations

from typing import Annotated

import typer

from dafka.process.clock import wall_ms
from distributor.cli.options import File, Json
from distributor.cli.view import late_view, status_view
from distributor.loading import load
from distributor.operations.status import status_of
from topology import plan
from topology.output import console, print_json


def status(
    file: File,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Show the partitions that lag, too.")
    ] = False,
    json_lines: Json = False,
) -> None:
    """Show every cluster and the lag of every link, worked out from both ends' heads.

    Every link is judged by the target it serves, if the topology has `control` ports; else by its
    preferred one. Exit code 1 if a cluster does not answer, or a link does not copy a partition.

    Example: distributor status config/four-clusters.yaml --json
    """
    found = status_of(plan(load(file)), wall_ms())
    if json_lines:
        print_json(found)
    else:
        console().print(status_view(found))
        if partitions:
            console().print(late_view(found.links))
    if not found.well:
        raise typer.Exit(1)
