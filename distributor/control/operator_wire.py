"""What operators ask of controllers as Protobuf, by `operators.proto`: the only place to know both.

Reading never raises anything but `NotUnderstoodError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from dafka.wire.primitives import octets_of, text
from distributor.control import operators_pb2 as pb
from distributor.control.aims import LinkTurn
from distributor.control.demands import LevelPause
from distributor.control.protocol import PassedOver
from distributor.control.questions import AimedLinkRow, LeftFlowRow, RouteRow, Waited
from distributor.control.resuming import ResumeOrder
from distributor.control.wire_values import NotUnderstoodError

if TYPE_CHECKING:
    from collections.abc import Iterable

M = TypeVar("M", bound=Message)

SERVICE = pb.DESCRIPTOR.services_by_name["Controller"].full_name
"""What a controller serves."""

WAIT, EXPLAIN, RETARGET, PAUSE, RESUME = "Wait", "Explain", "Retarget", "Pause", "Resume"
"""Its calls."""

IN_CHARGE_KEY = "dafka-controller-in-charge"
"""Under which one that is not in charge says where the one is that is."""


@dataclass(frozen=True, slots=True)
class WaitQuestion:
    """Is what is published so far at the targets?

    Attributes:
        timeout_ms: How long to wait until it is.
    """

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class RouteQuestion:
    """What do flows do with this?

    Attributes:
        what: A topic, or what the address of a partition begins with.
        sequence: Of one partition, which record; None for the last one.
    """

    what: str
    sequence: int | None = None


def encode_wait(question: WaitQuestion) -> bytes:
    """Return a question as it is sent."""
    return pb.WaitRequest(timeout_ms=question.timeout_ms).SerializeToString()


def decode_wait(octets: bytes) -> WaitQuestion:
    """Return a question that came.

    Raises:
        NotUnderstoodError: It is none.
    """
    return WaitQuestion(_parsed(pb.WaitRequest(), octets).timeout_ms)


def encode_waited(waited: Waited) -> bytes:
    """Return an answer as it is sent."""
    left = [
        pb.LeftFlow(
            flow=one.flow,
            target=one.target,
            level=one.level,
            share=one.share,
            lacks=one.lacks,
            why=one.why,
        )
        for one in waited.left
    ]
    answer = pb.WaitAnswer(left=left, flows=waited.flows, partitions=waited.partitions)
    return answer.SerializeToString()


def decode_waited(octets: bytes) -> Waited:
    """Return an answer that came.

    Raises:
        NotUnderstoodError: It is none.
    """
    answer = _parsed(pb.WaitAnswer(), octets)
    left = (
        LeftFlowRow(
            one.flow,
            one.target,
            one.level,
            one.share,
            one.lacks if one.HasField("lacks") else None,
            one.why,
        )
        for one in answer.left
    )
    return Waited((*left,), answer.flows, answer.partitions)


def encode_route(question: RouteQuestion) -> bytes:
    """Return a question as it is sent."""
    asked = pb.ExplainRequest(what=octets_of(question.what), sequence=question.sequence)
    return asked.SerializeToString()


def decode_route(octets: bytes) -> RouteQuestion:
    """Return a question that came.

    Raises:
        NotUnderstoodError: It is none.
    """
    asked = _parsed(pb.ExplainRequest(), octets)
    sequence = asked.sequence if asked.HasField("sequence") else None
    return RouteQuestion(text(asked.what), sequence)


def encode_routes(rows: Iterable[RouteRow]) -> bytes:
    """Return an answer as it is sent."""
    routes = [
        pb.Route(
            topic=octets_of(one.topic),
            partitions=one.partitions,
            flow=one.flow,
            target=one.target,
            level=one.level,
            share=one.share,
            writer=one.writer,
            state=one.state,
            carried=one.carried,
            lacks=one.lacks,
            why=one.why,
        )
        for one in rows
    ]
    return pb.ExplainAnswer(routes=routes).SerializeToString()


def decode_routes(octets: bytes) -> list[RouteRow]:
    """Return an answer that came.

    Raises:
        NotUnderstoodError: It is none.
    """
    return [
        RouteRow(
            topic=text(one.topic),
            partitions=one.partitions,
            flow=one.flow,
            target=one.target,
            level=one.level,
            share=one.share,
            writer=one.writer,
            state=one.state,
            carried=one.carried,
            lacks=one.lacks if one.HasField("lacks") else None,
            why=one.why,
        )
        for one in _parsed(pb.ExplainAnswer(), octets).routes
    ]


def encode_turn(turn: LinkTurn) -> bytes:
    """Return a command as it is sent."""
    return pb.RetargetRequest(level=turn.level, to=turn.to).SerializeToString()


def decode_turn(octets: bytes) -> LinkTurn:
    """Return a command that came.

    Raises:
        NotUnderstoodError: It is none.
    """
    asked = _parsed(pb.RetargetRequest(), octets)
    return LinkTurn(asked.level, asked.to)


def encode_pause(pause: LevelPause) -> bytes:
    """Return a command as it is sent."""
    return pb.PauseRequest(level=pause.level, paused=pause.paused).SerializeToString()


def decode_pause(octets: bytes) -> LevelPause:
    """Return a command that came.

    Raises:
        NotUnderstoodError: It is none.
    """
    asked = _parsed(pb.PauseRequest(), octets)
    return LevelPause(asked.level, asked.paused)


def encode_resume(asked: ResumeOrder) -> bytes:
    """Return a command as it is sent."""
    return pb.ResumeRequest(level=asked.level, topic=octets_of(asked.topic)).SerializeToString()


def decode_resume(octets: bytes) -> ResumeOrder:
    """Return a command that came.

    Raises:
        NotUnderstoodError: It is none.
    """
    asked = _parsed(pb.ResumeRequest(), octets)
    return ResumeOrder(asked.level, text(asked.topic))


def encode_resumed(passed: PassedOver) -> bytes:
    """Return an answer as it is sent."""
    answer = pb.ResumeAnswer(partitions=passed.partitions, records=passed.records)
    return answer.SerializeToString()


def decode_resumed(octets: bytes) -> PassedOver:
    """Return an answer that came.

    Raises:
        NotUnderstoodError: It is none.
    """
    answer = _parsed(pb.ResumeAnswer(), octets)
    return PassedOver(answer.partitions, answer.records)


def encode_aimed(rows: Iterable[AimedLinkRow]) -> bytes:
    """Return an answer as it is sent."""
    links = [pb.AimedLink(target=one.target, level=one.level, topics=one.topics) for one in rows]
    return pb.RetargetAnswer(links=links).SerializeToString()


def decode_aimed(octets: bytes) -> list[AimedLinkRow]:
    """Return an answer that came.

    Raises:
        NotUnderstoodError: It is none.
    """
    links = _parsed(pb.RetargetAnswer(), octets).links
    return [AimedLinkRow(one.target, one.level, one.topics) for one in links]


def _parsed(message: M, octets: bytes) -> M:
    try:
        message.ParseFromString(octets)
    except DecodeError as error:
        raise NotUnderstoodError("octets that are no message") from error
    return message
