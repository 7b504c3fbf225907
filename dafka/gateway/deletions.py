"""DeleteTopics: several at once, each as long as the client waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dafka.gateway.admin import by_id
from dafka.gateway.broker import ErrorCode
from dafka.gateway.patience import patience_s, together

if TYPE_CHECKING:
    from types import SimpleNamespace

    from dafka.gateway.broker import Broker


async def delete_topics(broker: Broker, body: SimpleNamespace) -> dict[str, Any]:
    """Delete topics, by name or by id."""
    timeout_s = patience_s(body)
    names: list[str | None]
    if hasattr(body, "topic_names"):
        rows: list[dict[str, Any]] = [{"name": name} for name in body.topic_names]
        names = [*body.topic_names]
    else:
        rows = [{"name": one.name, "topic_id": one.topic_id} for one in body.topics]
        ids = by_id(broker) if any(one.name is None for one in body.topics) else {}
        named = [ids.get(one.topic_id) for one in body.topics]
        names = [
            topic.name if one.name is None and topic is not None else one.name
            for one, topic in zip(body.topics, named, strict=True)
        ]
    errors = await together(_delete(broker, name, timeout_s) for name in names)
    return {
        "responses": [
            row | {"name": name, "error_code": error}
            for row, name, error in zip(rows, names, errors, strict=True)
        ]
    }


async def _delete(broker: Broker, name: str | None, timeout_s: float) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if name is None else await broker.delete(name, timeout_s)
