"""AlterConfigs and IncrementalAlterConfigs: topics have other settings, in this cluster."""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from dafka.gateway.broker import ErrorCode
from dafka.gateway.configs import refusal
from dafka.gateway.patience import together
from dafka.gateway.topics import TOPIC_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import SimpleNamespace

    from dafka.gateway.broker import Broker


class ConfigOperation(IntEnum):
    """Kafka's number for what becomes of a config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def alter_configs(broker: Broker, body: SimpleNamespace) -> dict[str, Any]:
    """Let topics have what is said and nothing else, or only say whether they can."""
    return await _altered(broker, body, whole=True)


async def alter_some_configs(broker: Broker, body: SimpleNamespace) -> dict[str, Any]:
    """Let topics have what is said, and else what they have, or only say whether they can."""
    return await _altered(broker, body, whole=False)


async def _altered(broker: Broker, body: SimpleNamespace, *, whole: bool) -> dict[str, Any]:
    named = Counter((one.resource_type, one.resource_name) for one in body.resources)

    async def alter(asked: SimpleNamespace) -> dict[str, Any]:
        which = asked.resource_type, asked.resource_name
        configs = {one.name: _value(one) for one in asked.configs}
        error, why = _alteration_refusal(broker, asked, configs, twice=named[which] > 1)
        if error is ErrorCode.NONE and not body.validate_only:
            error = await broker.alter(asked.resource_name, configs, whole=whole)
            why = None if error is ErrorCode.NONE else error.name
        return {
            "resource_type": asked.resource_type,
            "resource_name": asked.resource_name,
            "error_code": error,
            "error_message": why,
        }

    return {"responses": await together(map(alter, body.resources))}


def _alteration_refusal(
    broker: Broker, asked: SimpleNamespace, configs: Mapping[str, str | None], *, twice: bool
) -> tuple[ErrorCode, str | None]:
    """Why a topic cannot have these."""
    if twice:
        return ErrorCode.INVALID_REQUEST, "it is named twice"
    if asked.resource_type != TOPIC_RESOURCE:
        refused = "what a gateway does is said where it is started; clients alter topics alone"
        return ErrorCode.INVALID_REQUEST, refused
    if broker.topic(asked.resource_name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.resource_name!r}"
    why = _unsaid(asked.configs) or refusal(configs)
    return (ErrorCode.NONE, None) if why is None else (ErrorCode.INVALID_CONFIG, why)


def _value(asked: SimpleNamespace) -> str | None:
    """What a config is set to; None for what it is where nothing is set."""
    deleted = getattr(asked, "config_operation", ConfigOperation.SET) == ConfigOperation.DELETE
    value: str | None = None if deleted else asked.value
    return value


def _unsaid(asked: Sequence[SimpleNamespace]) -> str | None:
    """Why it cannot be said so."""
    if len({one.name for one in asked}) < len(asked):
        return "a config is named twice"
    for one in asked:
        operation = getattr(one, "config_operation", ConfigOperation.SET)
        if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            return f"{one.name} is one value: it can be set and deleted"
        if operation == ConfigOperation.SET and one.value is None:
            return f"{one.name} has no value"
    return None
