"""`distributor controller status`, `flows`, `grants`, `replicas`, `held`: how a controller is.

They read what it shows at its `--metrics` port, and change nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Annotated

import typer

from dafka.cli.gateway_looks import Token, WebFile
from dafka.cli.options import Json
from dafka.cli.queries import Timeout
from dafka.errors import MisuseError, QueryError
from dafka.process.caller import Caller
from distributor.cli.replica import place_of
from distributor.control.holds import HeldForRow
from distributor.control.overview import ControlledFlowRow, DrivenReplicaRow
from distributor.control.protocol import CONTROLLER_PAGE
from topology.output import Columns, column, number, print_json, print_rows
from topology.terminal import say

FLOWS: Columns[ControlledFlowRow] = (
    number("flow"),
    column("source"),
    column("target"),
    number("level"),
    column("kind"),
    column("share"),
    column("writer"),
    column("state"),
    number("ready"),
    number("epoch"),
    column("why"),
)
GRANTS: Columns[ControlledFlowRow] = (
    column("writer", lambda row: row.writer or "nobody"),
    number("epoch"),
    column("link", lambda row: f"{row.source} to {row.target}, level {row.level}"),
    column("kind"),
    column("share"),
    column("state", lambda row: f"{row.state}: {row.why}" if row.why else row.state or "not said"),
)
REPLICAS: Columns[DrivenReplicaRow] = (
    column("replica"),
    column("session"),
    number("writing"),
    number("ready"),
    number("failed"),
    column("last end", "last_end"),
)

HELD: Columns[HeldForRow] = (
    column("cluster"),
    column("heard"),
    number("partitions"),
    number("records"),
    number("gone"),
)

Address = Annotated[
    str, typer.Argument(metavar="HOST:PORT", help="Where it serves /metrics, its --metrics.")
]


def status(
    controller: Address,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    web: WebFile = None,
    token: Token = None,
) -> None:
    """Show whether a controller is in charge, and of how much. Exit code 1 if it lacks a replica.

    Example: distributor controller status 127.0.0.1:9301
    """
    found = _shown(controller, timeout, web, token)
    away = [one.replica for one in found.replicas if one.session != "active"]
    written = sum(one.state == "writing" for one in found.flows)
    if json_lines:
        print_json(
            {
                "controller": controller,
                "in_charge": found.in_charge,
                "epoch": found.epoch,
                "flows": len(found.flows),
                "written": written,
                "replicas": len(found.replicas),
                "away": away,
            }
        )
    elif not found.in_charge:
        say("ready to take over")
    else:
        told = f"{written} of {len(found.flows)} flows written by {len(found.replicas)} replicas"
        say(f"in charge, epoch {found.epoch}: {told}")
        if away:
            say(f"away: {', '.join(away)}")
    if away:
        raise typer.Exit(1)


def flows(
    controller: Address,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    web: WebFile = None,
    token: Token = None,
) -> None:
    """List the flows of a controller in charge: who writes each, and how many others could.

    Example: distributor controller flows 127.0.0.1:9301
    """
    rows = _shown(controller, timeout, web, token).flows
    print_rows(rows, FLOWS, f"flows of {controller}", as_json=json_lines)


def grants(
    controller: Address,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    web: WebFile = None,
    token: Token = None,
) -> None:
    """List which replica may write what, by replica. Exit code 1 if one of them does not.

    Example: distributor controller grants 127.0.0.1:9301
    """
    found = _in_charge(controller, timeout, web, token)
    rows = sorted(found.flows, key=lambda row: (row.writer, row.flow))
    print_rows(rows, GRANTS, f"grants of {controller}", as_json=json_lines)
    if any(row.state != "writing" for row in rows):
        raise typer.Exit(1)


def replicas(
    controller: Address,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    web: WebFile = None,
    token: Token = None,
) -> None:
    """List the replicas of a controller in charge: whether they are there, and what they do.

    Example: distributor controller replicas 127.0.0.1:9301
    """
    rows = _shown(controller, timeout, web, token).replicas
    print_rows(rows, REPLICAS, f"replicas of {controller}", as_json=json_lines)


def held(
    controller: Address,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    web: WebFile = None,
    token: Token = None,
) -> None:
    """List what stores hold for other clusters, and what is gone. Exit code 1 if something is.

    Example: distributor controller held 127.0.0.1:9301
    """
    found = _in_charge(controller, timeout, web, token)
    rows = found.held_for
    if not rows and not json_lines:
        say("nothing is held: no rule of retention says so, or it was not asked yet who lacks what")
    else:
        print_rows(rows, HELD, f"held as seen by {controller}", as_json=json_lines)
    if any(one.gone for one in rows):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _ShownController:
    """What a controller shows."""

    in_charge: bool
    epoch: int
    flows: list[ControlledFlowRow]
    replicas: list[DrivenReplicaRow]
    held_for: list[HeldForRow]


def _in_charge(
    controller: str, timeout: float, web: Path | None, token: Path | None
) -> _ShownController:
    """Return what a controller shows; of what others would show nothing could be told.

    Raises:
        MisuseError: It is not in charge, or cannot be asked like this.
        QueryError: It does not answer, or as no controller does.
    """
    found = _shown(controller, timeout, web, token)
    if not found.in_charge:
        raise MisuseError(f"{controller} is not in charge: ask another controller of its cluster")
    return found


def _shown(
    controller: str, timeout: float, web: Path | None, token: Path | None
) -> _ShownController:
    """Return what a controller shows.

    Raises:
        MisuseError: It cannot be asked like this.
        QueryError: It does not answer, or as no controller does.
    """
    place_of(controller, f"controller {controller!r} cannot be asked: expected HOST:PORT")
    try:
        _, text = Caller(web, token, timeout).get(controller, CONTROLLER_PAGE)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise QueryError(f"no answer from {controller}: {reason}") from error
    try:
        found = json.loads(text)
        return _ShownController(
            found["in_charge"],
            found["epoch"],
            [ControlledFlowRow(**one) for one in found["flows"]],
            [DrivenReplicaRow(**one) for one in found["replicas"]],
            [HeldForRow(**one) for one in found["held_for"]],
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise QueryError(f"{controller} does not answer as a controller: {text[:80]!r}") from error
