"""Judgements about time: what retention took too early, and who waits while others go on. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.model import ALL_SLOTS, Partition, Slots
from dafka.testing.checker import Anomaly, Name
from dafka.testing.history import Acknowledged, Began, Polled, Sent, SlotsKept, Trimmed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.testing.history import History

STARVED_MS = 20_000
"""Nobody waits longer for what stores have, while others are served and nothing goes wrong."""


def dropped_young(
    history: History, ages_ms: Mapping[str, int], late: Mapping[str, int]
) -> list[Anomaly]:
    """Return what stores dropped by age before it was that old, by the true time.

    Args:
        history: The run; nothing in it is dropped for another reason, but what slots are given up.
        ages_ms: How long the records of topics are to be kept; those of others for ever.
        late: By how much the clocks of processes were behind that did not show the right time: by
            so much their records seem older.
    """
    sends = {event.op: event for event in history if isinstance(event, Sent)}
    places: dict[Partition, list[tuple[int, Sent]]] = {}
    for event in history:
        if isinstance(event, Acknowledged):
            sent = sends[event.op]
            partition = Partition(sent.topic, event.address)
            places.setdefault(partition, []).append((event.sequence, sent))
    found = []
    kept: dict[str, Slots] = {}
    for event in history:
        if isinstance(event, SlotsKept):
            kept[event.node] = Slots(event.kept)
        if not isinstance(event, Trimmed):
            continue
        if not kept.get(event.node, ALL_SLOTS).keeps(*event.partition):
            continue
        age_ms = ages_ms.get(event.partition.topic)
        for sequence, sent in places.get(event.partition, ()):
            grown_ms = event.at_ms - sent.at_ms + late.get(sent.process, 0)
            if sequence < event.start and (age_ms is None or grown_ms < age_ms):
                place = f"{event.partition.topic}/{event.partition.address}/{sequence}"
                text = f"{event.node} dropped {place} after {grown_ms} ms"
                found.append(Anomaly(Name.YOUNG, text))
    return found


class _Served:
    """When things were stored and dropped, and when each consumer got them."""

    def __init__(self, history: History, healed_ms: int) -> None:
        sends = {event.op: event for event in history if isinstance(event, Sent)}
        self.stored: dict[tuple[Partition, int], int] = {}
        self.starts: dict[Partition, int] = {}
        self.began: dict[str, Began] = {}
        self.got: dict[str, dict[tuple[Partition, int], int]] = {}
        for event in history:
            match event:
                case Acknowledged():
                    place = Partition(sends[event.op].topic, event.address), event.sequence
                    self.stored[place] = max(event.at_ms, healed_ms)
                case Trimmed():
                    start = self.starts.get(event.partition, 0)
                    self.starts[event.partition] = max(event.start, start)
                case Began():
                    self.began[event.process], self.got[event.process] = event, {}
                case Polled():
                    got = self.got[event.process]
                    for sequence in range(event.sequence, event.sequence + len(event.values)):
                        got[event.partition, sequence] = event.at_ms
                case _:
                    pass

    def owed(self, begun: Began) -> dict[tuple[Partition, int], int]:
        """What a consumer is to get, and by when."""
        return {
            (partition, sequence): max(stored_ms, begun.at_ms) + STARVED_MS
            for (partition, sequence), stored_ms in self.stored.items()
            if partition.topic in begun.topics
            and begun.earliest
            and sequence >= self.starts.get(partition, 0)
        }


def starved(history: History, healed_ms: int) -> list[Anomaly]:
    """Return what consumers waited for too long while they got what was stored later.

    Args:
        history: The run; what stores have dropped in it nobody has to wait for.
        healed_ms: Since when nothing goes wrong.
    """
    served = _Served(history, healed_ms)
    found = []
    for process, begun in served.began.items():
        got = served.got[process]
        for place, due_ms in served.owed(begun).items():
            if got.get(place, due_ms + 1) <= due_ms:
                continue
            others = sum(
                other[0] != place[0]
                and at_ms > due_ms
                and served.stored.get(other, 0) > served.stored[place]
                for other, at_ms in got.items()
            )
            if others:
                text = f"{process} waited for {place}, and got {others} that came later"
                found.append(Anomaly(Name.STARVED, text))
    return found
