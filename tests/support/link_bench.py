"""A link with a hand on both sides and on the clock, for the tests of its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import PEER_BOUNDS, PeerBounds
from dafka.model import Batch, Partition
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Publish
from dafka.protocol.events import Received, Woke
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.records.batch import BatchBuilder, enclosed, records_of
from dafka.records.compression import Codec
from dafka.records.envelope import FRESH, Envelope
from dafka.wire import messages
from distributor.link.events import (
    AskHeads,
    HeadsRead,
    Side,
)
from distributor.link.machine import LinkMachine
from distributor.link.settings import LinkSettings, no_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from distributor.link.events import Hole

P = Partition("flights", "AA")
ORIGIN = 7
SURVEY_MS = 1_000
REPAIR_MS = 5_000


def batch(sequence: int, count: int = 2, envelope: Envelope = FRESH, size: int = 10) -> Batch:
    builder = BatchBuilder(1 << 20)
    for number in range(sequence, sequence + count):
        builder.append(1_000 + number, None, str(number).encode().ljust(size), ())
    return Batch(P, sequence, count, enclosed(builder.build(), sequence, envelope))


def live(one: Batch) -> Received:
    return Received(messages.Records(P.topic, P.address, one.sequence, one.count, one.content))


def durable(end: int) -> Received:
    return Received(messages.Ack(P.topic, P.address, "SOURCE-STORE", end - 1))


def stored(end: int) -> Received:
    return Received(messages.Ack(P.topic, P.address, "TARGET-STORE", end - 1))


def fetched(sequence: int, count: int = 100) -> Received:
    return Received(messages.Fetch(P.topic, P.address, "SOMEBODY", sequence, count))


class Bench:
    """A link with a hand on both sides and on the clock."""

    def __init__(
        self,
        level: int = 1,
        buffer_bytes_max: int = 1 << 20,
        bytes_per_s: int | None = None,
        epoch: int = 0,
        skips: Callable[[str], bool] = no_topic,
        permitted: bool = True,
        passes: Mapping[Partition, Hole] | None = None,
        codec: Codec = Codec.NONE,
        bounds: PeerBounds = PEER_BOUNDS,
    ) -> None:
        settings = ConsumerSettings(
            start=Start.ASSIGNED, committed=True, buffer_bytes_max=buffer_bytes_max, bounds=bounds
        )
        self.now_ms = 0
        self.consumer = ConsumerMachine("LINK", settings)
        self.link = LinkMachine(
            level=level,
            origin=ORIGIN,
            epoch=epoch,
            source=self.consumer,
            mirror=MirrorMachine(MirrorSettings()),
            permitted=permitted,
            settings=LinkSettings(
                survey_interval_ms=SURVEY_MS,
                repair_after_ms=REPAIR_MS,
                passes=passes or {},
                bytes_per_s=bytes_per_s,
                skips=skips,
                codec=codec,
            ),
        )
        self.give(Side.SOURCE, Woke())

    def give(self, side: Side, event) -> list:
        effects = self.link.handle((side, event), self.now_ms)
        self.link.check()
        return effects

    def source(self, *events) -> list:
        return [effect for event in events for effect in self.give(Side.SOURCE, event)]

    def target(self, *events) -> list:
        return [effect for event in events for effect in self.give(Side.TARGET, event)]

    def placed(self, heads: dict[Partition, int] | None = None) -> Bench:
        """Let it find the partition and learn what the target has."""
        self.source(durable(1_000_000))
        self.target(HeadsRead(heads or {}))
        return self


def of(kind, effects) -> list:
    return [effect for _, effect in effects if isinstance(effect, kind)]


def published(effects) -> list[messages.Records]:
    return [
        effect.message
        for side, effect in effects
        if side is Side.TARGET
        and isinstance(effect, Publish)
        and isinstance(effect.message, messages.Records)
    ]


def sequences(effects) -> list[int]:
    return [
        record.sequence
        for message in published(effects)
        for record in records_of(Batch(P, message.sequence, message.count, message.content))
    ]


def surveyed(bench: Bench, source: int, target: int, **facts) -> list:
    """Let it compare both ends, a survey interval later."""
    bench.now_ms += SURVEY_MS
    assert of(AskHeads, bench.source(Woke())) == [AskHeads()]
    return bench.target(HeadsRead({P: target}, {P: source}, **facts))
