"""A registry at work: every question reads the log first, every decision is in it when answered."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from dafka.errors import BufferFullError, NotStoredError, QueryError, RegistryError, not_permitted
from dafka.process import metrics
from dafka.schemas.entries import Primary, PrimaryKey, SchemaEntry, Stamp
from dafka.schemas.registry import Registry
from dafka.schemas.rulings import Rulings, Unjudged, judge
from dafka.schemas.state import EPOCH_MAX, EntryLog, State, id_range, next_epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dafka.errors import DafkaError
    from dafka.process.web import WebServer
    from dafka.schemas.entries import Key
    from dafka.schemas.registry import Changes, Decision
    from dafka.schemas.rulings import Case, Ruling


A = TypeVar("A")

CASES_MAX = 20
"""Rulings that one request may need: one or two, and again whenever somebody was faster."""

CLAIMS_MAX = 5
"""Claims in a row that others contested before a request is given back."""

GIVE_WAY_READS = 16
"""So often the log is read until whoever has taken over has written: a write takes a few of them.

Reads, not a time: both take as long as the stores do.
"""


class Service:
    """One registry process. Safe to use from several threads.

    Deciding is for the registry of the primary cluster, there for the process that has claimed the
    latest epoch. Another process of that cluster takes over by claiming the next one; ids come from
    the epoch's own range, so that even one that was late to notice gives no id twice.

    Args:
        log: The cluster's log.
        cluster: Its name.
        number: Its number among clusters that may become the primary: epochs belong to it by that.
        judge: Finds out what is to be known of a schema; may take a while, nobody waits for it but
            who has asked.
    """

    def __init__(
        self,
        log: EntryLog,
        cluster: str,
        number: int = 1,
        judge: Callable[[Case], Ruling] = judge,
    ) -> None:
        self._log = log
        self._cluster = cluster
        self._number = number
        self._state = State()
        self._rulings = Rulings()
        self._registry = Registry(self._state, self._rulings)
        self._judge = judge
        self._lock = Lock()
        self._unsettled = False
        """Whether entries may still come to be of which nobody was told that they are."""
        self._sure: dict[Key, SchemaEntry] = {}
        """Those that whoever takes over reads before it decides."""
        self.trouble = ""
        """Why the log could not be read or written last time; empty if it could."""

    def look(self) -> None:
        """Take in what is new, so that metrics and `trouble` are up to date without a question."""
        with self._lock, suppress(RegistryError):
            self._read(1)

    def become_first_primary(self) -> bool:
        """Make this cluster the primary if there is none yet; whether it is the primary now.

        Raises:
            RegistryError: 50001, the log cannot be read or written.
        """
        with self._lock:
            self._read(self._log.majority)
            if self._state.primary is None:
                self._claim()
            primary = self._state.primary
            return primary is not None and primary.cluster == self._cluster

    def ask(self, question: Callable[[Registry], A]) -> A:
        """Answer a question from what the log holds now.

        Raises:
            RegistryError: As the question does; 50001 if the log cannot be read.
        """
        return self._judged(partial(self._ask, question))

    def decide(self, decision: Callable[[Registry, int], Decision]) -> object:
        """Carry out a decision; return its answer once it is on disk.

        Args:
            decision: Given the registry and the id of the next new schema. Asked again if others
                have been at work in between.

        What could not be written in time may be stored later. So the next decision is of an epoch
        of its own: it gives other ids, and its stamps are higher, whichever comes first.

        Raises:
            RegistryError: As the decision does; 42205, this is not the primary; 50001, the log
                cannot be read or written; 50003, another registry has taken over meanwhile.
        """
        return self._judged(partial(self._decide, decision))

    def _judged(self, attempt: Callable[[], A]) -> A:
        """Try until all that has to be known of schemas is known; that is found out in between."""
        for _ in range(CASES_MAX):
            try:
                return attempt()
            except Unjudged as missing:
                case = missing.case
            ruling = self._judge(case)
            with self._lock:
                self._rulings.found(case, ruling)
        raise RegistryError(50301, "Too many others register here: repeat the request later.")

    def _ask(self, question: Callable[[Registry], A]) -> A:
        with self._lock:
            self._read(1)
            return question(self._registry)

    def _decide(self, decision: Callable[[Registry, int], Decision]) -> object:
        with self._lock:
            self._read(self._log.majority)
            decided = decision(self._registry, self._next_id())
            if self._holds(decided.changes):
                if not self._decides():
                    return decided.answer  # where nothing is decided, this is a question
                self._make_sure([key for key, _ in decided.changes])
                if self._stands(decided.changes):
                    return decided.answer
            self._check_primary()
            if (
                not self._leads()
                or self._unsettled
                or self._next_id() not in id_range(self._state.epoch)
            ):
                self._claim()
                self._unsettled = False
            decided = decision(self._registry, self._next_id())
            for changes in (decided.changes, decided.afterwards):
                if not self._stands(changes):
                    self._carry_out(changes)
            return decided.answer

    def _holds(self, changes: Changes) -> bool:
        """Whether all is so already, as far as it has been read."""
        return all(self._state.value(key) == value for key, value in changes)

    def _stands(self, changes: Changes) -> bool:
        """Whether all is so already, and whoever decides next knows it.

        What one store has may be what another registry could not write in time: whoever takes over
        need not read it, and may decide otherwise.
        """
        entries = self._state.entries
        return self._holds(changes) and all(
            self._sure.get(key) == entries.get(key) for key, _ in changes
        )

    def _make_sure(self, keys: Iterable[Key]) -> None:
        """Note what more than half of the stores have while nobody decides who may not know it.

        That is so if no epoch is open but our own or that of the entry, and that is read after
        all those stores: who opens another one from then on reads one of them first. An epoch in
        between is open, though it is taken over: what is written in it may land late, and be of a
        higher epoch than the entry.
        """
        entries = self._state.entries
        held = [entries[key] for key in keys if self._state.stores_with(key) >= self._log.majority]
        if all(self._sure.get(entry.key) == entry for entry in held):
            return
        self._read(self._log.majority)
        open_from = self._state.epoch_before if self._leads() else self._state.epoch
        for entry in held:
            if entry.stamp.epoch >= open_from:
                self._sure[entry.key] = entry

    def _carry_out(self, changes: Changes) -> None:
        """Write what has been decided, and see whether it holds."""
        epoch, number = self._state.epoch, 0
        if self._state.last.epoch == epoch:
            number = self._state.last.number
        entries = [
            SchemaEntry(key, Stamp(epoch, number + place), value)
            for place, (key, value) in enumerate(changes, 1)
        ]
        self._unsettled = True
        self._write(entries)
        self._unsettled = False
        holds = all(self._state.entries.get(entry.key) == entry for entry in entries)
        if not self._leads() or self._state.epoch != epoch or not holds:
            raise _taken_over()
        self._sure.update({entry.key: entry for entry in entries})

    def _next_id(self) -> int:
        """Of this epoch, or the first of the next one if this one has no more."""
        epoch = self._state.epoch
        ours = epoch > 0 and self._leads()
        following = id_range(self._following()).start
        return (self._state.next_id(epoch) or following) if ours else following

    def _following(self) -> int:
        """The next epoch of this cluster."""
        return next_epoch(max(self._state.epoch, self._state.last.epoch), self._number)

    def _check_primary(self) -> None:
        primary = self._state.primary
        if primary is None:
            raise not_permitted("This registry is read-only: no cluster is the primary yet.")
        if primary.cluster != self._cluster:
            raise not_permitted(
                f"This registry is read-only: schemas are registered at {primary.cluster}."
            )

    def _decides(self) -> bool:
        primary = self._state.primary
        return primary is not None and primary.cluster == self._cluster

    def _leads(self) -> bool:
        return (
            self._state.primary == Primary(self._cluster, self._log.address)
            and len(self._state.rivals) == 1
        )

    def _claim(self) -> None:
        """Open an epoch of our own. Of those that claim the same one, one claims a higher one."""
        for _ in range(CLAIMS_MAX):
            self._give_way()
            epoch = self._following()
            if epoch > EPOCH_MAX:
                raise RegistryError(50001, f"All {EPOCH_MAX} epochs are used up.")
            claim = Primary(self._cluster, self._log.address)
            self._write([SchemaEntry(PrimaryKey(), Stamp(epoch, 0), claim)])
            self._make_sure(self._state.entries)
            if self._leads() and self._state.epoch == epoch:
                return
            self._check_primary()
        raise _taken_over()

    def _give_way(self) -> None:
        """Let who has just taken over decide something: else all take over in turn for ever."""
        for _ in range(GIVE_WAY_READS):
            others = max(self._state.rivals, default=self._log.address) != self._log.address
            if not others or self._state.last != Stamp(self._state.epoch, 0):
                return
            self._read(self._log.majority)
            self._check_primary()

    def _read(self, stores_min: int) -> None:
        try:
            self._log.read_into(self._state, stores_min)
        except QueryError as error:
            raise self._troubled(error) from error
        self.trouble = ""
        metrics.REGISTRY_SUBJECTS.labels(self._cluster).set(len(self._state.versions))
        metrics.REGISTRY_EPOCH.labels(self._cluster).set(self._state.epoch)
        metrics.REGISTRY_PRIMARY.labels(self._cluster).set(self._decides())

    def _write(self, entries: Sequence[SchemaEntry]) -> None:
        try:
            self._log.write(entries)
        except (NotStoredError, BufferFullError) as error:
            raise self._troubled(error) from error
        self._read(self._log.majority)

    def _troubled(self, error: DafkaError) -> RegistryError:
        self.trouble = str(error)
        return RegistryError(50001, f"Error in the backend data store: {error}")


def _taken_over() -> RegistryError:
    return RegistryError(50003, "Another registry has taken over meanwhile: repeat the request.")


class RunningRegistry:
    """A service behind its web server.

    Args:
        service: What answers.
        server: What lets clients in.
    """

    def __init__(self, service: Service, server: WebServer) -> None:
        self._service = service
        self._server = server

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        return self._server.join(timeout)

    def unwell(self) -> str:
        """See `LongRunning`."""
        return "the registry no longer serves" if self._server.join(0) else ""

    def unready(self) -> str:
        """See `LongRunning`."""
        return self._service.trouble
