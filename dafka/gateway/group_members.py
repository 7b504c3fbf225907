"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what members of a Kafka group ask.

The first two wait until the other members have come, or the leader has assigned. Meanwhile nothing
else of that connection is answered, as by Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dafka.gateway.broker import ErrorCode
from dafka.gateway.coordinators import new_member_id
from dafka.gateway.group_events import (
    GroupIdentity,
    JoinGroup,
    LeaveGroup,
    MemberHeard,
    SyncGroup,
)

if TYPE_CHECKING:
    from types import SimpleNamespace

    from dafka.gateway.coordinators import Coordinators
    from dafka.gateway.wire import Request

_ASKED_TWICE_FROM = 4
"""The version of JoinGroup from which clients know that they are told their id first."""


def identity_of(body: SimpleNamespace) -> GroupIdentity:
    """Who says that he is a member."""
    return GroupIdentity(body.member_id, getattr(body, "group_instance_id", None))


async def join_group(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Let a client be a member; answered when all others have joined, too."""
    body: Any = request.body
    answer = await groups.ask(
        body.group_id,
        lambda token: JoinGroup(
            token=token,
            who=identity_of(body),
            new_id=new_member_id(request.client),
            asked_twice=request.version >= _ASKED_TWICE_FROM,
            client=(request.client, request.host),
            session_ms=body.session_timeout_ms,
            rebalance_ms=getattr(body, "rebalance_timeout_ms", -1),
            kind=body.protocol_type,
            protocols={one.name: one.metadata for one in body.protocols},
        ),
    )
    return {
        "error_code": answer.error,
        "generation_id": answer.generation,
        "protocol_type": answer.kind,
        "protocol_name": answer.protocol,
        "leader": answer.leader,
        "member_id": answer.member,
        "members": [
            {"member_id": member, "group_instance_id": instance, "metadata": (told,)}
            for (member, instance), told in answer.members
        ],
    }


async def sync_group(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Return a member's assignment, as soon as the leader has brought it."""
    body: Any = request.body
    assignments = {one.member_id: one.assignment for one in body.assignments}
    kind, protocol = getattr(body, "protocol_type", None), getattr(body, "protocol_name", None)
    answer = await groups.ask(
        body.group_id,
        lambda token: SyncGroup(
            token, identity_of(body), body.generation_id, kind, protocol, assignments
        ),
    )
    return {
        "error_code": answer.error,
        "protocol_type": answer.kind,
        "protocol_name": answer.protocol,
        "assignment": (answer.assignment,),
    }


async def heartbeat(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Take down that a member is there; the answer is whether it has to join again."""
    body: Any = request.body
    who, generation = identity_of(body), body.generation_id
    answer = await groups.ask(
        body.group_id, lambda token: MemberHeard(token, who, generation, commits=False)
    )
    return {"error_code": answer.error}


async def leave_group(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Let members go: the one that asks, or any that a tool names."""
    body: Any = request.body
    batch = getattr(body, "members", None)
    leaving = [identity_of(one) for one in ([body] if batch is None else batch)]
    answer = await groups.ask(body.group_id, lambda token: LeaveGroup(token, leaving))
    if batch is None:
        return {"error_code": answer.errors[0]}
    members = [
        {"member_id": member, "group_instance_id": instance, "error_code": error}
        for (member, instance), error in zip(leaving, answer.errors, strict=True)
    ]
    refused = answer.error is not ErrorCode.NONE
    return {"error_code": answer.error, "members": () if refused else members}
