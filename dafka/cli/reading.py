"""What commands read out of stores: of which topics, from where, and to where."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import nlargest
from itertools import chain, takewhile
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.groups.reset import Places, Way, to_earliest, to_latest
from dafka.model import checked_topic
from dafka.process.unreadable import pass_over
from dafka.records.batch import records_of
from dafka.wire.fields import SEQUENCE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dafka.model import Partition, Record
    from dafka.query.client import StoreClient

_WILD = frozenset("*?[")

LAST_MAX = 10_000
"""Records of `--last`: as many are held at once."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What to read of each partition.

    Attributes:
        begin: Where to begin.
        end: The first position that is not read any more.
        last: Only so many, the latest of all partitions together; None for all.
    """

    begin: Way = to_earliest
    end: Way = to_latest
    last: int | None = None

    def records(self, client: StoreClient, topics: Iterable[str]) -> Iterator[Record]:
        """Read what a store has of it, one partition after the other; the latest by their times.

        Raises:
            MisuseError: It has nothing of a topic.
        """
        spans: dict[Partition, range] = {}
        for topic in topics:
            places = places_in(client, topic)
            if not places.kept:
                raise MisuseError(
                    f"no partition of topic {topic!r} at {client.endpoint}: see `dafka topics`"
                )
            spans |= {one: self._span(places, one) for one in sorted(places.kept)}
        read = (records_in(client, partition, span) for partition, span in spans.items())
        if self.last is None:
            return chain.from_iterable(read)
        latest = nlargest(self.last, chain.from_iterable(map(_timed, read)), key=_by_time)
        return (record for _, record in sorted(latest, key=_by_time))

    def _span(self, places: Places, partition: Partition) -> range:
        begin, end = self.begin(places, partition) or 0, self.end(places, partition) or 0
        return range(begin if self.last is None else max(begin, end - self.last), end)


def _timed(records: Iterable[Record]) -> Iterator[tuple[int, Record]]:
    """Each with the latest time of its partition so far, which puts no record before another."""
    reached = 0
    for record in records:
        reached = max(reached, record.timestamp_ms)
        yield reached, record


def _by_time(timed: tuple[int, Record]) -> tuple[int, int]:
    return timed[0], timed[1].sequence


def at_offset(offset: int) -> Way:
    """A sequence; or, if it is negative, so many records before the end. Within what is kept."""

    def way(places: Places, partition: Partition) -> int:
        kept = places.kept[partition]
        return min(max(offset if offset >= 0 else kept.stop + offset, kept.start), kept.stop)

    return way


def positions(client: StoreClient, topics: Iterable[str], begin: Way) -> dict[Partition, int]:
    """Return where to begin in each partition of some topics that a store has."""
    return {
        partition: begin(places, partition) or 0
        for topic in topics
        for places in (places_in(client, topic),)
        for partition in places.kept
    }


def places_in(client: StoreClient, topic: str) -> Places:
    """What a store has of a topic."""
    return Places(client.ranges(topic), {}, client.find)


def records_in(client: StoreClient, partition: Partition, span: range) -> Iterator[Record]:
    """Read the records of some sequences; passes over gaps, and what cannot be read."""
    end = min(span.stop, SEQUENCE_MAX + 1)
    for batch in client.scan(partition, span.start, end):
        found = records_of(batch, span.start, pass_over)
        yield from takewhile(lambda record: record.sequence < end, found)


def is_pattern(topic: str) -> bool:
    """Whether what stands for a topic has `*`, `?` or `[`."""
    return not _WILD.isdisjoint(topic)


def topics_like(client: StoreClient, named: Sequence[str]) -> list[str]:
    """Return topics, with those that a store has in place of patterns, each once.

    As everywhere, a pattern matches names that begin with `_` only if it does so itself.

    Raises:
        MisuseError: Nothing matches a pattern.
    """
    there = client.topics()
    found: dict[str, None] = {}
    for topic in named:
        matching = [checked_topic(topic)]
        if is_pattern(topic) and topic not in there:
            matching = [
                one
                for one in there
                if fnmatchcase(one, topic) and one.startswith("_") <= topic.startswith("_")
            ]
        if not matching:
            raise MisuseError(
                f"no topic matches {topic!r} at {client.endpoint}: see `dafka topics`"
            )
        found |= dict.fromkeys(matching)
    return [*found]
