"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_TOWER = "tcp://127.0.0.1:5556"
DEFAULT_QUERY = "tcp://127.0.0.1:5558"

Towers = Annotated[
    list[str],
    typer.Option(
        "--tower",
        default_factory=lambda: [DEFAULT_TOWER],
        show_default=DEFAULT_TOWER,
        help="Endpoint of a tower of the cluster; may be given repeatedly.",
    ),
]
Stores = Annotated[str, typer.Option("--store", help="Query port of a store of the cluster.")]
Host = Annotated[str, typer.Option("--host", help="Interface to bind and advertise.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for scripts.")]
Metrics = Annotated[
    str | None, typer.Option("--metrics", help="Serve Prometheus metrics here, HOST:PORT.")
]
LogLevel = Annotated[
    str, typer.Option("--log-level", help="debug, info, warning or error; lines go to stderr.")
]
