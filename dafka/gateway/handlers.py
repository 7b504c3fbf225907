"""Requests of Kafka clients and what answers them, over the node behind: no socket, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dafka.gateway import (
    admin,
    alterations,
    group_admin,
    group_consumers,
    group_members,
    group_offsets,
    topics,
)
from dafka.gateway.broker import ErrorCode
from dafka.gateway.catalog import PARTITIONS_USUAL
from dafka.gateway.coordinator import COORDINATOR_SETTINGS
from dafka.gateway.coordinators import Coordinators
from dafka.gateway.deletions import delete_topics
from dafka.gateway.fetch import HeldBytes, fetch, list_offsets
from dafka.gateway.log_start import delete_records
from dafka.gateway.permitted import PermittedBroker
from dafka.gateway.produce import produce
from dafka.gateway.quotas import Quotas, Throttle
from dafka.gateway.wire import ADVERTISED_FROM, SERVED, Api, Request, answer_to

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from types import SimpleNamespace

    from dafka.gateway.broker import Broker
    from dafka.gateway.users import KafkaUser


OF_GROUPS: Mapping[Api, Callable[[Coordinators, Request], Awaitable[Mapping[str, Any]]]] = {
    Api.FIND_COORDINATOR: group_admin.find_coordinator,
    Api.LIST_GROUPS: group_admin.list_groups,
    Api.DESCRIBE_GROUPS: group_admin.describe_groups,
    Api.DELETE_GROUPS: group_admin.delete_groups,
    Api.JOIN_GROUP: group_members.join_group,
    Api.SYNC_GROUP: group_members.sync_group,
    Api.HEARTBEAT: group_members.heartbeat,
    Api.LEAVE_GROUP: group_members.leave_group,
    Api.OFFSET_COMMIT: group_offsets.offset_commit,
    Api.OFFSET_FETCH: group_offsets.offset_fetch,
    Api.OFFSET_DELETE: group_offsets.offset_delete,
    Api.CONSUMER_GROUP_HEARTBEAT: group_consumers.consumer_group_heartbeat,
    Api.CONSUMER_GROUP_DESCRIBE: group_consumers.consumer_group_describe,
}
"""What is answered by, or about, groups."""

OF_TOPICS: Mapping[Api, Callable[[Broker, SimpleNamespace], Awaitable[Mapping[str, Any]]]] = {
    Api.DELETE_TOPICS: delete_topics,
    Api.DELETE_RECORDS: delete_records,
    Api.ALTER_CONFIGS: alterations.alter_configs,
    Api.INCREMENTAL_ALTER_CONFIGS: alterations.alter_some_configs,
}
"""What changes topics that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How topics are made.

    Attributes:
        partitions: Of those for which no number is given.
        on_demand: Whether one is made when a client asks for it that is not there.
    """

    partitions: int = PARTITIONS_USUAL
    on_demand: bool = True


class Handlers:
    """Answers requests.

    Args:
        broker: The node behind.
        now_ms: A monotonic clock.
        made: How topics are made.
        groups: Which there are; None: as they are coordinated unless somebody says how.
        refused: Called with each error that is answered.
        quotas: How fast users may go.
        throttle: What holds who asks to them; None: nothing.
        held: What fetches of all users hold.
    """

    def __init__(
        self,
        broker: Broker,
        now_ms: Callable[[], int],
        made: TopicSettings = TopicSettings(),
        groups: Coordinators | None = None,
        refused: Callable[[Api, ErrorCode], None] = lambda _api, _error: None,
        quotas: Quotas | None = None,
        throttle: Throttle | None = None,
        held: HeldBytes | None = None,
    ) -> None:
        self._broker: Broker = broker
        self._refused = refused
        self._held = held or HeldBytes()
        self._quotas = quotas or Quotas(now_ms)
        self._throttle = throttle or Throttle({}, now_ms)
        self._now_ms, self._made = now_ms, made
        self._groups = groups or Coordinators(broker, now_ms, COORDINATOR_SETTINGS)

    @property
    def muted_ms(self) -> int:
        """For how long who asks is not to be read from."""
        return self._throttle.muted_ms

    def charged(self, request: Request) -> Request:
        """Note that a request has come, before the next one is taken in."""
        return request._replace(throttle_ms=self._throttle.asked(request))

    def permitted(self, user: KafkaUser) -> Handlers:
        """Return the same for a connection of a user, who may do so much."""
        broker = PermittedBroker(self._broker, user.rights)
        return Handlers(
            broker,
            self._now_ms,
            self._made,
            groups=self._groups.permitted(broker, user.rights),
            refused=self._refused,
            quotas=self._quotas,
            throttle=self._quotas.of(user),
            held=self._held,
        )

    async def answer(self, request: Request) -> list[bytes] | None:
        """Return the answer to a request, in pieces; None if the client wants none.

        Raises:
            RequestError: It cannot be answered: the client is to be disconnected.
        """
        if request.api is Api.API_VERSIONS:
            return answer_to(request, _versions(known=request.body is not None))
        assert request.body is not None
        fields = await self._fields(request, request.body)
        if fields is None:
            return None
        throttle_ms = max(request.throttle_ms, self._throttle.answered(request, fields))
        if throttle_ms:
            fields = {**fields, "throttle_time_ms": throttle_ms}
        for error in _errors_in(fields):
            self._refused(request.api, error)
        return answer_to(request, fields)

    async def _fields(self, request: Request, body: SimpleNamespace) -> Mapping[str, Any] | None:
        broker, made, version = self._broker, self._made, request.version
        match request.api:
            case Api.PRODUCE:
                return await produce(broker, version, body)
            case Api.FETCH:
                return await fetch(broker, body, self._now_ms, self._held)
            case Api.LIST_OFFSETS:
                return await list_offsets(broker, body)
            case Api.METADATA:
                partitions = made.partitions if made.on_demand else None
                return await admin.metadata(broker, version, body, partitions)
            case Api.INIT_PRODUCER_ID:
                return await admin.init_producer_id(broker, body)
            case Api.CREATE_TOPICS:
                return await topics.create_topics(broker, body, made.partitions)
            case _ if request.api in OF_TOPICS:
                return await OF_TOPICS[request.api](broker, body)
            case _ if request.api in OF_GROUPS:
                return await OF_GROUPS[request.api](self._groups, request)
            case _:
                return self._told(request.api, body)

    def _told(self, api: Api, body: SimpleNamespace) -> Mapping[str, Any]:
        """What is answered at once."""
        match api:
            case Api.DESCRIBE_CONFIGS:
                made = self._made
                return topics.describe_configs(
                    self._broker, body, made.partitions, on_demand=made.on_demand
                )
            case Api.CREATE_PARTITIONS:
                return topics.create_partitions(self._broker, body)
            case Api.DESCRIBE_CLUSTER:
                return admin.describe_cluster(self._broker)
            case _:
                raise AssertionError(api)


def _errors_in(fields: Mapping[str, Any]) -> Iterator[ErrorCode]:
    """All errors of an answer; what is no table, as batches are, is passed over."""
    for name, value in fields.items():
        if name == "error_code":
            if value:
                yield ErrorCode(value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for row in value:
                yield from _errors_in(row)


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
