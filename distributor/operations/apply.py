"""Taking the steps of `topology.diff` on a running topology.

A step is looked at until it is done; looking again, or by another process, does no harm. So a
change that was interrupted is gone on with by beginning it again.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dafka.errors import DafkaError, QueryError, StorageError
from dafka.process.clock import CLOCK
from dafka.storage.environment import DirectoryLock, sync_directory
from distributor.control.client import ControlClient
from distributor.control.demands import LevelPause
from distributor.errors import CommandError, DistributorError, PlanError
from distributor.link.node import carried_by
from distributor.loading import load
from distributor.local.pidfile import digest_of, find, write_whole
from distributor.local.processes import control_endpoints
from distributor.operations.arrival import lacked, lacks, left_on_disks
from distributor.operations.draining import Draining
from distributor.operations.replicas import ask_replicas, paused_levels, unpaused
from distributor.operations.slots import beyond, let_join, move_slots, still_moving
from distributor.survey import furthest, survey
from topology.diff import Action, Change, Step, diff, remaining
from topology.plan import Plan, plan
from topology.transition import all_keep_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dafka.model import Partition
    from dafka.process.clock import Clock
    from dafka.query.slot_mover import Had
    from distributor.control.protocol import LinkRow
    from distributor.survey import Holding
    from topology.model import ClusterSpec, StoreSpec, Topology
    from topology.plan import Link

LOCK = "apply.pid"
"""In the directory of the logs: who applies."""


@contextmanager
def alone(logs: Path) -> Iterator[None]:
    """Keep other `distributor apply` from what an `up` runs: each judges what may follow that.

    Args:
        logs: Of that `up`.

    Raises:
        PlanError: Nothing runs.
        CommandError: Another one is under way.
    """
    find(logs)
    try:
        lock = DirectoryLock(logs, "what is applied", LOCK)
    except StorageError as error:
        raise CommandError(f"{error}: one at a time, wait for that `distributor apply`") from error
    try:
        yield
    finally:
        lock.release()


class Applying:
    """One change of a running topology.

    Args:
        logs: Of the `distributor up` that runs.
        file: What is to run.
        turn: Lets the controller in charge of a cluster aim its links of a level at a target.
        pause: Lets it pause them, or go on with them.
        clock: Says how long no producer has published.

    Raises:
        PlanError: Nothing runs, or the file cannot take the place of the one that runs.
        TopologyError: One of the files may not be used.
    """

    def __init__(
        self,
        logs: Path,
        file: Path,
        turn: Callable[[ClusterSpec, int, str], object],
        pause: Callable[[ClusterSpec, LevelPause], object],
        clock: Clock = CLOCK,
    ) -> None:
        self._turn, self._pause = turn, pause
        self._draining = Draining(clock.seconds)
        self._had: Had = {}
        self._logs = logs
        self._running = find(logs)
        self._place = Path(self._running.file)
        self._directory = Path(self._running.directory)
        self._octets = file.read_bytes()
        if file.resolve() == self._place:
            raise PlanError(f"{file} is what runs: write what is to run into another file")
        new = load(file)
        if file.resolve().parent != self._place.parent and any(
            cluster.security for cluster in new.clusters
        ):
            raise PlanError(f"{file} names key files: put it beside {self._place}")
        if new.control is not None:
            control = replace(new.control, base=str(self._place.parent))
            new = replace(new, control=control)  # where it will stand
        self._before = self._place.with_name(f".{self._place.name}.before")
        self._ran = self._place.read_bytes()
        """What the change was judged by."""
        switched = self._ran == self._octets
        old = load(self._before if switched and self._before.exists() else self._place)
        moving = self._moving = still_moving(new if switched else old)
        # What was judged when it was switched is not judged again: it has only to come to its end.
        self.change: Change = diff(old, new, () if switched else moving)
        self.steps = remaining(old, new, moving) if switched else self.change.steps
        self._plans = {False: plan(old), True: plan(new)}
        _refuse_deaf(self._plans[False], self.change.before)
        self._switched = switched
        self._paused: set[str] = set()
        self._turned: set[Step] = set()
        """What controllers have been told to aim elsewhere."""
        self._pauses: dict[tuple[str, int], bool] = {}
        """Levels of clusters that controllers are to pause, and whether they were before."""
        self._told_to_pause: set[tuple[str, int]] = set()
        """Those that they have said that they pause."""
        self._sent: dict[Link, dict[Partition, int]] = {}
        """What there was behind links when they were paused."""

    def look(self, step: Step) -> str:
        """Do what is to be done for a step now; returns what it waits for, empty if it is done.

        Raises:
            CommandError: A distributor does not obey, `up` may not use the file, or what runs is
                another than the change was judged by.
        """
        match step.action:
            case Action.RETARGET:
                return self._retarget(step)
            case Action.SILENCE:
                return self._draining.silence(self._topology, step)
            case Action.HOLD:
                return self._pause_controlled(step.level) or self._hold(step.level)
            case Action.SWITCH:
                waits_for = self._switch()
                if not waits_for:
                    self._pauses.clear()  # in the new file these levels are others
                return waits_for
            case Action.MOVE:
                return self._taken_out(step) or move_slots(self._topology.cluster(step.cluster))
            case Action.DRAIN:
                return self._draining.drain(self._topology, step)
            case Action.FILL:
                return self._draining.fill(self._topology, step)

    def finish(self) -> None:
        """All steps are taken."""
        self._before.unlink(missing_ok=True)

    def give_up(self) -> Iterator[str]:
        """Let go on what was paused for this change; says of each level what becomes of it.

        Once the new file is in place nothing is sent any more as the old one has it: its records
        would come behind those of the new one.
        """
        for (name, level), was_before in self._pauses.items():
            about = f"{name} level {level}"
            if was_before:
                cure = "distributor controller unpause lets it go on"
                yield f"{about} stays paused, as it was before: {cure}"
            elif self._place.read_bytes() == self._octets:
                yield f"{about} stays paused until the new file runs: give the command again"
            else:
                try:
                    cluster = self._topology.cluster(name)
                    self._pause(cluster, LevelPause(level, paused=False))
                except (DafkaError, DistributorError) as error:
                    yield (
                        f"{about} may stay paused ({error}): give the command again, or "
                        f"distributor controller unpause HOST:PORT --level {level}, at `listen` of "
                        f"a controller of {name}"
                    )
                else:
                    yield f"{about} goes on"

    @property
    def _drains(self) -> list[Step]:
        return [step for step in self.change.steps if step.action is Action.DRAIN]

    @property
    def _moves(self) -> list[Step]:
        return [step for step in self.change.steps if step.action is Action.MOVE]

    @property
    def _plan(self) -> Plan:
        return self._plans[self._switched]

    @property
    def _topology(self) -> Topology:
        return self._plan.topology

    def _endpoints(self, level: int, cluster: str = "") -> list[str]:
        if self._topology.control is None:
            raise PlanError("the topology that runs has no `control` sockets: see config/README.md")
        return [
            endpoint
            for distributor, endpoint in control_endpoints(self._plan)
            if distributor.level == level and cluster in ("", distributor.cluster)
        ]

    def _retarget_controlled(self, step: Step) -> str:
        """Tell the controller in charge once; wait until replicas say that it is so."""
        cluster, rows = self._topology.cluster(step.cluster), ask_replicas(self._plan).rows
        waiting = [
            link
            for link in self._plan.links
            if (link.source, link.level) == (step.cluster, step.level) and step.to in link.targets
            if link not in rows or rows[link].target != step.to
        ]
        if waiting and step not in self._turned:
            try:
                self._turn(cluster, step.level, step.to)
            except QueryError as error:
                return str(error)
            self._turned.add(step)
        return f"{step.cluster} level {step.level} to serve {step.to}" if waiting else ""

    def _retarget(self, step: Step) -> str:
        if self._topology.cluster(step.cluster).controlled:
            return self._retarget_controlled(step)
        able = {
            (link.branch, link.topics)
            for link in self._plan.links
            if (link.source, link.level) == (step.cluster, step.level) and step.to in link.targets
        }
        waiting: list[LinkRow] = []
        for endpoint in self._endpoints(step.level, step.cluster):
            with ControlClient(endpoint) as client:
                rows = [row for row in client.links() if (row.branch, row.topics) in able]
                late = [row for row in rows if row.target != step.to or row.stall_ms < 0]
                if any(step.to not in (row.target, row.next) for row in late):
                    client.retarget(step.to)
                waiting += late
        return "; ".join(row.waits_for or f"{row.target} to be left" for row in waiting)

    def _pause_controlled(self, level: int) -> str:
        """Have links paused that replicas run; wait until what they sent is everywhere behind them.

        It stays so until the file is switched, in which levels have another epoch.
        """
        clusters = self._topology.clusters
        controlled = {one.name: one for one in clusters if one.controlled}
        links = [one for one in self._plan.links if one.level == level and one.source in controlled]
        for name in dict.fromkeys(link.source for link in links):
            if waits_for := self._pause_at(controlled[name], level):
                return waits_for
        waiting = unpaused(self._plan, level)
        if waiting or not links:
            return next(iter(waiting), "")
        holdings = {one.cluster: one for one in survey(self._topology)}
        for link in links:
            beyond = [holdings[name] for name in link.beyond]
            if lacks := self._not_beyond(link, beyond):
                return lacks
        return ""

    def _pause_at(self, cluster: ClusterSpec, level: int) -> str:
        """Have a cluster's controllers pause a level, once; what is waited for before."""
        place = cluster.name, level
        if place in self._told_to_pause:
            return ""
        if place not in self._pauses:
            before = paused_levels(self._plan, cluster)
            if before is None:
                return f"a controller in charge of {cluster.name} to answer"
            self._pauses[place] = level in before  # first: whether it is kept may not be known
        try:
            self._pause(cluster, LevelPause(level, paused=True))
        except QueryError as error:
            return str(error)
        self._told_to_pause.add(place)
        return ""

    def _not_beyond(self, link: Link, beyond: list[Holding]) -> str:
        """Which of the clusters behind a link lacks something that one of them had."""
        silent = [one.cluster for one in beyond if one.store is None]
        if silent:
            return f"{', '.join(silent)} to answer"
        if link not in self._sent:
            carries = carried_by(self._topology, link)
            there = furthest(one.heads for one in beyond)
            self._sent[link] = {one: head for one, head in there.items() if carries(one.topic)}
        return lacks(self._topology, self._sent[link], beyond)

    def _hold(self, level: int) -> str:
        sources = {link.source for link in self._plan.links if link.level == level}
        if sources and all(self._topology.cluster(one).controlled for one in sources):
            return ""
        self._paused.update(self._endpoints(level))
        rows: list[LinkRow] = []
        for endpoint in sorted(self._paused):
            with ControlClient(endpoint) as client:
                rows += client.pause()
        waiting = [row for row in rows if row.state != "drained"]
        return (waiting[0].waits_for or f"{waiting[0].source} to hold") if waiting else ""

    def _switch(self) -> str:
        runs = self._place.read_bytes()
        if runs not in (self._octets, self._ran):
            raise CommandError(
                f"{self._place} was changed since this change was judged by it: give the command "
                "again"
            )
        if runs != self._octets:
            # Since they were drained somebody may have published: who does so rarely seems silent.
            drain = partial(self._draining.drain, self._topology)
            if waits_for := next(filter(None, map(drain, self._drains)), ""):
                return waits_for
            for step in self._moves:
                if waits_for := self._move_later(step):
                    return waits_for
            write_whole(self._before, runs)
            write_whole(self._place, self._octets)
        self._switched = True
        running = find(self._logs)
        if running.digest != digest_of(self._octets):
            if running.problem and running != self._running:
                raise CommandError(f"`distributor up` does not take the file: {running.problem}")
            # Who leaves lets go of what it has then: no power cut may bring the old file back, also
            # if whoever put the new one there was killed at once.
            sync_directory(self._place.parent)
            os.kill(running.pid, signal.SIGHUP)
            return "`distributor up` to read its file again"
        silent = [one.cluster for one in survey(self._topology) if one.store is None]
        if silent:
            return f"{', '.join(silent)} to answer"
        return next(filter(None, map(self._left_behind, self._drains)), "")

    def _left_behind(self, step: Step) -> str:
        """What a cluster that is stopped acknowledged at the last moment, if it is nowhere else."""
        if step.cluster in {one.name for one in self._topology.clusters}:
            return ""
        return self._on_disks(step, self._plans[False].topology.cluster(step.cluster).stores)

    def _move_later(self, step: Step) -> str:
        """Prepare a cluster for slots to move when the new file runs."""
        old, new = (self._plans[one].topology.cluster(step.cluster) for one in (False, True))
        settled = all_keep_all(old, new, self._moving)
        if gone := beyond(old, new):
            stays = tuple(store for store in old.stores if store not in gone)
            # Of a change that was not brought to its end a store may keep more than its file says.
            if not settled and (waits_for := move_slots(old)):
                return waits_for
            staying = replace(old, stores=stays, copies=new.copies)
            if waits_for := move_slots(staying, gone, self._had):
                return waits_for
        if not settled:
            let_join(beyond(new, old), self._directory)
        return ""

    def _taken_out(self, step: Step) -> str:
        """The same of stores that are stopped of a cluster that goes on."""
        old, new = (self._plans[one].topology.cluster(step.cluster) for one in (False, True))
        return self._on_disks(step, beyond(old, new), step.cluster)

    def _on_disks(self, step: Step, stores: Iterable[StoreSpec], cluster: str = "") -> str:
        return left_on_disks(
            (self._directory / store.data for store in stores),
            step.cluster,
            partial(lacked, self._topology, cluster=cluster),
            f"if that lasts, apply {self._before} to bring it back",
        )


def _refuse_deaf(running: Plan, steps: Iterable[Step]) -> None:
    """Make sure that controllers can be told what they have to be.

    Raises:
        PlanError: The file of those that run does not say where.
    """
    for step in steps:
        sources = {link.source for link in running.links if link.level == step.level}
        for name in sorted(sources) if step.action is Action.HOLD else ():
            cluster = running.topology.cluster(name)
            if cluster.controlled and not any(one.listen for one in cluster.controllers):
                raise PlanError(
                    f"cannot take the step {step.text!r}: controllers of {name} have no `listen` "
                    "in the file that runs, where they could be told"
                )
