"""The batch that a producer's `send` is filling, and what may go into it.

How far apart a producer without linger seals its batches.

A batch of every record is the least latency while nobody is busy, and the most once somebody is:
everybody down the line pays for batches, not for records. How long stores take to acknowledge tells
which it is, so the gap grows with its square (docs/adr/0046): with the load, and batches with it.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import MisuseError
from dafka.limits import RECORD_BYTES_MAX
from dafka.node.delivery import delivery_future
from dafka.process.clock import now_ms
from dafka.records.batch import BatchBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Partition
    from dafka.records.batch import Run
    from dafka.records.compression import Codec


GAP_S_MIN = 0.0003
GAP_S_MAX = 0.002
"""What a record waits at most for the sake of others; on average half of it."""

EVEN_S = 0.001
"""Where ACKs take so long, batches are as far apart; where they take half of it, a quarter."""

TIMED_EVERY = 16
"""Of so many batches one is timed."""

_SMOOTHING = 0.125
"""Weight of the last measurement."""

_PROBE_S_MAX = 1.0
"""A batch that is not acknowledged by then tells nothing of the load."""


class _Probe(NamedTuple):
    partition: Partition
    end: int
    published_s: float


class SealGap:
    """The gap, from one batch after the other: published, and acknowledged."""

    def __init__(self) -> None:
        self.seconds = GAP_S_MIN
        """Between two times that open batches are sealed."""
        self._took_s: float | None = None
        """How long an ACK takes, as far as it counts; None before the first."""
        self._untimed = TIMED_EVERY - 1
        """Batches since one was timed."""
        self._probe: _Probe | None = None
        """The batch that is timed."""

    def published(self, partition: Partition, end: int, now_s: float) -> None:
        """A batch that ends below sequence `end` goes out."""
        self._untimed += 1
        if self._probe is None:
            due = self._untimed >= TIMED_EVERY
        else:
            due = now_s > self._probe.published_s + _PROBE_S_MAX
        if due:
            self._untimed = 0
            self._probe = _Probe(partition, end, now_s)

    def left_s(self, now_s: float) -> float:
        """For how long nothing is to be sealed, unless an ACK comes; 0 if it may be.

        Who waits out the gap sees no ACK meanwhile, and would take the gap for what an ACK takes.
        """
        probe = self._probe
        return 0.0 if probe is None else max(0.0, probe.published_s + GAP_S_MAX - now_s)

    def stored(self, partition: Partition, end: int, now_s: float) -> None:
        """Enough stores have everything below `end`."""
        probe = self._probe
        if probe is None or probe.partition != partition or end < probe.end:
            return
        self._probe = None
        took_s = now_s - probe.published_s
        if took_s > _PROBE_S_MAX:
            return
        took_s = min(took_s, GAP_S_MAX)
        before_s = took_s if self._took_s is None else self._took_s
        self._took_s = before_s + _SMOOTHING * (took_s - before_s)
        self.seconds = min(max(self._took_s**2 / EVEN_S, GAP_S_MIN), GAP_S_MAX)


UNUSABLE = (TypeError, ValueError, AttributeError, OverflowError)
"""What aiokafka raises for a field of the wrong type or size."""


class BareBuilder(BatchBuilder):
    """Takes bare values only: nothing else will travel."""

    __slots__ = ()

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> bool:
        """Add a record; see `BatchBuilder`.

        Raises:
            ValueError: It has a key, headers, or no value.
        """
        if key is not None or headers or value is None:
            raise ValueError("raw content is a value, without key and headers")
        return super().append(timestamp_ms, key, value, headers)

    def extend(self, timestamp_ms: int, values: Sequence[bytes | None], start: int) -> int:
        """Add records; see `BatchBuilder`.

        Raises:
            ValueError: One has no value.
        """
        if any(value is None for value in values):
            raise ValueError("raw content is a value, without key and headers")
        return super().extend(timestamp_ms, values, start)


class OpenBatch:
    """Records of one topic that have not been handed to the machine yet."""

    __slots__ = ("builder", "future", "opened_ms")

    def __init__(self, bytes_max: int, run: Run, codec: Codec, *, bare: bool = False) -> None:
        make = BareBuilder if bare else BatchBuilder
        self.builder = make(bytes_max, run, codec=codec)
        self.future = delivery_future()
        self.opened_ms = now_ms()


class OpenBatches(OrderedDict[str, OpenBatch]):
    """By topic, in the order they were opened in."""

    def older(self, opened_ms: int) -> list[str]:
        """Topics whose batches were opened at or before a time."""
        found = takewhile(lambda one: one[1].opened_ms <= opened_ms, self.items())
        return [topic for topic, _ in found]

    def oldest_ms(self) -> int | None:
        """When the first was opened; None if there is none."""
        first = next(iter(self.values()), None)
        return None if first is None else first.opened_ms


def check_time(topic: str, timestamp_ms: int) -> None:
    """Refuse a time before 1970; what is no number at all the builder refuses.

    Raises:
        MisuseError: It is one; -1 would stand for none, and become another record's.
    """
    if isinstance(timestamp_ms, int) and timestamp_ms < 0:
        raise MisuseError(
            f"record for topic {topic!r} cannot be sent: "
            f"timestamp_ms is 0 or more since 1970, got {timestamp_ms}"
        )


def check_size(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> None:
    """Refuse a record that no batch can take.

    Raises:
        MisuseError: It is too large, or its fields have no size at all.
    """
    try:
        size = (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += sum(len(name) + (len(content) if content else 0) for name, content in headers)
    except (TypeError, ValueError) as error:
        raise MisuseError(f"record for topic {topic!r} cannot be sent: {error}") from error
    if size > RECORD_BYTES_MAX:
        raise MisuseError(
            f"record for topic {topic!r} cannot be sent: {size} bytes, at most {RECORD_BYTES_MAX}"
        )
