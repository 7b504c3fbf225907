"""`dafka tower` and `dafka store`: processes that run until they are told to stop."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from dafka.cli.options import (
    DEFAULT_QUERY,
    DEFAULT_TOWER,
    Host,
    LogFormat,
    LogLevel,
    Metrics,
    ShutdownMs,
    Towers,
)
from dafka.node.health import Health, serve_health
from dafka.node.logs import Format, set_up_logs
from dafka.node.memory import keep_freed_memory
from dafka.node.running import SHUTDOWN_MS, end_within, run_until_told
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.storage.lmdb_log import Durability

log = logging.getLogger(__name__)


def tower(
    endpoint: Annotated[
        str, typer.Option(help="Where beacons come in; it publishes on the next port.")
    ] = DEFAULT_TOWER,
    metrics: Metrics = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = Format.TEXT,
    shutdown_ms: ShutdownMs = SHUTDOWN_MS,
) -> None:
    """Run a tower: the place where a cluster's nodes find each other.

    Example: dafka tower --endpoint tcp://127.0.0.1:5556
    """
    set_up_logs(log_level, log_format)
    health = Health()
    if metrics is not None:
        serve_health(metrics, health)
    with Tower(endpoint) as running:
        log.info("tower is up", extra={"endpoint": endpoint})
        health.watch(running)
        run_until_told(running)
        end_within(shutdown_ms)


def store(
    data: Annotated[Path, typer.Option(help="Directory of the log; made if it is not there.")],
    tower: Towers,
    query: Annotated[str, typer.Option(help="Where the query port listens.")] = DEFAULT_QUERY,
    host: Host = "127.0.0.1",
    durability: Annotated[
        Durability,
        typer.Option(help="fsync: an ACK survives power loss; os: only the process's death."),
    ] = Durability.FSYNC,
    metrics: Metrics = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = Format.TEXT,
    shutdown_ms: ShutdownMs = SHUTDOWN_MS,
) -> None:
    """Run a store: it keeps every record of its cluster and answers questions about them.

    Example: dafka store --data data/store-1 --tower tcp://127.0.0.1:5556
    """
    set_up_logs(log_level, log_format)
    keep_freed_memory()
    health = Health()
    if metrics is not None:
        serve_health(metrics, health)
    with Store(data, tower, query=query, host=host, durability=durability) as running:
        log.info("store is up", extra={"address": running.address, "query": query})
        health.watch(running)
        run_until_told(running)
        end_within(shutdown_ms)
