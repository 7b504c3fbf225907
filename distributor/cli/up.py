"""`distributor up`: every process of a topology, supervised, with one live view."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from dafka.errors import MisuseError
from dafka.process.signals import reload_event, stop_event
from distributor.cli.forked import begin
from distributor.cli.look import as_good, status_view
from distributor.cli.options import DEFAULT_LOGS, File, Logs
from distributor.errors import PlanError
from distributor.loading import load
from distributor.local.pidfile import PidFile, find, forget, refuse_second
from distributor.local.processes import (
    processes_of,
    refuse_elsewhere,
    refuse_lacking,
    refuse_taken,
)
from distributor.local.supervisor import Supervisor
from distributor.operations.status import status_of
from topology import plan
from topology.errors import TopologyError
from topology.extras import MissingExtraError
from topology.output import Columns, column, number, open_console, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from threading import Event
    from typing import Self

    from rich.console import RenderableType

    from distributor.local.supervisor import Child
    from distributor.operations.status import (
        Status,
    )
    from topology.plan import Plan

STATUS_INTERVAL_S = 2.0
"""How often the clusters are asked: it costs them a look at every head."""


def up(file: File, logs: Logs = DEFAULT_LOGS) -> None:
    """Run every tower, store and distributor of a topology on this machine.

    All its hosts must be this machine's. A process that dies is started again. Ctrl-C stops all:
    distributors, stores, towers. On SIGHUP the file is read again: only processes it changes are
    stopped, started, or started again; if it may not be used, everything stays as it is.

    Example: distributor up config/four-clusters.yaml
    """
    the_plan = plan(load(file))
    told, reload = stop_event(), reload_event()
    supervisor = supervisor_of(the_plan, file, logs)
    console = open_console(stderr=True)
    supervisor.start()
    PidFile.of(file).note(logs)
    up_now = f"{len(supervisor.children)} processes are up, logs in {logs}"
    console.print(up_now, markup=False, highlight=False, soft_wrap=True)
    try:
        while not told.is_set():
            watch(the_plan, supervisor, console, told, reload)
            if reload.is_set():
                reload.clear()
                the_plan = reloaded(file, the_plan, supervisor, console, logs)
    finally:
        forget(logs)
        console.print("stopping: towers last")
        supervisor.stop()


def supervisor_of(the_plan: Plan, file: Path, logs: Path) -> Supervisor:
    """What runs every process of a plan, none started yet.

    Raises:
        PlanError: They must not be started here.
        MissingExtraError: An extra that one of them needs is not installed.
    """
    processes = processes_of(the_plan, file)
    refuse_elsewhere(the_plan.topology)
    refuse_lacking(processes)
    refuse_second(logs)
    refuse_taken(the_plan)
    return Supervisor(processes, logs, begin=begin)


def reloaded(file: Path, old: Plan, supervisor: Supervisor, console: Console, logs: Path) -> Plan:
    """Read the file again and run what it says; returns the plan that holds from now on."""
    try:
        new = plan(load(file))
        refuse_elsewhere(new.topology)
        processes = processes_of(new, file)
        refuse_lacking(processes)
    except (TopologyError, MisuseError, PlanError, MissingExtraError) as error:
        console.print(f"{file} may not be used, nothing is changed: {error}", markup=False)
        replace(find(logs), problem=str(error)).note(logs)
        return old
    running = PidFile.of(file)
    changes = supervisor.apply(processes)
    console.print(f"{file} is read again: {changes}", markup=False)
    running.note(logs)
    return new


def watch(
    the_plan: Plan,
    supervisor: Supervisor,
    console: Console,
    told: Event,
    reload: Event | None = None,
) -> None:
    """Keep the processes alive and show them, until told to stop or to read the file again.

    On a terminal one picture is kept up to date; elsewhere every death is a line.
    """
    live = Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext()
    with live as picture, _StatusPoll(the_plan) as asked:
        while not told.wait(0.25) and not (reload and reload.is_set()):
            for child in supervisor.watch():
                where = supervisor.log_file(child)
                line = f"{child.process.name} has died: {child.last_exit}, see {where}"
                console.print(line, markup=False, soft_wrap=True)
            if picture is not None:
                picture.update(up_view(supervisor.children, asked.latest()), refresh=True)


class _StatusPoll:
    """The status of a topology, asked for in a thread: a store that does not answer takes seconds.

    Meanwhile processes that have died are started again.
    """

    def __init__(self, the_plan: Plan) -> None:
        self._plan = the_plan
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="status")
        self._asking: Future[Status] | None = None
        self._latest: Status | None = None
        self._due_s = 0.0

    def latest(self) -> Status | None:
        """What was found last; asks again when it is time."""
        if self._asking is not None and self._asking.done():
            self._latest, self._asking = self._asking.result(), None
            self._due_s = time.monotonic() + STATUS_INTERVAL_S
        if self._asking is None and time.monotonic() >= self._due_s:
            self._asking = self._pool.submit(status_of, self._plan)
        return self._latest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def up_view(children: Sequence[Child], status: Status | None) -> RenderableType:
    """The live view of `distributor up`."""
    parts: list[RenderableType] = [table(PROCESSES, children, "processes")]
    if status is not None:
        parts.append(status_view(status))
    parts.append(Text("Ctrl-C stops everything in order", style="dim"))
    return Group(*parts)


def _restarts(child: Child) -> str:
    return f"{child.restarts} ({child.last_exit})" if child.restarts else "0"


PROCESSES: Columns[Child] = (
    column("process", lambda child: child.process.name),
    column("kind", lambda child: child.process.kind.value),
    column("state", lambda child: as_good(child.state, child.running is not None)),
    column("metrics", lambda child: child.process.metrics or ""),
    number("pid", lambda child: "" if child.running is None else str(child.running.pid)),
    number("restarts", _restarts),
)
