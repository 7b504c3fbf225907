"""`distributor schemas`: schemas from the primary's registry to all others."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType

from dafka.cli.options import LogFormat, LogLevel, Metrics, ShutdownMs, Web, observed
from dafka.errors import MisuseError
from dafka.process.logs import LineFormat, set_up_logs
from dafka.process.signals import SHUTDOWN_MS, end_within, run_until_told
from distributor.cli.called import cluster_of, refuse_beside_replicas
from distributor.cli.options import File, Json
from distributor.loading import load
from distributor.schemas.difference import SchemaDiff, SchemaDifference
from distributor.schemas.difference import diff as compare
from distributor.schemas.node import SchemaNode
from distributor.schemas.promotion import promote as make_primary
from distributor.schemas.site import Site, sites_of
from topology.output import Columns, column, fields_of, number, open_console, print_json, table
from topology.terminal import say

log = logging.getLogger(__name__)

SHOWN_MAX = 50
"""Differences that are printed; `--json` has all."""

schemas = typer.Typer(invoke_without_command=True, add_completion=False)


@schemas.callback()
def run(
    context: typer.Context,
    topology: Annotated[Path | None, typer.Option(help="The topology, a YAML file.")] = None,
    cluster: Annotated[str, typer.Option(help="The cluster whose distributor this is.")] = "",
    metrics: Metrics = None,
    web: Web = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = LineFormat.TEXT,
    shutdown_ms: ShutdownMs = SHUTDOWN_MS,
) -> None:
    """Copy schemas to all other registries while this cluster is the primary, until told to stop.

    Run one for each cluster with a registry: the others stand by. Where the file names replicas of
    the cluster these do it: this command is refused then.

    Example: distributor schemas --topology config/schemas.yaml --cluster cluster-1
    """
    if context.invoked_subcommand is not None:
        return
    if topology is None or not cluster:
        raise MisuseError("distributor schemas needs --topology and --cluster, or a subcommand")
    set_up_logs(log_level, log_format)
    declared = load(topology)
    spec = cluster_of(declared, cluster, topology)
    refuse_beside_replicas(spec, "distributor schemas", topology)
    health = observed(metrics, web)
    with ExitStack() as opened:
        node = SchemaNode(declared, cluster)
        opened.callback(node.close)
        log.info("schema distributor is up", extra={"cluster": cluster})
        health.watch(node)
        run_until_told(node)
        end_within(shutdown_ms)


@schemas.command()
def diff(file: File, json_lines: Json = False) -> None:
    """Compare all registries with the primary's, each in its own spelling.

    Exit code 1 if they differ or one does not answer. What was registered in the last second may
    not be everywhere yet.

    Example: distributor schemas diff config/schemas.yaml
    """
    with ExitStack() as opened:
        found = compare(_opened(file, opened))
    if json_lines:
        print_json({"equal": found.equal, **fields_of(found)})
    else:
        open_console().print(Group(*_diff_view(found)))
    if not found.equal:
        raise typer.Exit(1)


@schemas.command()
def promote(
    file: File,
    cluster: Annotated[str, typer.Option(help="Where schemas are registered from now on.")],
    force: Annotated[
        bool, typer.Option("--force", help="Do it although not all clusters answer.")
    ] = False,
    json_lines: Json = False,
) -> None:
    """Make another cluster the primary: schemas are registered there, and nowhere else.

    The old primary is told first. With --force it need not answer; it goes on until it hears of the
    new one, and no id is given twice meanwhile. May be repeated.

    Example: distributor schemas promote config/schemas.yaml --cluster cluster-4
    """
    with ExitStack() as opened:
        done = make_primary(_opened(file, opened), cluster, force=force)
    if json_lines:
        print_json(done)
        return
    if done.before == cluster and not done.copied:
        before = "as before"
    else:
        before = f"instead of {done.before or 'none'}; {done.copied:,} decisions were copied to it"
    say(f"{cluster} is the primary since epoch {done.epoch}, {before}")
    for name in done.silent:
        say(f"{name} does not answer: it will hear of it when it does")


def _opened(file: Path, opened: ExitStack) -> list[Site]:
    sites = sites_of(load(file))
    if not sites:
        raise MisuseError(f"no cluster in {file} has a registry")
    for site in sites:
        opened.callback(site.close)
    return sites


CLUSTERS: Columns[tuple[str, int | str]] = (
    column("cluster", lambda one: one[0]),
    number("subjects", lambda one: one[1]),
)
"""Of those that do not answer, why."""


def _diff_view(found: SchemaDiff) -> list[RenderableType]:
    who = f"{found.primary} since epoch {found.epoch}" if found.primary else "none"
    clusters: list[tuple[str, int | str]] = [*found.clusters.items(), *found.unreachable.items()]
    view: list[RenderableType] = [f"primary: {who}", table(CLUSTERS, clusters)]
    if found.differences:
        columns: Columns[SchemaDifference] = (
            column("about"),
            column("cluster"),
            column("it has", lambda one: one.here or None),
            column(f"{found.reference} has", lambda one: one.there or None),
        )
        view.append(table(columns, found.differences[:SHOWN_MAX], "differences"))
        more = len(found.differences) - SHOWN_MAX
        if more > 0:
            view.append(f"and {more:,} more: --json has all")
    elif found.equal:
        view.append("equal: every registry says the same, with the same ids")
    return view + [f"not comparable, {what}: {count:,}" for what, count in found.skipped.items()]
