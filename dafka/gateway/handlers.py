"""Requests of Kafka clients and what answers them, over the node behind: no socket, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dafka.gateway import admin, topics
from dafka.gateway.broker import ErrorCode
from dafka.gateway.fetch import fetch, list_offsets
from dafka.gateway.produce import produce
from dafka.gateway.wire import ADVERTISED_FROM, SERVED, Api, Request, answer_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import SimpleNamespace

    from dafka.gateway.broker import Broker


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How topics are made.

    Attributes:
        partitions: Of those for which no number is given.
        on_demand: Whether one is made when a client asks for it that is not there.
    """

    partitions: int = 1
    on_demand: bool = True


class Handlers:
    """Answers requests.

    Args:
        broker: The node behind.
        now_ms: A monotonic clock.
        made: How topics are made.
    """

    def __init__(
        self, broker: Broker, now_ms: Callable[[], int], made: TopicSettings = TopicSettings()
    ) -> None:
        self._broker, self._now_ms, self._made = broker, now_ms, made

    async def answer(self, request: Request) -> list[bytes] | None:
        """Return the answer to a request, in pieces; None if the client wants none.

        Raises:
            RequestError: It cannot be answered: the client is to be disconnected.
        """
        if request.api is Api.API_VERSIONS:
            return answer_to(request, _versions(known=request.body is not None))
        assert request.body is not None
        fields = await self._fields(request.api, request.version, request.body)
        return None if fields is None else answer_to(request, fields)

    async def _fields(
        self, api: Api, version: int, body: SimpleNamespace
    ) -> Mapping[str, Any] | None:
        broker, made = self._broker, self._made
        match api:
            case Api.PRODUCE:
                return await produce(broker, version, body)
            case Api.FETCH:
                return await fetch(broker, body, self._now_ms)
            case Api.LIST_OFFSETS:
                return await list_offsets(broker, body)
            case Api.METADATA:
                partitions = made.partitions if made.on_demand else None
                return await admin.metadata(broker, version, body, partitions)
            case Api.INIT_PRODUCER_ID:
                return await admin.init_producer_id(broker, body)
            case Api.CREATE_TOPICS:
                return await topics.create_topics(broker, body, made.partitions)
            case Api.DELETE_TOPICS:
                return await topics.delete_topics(broker, body)
            case _:
                return self._told(api, body)

    def _told(self, api: Api, body: SimpleNamespace) -> Mapping[str, Any]:
        """What is answered at once."""
        match api:
            case Api.FIND_COORDINATOR:
                return admin.find_coordinator(body)
            case Api.DESCRIBE_CONFIGS:
                return topics.describe_configs(self._broker, body)
            case Api.CREATE_PARTITIONS:
                return topics.create_partitions(self._broker, body)
            case Api.DESCRIBE_CLUSTER:
                return admin.describe_cluster(self._broker)
            case _:
                raise AssertionError(api)


@lru_cache
def _versions(*, known: bool) -> dict[str, Any]:
    """What is served, also for a client that asks in a version which is not."""
    return {
        "error_code": ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION,
        "api_keys": [
            {
                "api_key": api,
                "min_version": ADVERTISED_FROM.get(api, versions.start),
                "max_version": versions[-1],
            }
            for api, versions in SERVED.items()
        ],
    }
