"""`distributor wait`: until what is published is everywhere, as controllers or stores say."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from dafka.errors import QueryError
from distributor.cli.controller_asks import (
    Certificate,
    CertificateKey,
    ControllerCa,
    operator_certificates,
)
from distributor.cli.options import File, Json
from distributor.control.operator_client import OperatorClient
from distributor.errors import CommandError
from distributor.loading import load
from distributor.operations.barrier import can_be_asked, wait_at_controllers
from distributor.survey import survey
from distributor.verify.waiting import Awaited
from distributor.verify.waiting import wait as wait_for_all
from topology import plan
from topology.bars import Once, bar
from topology.output import Columns, column, fields_of, number, open_console, print_json, table
from topology.terminal import say

if TYPE_CHECKING:
    from distributor.control.certificates import Certificates
    from distributor.control.questions import Waited
    from distributor.survey import Holding
    from topology import Topology

AWAITED: Columns[Awaited] = (
    column("cluster"),
    number("lacks"),
    column("error"),
)


def wait(
    file: File,
    timeout: Annotated[
        float,
        typer.Option(min=0, max=86_400, help="Seconds after which absent records are missing."),
    ] = 30.0,
    json_lines: Json = False,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    controller_ca: ControllerCa = None,
) -> None:
    """Wait until everything published so far is on every cluster.

    Where controllers run all links and can be asked, they say so; else all stores are compared.
    What is published meanwhile is not waited for. Exit codes: 0 it is everywhere; 1 records are
    missing; 2 the call cannot be used; 4 a cluster, or its controllers, do not answer.

    Example: distributor wait config/four-clusters.yaml --timeout 30
    """
    the_plan = plan(load(file))
    certificates = operator_certificates(certificate, certificate_key, controller_ca)
    began_s = time.monotonic()
    with bar("waiting") as progress:
        if can_be_asked(the_plan, shown=certificates is not None):
            ask = partial(_ask_controller, certificates, Once())
            found = wait_at_controllers(the_plan, timeout, ask, progress)
        else:
            found = wait_for_all(the_plan.topology, timeout, progress, partial(_look, Once()))
    seconds = time.monotonic() - began_s
    silent = any(one.lacks is None for one in found)
    lacks = sum(one.lacks or 0 for one in found)
    if json_lines:
        clusters = [fields_of(one) for one in found]
        everywhere = not (lacks or silent)
        print_json({"everywhere": everywhere, "after_s": round(seconds, 3), "clusters": clusters})
    elif lacks or silent:
        open_console().print(table(AWAITED, found, f"not everywhere after {seconds:.1f} s"))
    else:
        say(f"everywhere after {seconds:.1f} s")
    if lacks or silent:
        raise typer.Exit(4 if silent else 1)


def _ask_controller(
    certificates: Certificates | None, silent: Once, place: str, timeout_s: float
) -> Waited:
    try:
        with OperatorClient(place, certificates) as client:
            return client.wait(timeout_s)
    except (QueryError, CommandError) as error:
        silent.say(place, str(error))
        raise


def _look(silent: Once, topology: Topology) -> list[Holding]:
    holdings = survey(topology)
    for one in holdings:
        if one.store is None:
            silent.say(one.cluster, one.error)
    return holdings
