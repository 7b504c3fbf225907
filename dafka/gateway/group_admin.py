"""FindCoordinator, ListGroups, DescribeGroups and DeleteGroups: what is asked about groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dafka.errors import MisuseError
from dafka.gateway.broker import NOBODY, ErrorCode
from dafka.groups.commit import checked_consumers

if TYPE_CHECKING:
    from dafka.gateway.broker import Broker
    from dafka.gateway.coordinators import Coordinators
    from dafka.gateway.wire import Request

_GROUP, _TRANSACTION = 0, 1
"""What there are coordinators for."""

_CLASSIC, _CONSUMER = "classic", "consumer"
"""Kafka's names of both protocols: the leader assigns; the coordinator does."""

_DEAD = "Dead"
"""How Kafka calls the state of a group that is not there."""


async def find_coordinator(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Say which gateways coordinate groups.

    There are none for transactions, which is said so that every client gives up and says why.
    """
    body: Any = request.body
    broker, kind = groups.broker, getattr(body, "key_type", _GROUP)
    if hasattr(body, "coordinator_keys"):
        return {"coordinators": [_found(broker, kind, key) for key in body.coordinator_keys]}
    return _found(broker, kind, body.key)


def _found(broker: Broker, kind: int, key: str) -> dict[str, Any]:
    error, why = ErrorCode.COORDINATOR_NOT_AVAILABLE, "no gateway coordinates this group now"
    if kind == _TRANSACTION:
        error, why = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "there are no transactions"
    elif kind != _GROUP:
        error, why = ErrorCode.INVALID_REQUEST, "there are only groups"
    else:
        try:
            checked_consumers(key)
        except MisuseError as misuse:
            error, why = ErrorCode.INVALID_GROUP_ID, str(misuse)
        else:
            there = {one.node: one for one in broker.gateways()}.get(broker.coordinator(key).node)
            if there is not None:
                return {"key": key, **there._asdict(), "node_id": there.node, "error_message": None}
    return {"key": key, "node_id": NOBODY, "port": -1, "error_code": error, "error_message": why}


async def list_groups(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Return the groups that this gateway coordinates."""
    body: Any = request.body
    listed = await groups.listed()
    if isinstance(listed, ErrorCode):
        return {"error_code": listed}
    states = {state.lower() for state in getattr(body, "states_filter", ())}
    types = {kind.lower() for kind in getattr(body, "types_filter", ())}
    rows = [
        {
            "group_id": name,
            "protocol_type": group.kind,
            "group_state": group.state,
            "group_type": _CONSUMER if group.assigns else _CLASSIC,
        }
        for name, group in listed.items()
    ]
    return {
        "groups": [
            row
            for row in rows
            if (not states or row["group_state"].lower() in states)
            and (not types or row["group_type"] in types)
        ]
    }


async def describe_groups(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Return classic groups with their members, each once; one that is not there is dead."""
    body: Any = request.body
    return {"groups": [await _described(groups, name) for name in dict.fromkeys(body.groups)]}


async def _described(groups: Coordinators, name: str) -> dict[str, Any]:
    group = await groups.describe(name)
    if isinstance(group, ErrorCode) and group is not ErrorCode.GROUP_ID_NOT_FOUND:
        return {"group_id": name, "error_code": group}
    if isinstance(group, ErrorCode) or group.assigns:
        return {"group_id": name, "group_state": _DEAD}
    return {
        "group_id": name,
        "group_state": group.state,
        "protocol_type": group.kind,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": member.who.member,
                "group_instance_id": member.who.instance,
                "client_id": member.client[0],
                "client_host": f"/{member.client[1]}",  # as Kafka writes it
                "member_metadata": (member.metadata,),
                "member_assignment": (member.assignment,),
            }
            for member in group.members
        ],
    }


async def delete_groups(groups: Coordinators, request: Request) -> dict[str, Any]:
    """Forget groups that have no members, each once."""
    body: Any = request.body
    return {
        "results": [
            {"group_id": name, "error_code": await groups.forget(name)}
            for name in dict.fromkeys(body.groups_names)
        ]
    }
