"""The configs of topics and gateways that mean something here, by Kafka's names.

What a client sets and we would not heed is refused rather than dropped.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from dafka.gateway.broker import Entrance
from dafka.limits import CLIENT_BATCH_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from dafka.gateway.broker import Gateway

MESSAGE_BYTES_MAX = "max.message.bytes"
RETENTION_MS = "retention.ms"
_UNBOUNDED = -1


class ConfigKind(IntEnum):
    """Kafka's number for what a value is."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7


class ConfigSource(IntEnum):
    """Kafka's number for who set a value."""

    TOPIC = 1
    GATEWAY = 4
    DEFAULT = 5


class Config(NamedTuple):
    """What may be set.

    Attributes:
        kind: What a value is.
        default: Where nothing is set.
        least: The least number that may be set; None if nothing but the default may be.
        most: The largest.
        why: Nothing but the default may be.
    """

    kind: ConfigKind
    default: str
    least: int | None = None
    most: int = 2**63 - 1
    why: str = "batches are kept as they came"


TOPIC_CONFIGS = {
    "cleanup.policy": Config(ConfigKind.LIST, "delete"),
    "compression.type": Config(ConfigKind.STRING, "producer"),
    MESSAGE_BYTES_MAX: Config(
        ConfigKind.INT, str(CLIENT_BATCH_BYTES_MAX), 0, CLIENT_BATCH_BYTES_MAX
    ),
    "message.timestamp.type": Config(ConfigKind.STRING, "CreateTime"),
    "retention.bytes": Config(
        ConfigKind.LONG,
        str(_UNBOUNDED),
        why="a ledger does not know how large records are; stores drop what their operators say, "
        "and retention.ms lets offsets begin later",
    ),
    RETENTION_MS: Config(ConfigKind.LONG, str(_UNBOUNDED), _UNBOUNDED),
}
"""Batches are kept as they came, so what would change them, compression, timestamps and compaction,
has one value only."""


def refusal(configs: Mapping[str, str | None]) -> str | None:
    """Return why a topic cannot be made with these; None if it can."""
    for name, value in configs.items():
        config = TOPIC_CONFIGS.get(name)
        if config is None:
            return f"there is no config {name!r} here; there are {', '.join(TOPIC_CONFIGS)}"
        if value is None or value == config.default:
            continue
        if config.least is None:
            return f"{name} is {config.default} here, and cannot be {value!r}: {config.why}"
        if not _is_number(value) or not config.least <= int(value) <= config.most:
            return f"{name} is a number from {config.least} to {config.most}, not {value!r}"
    return None


def _is_number(value: str) -> bool:
    return len(value) <= 20 and value.isascii() and value.removeprefix("-").isdigit()


def batch_bytes_max(configs: Mapping[str, str]) -> int:
    """How large a batch of a topic with these configs may be."""
    return int(configs.get(MESSAGE_BYTES_MAX, CLIENT_BATCH_BYTES_MAX))


def retention_ms(configs: Mapping[str, str]) -> int | None:
    """How old records of a topic with these configs may be; None: as old as stores keep them."""
    age_ms = int(configs.get(RETENTION_MS, _UNBOUNDED))
    return None if age_ms == _UNBOUNDED else age_ms


def described(
    configs: Mapping[str, str], wanted: Collection[str] | None
) -> Iterator[dict[str, Any]]:
    """Yield the configs of a topic as DescribeConfigs tells them; all if none is named."""
    for name, config in TOPIC_CONFIGS.items():
        if wanted is None or name in wanted:
            yield {
                "name": name,
                "value": configs.get(name, config.default),
                "read_only": config.least is None,
                "is_default": name not in configs,
                "config_source": ConfigSource.TOPIC if name in configs else ConfigSource.DEFAULT,
                "config_type": config.kind,
                "documentation": None,
            }


def gateway_configs(
    gateway: Gateway, partitions: int, *, on_demand: bool
) -> Iterator[tuple[str, ConfigKind, str]]:
    """Yield name, kind and value of what a gateway does; clients can change nothing of it.

    Args:
        gateway: Which.
        partitions: Of topics for which no number is given.
        on_demand: Whether topics are made when a client asks for them.
    """
    yield "advertised.listeners", ConfigKind.LIST, f"GATEWAY://{gateway.host}:{gateway.port}"
    yield "auto.create.topics.enable", ConfigKind.BOOLEAN, str(on_demand).lower()
    yield "delete.topic.enable", ConfigKind.BOOLEAN, "true"
    yield "message.max.bytes", ConfigKind.INT, str(CLIENT_BATCH_BYTES_MAX)
    yield "num.partitions", ConfigKind.INT, str(partitions)


_STORES, _TOWERS, _KEYS, _INSECURE, _WIRE = (
    f"dafka.{name}" for name in ("stores", "towers", "keys", "insecure", "wire")
)


def cluster_configs(entrance: Entrance) -> Iterator[tuple[str, ConfigKind, str]]:
    """Yield the same of what is so for all of a cluster's gateways: Kafka has no such configs."""
    yield _STORES, ConfigKind.LIST, ",".join(entrance.stores)
    yield _TOWERS, ConfigKind.LIST, ",".join(entrance.towers)
    yield _KEYS, ConfigKind.BOOLEAN, str(entrance.keys).lower()
    yield _INSECURE, ConfigKind.BOOLEAN, str(entrance.insecure).lower()
    yield _WIRE, ConfigKind.STRING, entrance.wire


def entrance_of(configs: Mapping[str, str | None]) -> Entrance | None:
    """What such configs say; None if they are not those of one of our clusters."""
    stores, towers = configs.get(_STORES), configs.get(_TOWERS)
    if not stores or not towers:
        return None
    return Entrance(
        tuple(stores.split(",")),
        tuple(towers.split(",")),
        configs.get(_KEYS) == "true",
        configs.get(_INSECURE) == "true",
        configs.get(_WIRE) or "",
    )
