"""`distributor replica`: runs what a controller wants."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from dafka.cli.options import LogFormat, LogLevel, Metrics, ShutdownMs, Web, observed
from dafka.errors import MisuseError
from dafka.model import Endpoint, is_loopback
from dafka.process.files import text_of
from dafka.process.logs import LineFormat, set_up_logs
from dafka.process.memory import collect_rarely, keep_freed_memory
from dafka.process.signals import SHUTDOWN_MS, end_within, run_until_told
from distributor.cli.called import called_replica, cluster_of, on_own_host
from distributor.control.certificates import Certificates
from distributor.control.messages import CreateInstance
from distributor.control.opened_links import PAGE, REMEMBERED_PAGE, OpenedLinks
from distributor.control.replica_server import ReplicaServer
from distributor.control.writer_watch import WriterWatch
from distributor.loading import load
from distributor.operations.heartbeat import beats_beside

log = logging.getLogger(__name__)

FILE_BYTES_MAX = 1024 * 1024


def replica(
    topology: Annotated[Path, typer.Option(help="The topology, a YAML file.")],
    cluster: Annotated[str, typer.Option(help="The cluster whose flows it runs.")],
    listen: Annotated[
        str | None,
        typer.Option(
            help="Where controllers reach it, HOST:PORT.", show_default="the file's only replica"
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Its name at controllers.", show_default="HOST:PORT")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Its certificate, PEM; needs the next two.")
    ] = None,
    certificate_key: Annotated[
        Path | None, typer.Option("--certificate-key", help="The certificate's key, PEM.")
    ] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option("--client-ca", help="Authority of controllers' certificates, PEM."),
    ] = None,
    metrics: Metrics = None,
    web: Web = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = LineFormat.TEXT,
    shutdown_ms: ShutdownMs = SHUTDOWN_MS,
) -> None:
    """Run the flows that the controller in charge wants, until told to stop.

    Where the file names replicas of the cluster, it is one of them: --listen says which.

    Example: distributor replica --topology FILE --cluster cluster-1 --listen 127.0.0.1:7001
    """
    set_up_logs(log_level, log_format)
    keep_freed_memory()
    collect_rarely()
    declared = load(topology)
    spec = cluster_of(declared, cluster, topology)
    called = called_replica(spec, listen, name, metrics)
    listen, metrics = called.listen, called.metrics or None
    declared = on_own_host(declared, spec, listen)
    files = {"--certificate-key": certificate_key, "--client-ca": client_ca}
    certificates = certificates_of(certificate, files)
    check_reach(listen, trusted=certificates is not None or spec.insecure)
    health = observed(metrics, web)
    links = OpenedLinks(declared, beats_beside)
    with ExitStack() as stack:
        watch = WriterWatch(declared)
        stack.callback(watch.close)
        server = ReplicaServer(
            name or listen,
            CreateInstance(cluster, spec.id),
            listen,
            links.open,
            certificates,
            stand=watch.begin,
        )
        stack.callback(server.close)
        health.show({PAGE: links.page, REMEMBERED_PAGE: links.remembered})
        log.info("replica is up", extra={"replica": name or listen, "port": server.port})
        health.watch(server)
        run_until_told(server)
        end_within(shutdown_ms)


def check_reach(listen: str, *, trusted: bool) -> None:
    """Complain if others than this machine reach it, and nothing says whom to obey.

    Args:
        listen: Where.
        trusted: Whether something does, or nothing has to.

    Raises:
        MisuseError: So it is, or that is not HOST:PORT.
    """
    place = place_of(listen, f"cannot serve controllers at {listen!r}: expected HOST:PORT")
    if not trusted and not is_loopback(place.host):
        raise MisuseError(
            f"cannot serve controllers at {listen}: whoever reaches it would be obeyed; give it "
            "--certificate, --certificate-key and --client-ca, or let the cluster be insecure"
        )


def place_of(place: str, complaint: str) -> Endpoint:
    """Return where something is.

    Raises:
        MisuseError: It is not HOST:PORT.
    """
    try:
        return Endpoint.parse(f"tcp://{place}")
    except MisuseError as error:
        raise MisuseError(complaint) from error


def certificates_of(certificate: Path | None, files: dict[str, Path | None]) -> Certificates | None:
    """Return what TLS needs; None if nothing is given.

    Args:
        certificate: `--certificate`.
        files: Its key and the authority of the other side, by their options.

    Raises:
        MisuseError: Some of them are given only, or cannot be used.
    """
    key, authority = files.values()
    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None or authority is None:
        raise MisuseError(f"--certificate, {' and '.join(files)} belong together")
    return Certificates(
        certificate=text_of(certificate, FILE_BYTES_MAX).encode(),
        key=text_of(key, FILE_BYTES_MAX, private=True).encode(),
        authority=text_of(authority, FILE_BYTES_MAX).encode(),
    )
