"""`dafka gateway status`, `topics`, `groups` and `connections`: how a running gateway is.

They read what it shows at its `--metrics` port, and change nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlencode

import typer

from dafka.cli.options import Json
from dafka.cli.queries import Timeout
from dafka.errors import MisuseError, QueryError
from dafka.model import Endpoint
from dafka.process.caller import Caller
from topology.output import Columns, column, number, print_json, print_rows
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

Address = Annotated[
    str, typer.Argument(metavar="HOST:PORT", help="Where it serves /metrics, its --metrics.")
]
WebFile = Annotated[
    Path | None,
    typer.Option("--web", help="Its web file, whose certificate is trusted; with --token."),
]
Token = Annotated[
    Path | None, typer.Option("--token", help="File of a token that may read metrics.")
]


@dataclass(frozen=True, slots=True)
class ServedTopicRow:
    """A topic, as `--json` tells it."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ServedPartitionRow:
    """A partition of a topic, as `--json` tells it.

    Attributes:
        partition: Its number.
        leader: Where the gateway is that serves it; None if none does.
        epoch: How often that has changed.
        state: `serving`, `beginning`, or `elsewhere`.
        start: The first offset; None where another gateway knows it.
        end: The one behind the last.
    """

    partition: int
    leader: str | None
    epoch: int
    state: str
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class CoordinatedGroupRow:
    """A group that is coordinated there, as `--json` tells it."""

    group: str
    state: str
    members: int
    lag_records: int | None


@dataclass(frozen=True, slots=True)
class CommittedRow:
    """What a group has committed of a partition, as `--json` tells it."""

    topic: str
    partition: int
    offset: int
    lag_records: int | None


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """A client that is connected, as `--json` tells it; see `ClientConnection`."""

    client: str
    user: str
    client_id: str
    requests: int
    seconds: float
    unread_bytes: int


SERVED_TOPICS: Columns[ServedTopicRow] = (column("topic"), number("partitions"))
SERVED_PARTITIONS: Columns[ServedPartitionRow] = (
    number("partition"),
    column("leader"),
    number("epoch"),
    column("state"),
    number("start"),
    number("end"),
)
COORDINATED: Columns[CoordinatedGroupRow] = (
    column("group"),
    column("state"),
    number("members"),
    number("lag", "lag_records"),
)
COMMITTED: Columns[CommittedRow] = (
    column("topic"),
    number("partition"),
    number("offset"),
    number("lag", "lag_records"),
)
CONNECTED: Columns[ConnectionRow] = (
    column("client"),
    column("user"),
    column("client id", "client_id"),
    number("requests"),
    number("seconds"),
    number("unread", "unread_bytes"),
)


def status(
    gateway: Address,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    web: WebFile = None,
    token: Token = None,
) -> None:
    """Show whether a gateway serves what it should, and if not, why. Exit code 1 if it does not.

    Example: dafka gateway status 127.0.0.1:9101
    """
    ready, told = _asked(gateway, "/ready", timeout, web, token)
    reasons = [] if ready else told.splitlines()
    if json_lines:
        print_json({"gateway": gateway, "ready": ready, "reasons": reasons})
    else:
        say("ready" if ready else "\n".join(reasons))
    if not ready:
        raise typer.Exit(1)


def topics(
    gateway: Address,
    topic: Annotated[str | None, typer.Argument(help="Show its partitions instead.")] = None,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    web: WebFile = None,
    token: Token = None,
) -> None:
    """List the topics that Kafka clients see, or the partitions of one: who serves each.

    Example: dafka gateway topics 127.0.0.1:9101 orders
    """
    asked = {} if topic is None else {"topic": topic}
    if topic is None:
        rows = _shown(
            (gateway, "/topics", asked, timeout, web, token),
            lambda page: [ServedTopicRow(*one) for one in sorted(page.items())],
        )
        print_rows(rows, SERVED_TOPICS, f"topics of {gateway}", as_json=json_lines)
        return
    partitions = _shown(
        (gateway, "/topics", asked, timeout, web, token),
        lambda page: [ServedPartitionRow(**one) for one in page["partitions"]],
    )
    print_rows(partitions, SERVED_PARTITIONS, topic, as_json=json_lines)


def groups(
    gateway: Address,
    group: Annotated[str | None, typer.Argument(help="Show what it has committed instead.")] = None,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    web: WebFile = None,
    token: Token = None,
) -> None:
    """List the Kafka groups that a gateway coordinates, or what one has committed.

    How far behind they are is of partitions that are served there.

    Example: dafka gateway groups 127.0.0.1:9101 billing
    """
    asked = {} if group is None else {"group": group}
    if group is None:
        rows = _shown(
            (gateway, "/groups", asked, timeout, web, token),
            lambda page: [CoordinatedGroupRow(name, **one) for name, one in sorted(page.items())],
        )
        print_rows(rows, COORDINATED, f"groups of {gateway}", as_json=json_lines)
        return
    commits = _shown(
        (gateway, "/groups", asked, timeout, web, token),
        lambda page: [CommittedRow(**one) for one in page["commits"]],
    )
    print_rows(commits, COMMITTED, group, as_json=json_lines)


def connections(
    gateway: Address,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    web: WebFile = None,
    token: Token = None,
) -> None:
    """List the Kafka clients that are connected to a gateway.

    Example: dafka gateway connections 127.0.0.1:9101 --json
    """
    rows = _shown(
        (gateway, "/connections", {}, timeout, web, token),
        lambda page: [ConnectionRow(**one) for one in page],
    )
    print_rows(rows, CONNECTED, f"clients of {gateway}", as_json=json_lines)


Asked = tuple[str, str, dict[str, str], float, Path | None, Path | None]


def _shown(asked: Asked, rows: Callable[[Any], T]) -> T:
    """Return what a page shows, as rows.

    Raises:
        MisuseError: The page does not know what is asked for.
        QueryError: It does not answer, or as no gateway does.
    """
    gateway, path, fields, timeout, web, token = asked
    page = f"{path}?{urlencode(fields)}" if fields else path
    told, text = _asked(gateway, page, timeout, web, token)
    try:
        found = json.loads(text)
        if not told:
            raise MisuseError(f"{gateway} refuses {page}: {found['error']}")
        if isinstance(found, dict) and isinstance(found.get("error"), str):
            raise QueryError(f"{gateway} cannot say: {found['error']}; ask another gateway")
        return rows(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise QueryError(f"{gateway} does not answer as a gateway: {text[:80]!r}") from error


def _asked(
    gateway: str, page: str, timeout: float, web: Path | None, token: Path | None
) -> tuple[bool, str]:
    try:
        Endpoint.parse(f"tcp://{gateway}")
    except MisuseError as error:
        raise MisuseError(f"gateway {gateway!r} cannot be asked: expected HOST:PORT") from error
    try:
        return Caller(web, token, timeout).get(gateway, page)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise QueryError(f"no answer from {gateway}: {reason}") from error
