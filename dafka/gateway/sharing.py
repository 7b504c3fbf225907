"""The gateways of a cluster as a group, whose members share what clients see.

The group's name is also that of the topic whose partitions they share.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from dafka.gateway.broker import Gateway
from dafka.groups.commit import GATEWAYS
from dafka.groups.commit import TOPIC as COMMITS
from dafka.model import Partition
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from dafka.gateway.broker import KafkaPartition


def node_number(address: str) -> int:
    """Return the number by which Kafka clients know a gateway: positive, of 31 bits."""
    return zlib.crc32(octets_of(address)) % (2**31 - 1) + 1


def gateway_of(member: str) -> Gateway | None:
    """Read the id of a member of the group; None if no gateway has such a one."""
    address, _, rest = member.partition("@")
    host, _, port = rest.rpartition(".")[0].rpartition(":")
    if not host or not port.isdecimal():
        return None
    return Gateway(node_number(address), host, int(port))


def share_of(partition: KafkaPartition) -> Partition:
    """Return what a Kafka partition is among those that the group shares."""
    return Partition(GATEWAYS, f"{partition.topic}/{partition.number}")


def share_of_groups(number: int) -> Partition:
    """Return what a share of groups is among those that the group of gateways shares."""
    return Partition(GATEWAYS, f"{COMMITS}/{number}")
