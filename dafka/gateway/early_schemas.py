"""Messages of versions that Kafka 4, and so kio, has no more, and one client still sends.

sarama 1.22 does not ask what is served: it commits in version 1 and lists topics with
DescribeConfigs 0. They are written like kio's: annotations are values, as layouts are made of them.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

_BOOL, _INT8, _INT32, _INT64, _STRING, _ERROR = (
    {"kafka_type": kind} for kind in ("bool", "int8", "int32", "int64", "string", "error_code")
)


class _Early:
    """A message without tags and compact lengths."""

    __slots__ = ()
    __flexible__: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommitOfPartition(_Early):
    partition_index: int = field(metadata=_INT32)
    committed_offset: int = field(metadata=_INT64)
    commit_timestamp: int = field(metadata=_INT64)
    committed_metadata: str | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommitOfTopic(_Early):
    name: str = field(metadata=_STRING)
    partitions: tuple[_CommitOfPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OffsetCommitRequest(_Early):
    group_id: str = field(metadata=_STRING)
    generation_id_or_member_epoch: int = field(metadata=_INT32)
    member_id: str = field(metadata=_STRING)
    topics: tuple[_CommitOfTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommittedPartition(_Early):
    partition_index: int = field(metadata=_INT32)
    error_code: int = field(metadata=_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommittedTopic(_Early):
    name: str = field(metadata=_STRING)
    partitions: tuple[_CommittedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OffsetCommitResponse(_Early):
    topics: tuple[_CommittedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DescribedResource(_Early):
    resource_type: int = field(metadata=_INT8)
    resource_name: str = field(metadata=_STRING)
    configuration_keys: tuple[str, ...] | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DescribeConfigsRequest(_Early):
    resources: tuple[_DescribedResource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DescribedConfig(_Early):
    name: str = field(metadata=_STRING)
    value: str | None = field(metadata=_STRING)
    read_only: bool = field(metadata=_BOOL)
    is_default: bool = field(metadata=_BOOL)
    is_sensitive: bool = field(metadata=_BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DescribeConfigsResult(_Early):
    error_code: int = field(metadata=_ERROR)
    error_message: str | None = field(metadata=_STRING)
    resource_type: int = field(metadata=_INT8)
    resource_name: str = field(metadata=_STRING)
    configs: tuple[_DescribedConfig, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DescribeConfigsResponse(_Early):
    throttle_time_ms: int = field(metadata=_INT32)
    results: tuple[_DescribeConfigsResult, ...]


EARLY_REQUESTS: dict[tuple[int, int], type[Any]] = {
    (8, 1): _OffsetCommitRequest,
    (32, 0): _DescribeConfigsRequest,
}
"""By API and version."""

EARLY_RESPONSES: dict[tuple[int, int], type[Any]] = {
    (8, 1): _OffsetCommitResponse,
    (32, 0): _DescribeConfigsResponse,
}
