"""What the commands that run Spark jobs share: the session, progress."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dafka.errors import MisuseError
from dafka.plural import counted
from dafka.process.signals import run_until_told, stop_event
from distributor.errors import ProcessError
from topology.output import open_console
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from dafka.process.signals import LongRunning
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
            beside = _beside(_at_driver(declared, links[0].source), links, stack)
            run_until_told(*jobs, *beside)


def _beside(declared: Topology, links: Sequence[Link], stack: ExitStack) -> list[LongRunning]:
    """What goes on beside a link's records, whatever copies these: positions, and heartbeats."""
    # What only asks for a session need not wait for them.
    from distributor.control.flow_work import OffsetsFlow
    from distributor.operations.heartbeat import heartbeat_of

    running: list[LongRunning] = []
    for link in links:
        positions = OffsetsFlow(declared, link, permitted=True)
        stack.callback(positions.close)
        running.append(positions)
    beats = heartbeat_of(declared, links[0].source, links[0].level)
    if beats is not None:
        stack.callback(beats.close)
        running.append(beats)
    return running


def _at_driver(declared: Topology, cluster: str) -> Topology:
    """The topology as the driver knows it, which may be on another host than its cluster.

    Raises:
        ProcessError: There is no way from here to its towers.
    """
    from dafka.spark.staging import own_host
    from distributor.cli.called import on_own_host

    spec = declared.cluster(cluster)
    try:
        host = own_host(spec.towers[0])
    except OSError as error:
        raise ProcessError(f"there is no way to tower {spec.towers[0]}: {error}") from error
    return on_own_host(declared, spec, f"{host}:0")


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
    parted = [f"{topic} {address}" for job in jobs for topic, address in job.parted]
    if parted:
        raise ProcessError(
            f"{counted(len(parted), 'partition')} {'was' if len(parted) == 1 else 'were'} not "
            f"copied, as both ends hold other records under the same name: {parted[0]}; "
            "`distributor verify --deep` shows where"
        )
