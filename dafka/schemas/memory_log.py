"""Entries in memory, for simulation: what one log writes, all on the same list read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import NotStoredError, QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.schemas.entries import Entry
    from dafka.schemas.state import State


class MemoryLog:
    """One process's access to a cluster's entries.

    Args:
        records: All entries of the cluster, shared.
        address: Who writes here.
    """

    majority = 1

    def __init__(self, records: list[Entry], address: str) -> None:
        self.address = address
        self.records = records
        self.reachable = True
        """Whether the stores answer."""
        self._read = 0

    def read_into(self, state: State, stores_min: int = 1) -> None:
        """Apply what has been added since the last call.

        Raises:
            QueryError: It is not reachable.
        """
        if not self.reachable:
            raise QueryError(f"0 of {stores_min} stores can be read")
        for entry in self.records[self._read :]:
            state.apply(entry)
        self._read = len(self.records)

    def write(self, entries: Sequence[Entry]) -> None:
        """Add entries.

        Raises:
            NotStoredError: It is not reachable.
        """
        if not self.reachable:
            raise NotStoredError("no store has it", [])
        self.records.extend(entries)

    def close(self) -> None:
        """Nothing is held open."""
