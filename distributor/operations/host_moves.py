"""Slots that move between stores of several hosts, as far as one of these hosts has to do with it.

Each host has its processes started and stopped by whoever does so there. The command runs on each,
with the same file and in any order: it waits for the others, by name. A store that is started anew
goes on keeping what it has (ADR 60), so no order loses anything.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from distributor.errors import PlanError
from distributor.loading import load
from distributor.local.processes import hosts_of
from distributor.operations.arrival import lacked, left_on_disks
from distributor.operations.slots import (
    beyond,
    let_join,
    move_slots,
    said_of_slots,
    still_moving,
    still_needed,
    unstarted,
)
from topology.addresses import normal_host
from topology.diff import Action, Change, Step, diff
from topology.model import host_and_port
from topology.transition import all_keep_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dafka.query.slot_mover import Had
    from topology.model import ClusterSpec, StoreSpec


class HostMoves:
    """The steps of one host.

    Args:
        host: Where its stores listen, as the file has it.
        running: The file that its processes run with.
        file: What is to run.
        directory: Where its processes run, which paths in the file are relative to.

    Raises:
        PlanError: The host has nothing of the topology, or the change is about other things, too.
        TopologyError: One of the files may not be used.
    """

    def __init__(self, host: str, running: Path, file: Path, directory: Path = Path()) -> None:
        self._host, self._directory = normal_host(host), directory
        self._running, self._file = running, file
        self._old, self._new = load(running), load(file)
        known = {**hosts_of(self._old), **hosts_of(self._new)}
        if self._host not in map(normal_host, known):
            raise PlanError(f"nothing of {file} is on host {host!r}: there are {', '.join(known)}")
        self._moving = still_moving(self._old)
        self.change: Change = diff(self._old, self._new, self._moving)
        for step in self.change.steps:
            if step.action not in (Action.SWITCH, Action.MOVE):
                raise PlanError(
                    f"with --host slots are moved and no more, and this change has the step "
                    f"{step.text!r}: make a change of its own for it, and take its steps by hand"
                )
        self.steps = tuple(one for one in self.change.steps if one.action is Action.MOVE)
        self._told_to_join: set[str] = set()
        self._had: Had = {}

    def look(self, step: Step) -> str:
        """Do what is to be done for a step now; returns what it waits for, empty if it is done.

        Raises:
            StorageError: The directory of a store that comes cannot be used.
        """
        old, new = self._old.cluster(step.cluster), self._new.cluster(step.cluster)
        if not all_keep_all(old, new, self._moving):
            self._let_join(old, new)
        gone = beyond(old, new)
        starting = [self._start(store, waits) for store, waits in unstarted(new).items()]
        ending = [self._end(new, store) for store in gone]
        # What is to end may be needed until others have joined what it keeps.
        moving = "" if starting else move_slots(new, gone, self._had)
        return "; ".join(filter(None, (*starting, *ending, moving)))

    def finish(self) -> None:
        """All steps are taken: nothing was left anywhere."""

    def give_up(self) -> Iterator[str]:
        """Nothing was paused for this change."""
        yield from ()

    def _has(self, store: StoreSpec) -> bool:
        return normal_host(host_and_port(store.query)[0]) == self._host

    def _let_join(self, old: ClusterSpec, new: ClusterSpec) -> None:
        """Once: whoever starts the store has its directory from then on."""
        stores = [
            store
            for store in beyond(new, old)
            if self._has(store) and store.data not in self._told_to_join
        ]
        for store, said in zip(stores, said_of_slots(new, stores), strict=True):
            if isinstance(said, str):
                let_join([store], self._directory)
            self._told_to_join.add(store.data)

    def _start(self, store: StoreSpec, waits_for: str) -> str:
        if self._has(store):
            return f"{waits_for} (start it here as {self._file} has it)"
        host = host_and_port(store.query)[0]
        return (
            f"{waits_for} (on {host} run `distributor apply --host {host}` with this file, and "
            "start it as the file has it)"
        )

    def _end(self, new: ClusterSpec, store: StoreSpec) -> str:
        """What is waited for at a store that the new file has no more.

        Another host's is that one's business.
        """
        if not self._has(store):
            return ""
        (said,) = said_of_slots(new, [store])
        if not isinstance(said, str):
            needed = still_needed(new, store, said, self._had)
            return needed or f"{store.query} to end (stop it here, {self._file} has it no more)"
        return left_on_disks(
            [self._directory / store.data],
            new.name,
            partial(lacked, self._new, cluster=new.name),
            f"if that lasts, start it as {self._running} has it to bring it back",
        )
