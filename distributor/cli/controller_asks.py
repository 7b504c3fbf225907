"""`distributor controller wait`, `explain`, `retarget`, `pause` and others: what asks one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dafka.cli.options import Json
from dafka.cli.queries import Timeout
from dafka.errors import QueryError
from dafka.plural import counted
from distributor.cli.replica import certificates_of, place_of
from distributor.control.operator_client import OperatorClient
from distributor.control.protocol import PassedOver
from distributor.control.questions import AimedLinkRow, LeftFlowRow, RouteRow
from distributor.errors import CommandError, PlanError
from topology.model import ClusterSpec
from topology.output import (
    Columns,
    column,
    fields_of,
    number,
    open_console,
    print_json,
    print_rows,
    table,
)
from topology.terminal import complain, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributor.control.certificates import Certificates
    from distributor.control.demands import LevelPause

T = TypeVar("T")

Address = Annotated[
    str, typer.Argument(metavar="HOST:PORT", help="Where it serves operators, its --listen.")
]
Certificate = Annotated[
    Path | None,
    typer.Option(help="Certificate of an operator, PEM; needs the next two."),
]
CertificateKey = Annotated[
    Path | None, typer.Option("--certificate-key", help="The certificate's key, PEM.")
]
ControllerCa = Annotated[
    Path | None,
    typer.Option(
        "--controller-ca",
        help="Authority of controllers' certificates, PEM.",
    ),
]

Level = Annotated[int, typer.Option("--level", help="The level of the links.")]

AIMED: Columns[AimedLinkRow] = (
    column("target"),
    number("level", lambda row: f"{row.level} {row.topics}".strip()),
)

RETARGET_S = 10.0
"""Stores answer within some seconds, or one more is away than may be."""

LEFT: Columns[LeftFlowRow] = (
    column("target"),
    number("level"),
    column("share"),
    number("lacks"),
    column("why"),
    number("flow"),
)

ROUTES: Columns[RouteRow] = (
    column("topic"),
    column("target"),
    number("level"),
    column("share"),
    column("carried", lambda row: "yes" if row.carried else "no"),
    number("partitions"),
    number("lacks"),
    column("writer"),
    column("why"),
)


def wait(
    controller: Address,
    timeout: Annotated[
        float,
        typer.Option(min=0, max=86_400, help="Seconds after which absent records are missing."),
    ] = 30.0,
    json_lines: Json = False,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Wait until everything published so far on its cluster is at the targets of its links.

    What is published meanwhile is not waited for. A target passes it on: on clusters behind it it
    may be a moment later. Exit codes: 0 it is there; 1 records are missing; 2 the call cannot be
    used; 4 no controller in charge answers.

    Example: distributor controller wait 127.0.0.1:7501 --timeout 30
    """
    began_s = time.monotonic()
    try:
        with _client(controller, certificate, certificate_key, controller_ca) as client:
            waited = client.wait(timeout)
    except (QueryError, CommandError) as error:
        complain("distributor", error)
        raise typer.Exit(4) from error
    seconds = time.monotonic() - began_s
    if json_lines:
        print_json({"there": not waited.left, "after_s": round(seconds, 3), **fields_of(waited)})
    elif waited.left:
        title = f"not at these targets after {seconds:.1f} s"
        open_console().print(table(LEFT, waited.left, title))
    else:
        what = f"{counted(waited.partitions, 'partition')}, {counted(waited.flows, 'flow')}"
        say(f"at all targets after {seconds:.1f} s: {what}")
    if waited.left:
        raise typer.Exit(1)


def explain(
    controller: Address,
    what: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC|PARTITION",
            help="A topic, or what the address of a partition begins with: 4 characters or more.",
        ),
    ],
    sequence: Annotated[
        int | None,
        typer.Option(min=0, help="Of one partition, which record.", show_default="the last one"),
    ] = None,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Explain what each of its links does with a topic, a partition or a record, and why.

    Patterns and placement of the file, shares, copy flags of the record, who writes, and what the
    target lacks.

    Example: distributor controller explain 127.0.0.1:7501 orders
    """
    with _client(controller, certificate, certificate_key, controller_ca) as client:
        rows = client.explain(what, sequence, timeout)
    print_rows(rows, ROUTES, f"ways of {what}", as_json=json_lines)


def retarget(
    controller: Address,
    level: Level,
    to: Annotated[str, typer.Option(help="The cluster to copy to from now on.")],
    json_lines: Json = False,
    timeout: Timeout = 10.0,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Let links of its cluster serve another of their targets, for good.

    It is kept by the stores of the cluster before this ends: controllers and replicas that start
    later heed it, whatever `targets` of the file prefers. Nothing is lost, repeated or reordered;
    what the old target still passes on may travel twice. Exit code 1 if it is not done.

    Example: distributor controller retarget 127.0.0.1:7501 --level 3 --to cluster-4
    """
    with _client(controller, certificate, certificate_key, controller_ca) as client:
        tell_aimed(client.retarget(level, to, timeout), as_json=json_lines)


