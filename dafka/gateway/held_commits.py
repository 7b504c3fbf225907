"""What a Kafka group that has members has committed, as its coordinator holds it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dafka.gateway.broker import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from dafka.gateway.broker import KafkaCommit, KafkaPartition

_COMMIT_BYTES = 300
"""What a commit takes beside its metadata."""


class HeldCommits:
    """What was committed before the members came, read once, and what they have committed."""

    def __init__(self) -> None:
        self._before: Mapping[KafkaPartition, KafkaCommit] | None = None
        self._here: dict[KafkaPartition, tuple[int, KafkaCommit | None]] = {}
        """By partition, the last and its turn; None if it is forgotten."""
        self._reading = asyncio.Lock()
        self.size = 0
        """Bytes."""

    def keep(self, turn: int, commits: Mapping[KafkaPartition, KafkaCommit | None]) -> None:
        """Take in what stores have now, in whichever order they said so.

        Args:
            turn: Rises with each call of those that were given to the stores.
            commits: By partition; None if it is forgotten.
        """
        for partition, commit in commits.items():
            last, old = self._here.get(partition, (-1, None))
            if last < turn:
                self._here[partition] = turn, commit
                self.size += _size_of(commit) - (0 if last < 0 else _size_of(old))

    async def all(
        self, read: Callable[[], Awaitable[Mapping[KafkaPartition, KafkaCommit] | ErrorCode]]
    ) -> Mapping[KafkaPartition, KafkaCommit] | ErrorCode:
        """Return all of it; `read` says what was there before, and is asked until it knows."""
        async with self._reading:
            if self._before is None:
                before = await read()
                if isinstance(before, ErrorCode):
                    return before
                self._before = before
                self.size += sum(map(_size_of, before.values()))
        held = dict(self._before)
        for partition, (_, commit) in self._here.items():
            if commit is None:
                held.pop(partition, None)
            else:
                held[partition] = commit
        return held


def _size_of(commit: KafkaCommit | None) -> int:
    return _COMMIT_BYTES + (0 if commit is None else len(commit.metadata))
