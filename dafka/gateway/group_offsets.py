"""OffsetCommit, OffsetFetch and OffsetDelete: how far Kafka groups have come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dafka.gateway.broker import ErrorCode, KafkaCommit, KafkaPartition
from dafka.gateway.group_events import MemberHeard
from dafka.gateway.group_members import identity_of
from dafka.gateway.subscription import CONSUMERS, subscribed_topics
from dafka.limits import COMMIT_METADATA_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import SimpleNamespace

    from dafka.gateway.coordinators import Coordinators, DescribedGroup
    from dafka.gateway.wire import Request

_NOTHING_COMMITTED = KafkaCommit(-1)


async def offset_commit(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Keep what a group has processed; answered when it is stored as safely as records are."""
    body: Any = request.body
    who, generation = identity_of(body), body.generation_id_or_member_epoch
    errors: dict[KafkaPartition, ErrorCode] = {}
    offsets: dict[KafkaPartition, KafkaCommit] = {}
    for topic in body.topics:
        for one in topic.partitions:
            partition = KafkaPartition(topic.name, one.partition_index)
            commit = KafkaCommit(
                one.committed_offset,
                getattr(one, "committed_leader_epoch", -1),
                one.committed_metadata or "",
            )
            error = _unknown(groups, partition) or _refusal(commit)
            if error is ErrorCode.NONE:
                offsets[partition] = commit
            else:
                errors[partition] = error
    error = await groups.commit(
        body.group_id, lambda token: MemberHeard(token, who, generation, commits=True), offsets
    )
    return {"topics": _answered(body.topics, lambda one: errors.get(one, error))}


def _unknown(groups: Coordinators, partition: KafkaPartition) -> ErrorCode:
    """Why a group cannot be anywhere in a partition, as far as its user knows."""
    topic = groups.broker.topic(partition.topic)
    if topic is None or not 0 <= partition.number < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    may = groups.may_read(partition.topic)
    return ErrorCode.NONE if may else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _refusal(commit: KafkaCommit) -> ErrorCode:
    """Why there cannot be such a commit."""
    if commit.offset < 0:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if len(commit.metadata.encode()) > COMMIT_METADATA_BYTES_MAX:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _answered(
    topics: Sequence[SimpleNamespace], error_of: Callable[[KafkaPartition], ErrorCode]
) -> list[dict[str, Any]]:
    """The same partitions with what became of each."""
    return [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": one.partition_index,
                    "error_code": error_of(KafkaPartition(topic.name, one.partition_index)),
                }
                for one in topic.partitions
            ],
        }
        for topic in topics
    ]


async def offset_fetch(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Return what groups have committed: of the partitions that are named, or of all.

    Each is told once, however often it is named.
    """
    body: Any = request.body
    if hasattr(body, "groups"):
        asked = {one.group_id: one for one in body.groups}.values()
        return {"groups": [await _fetched(groups, one, request.version) for one in asked]}
    return await _fetched(groups, body, request.version)


_ERROR_OF_ALL_FROM = 2
"""The version of OffsetFetch from which an error of the group stands beside the partitions."""


async def _fetched(groups: Coordinators, asked: SimpleNamespace, version: int) -> dict[str, Any]:
    held = await groups.committed(asked.group_id)
    error = held if isinstance(held, ErrorCode) else ErrorCode.NONE
    commits: Mapping[KafkaPartition, KafkaCommit] = {} if isinstance(held, ErrorCode) else held
    if asked.topics is None:
        wanted: dict[str, list[int]] = {}
        for name, number in filter(lambda one: groups.may_read(one.topic), commits):
            wanted.setdefault(name, []).append(number)
    else:
        wanted = {topic.name: topic.partition_indexes for topic in asked.topics}
    if error is not ErrorCode.NONE and version >= _ERROR_OF_ALL_FROM:
        wanted = {}
    topics = [
        {
            "name": name,
            "partitions": [
                _told(number, commits.get(KafkaPartition(name, number)), error)
                if groups.may_read(name)
                else _told(number, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for number in dict.fromkeys(numbers)
            ],
        }
        for name, numbers in wanted.items()
    ]
    return {"group_id": asked.group_id, "topics": topics, "error_code": error}


def _told(number: int, commit: KafkaCommit | None, error: ErrorCode) -> dict[str, Any]:
    offset, epoch, metadata = commit or _NOTHING_COMMITTED
    return {
        "partition_index": number,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "metadata": metadata,
        "error_code": error,
    }


async def offset_delete(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Forget commits, but for topics that members read."""
    body: Any = request.body
    described = await groups.describe(body.group_id)
    if isinstance(described, ErrorCode):
        return {"error_code": described}
    if described.members and described.kind != CONSUMERS:
        return {"error_code": ErrorCode.NON_EMPTY_GROUP}
    read = _read_by(described, {topic.name for topic in body.topics})
    errors = {}
    for topic in body.topics:
        for one in topic.partitions:
            place = KafkaPartition(topic.name, one.partition_index)
            subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if place.topic in read else None
            errors[place] = subscribed or _unknown(groups, place)
    forgotten = {place: None for place, error in errors.items() if error is ErrorCode.NONE}
    error = await groups.write(body.group_id, forgotten)
    if error is not ErrorCode.NONE:
        return {"error_code": error}
    return {"topics": _answered(body.topics, errors.__getitem__)}


def _read_by(group: DescribedGroup, topics: set[str]) -> set[str]:
    """Those of some topics that members read; all while it is not known."""
    read: set[str] = set()
    for member in group.members:
        subscribed = subscribed_topics(member.metadata)
        if subscribed is None:
            return topics
        read |= subscribed
    return topics & read