def failback(
    controller: Address,
    level: Level,
    json_lines: Json = False,
    timeout: Timeout = 10.0,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Let links of its cluster serve the target that the file prefers again: undoes `retarget`.

    Exit code 1 if it is not done.

    Example: distributor controller failback 127.0.0.1:7501 --level 3
    """
    with _client(controller, certificate, certificate_key, controller_ca) as client:
        tell_aimed(client.retarget(level, "", timeout), as_json=json_lines)


def pause(
    controller: Address,
    level: Level,
    json_lines: Json = False,
    timeout: Timeout = 10.0,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Let links of its cluster send no records across a level, until `unpause`.

    It is kept by the stores of the cluster before this ends, and heeded by controllers and replicas
    that start later; in a file whose levels have another `epoch` it is over. Positions and schemas
    go on. Other clusters pull across the level what this one does not bring (`repair_after_ms`):
    to stop it, pause it at each of them. Exit code 1 if it is not done.

    Example: distributor controller pause 127.0.0.1:7501 --level 3
    """
    with _client(controller, certificate, certificate_key, controller_ca) as client:
        rows = client.pause(level, paused=True, timeout_s=timeout)
    print_rows(rows, AIMED, "kept: links that pause", as_json=json_lines)


def unpause(
    controller: Address,
    level: Level,
    json_lines: Json = False,
    timeout: Timeout = 10.0,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Let links of its cluster send records across a level again: undoes `pause`.

    Exit code 1 if it is not done.

    Example: distributor controller unpause 127.0.0.1:7501 --level 3
    """
    with _client(controller, certificate, certificate_key, controller_ca) as client:
        rows = client.pause(level, paused=False, timeout_s=timeout)
    print_rows(rows, AIMED, "kept: links that go on", as_json=json_lines)


def resume(
    controller: Address,
    level: Level,
    topic: Annotated[str, typer.Option(help="The topic of which partitions are overtaken.")],
    json_lines: Json = False,
    timeout: Timeout = 10.0,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Let links of its cluster go on with what retention has overtaken, behind the holes.

    What the cluster keeps no more is passed over, for good: no other link brings it to the target
    afterwards. Only the holes that there are now: what retention drops later is told again. It is
    kept by the stores of the cluster before this ends. Exit code 1 if it is not done, 2 if nothing
    of the topic is overtaken there.

    Example: distributor controller resume 127.0.0.1:7501 --level 1 --topic orders
    """
    with _client(controller, certificate, certificate_key, controller_ca) as client:
        passed = client.resume(level, topic, timeout)
    tell_passed(f"level {level}", topic, passed, as_json=json_lines)


def operator_certificates(
    certificate: Path | None, key: Path | None, authority: Path | None
) -> Certificates | None:
    """Return what an operator shows and believes; None if nothing is given.

    Raises:
        MisuseError: Some of them are given only, or cannot be used.
    """
    files = {"--certificate-key": key, "--controller-ca": authority}
    return certificates_of(certificate, files)


def retarget_controlled(
    cluster: ClusterSpec, level: int, to: str, shown: Certificates | None = None
) -> list[AimedLinkRow]:
    """Tell the first of a cluster's controllers that answers; `shown` to it, or no certificate.

    Raises:
        PlanError: The file does not say where.
        QueryError, CommandError: None does it.
    """
    return _of_controllers(cluster, shown, lambda client: client.retarget(level, to, RETARGET_S))


def pause_controlled(cluster: ClusterSpec, wanted: LevelPause) -> list[AimedLinkRow]:
    """The same: have links of a level send nothing, or go on.

    Raises:
        PlanError: The file does not say where.
        QueryError, CommandError: None does it.
    """
    return _of_controllers(
        cluster,
        None,
        lambda client: client.pause(wanted.level, paused=wanted.paused, timeout_s=RETARGET_S),
    )


def resume_controlled(
    cluster: ClusterSpec, level: int, topic: str, shown: Certificates | None = None
) -> PassedOver:
    """The same: have links of a level go on with a topic behind what their source keeps no more.

    Raises:
        PlanError: The file does not say where.
        QueryError, CommandError: None does it.
    """
    return _of_controllers(cluster, shown, lambda client: client.resume(level, topic, RETARGET_S))


def tell_aimed(rows: list[AimedLinkRow], *, as_json: bool) -> None:
    """Say where links aim from now on."""
    print_rows(rows, AIMED, "kept: where links aim", as_json=as_json)


def tell_passed(place: str, topic: str, passed: PassedOver, *, as_json: bool) -> None:
    """Say how much is passed over.

    Args:
        place: Which links go on.
        topic: With which topic.
        passed: How much that passes over at least.
        as_json: Whether for scripts.
    """
    if as_json:
        print_json({"partitions": passed.partitions, "records": passed.records})
        return
    what = f"{counted(passed.partitions, 'partition')} of {topic!r}"
    gone = counted(passed.records, "record")
    say(f"{place} goes on with {what}, without at least {gone}")


def _of_controllers(
    cluster: ClusterSpec, shown: Certificates | None, ask: Callable[[OperatorClient], T]
) -> T:
    places = [one.listen for one in cluster.controllers if one.listen]
    if not places:
        raise PlanError(
            f"controllers of {cluster.name} have no `listen` in the file, where they could be told"
        )
    failures = []
    for place in places:
        try:
            with OperatorClient(place, shown) as client:
                return ask(client)
        except QueryError as failure:
            failures.append(failure)
    raise failures[-1]


def _client(
    controller: str, certificate: Path | None, key: Path | None, authority: Path | None
) -> OperatorClient:
    place_of(controller, f"controller {controller!r} cannot be asked: expected HOST:PORT")
    return OperatorClient(controller, operator_certificates(certificate, key, authority))
