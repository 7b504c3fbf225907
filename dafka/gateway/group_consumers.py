"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups in which the coordinator assigns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dafka.errors import MisuseError
from dafka.gateway.admin import by_id
from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.gateway.coordinators import new_member_id
from dafka.gateway.group_events import JOINS, ConsumerHeard, GroupIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import SimpleNamespace

    from dafka.gateway.broker import Broker
    from dafka.gateway.consumer_group import AssignedMember
    from dafka.gateway.coordinators import Coordinators
    from dafka.gateway.wire import Request

_CONSUMER_TYPE = 1
"""A member that speaks this protocol, and not the classic one."""


async def consumer_group_heartbeat(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Take down what a member says of itself; the answer is what it should have."""
    body: Any = request.body
    topics, pattern = body.subscribed_topic_names, getattr(body, "subscribed_topic_regex", None)
    if body.member_epoch == JOINS:  # it says all that it wants
        pattern = pattern or ""
        topics = () if topics is None and pattern else topics
    try:
        matched = _matched(groups, body.group_id, body.member_id, pattern)
    except MisuseError as misuse:
        return {"error_code": ErrorCode.INVALID_REGULAR_EXPRESSION, "error_message": str(misuse)}
    hidden = [name for name in topics or () if not groups.may_read(name)]
    if hidden:
        why = f"topic {hidden[0]!r} may not be read by this user"
        return {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "error_message": why}
    member = body.member_id
    if not member and body.member_epoch == JOINS:
        member = new_member_id(request.client)  # as version 0 has it
    owned = _partitions(groups.broker, body.topic_partitions)
    answer = await groups.ask(
        body.group_id,
        lambda token: ConsumerHeard(
            token=token,
            who=GroupIdentity(member, body.instance_id),
            epoch=body.member_epoch,
            client=(request.client, request.host),
            rebalance_ms=body.rebalance_timeout_ms,
            topics=None if topics is None else frozenset(topics),
            assignor=body.server_assignor,
            owned=owned,
            pattern=pattern,
            matched=matched,
        ),
    )
    assignment = None
    if answer.assignment is not None:
        assignment = _assignment(groups.broker, answer.assignment)
    return {
        "error_code": answer.error,
        "member_id": answer.member,
        "member_epoch": answer.epoch,
        "heartbeat_interval_ms": answer.heartbeat_ms,
        "assignment": assignment,
    }


def _matched(groups: Coordinators, group: str, member: str, pattern: str | None) -> frozenset[str]:
    """The topics that a member's pattern matches now, of those that its user may read."""
    if pattern is None:
        there = groups.consumers(group)
        known = None if isinstance(there, ErrorCode) else there.members.get(member)
        pattern = "" if known is None else known.pattern
    if not pattern:
        return frozenset()
    return groups.matched(pattern)


def _partitions(
    broker: Broker, told: list[SimpleNamespace] | None
) -> frozenset[KafkaPartition] | None:
    """Partitions of topics that are named by their ids; what is not there is left out."""
    if told is None:
        return None
    topics = by_id(broker) if told else {}
    return frozenset(
        KafkaPartition(topics[one.topic_id].name, number)
        for one in told
        if one.topic_id in topics
        for number in one.partitions
    )


def _assignment(broker: Broker, partitions: Iterable[KafkaPartition]) -> dict[str, Any]:
    numbers: dict[str, list[int]] = {}
    for name, number in sorted(partitions):
        numbers.setdefault(name, []).append(number)
    topics = {name: broker.topic(name) for name in numbers}
    return {
        "topic_partitions": [
            {"topic_id": topic.id, "topic_name": name, "partitions": numbers[name]}
            for name, topic in topics.items()
            if topic is not None
        ]
    }


async def consumer_group_describe(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Return such groups with their members, each once."""
    body: Any = request.body
    return {"groups": [_described(groups, name) for name in dict.fromkeys(body.group_ids)]}


def _described(groups: Coordinators, name: str) -> dict[str, Any]:
    group = groups.consumers(name)
    if isinstance(group, ErrorCode):
        return {"group_id": name, "error_code": group}
    return {
        "group_id": name,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.epoch,
        "assignor_name": group.assignor,
        "members": [_member(groups, one) for one in group.members.values()],
    }


def _member(groups: Coordinators, member: AssignedMember) -> dict[str, Any]:
    return {
        "member_id": member.who.member,
        "instance_id": member.who.instance,
        "member_epoch": member.epoch,
        "client_id": member.client[0],
        "client_host": f"/{member.client[1]}",
        "subscribed_topic_names": sorted(filter(groups.may_read, member.named)),
        "subscribed_topic_regex": member.pattern or None,
        "assignment": _assignment(groups.broker, member.has),
        "target_assignment": _assignment(groups.broker, member.target),
        "member_type": _CONSUMER_TYPE,
    }
