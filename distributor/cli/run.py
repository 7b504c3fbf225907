"""`distributor run`: the distributor of one cluster and level."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dafka.cli.options import LogFormat, LogLevel, Metrics, ShutdownMs, Web, observed
from dafka.errors import MisuseError
from dafka.model import PartitionShare
from dafka.process.logs import LineFormat, set_up_logs
from dafka.process.memory import collect_rarely, keep_freed_memory
from dafka.process.signals import SHUTDOWN_MS, LongRunning, end_within, run_until_told
from distributor.cli.called import (
    called_distributors,
    called_share,
    on_own_host,
    refuse_beside_replicas,
)
from distributor.cli.options import Conf, Engine, Master
from distributor.control.agent import ControlServer, SteeredLink
from distributor.control.writer_watch import WriterWatch
from distributor.loading import load
from distributor.local.processes import control_endpoint
from distributor.operations.heartbeat import heartbeat_of

if TYPE_CHECKING:
    from topology.model import Topology
    from topology.plan import Distributor

log = logging.getLogger(__name__)


def run(
    topology: Annotated[Path, typer.Option(help="The topology, a YAML file.")],
    cluster: Annotated[str, typer.Option(help="The cluster to copy from.")],
    level: Annotated[int, typer.Option(help="The tree level to copy across.")],
    conf: Conf,
    share: Annotated[
        str | None,
        typer.Option(help="Which share of the links, I/N from 0/N on, where the file has N."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Interface its nodes bind, if it is not on its cluster's host."),
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="native: a process of its own; spark: a Spark job.")
    ] = Engine.NATIVE,
    master: Master = "local[*]",
    available_now: Annotated[
        bool,
        typer.Option("--available-now", help="spark: copy what is there now, with progress; end."),
    ] = False,
    metrics: Metrics = None,
    web: Web = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = LineFormat.TEXT,
    shutdown_ms: ShutdownMs = SHUTDOWN_MS,
) -> None:
    """Copy one cluster's records across one level, until told to stop.

    Where the file names replicas of the cluster these do it: this command is refused then.

    Example: distributor run --topology config/four-clusters.yaml --cluster cluster-1 --level 3
    """
    set_up_logs(log_level, log_format)
    keep_freed_memory()
    collect_rarely()
    declared = load(topology)
    called = called_distributors(declared, cluster, level, topology)
    refuse_beside_replicas(declared.cluster(cluster), "distributor run", topology)
    if host is not None:
        declared = on_own_host(declared, declared.cluster(cluster), f"{host}:0")
    if engine is Engine.SPARK:
        _refuse_in_spark(metrics, share)
        # A link without Spark need not wait for what shows the progress of a job.
        from distributor.cli.spark import run_links

        run_links(
            declared,
            topology.parent,
            called[0].links,
            master=master,
            conf=conf,
            available_now=available_now,
        )
        return
    if available_now:
        raise MisuseError("--available-now needs --engine spark")
    distributor = called_share(called, share, topology)
    health = observed(metrics, web)
    with ExitStack() as stack:
        running = _begun(declared, distributor, stack)
        health.watch(*running)
        run_until_told(*running)
        end_within(shutdown_ms)


def _begun(declared: Topology, distributor: Distributor, stack: ExitStack) -> list[LongRunning]:
    """Begin what a distributor does; it ends with the stack."""
    watch = WriterWatch(declared)
    stack.callback(watch.close)
    share = PartitionShare(distributor.share, distributor.shares)
    nodes: list[SteeredLink] = []
    for link in distributor.links:
        node = SteeredLink(declared, link, permitted=False, share=share)
        stack.callback(node.close)
        nodes.append(node)
    running: list[LongRunning] = [*nodes]
    if share.number == 0:
        beats = heartbeat_of(declared, distributor.cluster, distributor.level)
        if beats is not None:
            stack.callback(beats.close)
            running.append(beats)
    endpoint = control_endpoint(declared, distributor)
    if endpoint:
        stack.callback(ControlServer(endpoint, nodes).close)
    for node, link in zip(nodes, distributor.links, strict=True):
        node.permit()  # who cannot be told to stop has copied nothing
        node.stand(watch)  # once its socket is its own: a second one here supersedes nobody
        facts = {"source": link.source, "target": link.target, "level": link.level}
        if share.of > 1:
            facts["share"] = f"{share.number}/{share.of}"
        log.info("link is up", extra=facts)
    return running


def _refuse_in_spark(metrics: str | None, share: str | None) -> None:
    if metrics is not None:
        raise MisuseError("--metrics needs --engine native: Spark serves its own")
    if share is not None:
        raise MisuseError("--share needs --engine native: a Spark job divides links by itself")
