"""`distributor audit`: all clusters compared by content, by as many executors as there are."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dafka.cli.records import printable
from dafka.errors import MisuseError
from distributor.cli.options import File
from distributor.cli.spark import Conf, Engine, Master, refuse_unknown, session
from distributor.cli.view import COMPARED
from distributor.loading import load
from topology.output import Columns, column, console, number, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from distributor.spark.audit import Audit, AuditFinding

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
        Path, typer.Option(help="Directory for findings.parquet and report.txt.")
    ] = Path("data/audit"),
) -> None:
    """Compare the records of all clusters, and their copy flags with the tree, as a Spark job.

    Exit code 1 if something differs or a cluster does not answer. While records flow, the last of
    them may not be everywhere yet: they are found to be behind.

    Example: distributor audit --engine spark config/four-clusters.yaml
    """
    if engine is not Engine.SPARK:
        raise MisuseError("audit runs on spark; the native comparison is `distributor verify`")
    declared = load(file)
    refuse_unknown(declared)
    _make_ready(report)
    spark = session(master, f"audit {declared.name}", conf)
    from distributor.spark import audit as job

    try:
        found = job.audit(spark, declared, file.parent)
        table, differs = _view(found)
        wide = Console(width=120, record=True, file=StringIO())
        wide.print(*table)
        job.write_report(found, report, wide.export_text())
        console().print(*table)
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
    column("topic", lambda one: printable(one.topic)),
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
