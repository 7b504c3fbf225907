"""`dafka tower`: a process that runs until it is told to stop.

It has a module of its own: who runs a tower does not wait for what stores need.
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from dafka.cli.options import (
    DEFAULT_TOWER,
    Access,
    Insecure,
    Key,
    LogFormat,
    LogLevel,
    Metrics,
    ShutdownMs,
    Web,
    between_processes,
    entered,
    observed,
)
from dafka.node.tower import Tower
from dafka.process.logs import LineFormat, set_up_logs
from dafka.process.signals import SHUTDOWN_MS, end_within, run_until_told

log = logging.getLogger(__name__)


def tower(
    endpoint: Annotated[
        str,
        typer.Option(
            callback=between_processes,
            help="Where beacons come in, tcp://HOST:PORT or ipc:///PATH; it publishes on the next "
            "port, or at PATH.out.",
        ),
    ] = DEFAULT_TOWER,
    access: Access = None,
    key: Key = None,
    insecure: Insecure = False,
    metrics: Metrics = None,
    web: Web = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = LineFormat.TEXT,
    shutdown_ms: ShutdownMs = SHUTDOWN_MS,
) -> None:
    """Run a tower: the place where a cluster's nodes find each other.

    Example: dafka tower --endpoint tcp://127.0.0.1:5556
    """
    set_up_logs(log_level, log_format)
    health = observed(metrics, web)
    with Tower(entered(endpoint, access=access, key=key, insecure=insecure)) as running:
        log.info("tower is up", extra={"endpoint": endpoint})
        health.watch(running)
        run_until_told(running)
        end_within(shutdown_ms)
