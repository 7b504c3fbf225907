"""What people are shown of a running gateway, as plain values; it can be looked at, not changed.

| page | asked | shows |
|---|---|---|
| `/topics` | | topics and how many partitions each has |
| | `topic` | its partitions: who owns them, and what there is of those that are served here |
| `/ledger` | `topic`, `partition` | where the records of a partition are that is served here |
| `/groups` | | groups that are coordinated here, and how far behind in what is served here |
| | `group` | its members, and what it has committed |
| `/connections` | | clients: who, from where, how many requests |
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from dafka.gateway.broker import NOBODY, ErrorCode, KafkaPartition, Offsets
from dafka.gateway.effects import NO_OFFSETS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from dafka.gateway.coordinators import Coordinators
    from dafka.gateway.ledger import LedgerEntry
    from dafka.gateway.server import GatewayServer
    from dafka.node.gateway import GatewayNode
    from dafka.node.gateway_observer import GatewayObserver
    from dafka.process.health import Page

ENTRIES_SHOWN_MAX = 1_000
"""Of a ledger, the last so many."""

PAGE_TIMEOUT_S = 2.0
"""How long a page may take; who asks has a thread that waits."""


class GatewayPages:
    """The pages of one gateway, in the front's loop.

    Args:
        node: The gateway's node.
        groups: What it coordinates.
        server: Its clients.
        observer: What is seen of it.
    """

    def __init__(
        self,
        node: GatewayNode,
        groups: Coordinators,
        server: GatewayServer,
        observer: GatewayObserver,
    ) -> None:
        self._node, self._groups = node, groups
        self._server, self._observer = server, observer

    def served(self, loop: asyncio.AbstractEventLoop) -> Mapping[str, Page]:
        """Return them by their paths, to be called from other threads than the loop's."""

        def page(shown: Callable[[Mapping[str, str]], Awaitable[object]]) -> Page:
            async def within(asked: Mapping[str, str]) -> object:
                async with asyncio.timeout(PAGE_TIMEOUT_S):
                    return await shown(asked)

            return lambda asked: asyncio.run_coroutine_threadsafe(within(asked), loop).result(
                2 * PAGE_TIMEOUT_S
            )

        return {
            "/topics": page(self.topics),
            "/ledger": page(self.ledger),
            "/groups": page(self.groups),
            "/connections": page(self.connections),
        }

    async def topics(self, asked: Mapping[str, str]) -> object:
        """Topics, or one with its partitions."""
        if "topic" not in asked:
            return {topic.name: topic.partitions for topic in self._node.topics()}
        name = asked["topic"]
        topic = self._node.topic(name)
        if topic is None:
            raise ValueError(f"no topic {name!r}")
        partitions = [self._partition(KafkaPartition(name, one)) for one in range(topic.partitions)]
        return {"name": name, "id": str(topic.id), "configs": dict(topic.configs)} | {
            "partitions": partitions
        }

    async def ledger(self, asked: Mapping[str, str]) -> object:
        """Where the records of a partition are."""
        name, number = asked.get("topic", ""), asked.get("partition", "")
        if not name or not (number.isascii() and number.isdecimal()):
            raise ValueError("topic and the number of a partition are needed")
        partition = KafkaPartition(name, int(number))
        offsets, runs = NO_OFFSETS, 0
        last: deque[LedgerEntry] = deque(maxlen=ENTRIES_SHOWN_MAX)
        async for located in self._node.search.parts(partition):
            if located.error is not ErrorCode.NONE:
                return _refused(located.error)
            offsets = located.offsets
            runs += len(located.entries)
            last.extend(located.entries)
        return {
            **offsets._asdict(),
            "runs": runs,
            "last": [entry._asdict() for entry in last],
        }

    async def groups(self, asked: Mapping[str, str]) -> object:
        """Groups, or one with its members and commits."""
        if "group" in asked:
            return await self._group(asked["group"])
        listed = await self._groups.listed()
        if isinstance(listed, ErrorCode):
            return _refused(listed)
        return {
            name: {
                "state": group.state,
                "members": len(group.members),
                "lag_records": self._observer.lags.get(name),
            }
            for name, group in listed.items()
        }

    async def connections(self, _asked: Mapping[str, str]) -> object:
        """Who is connected."""
        return [connection._asdict() for connection in self._server.describe()]

    def _partition(self, partition: KafkaPartition) -> dict[str, Any]:
        leader, offsets = self._node.leader(partition), self._node.offsets(partition)
        there = {one.node: f"{one.host}:{one.port}" for one in self._node.gateways()}
        shown = offsets._asdict() if isinstance(offsets, Offsets) else {"start": None, "end": None}
        mine = "serving" if isinstance(offsets, Offsets) else "beginning"
        return {
            "partition": partition.number,
            "leader": None if leader.node == NOBODY else there.get(leader.node),
            "epoch": leader.epoch,
            "state": mine if leader.node == self._node.node else "elsewhere",
            **shown,
        }

    async def _group(self, name: str) -> object:
        group = await self._groups.describe(name)
        if isinstance(group, ErrorCode):
            return _refused(group)
        committed = await self._groups.committed(name)
        if isinstance(committed, ErrorCode):
            return _refused(committed)
        return {
            "name": name,
            "state": group.state,
            "protocol": group.protocol,
            "members": [
                {
                    "member": one.who.member,
                    "instance": one.who.instance,
                    "client_id": one.client[0],
                    "host": one.client[1],
                }
                for one in group.members
            ],
            "commits": [
                {
                    "topic": partition.topic,
                    "partition": partition.number,
                    "offset": commit.offset,
                    "lag_records": self._lag(partition, commit.offset),
                }
                for partition, commit in sorted(committed.items())
            ],
        }

    def _lag(self, partition: KafkaPartition, offset: int) -> int | None:
        """How far a commit is behind; None where another gateway knows that."""
        there = self._node.offsets(partition)
        if isinstance(there, ErrorCode):
            return None
        return max(0, there.end - max(offset, there.start))


def _refused(error: ErrorCode) -> dict[str, str]:
    return {"error": error.name.lower()}
