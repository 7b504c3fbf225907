"""What a run was seen to do: one list of events, recorded by whoever drove it.

The simulator writes one of itself. A test against a real cluster writes one around its own calls:

    history = History()
    op = history.sent("p1", "orders", [b"p1-0"], now_ms)
    delivery = producer.send("orders", b"p1-0").result(10)
    history.acknowledged(op, delivery.address, delivery.sequence, now_ms)

and hands it to `dafka.testing.checker`. Values must be unique in the whole run: that is how a value
that turns up twice, or that nobody sent, is recognised. Times are milliseconds of one monotonic
clock, and events are recorded in its order.

A send that was neither acknowledged nor refused may or may not have happened. Refused is only what
certainly did not: a time-out is no refusal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dafka.errors import MisuseError
from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sent:
    """A producer was asked to send values, which form one batch at most."""

    at_ms: int
    op: int
    process: str
    topic: str
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The send `op` is stored: its first value stands at `sequence`, the others behind it."""

    at_ms: int
    op: int
    address: str
    sequence: int
    min_acks: int


@dataclass(frozen=True, slots=True)
class SendRefused:
    """The send `op` has certainly not happened."""

    at_ms: int
    op: int


@dataclass(frozen=True, slots=True)
class Began:
    """A consumer began to read topics, from their beginning or not; it forgot what was before.

    Perhaps it is to be given only what is `stored`.
    """

    at_ms: int
    process: str
    topics: tuple[str, ...]
    earliest: bool
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Positioned:
    """A consumer was told to go on at `sequence`, or that there is nothing kept before it."""

    at_ms: int
    process: str
    partition: Partition
    sequence: int


@dataclass(frozen=True, slots=True)
class Polled:
    """A consumer was given consecutive records."""

    at_ms: int
    process: str
    partition: Partition
    sequence: int
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A consumer ended or died: nothing is expected of it any more."""

    at_ms: int
    process: str


@dataclass(frozen=True, slots=True)
class Durable:
    """A store's disk has everything of a partition below `end`."""

    at_ms: int
    node: str
    partition: Partition
    end: int


@dataclass(frozen=True, slots=True)
class Reopened:
    """A store came back from the dead, and found a partition on its disk up to `end`."""

    at_ms: int
    node: str
    partition: Partition
    end: int


@dataclass(frozen=True, slots=True)
class DiskLost:
    """A store has lost its disk, and begins again with an empty one."""

    at_ms: int
    node: str


@dataclass(frozen=True, slots=True)
class HeadTold:
    """A store told somebody how far its partition reaches."""

    at_ms: int
    node: str
    partition: Partition
    sequence: int


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A store keeps nothing of a partition below `start` any more.

    Attributes:
        given_up: Whether that is since it gives the partition up, and not by retention.
    """

    at_ms: int
    node: str
    partition: Partition
    start: int
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class SkippedOver:
    """A store goes on at `end` without the records from `start` on, since nobody has them."""

    at_ms: int
    node: str
    partition: Partition
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SlotsKept:
    """A store is started, or slots have come to it or gone: the bits of what it keeps since."""

    at_ms: int
    node: str
    kept: int


@dataclass(frozen=True, slots=True)
class Erased:
    """A store that has given a partition up knows nothing of it any more."""

    at_ms: int
    node: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class Settled:
    """The run is over: all was healed and had its time; these stores are read from here on.

    Attributes:
        at_ms: When.
        stores: Their names.
        slots: The bits of what each keeps; none where each keeps all.
    """

    at_ms: int
    stores: tuple[str, ...]
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadBack:
    """A store was read at the end: consecutive records, in order of sequence."""

    at_ms: int
    node: str
    partition: Partition
    sequence: int
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something was broken on purpose."""

    at_ms: int
    name: str


Event = (
    Sent
    | Acknowledged
    | SendRefused
    | Began
    | Positioned
    | Polled
    | Ended
    | Durable
    | Reopened
    | DiskLost
    | HeadTold
    | Trimmed
    | SkippedOver
    | SlotsKept
    | Erased
    | Settled
    | ReadBack
    | Fault
)

_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        *(Sent, Acknowledged, SendRefused, Began, Positioned, Polled, Ended),
        *(
            SlotsKept,
            Erased,
            Durable,
            Reopened,
            DiskLost,
            HeadTold,
            Trimmed,
            SkippedOver,
            Settled,
            ReadBack,
            Fault,
        ),
    )
}


class History:
    """The events of one run, in the order they were recorded.

    `record` takes any event; `sent` and `acknowledged` number the sends as well.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._events = list(events)
        self._ops = sum(isinstance(event, Sent) for event in self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def record(self, event: Event) -> None:
        """Add an event."""
        self._events.append(event)

    def sent(self, process: str, topic: str, values: Sequence[bytes], now_ms: int) -> int:
        """A producer is about to send; returns the number of the send."""
        self._ops += 1
        self.record(Sent(now_ms, self._ops, process, topic, tuple(values)))
        return self._ops

    def acknowledged(
        self, op: int, address: str, sequence: int, now_ms: int, min_acks: int = 1
    ) -> None:
        """The send with this number was stored by `min_acks` stores."""
        self.record(Acknowledged(now_ms, op, address, sequence, min_acks))

    def save(self, path: Path) -> None:
        """Write one JSON object a line."""
        with path.open("w", encoding="utf-8") as file:
            for event in self._events:
                file.write(json.dumps(_encoded(event)) + "\n")

    @classmethod
    def load(cls, path: Path) -> History:
        """Read what `save` wrote.

        Raises:
            MisuseError: A line is not an event.
        """
        with path.open(encoding="utf-8") as file:
            return cls(_decoded(line, number) for number, line in enumerate(file, 1))


def _encoded(event: Event) -> dict[str, Any]:
    row: dict[str, Any] = {"event": type(event).__name__}
    row |= {field.name: getattr(event, field.name) for field in fields(event)}
    if "values" in row:
        row["values"] = [value.decode("latin-1") for value in row["values"]]
    return row


def _decoded(line: str, number: int) -> Event:
    try:
        row = json.loads(line)
        kind = _KINDS[row.pop("event")]
        if "partition" in row:
            row["partition"] = Partition(*row["partition"])
        for name in ("topics", "stores", "slots"):
            if name in row:
                row[name] = tuple(row[name])
        if "values" in row:
            row["values"] = tuple(value.encode("latin-1") for value in row["values"])
        return kind(**row)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MisuseError(f"line {number} is not an event of a history: {line[:80]!r}") from error
