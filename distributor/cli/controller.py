"""`distributor controller`: which replica runs what."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dafka.cli.options import LogFormat, LogLevel, Metrics, ShutdownMs, Web, observed
from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import is_loopback
from dafka.process.files import text_of
from dafka.process.logs import LineFormat, set_up_logs
from dafka.process.signals import SHUTDOWN_MS, end_within, run_until_told
from distributor.cli import controller_asks, controller_looks
from distributor.cli.called import called_controller, called_replicas, cluster_of, on_own_host
from distributor.cli.replica import FILE_BYTES_MAX, certificates_of, place_of
from distributor.control.certificates import Certificates
from distributor.control.controller_process import RunningController
from distributor.control.grants import GrantSettings
from distributor.control.hold_keeper import HoldKeeper, holds_any
from distributor.control.messages import CreateInstance
from distributor.control.operator_server import Operators
from distributor.control.protocol import CONTROLLER_PAGE
from distributor.control.wanted import flows_of
from distributor.loading import load
from topology.model import ClusterSpec, Topology

log = logging.getLogger(__name__)

controller = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Decide which replica runs which link, and replace one that is gone.\n\n"
    "Example: distributor controller run --topology FILE --cluster C --replica HOST:PORT",
)


Listen = Annotated[
    str | None,
    typer.Option(
        help="Where operators ask it, HOST:PORT.", show_default="what the file says, or nowhere"
    ),
]
OperatorCa = Annotated[
    Path | None,
    typer.Option(
        "--operator-ca",
        help="listen: authority of operators' certificates, PEM.",
    ),
]

for look in (
    controller_looks.status,
    controller_looks.flows,
    controller_looks.grants,
    controller_looks.replicas,
    controller_looks.held,
    controller_asks.wait,
    controller_asks.explain,
    controller_asks.retarget,
    controller_asks.failback,
    controller_asks.pause,
    controller_asks.unpause,
    controller_asks.resume,
):
    controller.command()(look)


@controller.command()
def run(
    topology: Annotated[Path, typer.Option(help="The topology, a YAML file.")],
    cluster: Annotated[str, typer.Option(help="The cluster whose links are run.")],
    replica: Annotated[
        list[str],
        typer.Option(
            help="HOST:PORT of a replica, or NAME=HOST:PORT; repeat it for each.",
            default_factory=list,
            show_default="those of the file",
        ),
    ],
    certificate: Annotated[
        Path | None, typer.Option(help="Its certificate, PEM; needs the next two.")
    ] = None,
    certificate_key: Annotated[
        Path | None, typer.Option("--certificate-key", help="The certificate's key, PEM.")
    ] = None,
    replica_ca: Annotated[
        Path | None,
        typer.Option("--replica-ca", help="Authority of replicas' certificates, PEM."),
    ] = None,
    listen: Listen = None,
    operator_ca: OperatorCa = None,
    metrics: Metrics = None,
    web: Web = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = LineFormat.TEXT,
    shutdown_ms: ShutdownMs = SHUTDOWN_MS,
) -> None:
    """Be in charge of a cluster's replicas, or ready to be while another one is.

    Where the file names replicas of the cluster, these are they; of several controllers that it
    names --metrics says which this is.

    Example: distributor controller run --topology FILE --cluster C --replica 127.0.0.1:7001
    """
    set_up_logs(log_level, log_format)
    declared = load(topology)
    spec = cluster_of(declared, cluster, topology)
    called = called_controller(spec, metrics, listen)
    metrics = called.metrics or None
    here = on_own_host(declared, spec, metrics).cluster(cluster)
    files = {"--certificate-key": certificate_key, "--replica-ca": replica_ca}
    certificates = certificates_of(certificate, files)
    places = called_replicas(spec, _replicas(replica))
    _refuse_strangers(places, anybody=certificates is not None or spec.insecure)
    flows = flows_of(declared, cluster)
    operators = _operators(declared, spec, called.listen, certificates, operator_ca)
    health = observed(metrics, web)
    with ExitStack() as stack:
        instance, home = CreateInstance(cluster, spec.id), Cluster.declared(here)
        running = RunningController(
            home,
            instance,
            flows,
            places,
            certificates,
            GrantSettings(levels_epoch=declared.levels.epoch),
            keeper=HoldKeeper(declared, cluster) if holds_any(declared) else None,
            operators=operators,
        )
        stack.callback(running.close)
        log.info("controller is up", extra={"flows": len(flows), "replicas": len(places)})
        health.show({CONTROLLER_PAGE: running.page})
        health.watch(running)
        run_until_told(running)
        end_within(shutdown_ms)


def _refuse_strangers(places: Mapping[str, str], *, anybody: bool) -> None:
    strangers = [one for one in places.values() if not is_loopback(one.rpartition(":")[0])]
    if strangers and not anybody:
        raise MisuseError(
            f"cannot reach a replica at {strangers[0]}: whoever is there would be believed; give "
            "--certificate, --certificate-key and --replica-ca, or let the cluster be insecure"
        )


def _operators(
    declared: Topology,
    cluster: ClusterSpec,
    listen: str,
    shown: Certificates | None,
    authority: Path | None,
) -> Operators | None:
    """How operators are served; None if they are not."""
    if not listen:
        return None
    place = place_of(listen, f"cannot serve operators at {listen!r}: expected HOST:PORT")
    if authority is not None and shown is None:
        raise MisuseError("--operator-ca goes with --certificate, --certificate-key, --replica-ca")
    if authority is None and not cluster.insecure and not is_loopback(place.host):
        raise MisuseError(
            f"cannot serve operators at {listen}: whoever reaches it would be obeyed; give it "
            "--certificate, --certificate-key, --replica-ca and --operator-ca, or let the cluster "
            "be insecure"
        )
    certificates = None
    if authority is not None and shown is not None:
        believed = text_of(authority, FILE_BYTES_MAX).encode()
        certificates = replace(shown, authority=believed)
    return Operators(listen, declared, cluster, certificates)


def _replicas(given: list[str]) -> dict[str, str]:
    """Where each replica is, by its name: that place, if it has no other."""
    found = {}
    for one in given:
        name, _, place = one.rpartition("=")
        place_of(place, f"cannot reach a replica at {one!r}: expected HOST:PORT or NAME=HOST:PORT")
        found[name or place] = place
    if len(found) < len(given):
        raise MisuseError(f"a replica is given twice: {', '.join(given)}")
    return found
