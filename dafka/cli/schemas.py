"""`dafka schemas`: a cluster's schema registry, a process that runs until it is told to stop."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Annotated

import typer

from dafka.cli.options import (
    Access,
    Advertise,
    AllStores,
    ClusterArguments,
    Host,
    Insecure,
    Key,
    LogFormat,
    LogLevel,
    Metrics,
    ShutdownMs,
    Towers,
    Web,
    Wire,
    entered,
    observed,
    web_access,
)
from dafka.process.logs import LineFormat, set_up_logs
from dafka.process.signals import SHUTDOWN_MS, end_within, stop_event
from dafka.process.web import WebServer, bind
from dafka.schemas.rest import application, right_of
from dafka.schemas.schema_log import SchemaLog
from dafka.schemas.service import RunningRegistry, Service
from dafka.schemas.state import CLUSTERS_MAX
from dafka.schemas.worker import Judges
from dafka.wire.dialect import DEFAULT_DIALECT

log = logging.getLogger(__name__)

DEFAULT_LISTEN = "127.0.0.1:8081"
"""The port that Confluent's registry has."""

LOOK_S = 2.0
"""How often the log is read without being asked, for metrics and `/ready`."""


AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(help="A name by which clients may call it, if not this machine's; repeatedly."),
]


def schemas(
    cluster: Annotated[str, typer.Option(help="The cluster's name; the primary is known by it.")],
    tower: Towers,
    store: AllStores,
    primary: Annotated[
        bool,
        typer.Option(
            "--primary", help="Schemas are registered here, if no cluster is the primary yet."
        ),
    ] = False,
    number: Annotated[
        int,
        typer.Option(
            min=1,
            max=CLUSTERS_MAX,
            help="The cluster's id: schemas get ids of ranges of its own.",
        ),
    ] = 1,
    listen: Annotated[str, typer.Option(help="Where clients come, HOST:PORT.")] = DEFAULT_LISTEN,
    allowed_host: AllowedHosts = None,
    host: Host = "127.0.0.1",
    advertise: Advertise = None,
    access: Access = None,
    key: Key = None,
    insecure: Insecure = False,
    wire: Wire = DEFAULT_DIALECT,
    metrics: Metrics = None,
    web: Web = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = LineFormat.TEXT,
    shutdown_ms: ShutdownMs = SHUTDOWN_MS,
) -> None:
    """Run a schema registry: Confluent's REST interface, kept in the topic _schemas.

    Example: dafka schemas --cluster cluster-1 --primary --tower tcp://127.0.0.1:5556
    """
    set_up_logs(log_level, log_format)
    told = stop_event()
    with ExitStack() as opened:
        health = observed(metrics, web)
        allowed = web_access(web)
        bound, url = bind(listen, "the registry", allowed)
        opened.callback(bound.close)
        way = ClusterArguments(
            name=cluster, host=host, advertise=advertise, insecure=insecure, wire=wire
        )
        schema_log = SchemaLog(entered(tower, store, access=access, key=key, **way))
        opened.callback(schema_log.close)
        service = Service(schema_log, cluster, number, opened.enter_context(Judges()))
        if primary and not service.become_first_primary():
            log.warning("another cluster is the primary, this registry is read-only")
        served = application(service, [listen.rpartition(":")[0], *(allowed_host or ())])
        server = opened.enter_context(WebServer(served, bound, allowed, right_of))
        running = RunningRegistry(service, server)
        health.watch(running)
        log.info("schemas is up", extra={"url": url, "cluster": cluster})
        while not told.wait(LOOK_S) and not running.join(0):
            service.look()
        end_within(shutdown_ms)
