"""Members of Kafka groups, as requests to handlers: what real clients say, in any version."""

from __future__ import annotations

import asyncio
import struct

from dafka.gateway.coordinator import CoordinatorSettings
from dafka.gateway.coordinators import Coordinators
from dafka.gateway.handlers import Handlers
from dafka.gateway.wire import SERVED, Api
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from tests.support.kafka_messages import ask

AT_ONCE = CoordinatorSettings(initial_delay_ms=0)
SESSION_MS = 10_000


def latest(api):
    return SERVED[api][-1]


def subscription(*topics):
    """What a consumer tells the leader."""
    named = b"".join(struct.pack(">h", len(one)) + one.encode() for one in topics)
    return struct.pack(">hi", 1, len(topics)) + named + struct.pack(">i", -1)


class KafkaGroups:
    """A front over a broker in memory, and what members ask of it."""

    def __init__(self, settings=AT_ONCE, clock_ms=now_ms, **broker_settings):
        self.broker = MemoryBroker(**broker_settings)
        self.broker.endpoint = ("gateway.example", 9092)
        self.handlers = Handlers(
            self.broker, clock_ms, groups=Coordinators(self.broker, clock_ms, settings)
        )

    @property
    def coordinators(self):
        return self.handlers._groups

    async def ask(self, api, version=None, **values):
        version = latest(api) if version is None else version
        return await ask(self.handlers, api, version, **values)

    async def join(self, group="g", member="", version=None, instance=None, **values):
        given = {
            "group_id": group,
            "member_id": member,
            "group_instance_id": instance,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription("orders")}],
        }
        return await self.ask(Api.JOIN_GROUP, version, **given | values)

    async def sync(self, member, generation, assignments=(), group="g", version=None, **values):
        given = {
            "group_id": group,
            "generation_id": generation,
            "member_id": member,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": name, "assignment": part} for name, part in dict(assignments).items()
            ],
        }
        return await self.ask(Api.SYNC_GROUP, version, **given | values)

    async def hear(self, member, generation, group="g", version=None, instance=None):
        """The error of a heartbeat."""
        answer = await self.ask(
            Api.HEARTBEAT,
            version,
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
        )
        return answer.error_code

    async def leave(self, *members, group="g"):
        return await self.ask(
            Api.LEAVE_GROUP,
            group_id=group,
            members=[{"member_id": one, "group_instance_id": None} for one in members],
        )

    async def settled(self, group="g", **values):
        """A group of one, that has joined and been assigned; its id and generation."""
        joined = await self.join(group, **values)
        if joined.error_code:
            joined = await self.join(group, joined.member_id, **values)
        assert joined.error_code == 0
        synced = await self.sync(
            joined.member_id, joined.generation_id, {joined.member_id: b"all"}, group
        )
        assert synced.assignment == b"all"
        return joined.member_id, joined.generation_id

    async def commit(self, offsets, member="", generation=-1, group="g", version=None, metadata=""):
        """Errors by partition number, of topic orders unless offsets are by topic and number."""
        topics = {}
        for partition, offset in offsets.items():
            topic, number = partition if isinstance(partition, tuple) else ("orders", partition)
            topics.setdefault(topic, []).append(
                {
                    "partition_index": number,
                    "committed_offset": offset,
                    "committed_leader_epoch": 4,
                    "committed_metadata": metadata,
                }
            )
        answer = await self.ask(
            Api.OFFSET_COMMIT,
            version,
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=None,
            retention_time_ms=-1,
            topics=[{"name": name, "partitions": parts} for name, parts in topics.items()],
        )
        return {
            (topic.name, one.partition_index): one.error_code
            for topic in answer.topics
            for one in topic.partitions
        }

    async def fetch(self, topics=None, group="g", version=None):
        """The answer about one group."""
        version = latest(Api.OFFSET_FETCH) if version is None else version
        named = None
        if topics is not None:
            named = [{"name": one, "partition_indexes": parts} for one, parts in topics.items()]
        asked = {"group_id": group, "topics": named}
        if version >= 8:
            groups = [asked | {"member_id": None, "member_epoch": -1}]
            (answer,) = (await self.ask(Api.OFFSET_FETCH, version, groups=groups)).groups
            return answer
        return await self.ask(Api.OFFSET_FETCH, version, **asked)

    async def held(self, group="g"):
        """Offsets by topic and number."""
        answer = await self.fetch(group=group)
        assert answer.error_code == 0
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in answer.topics
            for one in topic.partitions
        }


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))
