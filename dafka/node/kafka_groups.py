"""What a gateway's broker does for Kafka groups: the node commits, and stores say what holds.

Used in the front's loop. Stores are asked by the threads that read for clients.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, TypeVar

from dafka.errors import QueryError
from dafka.gateway.broker import ErrorCode
from dafka.gateway.commits import OFFSETS, holding, row_of
from dafka.gateway.effects import (
    CommitOffsets,
    CommitsTold,
    GroupsListed,
    ListGroups,
    OffsetsCommitted,
)
from dafka.groups.commit import CommitKey
from dafka.process.clock import wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dafka.gateway.broker import KafkaCommit, KafkaPartition, Leader
    from dafka.gateway.effects import ClientEvent
    from dafka.groups.commit import Commit
    from dafka.model import Partition
    from dafka.node.record_reader import RecordReader

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 5.0
"""How long stores may take for a commit; Kafka's `offsets.commit.timeout.ms`."""

CLEAR_TIMEOUT_S = 2.0
"""How long it is waited for what positions amount to, before a client is told to ask again."""

CLEAR_AGAIN_S = 0.1
"""Between two looks whether that is known."""

T = TypeVar("T")


class GroupsPort(Protocol):
    """The node around it."""

    node: int

    def coordinator(self, group: str) -> Leader:
        """See `Broker`."""

    def numbers(self, topic: str) -> int:
        """How many partitions a topic has; 0 if Kafka clients do not see it."""

    async def ask(self, make: Callable[[int], ClientEvent]) -> object:
        """Let the node's machine answer something."""

    async def in_pool(self, work: Callable[[RecordReader], T]) -> T:
        """Ask stores."""

    def post(self, event: CommitsTold) -> None:
        """Tell the node's machine something."""


class KafkaGroups:
    """The groups of one gateway.

    Args:
        port: The node.
    """

    def __init__(self, port: GroupsPort) -> None:
        self._port = port

    async def commit(
        self, group: str, epoch: int, offsets: Mapping[KafkaPartition, KafkaCommit | None]
    ) -> ErrorCode:
        """See `Broker`."""
        rows = {
            row_of(OFFSETS, partition): (None, "") if one is None else (one.offset, one.metadata)
            for partition, one in offsets.items()
        }
        return await self._write(group, epoch, rows)

    async def committed(self, group: str) -> Mapping[KafkaPartition, KafkaCommit] | ErrorCode:
        """See `Broker`."""
        coordinator = self._port.coordinator(group)
        if coordinator.node != self._port.node:
            return ErrorCode.NOT_COORDINATOR
        deadline_s = asyncio.get_running_loop().time() + CLEAR_TIMEOUT_S
        while True:
            rows = await self._read(group)
            if self._port.coordinator(group) != coordinator:
                return ErrorCode.NOT_COORDINATOR
            if isinstance(rows, ErrorCode):
                return rows
            found = holding(rows, self._port.numbers)
            if not found.unclear:
                return found.commits
            # Their owner may be this gateway, and not have heard of them yet.
            commits = [(CommitKey(group, place), commit) for place, commit in rows.items()]
            self._port.post(CommitsTold("", commits))
            if asyncio.get_running_loop().time() >= deadline_s:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(CLEAR_AGAIN_S)

    async def groups(self) -> Sequence[str] | ErrorCode:
        """See `Broker`."""
        listed = await self._port.ask(ListGroups)
        assert isinstance(listed, GroupsListed)
        if listed.groups is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        mine = self._port.node
        return [group for group in listed.groups if self._port.coordinator(group).node == mine]

    async def forget_group(self, group: str) -> ErrorCode:
        """See `Broker`. What members of a Dafka group have committed belongs to the group, too."""
        coordinator = self._port.coordinator(group)
        if coordinator.node != self._port.node:
            return ErrorCode.NOT_COORDINATOR
        rows = await self._read(group)
        if isinstance(rows, ErrorCode):
            return rows
        held = {place: (None, "") for place, commit in rows.items() if commit.position is not None}
        if not held:
            return ErrorCode.GROUP_ID_NOT_FOUND
        try:
            if await self._port.in_pool(lambda reader: reader.lives(group)):
                return ErrorCode.NON_EMPTY_GROUP
        except QueryError:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return await self._write(group, coordinator.epoch, held)

    async def _write(
        self, group: str, epoch: int, rows: Mapping[Partition, tuple[int | None, str]]
    ) -> ErrorCode:
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_S):
                error = await self._try_to_write(group, epoch, rows, None)
                if error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    return error
                # The first commit of this ownership: it has to be above all before.
                there = await self._read(group)
                if isinstance(there, ErrorCode):
                    return there
                known = max((commit.epoch for commit in there.values()), default=0)
                return await self._try_to_write(group, epoch, rows, known)
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT

    async def _try_to_write(
        self,
        group: str,
        epoch: int,
        rows: Mapping[Partition, tuple[int | None, str]],
        known: int | None,
    ) -> ErrorCode:
        done = await self._port.ask(
            lambda token: CommitOffsets(token, group, epoch, rows, wall_ms(), known)
        )
        assert isinstance(done, OffsetsCommitted)
        return done.error

    async def _read(self, group: str) -> dict[Partition, Commit] | ErrorCode:
        """What a majority knows of a group's commits, those of links among them."""
        try:
            rows, in_sync = await self._port.in_pool(lambda reader: reader.commits(group))
        except QueryError as error:
            log.warning("cannot read what a group has committed: %s", error, extra={"group": group})
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return rows if in_sync else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
