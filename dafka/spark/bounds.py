"""What a source reads, and where that begins and ends, by sequence or by time."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LATEST, EARLIEST = -1, -2
"""How Spark's Kafka source writes the two in its JSON."""

NUMBER_MAX = (1 << 63) - 1


_OWN = "__"


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """What is read: topics by name, those whose whole name matches, or partitions of topics.

    Attributes:
        names: Of topics.
        pattern: What they match instead.
        partitions: Of the named topics no others than these; empty: all.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: frozenset[Partition] = frozenset()

    def wants(self, topic: str) -> bool:
        """Whether any of `topic` is read."""
        if self.pattern is not None:
            # No pattern for everything reads what is the cluster's own, as rows that are staged.
            if topic.startswith(_OWN) and not self.pattern.startswith(_OWN):
                return False
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.names

    def takes(self, partition: Partition) -> bool:
        """Whether a partition is read."""
        if self.partitions:
            return partition in self.partitions
        return self.wants(partition.topic)


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends.

    Attributes:
        latest: At the end of what there is, not at its beginning.
        timestamp_ms: At the first record of this time or later; to be settled by asking.
        sequences: For some partitions, the sequence itself, or `LATEST` or `EARLIEST`.
        timestamps: For some partitions, a time of their own.
        strict: Whether it is an error where a partition has nothing as late as its time; else
            reading begins or ends after what it has.
    """

    latest: bool = False
    timestamp_ms: int | None = None
    sequences: Mapping[Partition, int] = field(default_factory=dict)
    timestamps: Mapping[Partition, int] = field(default_factory=dict)
    strict: bool = False

    def of(self, partition: Partition, there: range) -> int:
        """The sequence this means for a partition that holds `there`."""
        sequence = self.sequences.get(partition, LATEST if self.latest else EARLIEST)
        if sequence == LATEST:
            return there.stop
        if sequence != EARLIEST:
            return sequence
        return there.start

    def time_of(self, partition: Partition) -> int | None:
        """The time from which on, or before which, a partition is read; None if none is said."""
        return self.timestamps.get(partition, self.timestamp_ms)


FROM_THE_BEGINNING, TO_THE_END = Bound(), Bound(latest=True)


def bound_of(name: str, text: str, words: Sequence[str], *, latest: bool) -> Bound:
    """Read what an option says of sequences: a word, or JSON.

    Args:
        name: Of the option.
        text: What it says.
        words: Which words may be.
        latest: Where those begin or end of which JSON says nothing.

    Raises:
        MisuseError: It is none of these.
    """
    if text.lower() in words:
        return Bound(latest=text.lower() == "latest")
    special = (LATEST, EARLIEST) if "earliest" in words else (LATEST,)
    return Bound(latest, sequences=by_partition(name, text, words, special))


def by_partition(
    name: str, text: str, words: Sequence[str] = (), special: tuple[int, ...] = ()
) -> dict[Partition, int]:
    """Read a number for each of some partitions, from an option's JSON.

    Args:
        name: Of the option.
        text: What it says.
        words: What it might say instead.
        special: Numbers below 0 that mean something.

    Raises:
        MisuseError: It is no such JSON.
    """
    allowed = " or ".join([*map(repr, words), '\'{"TOPIC": {"PARTITION": NUMBER}}\''])
    try:
        return {
            Partition(topic, address): _number(number, special)
            for topic, addresses in json.loads(text).items()
            for address, number in addresses.items()
        }
    except (ValueError, AttributeError, RecursionError) as error:
        raise MisuseError(f"option {name!r} must be {allowed}, got {text!r}: {error}") from error


def whole(text: str) -> int | None:
    """Read a number from 0 on that Spark has room for; None if it is none."""
    found = int(text) if re.fullmatch("[0-9]{1,19}", text) else NUMBER_MAX + 1
    return found if found <= NUMBER_MAX else None


def assigned(name: str, text: str) -> frozenset[Partition]:
    """Read partitions from an option's JSON; at least one.

    Raises:
        MisuseError: It is no such JSON.
    """
    try:
        found = {
            Partition(topic, _address(address))
            for topic, addresses in json.loads(text).items()
            for address in addresses
        }
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise MisuseError(
            f'option {name!r} must be \'{{"TOPIC": ["PARTITION", ...]}}\', got {text!r}: {error}'
        ) from error
    if not found:
        raise MisuseError(f"option {name!r} names no partition")
    return frozenset(found)


def _address(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"a partition is an address, which is a string, not {value!r}")


def _number(value: object, special: tuple[int, ...]) -> int:
    if type(value) is int and (0 <= value <= NUMBER_MAX or value in special):
        return value
    words = f" (or {' or '.join(map(str, special))})" if special else ""
    raise ValueError(f"a number from 0 on{words} is needed, not {value!r}")
