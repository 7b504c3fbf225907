"""How far a stream has come: what Spark keeps in its checkpoint.

| field | meaning |
|---|---|
| `next` | of every partition, the sequence after the last one read |
| `from` | of the partitions that are new in this micro-batch, where they begin |
| `begun` | whether it has been settled where the stream begins |
| `deal` | at least so many tasks, at most so many records in each |

Spark's log holds only where micro-batches end. Where the first one began it asks again after a
crash, and the answer to "latest" would be another one then; so the end carries the beginnings too.
So it does how a micro-batch was dealt to tasks: one that is repeated under other options must come
in the same tasks, for a sink knows its rows by them. The initial offset says nothing at all.
Spark compares offsets as text, hence the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.spark.ranges import Range, limited

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.spark.options import Bound

Places = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream has come.

    Attributes:
        begun: Whether it has been settled where it begins.
        begins: Where the partitions begin that are new in this micro-batch.
        nexts: The sequence after the last one read.
        deal: At least so many tasks, and at most so many records in each.
    """

    begun: bool = False
    begins: Mapping[Partition, int] = field(default_factory=dict)
    nexts: Mapping[Partition, int] = field(default_factory=dict)
    deal: tuple[int, int] = (1, 1)

    def as_json(self) -> dict[str, Any]:
        """What Spark keeps."""
        return {
            "begun": self.begun,
            "deal": [*self.deal],
            "from": _places(self.begins),
            "next": _places(self.nexts),
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
        new = {
            partition: self._begin(partition, sequences, starting)
            for partition, sequences in there.items()
            if partition not in self.nexts
        }
        starts = {**self.nexts, **new}
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
        nexts = {partition: cut[partition] for partition in (*self.nexts, *begins)}
        return Progress(True, begins, nexts, self.deal)

    def ranges_to(self, end: Progress) -> list[Range]:
        """What lies between this and `end`, of which nothing else is known.

        Raises:
            MisuseError: They are not the start and the end of one micro-batch.
        """
        ranges: list[Range] = []
        for partition, stop in sorted(end.nexts.items()):
            start = self.nexts.get(partition, end.begins.get(partition))
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


def _places(sequences: Mapping[Partition, int]) -> Places:
    places: Places = {}
    for (topic, address), sequence in sorted(sequences.items()):
        places.setdefault(topic, {})[address] = sequence
    return places


def _sequences(places: Places) -> dict[Partition, int]:
    return {
        Partition(topic, address): int(sequence)
        for topic, sequences in places.items()
        for address, sequence in sequences.items()
    }
