"""`distributor verify` and `audit`: all clusters compared, and what is missing brought."""

from __future__ import annotations

import time
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.text import Text

from dafka.cli.options import Metrics, Web, observed
from dafka.errors import MisuseError
from dafka.plural import counted
from dafka.process.clock import wall_ms
from dafka.process.signals import stop_event
from distributor.cli.options import Conf, Engine, File, Json, Master
from distributor.cli.spark import session
from distributor.loading import load
from distributor.verify.compare import SETTLE_S
from distributor.verify.compare import verify as compare
from distributor.verify.meter import AuditMeter
from distributor.verify.repair import Repair
from distributor.verify.repair import repair as bring
from distributor.verify.verdict import Verdict
from topology import Topology
from topology.bars import bar
from topology.output import Columns, column, fields_of, number, open_console, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from distributor.spark.audit import Audit, AuditFinding
    from distributor.verify.verdict import Verdict


def verify(
    file: File,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare contents too, by digests of record ranges.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Copy what is missing from clusters that have it; deep."),
    ] = False,
    settle: Annotated[
        float,
        typer.Option(min=0, max=3_600, help="Seconds that records may take to arrive everywhere."),
    ] = SETTLE_S,
    host: Annotated[
        str,
        typer.Option(
            help="repair: interface of this machine, if it is not the cluster's own host."
        ),
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Compare again and again.")] = False,
    interval: Annotated[
        float, typer.Option(min=1, max=604_800, help="watch: seconds from begin to begin.")
    ] = 300.0,
    metrics: Metrics = None,
    web: Web = None,
    json_lines: Json = False,
) -> None:
    """Compare all clusters, and their stores: all must have what any had at the start.

    Records may flow meanwhile. Exit codes: 0 equal, or repaired; 1 records are missing (--repair
    can bring them); 2 the call cannot be used; 3 histories differ, are damaged, or what is missing
    is kept by nobody; 4 a cluster or store does not answer. The gravest counts: 3, 4, 1. With
    --watch it ends with 0 when told to.

    Example: distributor verify config/four-clusters.yaml --deep
    """
    if watch and repair:
        raise MisuseError("--watch only looks: run --repair by itself")
    if metrics is not None and not watch:
        raise MisuseError("--metrics needs --watch")
    topology = load(file)
    if watch:
        _watch(topology, _Watching(deep, settle, interval, metrics, web, json_lines))
        return
    with bar("comparing") as progress:
        verdict = compare(topology, deep=deep or repair, settle_s=settle, progress=progress)
    repaired = Repair()
    if repair and verdict.differences:
        with bar("repairing") as progress:
            repaired = bring(topology, verdict.differences, host=host, progress=progress)
        verdict = _again(topology, verdict, repaired, settle)
    _print(verdict, repaired, json_lines)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def _again(topology: Topology, verdict: Verdict, repaired: Repair, settle_s: float) -> Verdict:
    """What is left to say once the partitions that were repaired have been compared again."""
    fresh = compare(topology, deep=True, settle_s=settle_s, only=repaired.partitions)
    verdict.clusters = compare(topology, settle_s=0).clusters
    verdict.unreachable = list(dict.fromkeys(verdict.unreachable + fresh.unreachable))
    verdict.differences = [
        one for one in verdict.differences if one.partition not in repaired.partitions
    ]
    verdict.add(fresh.differences)
    verdict.records += fresh.records
    verdict.repaired = repaired.records
    return verdict


def _print(verdict: Verdict, repaired: Repair, json_lines: bool) -> None:
    if json_lines:
        print_json({"equal": verdict.equal, **fields_of(verdict), "left": repaired.left})
    else:
        open_console().print(verdict_view(verdict, repaired.left))


@dataclass(frozen=True, slots=True)
class _Watching:
    """How to watch; see the options."""

    deep: bool
    settle_s: float
    interval_s: float
    metrics: str | None
    web: Path | None
    json_lines: bool


def _watch(topology: Topology, how: _Watching) -> None:
    """Compare until told to stop; between and within comparisons."""
    told = stop_event()
    audit = _Audit()
    if how.metrics is not None:
        observed(how.metrics, how.web).watch(audit)
    meter = AuditMeter(topology.name, [cluster.name for cluster in topology.clusters])
    while not told.is_set():
        began = time.monotonic()
        verdict = compare(topology, deep=how.deep, settle_s=how.settle_s, stopped=told.is_set)
        if told.is_set():
            return  # a part of a comparison proves nothing
        meter.compared(verdict, time.monotonic() - began, wall_ms())
        audit.done = True
        _print(verdict, Repair(), how.json_lines)
        told.wait(max(0.0, how.interval_s - (time.monotonic() - began)))


