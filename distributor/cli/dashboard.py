"""`distributor dashboard`: the web page of a running topology."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from dafka.process.signals import stop_event
from distributor.cli.options import File
from distributor.dashboard.server import Dashboard
from distributor.loading import load
from distributor.local.processes import processes_of
from topology import plan


def dashboard(
    file: File,
    listen: Annotated[
        str, typer.Option(help="Where to serve the page, HOST:PORT. It asks for no password.")
    ] = "127.0.0.1:8090",
) -> None:
    """Serve one web page: the tree, health, lag and rates as they change, records' ways.

    It only looks, and may be started and stopped at any time, on any machine that reaches the
    clusters.

    Example: distributor dashboard config/four-clusters.yaml
    """
    the_plan = plan(load(file))
    told = stop_event()
    with Dashboard(the_plan, processes_of(the_plan, file), listen) as running:
        Console(stderr=True).print(f"dashboard at {running.url}   (Ctrl-C ends it)", markup=False)
        while not told.wait(0.5):
            if running.join(0):
                return
