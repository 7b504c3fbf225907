"""`dafka gateway`: a port for Kafka clients."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from dafka.cli import gateway_looks
from dafka.cli.command import by_default
from dafka.cli.ledger import ledger
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
)
from dafka.errors import MisuseError
from dafka.model import is_loopback
from dafka.node.kafka_server import KafkaServer
from dafka.node.users_file import UsersFile
from dafka.process.logs import LineFormat, set_up_logs
from dafka.process.memory import collect_rarely, keep_freed_memory
from dafka.process.signals import SHUTDOWN_MS, end_within, run_until_told
from dafka.transport.binding import Binding
from dafka.wire.dialect import DEFAULT_DIALECT

log = logging.getLogger(__name__)

DEFAULT_LISTEN = "127.0.0.1:9092"
"""The port that Kafka has."""


gateway = typer.Typer(
    cls=by_default("run"),
    add_completion=False,
    help="Run a port for Kafka clients, or look at those that run, and into their ledgers.\n\n"
    "`dafka gateway --cluster NAME` is the same as with `run`.\n\n"
    "Example: dafka gateway --cluster cluster-1 --tower tcp://127.0.0.1:5556",
)
gateway.add_typer(ledger, name="ledger")
for look in (
    gateway_looks.status,
    gateway_looks.topics,
    gateway_looks.groups,
    gateway_looks.connections,
):
    gateway.command()(look)


@gateway.command("run")
def run_gateway(
    cluster: Annotated[str, typer.Option(help="The cluster's name; clients are told it.")],
    tower: Towers,
    store: AllStores,
    listen: Annotated[
        str, typer.Option(help="Where Kafka clients come, HOST:PORT.")
    ] = DEFAULT_LISTEN,
    advertised_listener: Annotated[
        str | None, typer.Option(help="Where they reach it, HOST:PORT, if not there.")
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(help="File of who may log in, kafka.toml as `dafka keys` makes it."),
    ] = None,
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
    """Run a gateway: Kafka clients produce and fetch here what the cluster stores.

    Example: dafka gateway --cluster cluster-1 --tower tcp://127.0.0.1:5556
    """
    place = _listener(listen)
    known_users = None if users is None else UsersFile(users)
    if not (is_loopback(place[0]) or insecure or known_users is not None):
        raise MisuseError(
            f"cannot listen at {listen!r}: anybody could write; name who may log in by --users "
            "(dafka keys NAME --kafka), or add --insecure if only those reach it who may"
        )
    reached_at = None if advertised_listener is None else _listener(advertised_listener)
    set_up_logs(log_level, log_format)
    _warn_of_open_passwords(place[0], known_users)
    keep_freed_memory()
    collect_rarely()
    health = observed(metrics, web)
    way = ClusterArguments(
        name=cluster, host=host, advertise=advertise, insecure=insecure, wire=wire
    )
    known = entered(tower, store, access=access, key=key, **way)
    with KafkaServer(known, *place, reached_at, known_users) as running:
        log.info("gateway is up", extra={"address": running.node.address, "listen": listen})
        health.watch(running)
        health.show(running.pages)
        run_until_told(running)
        end_within(shutdown_ms)


def _warn_of_open_passwords(host: str, users: UsersFile | None) -> None:
    if users is not None and users.users.certificate is None and not is_loopback(host):
        log.warning(
            "passwords and records cross the network as they are: name a certificate in the users "
            "file, unless something before it does TLS",
            extra={"listen": host},
        )


def _listener(text: str) -> tuple[str, int]:
    place = Binding.parse(text)
    if place.scheme != "tcp" or not place.port:
        raise MisuseError(f"listener {text!r} cannot be used: expected HOST:PORT")
    return place.host, place.port
