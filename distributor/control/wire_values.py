"""Flows and frontiers as Protobuf, of which commands and responses consist; see `wire`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import (
    ADDRESS_BYTES_MAX,
    HOLES_PASSED_MAX,
    PARTITIONS_MAX,
    TOPIC_BYTES_MAX,
)
from dafka.model import SLOTS, Partition
from dafka.wire.primitives import octets_of, text
from distributor.control import control_pb2 as pb
from distributor.control.messages import Flow, FlowKind
from distributor.link.events import Hole
from topology.model import ClusterName
from topology.plan import Link

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from distributor.control.frontiers import Frontier

_KINDS = {
    FlowKind.RECORDS: pb.FLOW_KIND_RECORDS,
    FlowKind.OFFSETS: pb.FLOW_KIND_OFFSETS,
    FlowKind.SCHEMAS: pb.FLOW_KIND_SCHEMAS,
}


class NotUnderstoodError(Exception):
    """Of a message of a known kind; what is wrong with it."""


def frontier_message(frontier: Frontier) -> pb.Frontier:
    """Return a frontier as a message."""
    ends: dict[str, list[pb.PartitionEnd]] = {}
    for partition, end in frontier.items():
        one = pb.PartitionEnd(address=octets_of(partition.address), end=end)
        ends.setdefault(partition.topic, []).append(one)
    topics = [pb.TopicFrontier(topic=octets_of(topic), ends=of) for topic, of in ends.items()]
    return pb.Frontier(topics=topics)


def flow_message(flow: Flow) -> pb.Flow:
    """Return a flow as a message."""
    link = pb.Link(
        source=flow.link.source,
        level=flow.link.level,
        branch=flow.link.branch,
        targets=flow.link.targets,
        beyond=flow.link.beyond,
        span=flow.link.span,
        topics=flow.link.topics,
    )
    return pb.Flow(
        link=link,
        kind=_KINDS[flow.kind],
        share=flow.share,
        shares=flow.shares,
        passes=map(hole_message, flow.passes),
    )


def hole_message(hole: Hole) -> pb.Hole:
    """Return a hole as a message."""
    topic, address = map(octets_of, hole.partition)
    return pb.Hole(topic=topic, address=address, first=hole.first, end=hole.end)


def frontier_of(message: pb.Frontier) -> dict[Partition, int]:
    """Return the frontier of a message.

    Raises:
        NotUnderstoodError: It is none.
    """
    if sum(len(of_topic.ends) for of_topic in message.topics) > PARTITIONS_MAX:
        raise NotUnderstoodError(f"more than {PARTITIONS_MAX} partitions")
    frontier: dict[Partition, int] = {}
    for of_topic in message.topics:
        topic = _name(of_topic.topic, TOPIC_BYTES_MAX)
        for one in of_topic.ends:
            frontier[Partition(topic, _name(one.address, ADDRESS_BYTES_MAX))] = one.end
    return frontier


def holes_of(messages: Collection[pb.Hole]) -> tuple[Hole, ...]:
    """Return the holes of messages.

    Raises:
        NotUnderstoodError: They are none, or too many.
    """
    if len(messages) > HOLES_PASSED_MAX:
        raise NotUnderstoodError(f"{len(messages)} holes")
    return (*map(_hole, messages),)


def _hole(message: pb.Hole) -> Hole:
    if message.first >= message.end:
        raise NotUnderstoodError(f"a hole from {message.first} to {message.end}")
    topic = _name(message.topic, TOPIC_BYTES_MAX)
    partition = Partition(topic, _name(message.address, ADDRESS_BYTES_MAX))
    return Hole(partition, message.first, message.end)


def _name(octets: bytes, most: int) -> str:
    if not 0 < len(octets) <= most:
        raise NotUnderstoodError(f"a name of {len(octets)} octets")
    return text(octets)


def flow_of(message: pb.Flow) -> Flow:
    """Return the flow of a message.

    Raises:
        NotUnderstoodError: It is none, or of a kind that this build does not know.
    """
    kinds = {number: kind for kind, number in _KINDS.items()}
    if message.kind not in kinds:
        raise NotUnderstoodError(f"flow kind {int(message.kind)}")
    if not message.share < message.shares <= SLOTS:
        raise NotUnderstoodError(f"share {message.share} of {message.shares}")
    if not message.link.targets:
        raise NotUnderstoodError("a link without targets")
    link = Link(
        source=ClusterName(message.link.source),
        level=message.link.level,
        branch=message.link.branch,
        targets=_clusters(message.link.targets),
        beyond=_clusters(message.link.beyond),
        span=_clusters(message.link.span),
        topics=message.link.topics,
    )
    passes = holes_of(message.passes)
    return Flow(link, kinds[message.kind], message.share, message.shares, passes)


def _clusters(names: Iterable[str]) -> tuple[ClusterName, ...]:
    return tuple(map(ClusterName, names))
