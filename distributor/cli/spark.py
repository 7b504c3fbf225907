"""What the commands that run Spark jobs share: the session, progress."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dafka.errors import MisuseError
from dafka.process.signals import run_until_told, stop_event
from topology.output import open_console
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from dafka.spark.session import SparkSession
    from distributor.spark.link_job import LinkJob
    from topology import Link, Topology

_LOOK_S = 0.5


def session(master: str, name: str, conf: Iterable[str]) -> SparkSession:
    """Open a session for one of our jobs.

    Raises:
        MissingExtraError: Spark is not installed.
        MisuseError: Java is not installed, or a setting is not NAME=VALUE.
    """
    from dafka.spark.session import open_session
    from distributor.spark import register

    settings = {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            raise MisuseError(f"--conf must be NAME=VALUE, got {setting!r}")
        settings[key] = value
    opened = open_session(master, name, settings)
    register(opened)
    return opened


def run_links(
    declared: Topology,
    directory: Path,
    links: Sequence[Link],
    *,
    master: str,
    conf: Iterable[str],
    available_now: bool,
) -> None:
    """Run links as Spark jobs, until told to stop or until everything is copied.

    Raises:
        MissingExtraError: There is no Spark.
        MisuseError: It cannot be used as asked.
        ProcessError: A backfill has failed too often.
    """
    name = f"distributor {links[0].source} level {links[0].level}"
    spark = session(master, name, conf)
    from distributor.spark.link_job import LinkJob

    with ExitStack() as stack:
        stack.callback(spark.stop)
        jobs = [
            LinkJob(spark, declared, link, directory=directory, available_now=available_now)
            for link in links
        ]
        for job in jobs:
            stack.callback(job.close)
        if available_now:
            _backfill(jobs, links)
        else:
            run_until_told(*jobs)


def _backfill(jobs: Sequence[LinkJob], links: Sequence[Link]) -> None:
    told = stop_event()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=open_console(stderr=True)) as progress:
        bars = [progress.add_task(f"{link.source} to {link.target}", total=None) for link in links]
        left = list(zip(jobs, links, bars, strict=True))
        while left and not told.is_set():
            for job, link, bar in [*left]:
                done = job.join(_LOOK_S)
                name = f"{link.source} to {job.target}"
                total = max(job.copied, job.total())
                progress.update(bar, description=name, completed=job.copied, total=total)
                if done:
                    progress.update(bar, total=job.copied)
                    left.remove((job, link, bar))
    for job, link in zip(jobs, links, strict=True):
        say(f"{link.source} to {job.target}: {job.copied:,} records read")
