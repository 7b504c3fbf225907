"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, TypeVar, Unpack

import typer

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.process.health import Health, serve_health
from dafka.process.logs import LineFormat
from dafka.process.web_access import load_web_access
from dafka.transport.keys import load_credentials
from topology.terminal import installed_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer.models import OptionInfo

    from dafka.process.web_access import WebAccess

DEFAULT_TOWER = "tcp://127.0.0.1:5556"
DEFAULT_QUERY = "tcp://127.0.0.1:5558"

_E = TypeVar("_E", str, list[str])

SECONDS_MAX = 1_000_000.0
"""Eleven days; the milliseconds of much longer waits do not fit what takes them."""


def bounded_seconds(seconds: float | None) -> float | None:
    """Return a number of seconds that can be waited; none is none.

    Raises:
        BadParameter: It is negative, infinite, too large, or not a number.
    """
    if seconds is not None and not 0 <= seconds <= SECONDS_MAX:
        raise typer.BadParameter(f"{seconds} is not between 0 and {SECONDS_MAX:,.0f} seconds")
    return seconds


def between_processes(endpoint: _E) -> _E:
    """Return an endpoint, or several, that commands can share.

    Raises:
        BadParameter: One is of inproc.
    """
    for one in [endpoint] if isinstance(endpoint, str) else endpoint:
        if one.startswith("inproc:"):
            raise typer.BadParameter(f"{one!r} can be reached within one process only; use ipc")
    return endpoint


def first_endpoint(endpoints: str) -> str:
    """Return the first of the endpoints of a variable, as of several stores; a command asks one."""
    return next(iter(endpoints.split()), endpoints)


class ClusterArguments(TypedDict, total=False):
    """What a command's options say of the way into a cluster; see `Cluster`."""

    name: str
    host: str
    advertise: str | None
    insecure: bool
    wire: str


def entered(
    towers: str | Sequence[str] = (),
    stores: str | Sequence[str] = (),
    *,
    access: Path | None,
    key: Path | None,
    **way: Unpack[ClusterArguments],
) -> Cluster:
    """Return the cluster that a command's options lead to.

    Args:
        towers: `--tower`.
        stores: `--store`.
        access: `--access`.
        key: `--key`.
        way: What else of `Cluster` the command has options for.

    Raises:
        MisuseError: Only one of `--access` and `--key` is given, or a file cannot be used.
    """
    if (access is None) != (key is None):
        raise MisuseError("--access and --key belong together: the cluster's keys, and one's own")
    known = None if access is None or key is None else load_credentials(access, key)
    return Cluster(towers, stores, credentials=known, **way)


def web_access(web: Path | None) -> WebAccess | None:
    """Return who may use what is served over HTTP; None for everybody.

    Raises:
        MisuseError: The file cannot be used.
    """
    return None if web is None else load_web_access(web)


def observed(metrics: str | None, web: Path | None) -> Health:
    """Return what a process has to say about itself, served from now on if it is to be.

    Args:
        metrics: `--metrics`.
        web: `--web`.

    Raises:
        MisuseError: It cannot be served there, or the file cannot be used.
    """
    health = Health()
    if metrics is not None:
        from dafka.process.metrics import BUILD  # most commands serve none

        BUILD.info({"version": installed_version()})
        serve_health(metrics, health, web_access(web))
    return health


Access = Annotated[
    Path | None, typer.Option("--access", help="Access file of a cluster with keys.")
]
Key = Annotated[
    Path | None, typer.Option("--key", help="Secret key file of whoever runs this command.")
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="Bind other hosts than this machine's own without keys, for anybody."
    ),
]
Towers = Annotated[
    list[str],
    typer.Option(
        "--tower",
        default_factory=lambda: [DEFAULT_TOWER],
        show_default=DEFAULT_TOWER,
        callback=between_processes,
        help="Endpoint of a tower of the cluster, tcp://HOST:PORT or ipc:///PATH; may be given "
        "repeatedly.",
    ),
]
OneStore = Annotated[
    str,
    typer.Option("--store", callback=first_endpoint, help="Query port of a store of the cluster."),
]


def _stores(what: str) -> OptionInfo:
    """One or more stores, by default the one of this machine."""
    option: OptionInfo = typer.Option(
        "--store", default_factory=lambda: [DEFAULT_QUERY], show_default=DEFAULT_QUERY, help=what
    )
    return option


Stores = Annotated[
    list[str],
    _stores("Query port of a store of the cluster; where stores share slots, repeat it for all."),
]
AllStores = Annotated[
    list[str], _stores("Query port of a store; repeat it for every store of the cluster.")
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        callback=between_processes,
        help="Where to bind: HOST or HOST:PORT (* is every interface), or ipc:///DIRECTORY.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        help="Where others reach it, HOST or HOST:PORT; else where it is bound, or with * where "
        "towers see it come from.",
    ),
]
Wire = Annotated[
    str, typer.Option("--wire", help="rfc46, or libdafka as the programs of the C implementation.")
]
DeliveryWay = Annotated[
    str | None,
    typer.Option(
        "--delivery",
        help="direct: connect to everybody; stores: to stores only, which pass on what they have "
        "on disk.",
    ),
]
Web = Annotated[
    Path | None,
    typer.Option(
        "--web",
        help="File that says who may use what is served over HTTP, and its certificate "
        "(`dafka keys NAME --web RIGHT`); without it everybody who reaches the port.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for scripts.")]
Metrics = Annotated[
    str | None,
    typer.Option("--metrics", help="Serve /metrics, /health and /ready here, HOST:PORT."),
]
ShutdownMs = Annotated[
    int,
    typer.Option("--shutdown-ms", min=1, help="How long an orderly end may take."),
]
LogFormat = Annotated[
    LineFormat,
    typer.Option("--log-format", help="text: facts as key=value; json: one object a line."),
]
LogLevel = Annotated[
    str, typer.Option("--log-level", help="debug, info, warning or error; lines go to stderr.")
]