class _Audit:
    """The audit, as `/health` and `/ready` see it."""

    done = False

    def join(self, timeout: float) -> bool:
        """It ends only when it is told to."""
        time.sleep(timeout)
        return False

    def unwell(self) -> str:
        """What is wrong with clusters is no fault of the audit's."""
        return ""

    def unready(self) -> str:
        """Whether a comparison is done."""
        return "" if self.done else "no comparison is done yet"


DIFFERENCES_SHOWN_MAX = 20
"""More would scroll the summary away; --json has them all."""


COMPARED: Columns[tuple[str, int | None]] = (
    column("cluster", lambda one: one[0]),
    number("records", lambda one: one[1]),
)


def verdict_view(verdict: Verdict, left: Sequence[str] = ()) -> RenderableType:
    """Records per cluster, what differs, and what a repair has left alone."""
    compared = table(COMPARED, verdict.clusters.items(), "clusters compared")
    parts: list[RenderableType] = [compared]
    if verdict.repaired:
        parts.append(Text(f"repaired: {counted(verdict.repaired, 'record')} brought"))
    parts += [Text(line, style="yellow") for line in left[:DIFFERENCES_SHOWN_MAX]]
    if verdict.equal:
        parts.append(Text(_equal(verdict), style="green"))
        return Group(*parts)
    problems = verdict.problems
    lines = problems[:DIFFERENCES_SHOWN_MAX]
    more = len(problems) - len(lines) + verdict.more
    if more:
        lines.append(f"and {more:,} more: see --json")
    return Group(*parts, *(Text(line, style="red") for line in lines))


def _equal(verdict: Verdict) -> str:
    what = "heads"
    if verdict.deep:
        what = f"heads and contents; {counted(verdict.records, 'record')} read"
    sentence = f"equal: {counted(verdict.partitions, 'partition')}, {what}"
    if verdict.shortened:
        sentence += f"; {counted(verdict.shortened, 'partition')} from the log start on"
    return sentence


SHOWN_MAX = 50
"""Findings that are printed; the report in Parquet has all."""


def audit(
    file: File,
    conf: Conf,
    engine: Annotated[
        Engine, typer.Option(help="spark; the native comparison is `distributor verify`.")
    ] = Engine.SPARK,
    master: Master = "local[*]",
    report: Annotated[
        str,
        typer.Option(
            help="Where findings.parquet and report.txt go: a directory here, or a URI that Spark "
            "writes to."
        ),
    ] = "data/audit",
) -> None:
    """Compare the records of all clusters, and their copy flags with the tree, as a Spark job.

    Exit code 1 if something differs or a cluster does not answer. While records flow, the last of
    them may not be everywhere yet: they are found to be behind.

    Example: distributor audit --engine spark config/four-clusters.yaml
    """
    if engine is not Engine.SPARK:
        raise MisuseError("audit runs on spark; the native comparison is `distributor verify`")
    declared = load(file)
    elsewhere = "://" in report
    if not elsewhere:
        _make_ready(Path(report))
    spark = session(master, f"audit {declared.name}", conf)
    from distributor.spark import audit as job

    try:
        if elsewhere:
            job.check_writable(spark, report)
        found = job.audit(spark, declared, file.parent)
        table, differs = _view(found)
        wide = Console(width=120, record=True, file=StringIO())
        wide.print(*table)
        if elsewhere:
            job.write_report_at(found, report, wide.export_text())
        else:
            job.write_report(found, Path(report), wide.export_text())
        open_console().print(*table)
    finally:
        spark.stop()
    if differs:
        raise typer.Exit(1)


def _make_ready(report: Path) -> None:
    """Make the directory, and see that it takes files: the job may run for hours before."""
    try:
        report.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=report).close()
    except OSError as error:
        raise MisuseError(
            f"cannot write to {str(report)!r}: {error.strerror}; say another --report"
        ) from error


FINDINGS: Columns[AuditFinding] = (
    column("kind"),
    column("cluster"),
    column("topic"),
    column("partition", lambda one: one.partition[:8]),
    number("first"),
    number("last"),
    number("records"),
)


def _view(found: Audit) -> tuple[list[RenderableType], bool]:
    """What to print, and whether anything differs."""
    clusters = table(COMPARED, found.records.items(), "clusters compared")
    findings = found.first_findings(SHOWN_MAX + 1)
    if not findings:
        equal = "equal: every record is everywhere, once, and came a way the tree has"
        return [clusters, equal], False
    shown = table(FINDINGS, findings[:SHOWN_MAX], "not as it should be")
    view: list[RenderableType] = [clusters, shown]
    if len(findings) > SHOWN_MAX:
        view.append("and more: see findings.parquet")
    if found.equal:
        view.append("equal, but for what retention has taken")
    return view, not found.equal
