"""How far a stream has come: what Spark keeps in its checkpoint.

| field | meaning |
|---|---|
| `next` | of every partition, the sequence after the last one read |
| `forgotten` | the same of those that no store lists any more, the longest unlisted first |
| `from` | of the partitions that are new in this micro-batch, where they begin |
| `begun` | whether it has been settled where the stream begins |
| `deal` | at least so many tasks, at most so many records in each |

Spark's log holds only where micro-batches end. Where the first one began it asks again after a
crash, and the answer to "latest" would be another one then; so the end carries the beginnings too.
So it does how a micro-batch was dealt to tasks: one that is repeated under other options must come
in the same tasks, as sinks may know their rows by them. The initial offset says nothing at all.
Of what stores have forgotten a bounded number of positions is kept, as a consumer keeps them: where
one comes back, or another cluster still lists it, the stream neither skips nor repeats any of it.
Spark compares offsets as text, hence the order.

The three fields with partitions are lists of rows, `[TOPIC, ADDRESS, SEQUENCE]`. Of a topic with
many partitions whose addresses are as ours are, one row has all: `[TOPIC, TEXT]`, in base 64 and
compressed the 16 octets of each address, and behind them those of the sequences, all lowest octets
first. That takes 22 bytes a partition, most of it the address, which is drawn; and as one string it
is as good as free to take apart, for Spark, which does so many times, and for us.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from dafka.errors import MisuseError
from dafka.model import Partition, Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dafka.spark.bounds import Bound


def limited(
    starts: Mapping[Partition, int], ends: Mapping[Partition, int], records_max: int | None
) -> dict[Partition, int]:
    """Return ends of which all ranges together hold at most `records_max` records.

    Each partition gets a share in proportion to what it has, and at least one record, so that none
    waits for ever behind large ones. Where there are more partitions than records allowed, one of
    each passes the limit, as in Spark's Kafka source.
    """
    sizes = {partition: ends[partition] - starts[partition] for partition in sorted(ends)}
    total = sum(sizes.values())
    if records_max is None or total <= records_max:
        return dict(ends)
    waiting = {partition: size for partition, size in sizes.items() if size > 0}
    spare, others = max(0, records_max - len(waiting)), max(1, total - len(waiting))
    cut = dict(starts)
    seen = 0
    for partition, size in waiting.items():
        # Shares by rounding the running total, so that together they are exactly what there is.
        before = seen * spare // others
        seen += size - 1
        cut[partition] += 1 + seen * spare // others - before
    return cut


Places = dict[str, dict[str, int]]
"""Sequences by topic and address, as versions before this one kept them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream has come.

    Attributes:
        begun: Whether it has been settled where it begins.
        begins: Where the partitions begin that are new in this micro-batch.
        nexts: The sequence after the last one read.
        forgotten: The same of those that no store lists any more, in the order in which that was
            found.
        deal: At least so many tasks, and at most so many records in each.
    """

    begun: bool = False
    begins: Mapping[Partition, int] = field(default_factory=dict)
    nexts: Mapping[Partition, int] = field(default_factory=dict)
    forgotten: Mapping[Partition, int] = field(default_factory=dict)
    deal: tuple[int, int] = (1, 1)

    def as_json(self) -> dict[str, Any]:
        """What Spark keeps."""
        return {
            "begun": self.begun,
            "deal": [*self.deal],
            "forgotten": _rows(self.forgotten),
            "from": _rows(dict(sorted(self.begins.items()))),
            "next": _rows(dict(sorted(self.nexts.items()))),
        }

    @classmethod
    def of_json(cls, offset: Mapping[str, Any]) -> Progress:
        """Read what Spark has kept.

        Raises:
            MisuseError: It was not written by this source.
        """
        try:
            tasks_min, records_per_task = map(int, offset["deal"])
            return cls(
                offset["begun"] is True,
                _sequences(offset["from"]),
                _sequences(offset["next"]),
                _sequences(offset.get("forgotten", [])),  # once all were in `next`
                (tasks_min, records_per_task),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MisuseError(f"the checkpoint holds no offset of this source: {offset}") from error

    def after(
        self, there: Mapping[Partition, range], starting: Bound, records_max: int | None
    ) -> Progress:
        """Return how far the next micro-batch shall come: itself if there is nothing to read.

        Args:
            there: The sequences of every partition that is wanted.
            starting: Where the stream begins.
            records_max: At most so many records.
        """
        back = {one: at for one, at in self.forgotten.items() if one in there}
        known = {**self.nexts, **back}
        new = {
            partition: self._begin(partition, sequences, starting)
            for partition, sequences in there.items()
            if partition not in known
        }
        starts = {**known, **new}
        # A cluster that the stream was moved to may not have all of it yet.
        ends = {
            partition: max(start, there[partition].stop if partition in there else 0)
            for partition, start in starts.items()
        }
        cut = limited(starts, ends, records_max)
        moved = {partition for partition, end in cut.items() if end > starts[partition]}
        if self.begun and not moved:
            return self
        kept = {partition: start for partition, start in new.items() if partition in moved}
        begins = kept if self.begun else new
        nexts = {partition: cut[partition] for partition in (*known, *begins)}
        forgotten = {one: at for one, at in self.forgotten.items() if one not in back}
        return Progress(True, begins, nexts, forgotten, self.deal)

    def without(self, unlisted: Iterable[Partition], forgotten_max: int) -> Progress:
        """Return the same after what all stores have forgotten, and this has read to its end.

        Args:
            unlisted: Which partitions that is.
            forgotten_max: Of how many the position is kept; of more, the longest forgotten go.
        """
        nexts = dict(self.nexts)
        forgotten = {**self.forgotten, **{one: nexts.pop(one) for one in unlisted}}
        for one in list(forgotten)[: max(0, len(forgotten) - forgotten_max)]:
            del forgotten[one]
        return replace(self, nexts=nexts, forgotten=forgotten)

    def ranges_to(self, end: Progress) -> list[Range]:
        """What lies between this and `end`, of which nothing else is known.

        Raises:
            MisuseError: They are not the start and the end of one micro-batch.
        """
        ranges: list[Range] = []
        for partition, stop in sorted(end.nexts.items()):
            known = self.nexts.get(partition, self.forgotten.get(partition))
            start = end.begins.get(partition) if known is None else known
            if start is None:
                raise MisuseError(f"the checkpoint does not say where {partition} begins")
            ranges.append(Range(partition, start, stop))
        return ranges

    def _begin(self, partition: Partition, there: range, starting: Bound) -> int:
        if not self.begun:
            return starting.of(partition, there)
        # What came into being after the stream began is read from its beginning. Whether it matters
        # that some of that is gone already, reading decides.
        return max(0, starting.sequences.get(partition, 0))


PLAIN_MAX = 16
"""Of no more partitions of a topic each has a row of its own: that is for people."""

_ADDRESS_BYTES, _SEQUENCE_BYTES = 16, 8

_PACKED = 2
"""Such a row has no more."""


def _rows(sequences: Mapping[Partition, int]) -> list[list[Any]]:
    """Sequences of partitions as rows, in their order."""
    rows: list[list[Any]] = []
    for (topic, packable), group in groupby(sequences.items(), _kind):
        found = list(group)
        if packable and len(found) > PLAIN_MAX:
            rows.append([topic, _packed(found)])
        else:
            rows += ([*partition, sequence] for partition, sequence in found)
    return rows


def _kind(item: tuple[Partition, int]) -> tuple[str, bool]:
    """A topic, and whether the address is sixteen octets in upper-case hex."""
    topic, address = item[0]
    return topic, len(address) == 2 * _ADDRESS_BYTES and not address.strip("0123456789ABCDEF")


def _packed(found: Sequence[tuple[Partition, int]]) -> str:
    addresses = bytes.fromhex("".join([partition.address for partition, _ in found]))
    sequences = np.array([sequence for _, sequence in found], "<i8")
    # By the place of the octet: the high ones are all the same.
    places = sequences.view(np.uint8).reshape(-1, _SEQUENCE_BYTES).T
    return b64encode(zlib.compress(addresses + places.tobytes(), 1)).decode()


def _sequences(rows: list[list[Any]] | Places) -> dict[Partition, int]:
    """The inverse of `_rows`; of what versions before this one kept, too.

    Raises:
        TypeError: These are none.
        ValueError: The same.
    """
    if isinstance(rows, dict):
        return {
            Partition(topic, address): int(sequence)
            for topic, sequences in rows.items()
            for address, sequence in sequences.items()
        }
    found: dict[Partition, int] = {}
    for row in rows:
        if len(row) == _PACKED:
            found |= _unpacked(*row)
        else:
            topic, address, sequence = row
            found[Partition(topic, address)] = int(sequence)
    return found


def _unpacked(topic: str, packed: str) -> dict[Partition, int]:
    try:
        octets = zlib.decompress(b64decode(packed, validate=True))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    count = len(octets) // (_ADDRESS_BYTES + _SEQUENCE_BYTES)
    addresses = octets[: count * _ADDRESS_BYTES].hex().upper()
    places = np.frombuffer(octets, np.uint8, offset=count * _ADDRESS_BYTES)
    sequences = places.reshape(_SEQUENCE_BYTES, count).T.copy().view("<i8").ravel().tolist()
    digits = 2 * _ADDRESS_BYTES
    names = [addresses[at : at + digits] for at in range(0, len(addresses), digits)]
    return {Partition(topic, name): at for name, at in zip(names, sequences, strict=True)}
