"""What a publisher keeps until enough stores have it: one window of batches per partition."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from dafka.limits import FETCH_ANSWER_BYTES_MAX, SINGLE_ANSWER_BYTES_MAX, STORES_MAX
from dafka.model import Partition
from dafka.records.batch import run_of
from dafka.wire import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Batch


@dataclass(slots=True)
class _Window:
    """The batches of one partition that are not stored yet."""

    # A list, not a deque: thousands of partitions are idle, and an empty deque has 600 bytes.
    batches: list[Batch] = field(default_factory=list)
    stored: int = 0
    """Sequence below which enough stores have everything."""
    end: int = 0
    """Sequence after the last batch that was added."""


class Unacked:
    """Windows of unstored batches, by partition.

    Args:
        min_acks: How many distinct stores must have a record before it is forgotten.
        stores_max: Of how many stores ACKs are counted.
    """

    def __init__(self, min_acks: int, stores_max: int = STORES_MAX) -> None:
        self._min_acks = min_acks
        self._stores_max = stores_max
        self._windows: dict[Partition, _Window] = {}
        # Not in the windows: of thousands of partitions each would have a dictionary of its own.
        self._acked: dict[str | None, dict[Partition, int]] = {}
        """Per store, the sequence below which it has everything; those without a name are one."""

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._windows

    def add(self, batch: Batch) -> None:
        """Keep `batch`, which lies behind everything added before.

        A mirror may leave records out (their flags send them another way), so it need not follow
        directly.
        """
        window = self._windows.get(batch.partition)
        if window is None:
            window = self._windows[batch.partition] = _Window()
        assert batch.sequence >= window.end, (batch.partition, batch.sequence, window.end)
        window.batches.append(batch)
        window.end = batch.end

    def may_follow(self, batch: Batch) -> bool:
        """Whether all before `batch` is of the same life of its producer, or some store has it."""
        window = self._windows.get(batch.partition)
        if window is None or not window.batches:
            return True
        last, run = run_of(window.batches[-1].content), run_of(batch.content)
        if (last and last.number) == (run and run.number):
            return True
        return window.end <= max(self._ends(batch.partition), default=0)

    def knows(self, partition: Partition, store: str | None) -> bool:
        """Whether ACKs of `store` can be counted: of very many distinct ones some are not."""
        known = self._acked
        return partition not in self._windows or store in known or len(known) < self._stores_max

    def acked(self, partition: Partition, store: str | None, end: int) -> tuple[int, int] | None:
        """`store` has everything below `end`.

        Returns:
            The new sequence below which enough stores have everything, and the bytes that were
            freed; None if that changed nothing.
        """
        window = self._windows.get(partition)
        if window is None:
            return None
        # An ACK for what was never sent is a peer's fault; it must not free what comes later.
        end = min(end, window.end)
        acked = self._acked.setdefault(store, {})
        if end <= acked.get(partition, 0):
            return None
        acked[partition] = end
        ends = self._ends(partition)
        if len(ends) < self._min_acks:
            return None
        stored = sorted(ends, reverse=True)[self._min_acks - 1]
        if stored <= window.stored:
            return None
        window.stored = stored
        count = bisect_right(window.batches, stored, key=attrgetter("end"))
        freed = sum(len(batch.content) for batch in window.batches[:count])
        del window.batches[:count]
        return stored, freed

    def left(self, store: str) -> list[Partition]:
        """A store has left: what it has acknowledged does not count until it says so again.

        Else one that comes back without its disk, and under another name, would count twice.

        Returns:
            The partitions of which something is unstored that it has to be asked about.
        """
        acked = self._acked.pop(store, {})
        return [partition for partition in acked if self._windows[partition].batches]

    def _ends(self, partition: Partition) -> list[int]:
        """How far each store that has acknowledged something of a partition has it."""
        return [acked[partition] for acked in self._acked.values() if partition in acked]

    def contradicted(self, partition: Partition, sequence: int, run: int | None) -> bool:
        """Whether the record that is kept at `sequence` is not of the run that a store says."""
        window = self._windows.get(partition)
        return window is not None and contradicts(window.batches, sequence, run)

    def drop(self, partition: Partition) -> int:
        """Forget a partition's window; returns the bytes it held."""
        window = self._windows.pop(partition, None)
        for store, acked in [*self._acked.items()]:
            acked.pop(partition, None)
            if not acked:
                del self._acked[store]
        return sum(len(batch.content) for batch in window.batches) if window else 0

    def stored(self, partition: Partition) -> int:
        """Sequence below which enough stores have everything; 0 if nothing is known."""
        window = self._windows.get(partition)
        return window.stored if window else 0

    def low(self, partition: Partition) -> int | None:
        """Sequence of the first batch that is kept; None if none is."""
        window = self._windows.get(partition)
        return window.batches[0].sequence if window and window.batches else None

    def end(self, partition: Partition) -> int:
        """Sequence after the last batch added."""
        return self._windows[partition].end

    def pending(self) -> dict[Partition, int]:
        """Partitions with unstored batches, and the last sequence of each."""
        return {
            partition: window.end - 1
            for partition, window in self._windows.items()
            if window.batches
        }

    def first(self, partition: Partition) -> Batch | None:
        """The first batch that is not stored yet; None if all are."""
        window = self._windows.get(partition)
        return window.batches[0] if window is not None and window.batches else None

    def answer(self, fetch: messages.Fetch) -> list[messages.Message] | None:
        """The messages that answer `fetch` from the window; None if it begins below the window.

        Nothing for a FETCH that names a store: should that one not have it, everybody is asked.
        """
        if fetch.store is not None:
            return []
        window = self._windows.get(Partition(fetch.topic, fetch.address))
        if window is None:
            return None
        low = window.batches[0].sequence if window.batches else window.end
        if fetch.sequence < low:
            return None
        answers: list[messages.Message] = []
        size, size_max = 0, SINGLE_ANSWER_BYTES_MAX if fetch.foreign else FETCH_ANSWER_BYTES_MAX
        first = bisect_right(window.batches, fetch.sequence, key=attrgetter("end"))
        for batch in islice(window.batches, first, None):
            size += len(batch.content)
            if batch.sequence >= fetch.sequence + fetch.count:
                break
            if answers and size > size_max:
                break
            answers.append(direct_records(fetch.requester, batch))
        answers.append(
            messages.DirectHead(fetch.requester, fetch.topic, fetch.address, window.end - 1)
        )
        return answers


def contradicts(kept: Sequence[Batch], sequence: int, run: int | None) -> bool:
    """Whether a record of another run than `run` is kept at `sequence`.

    Args:
        kept: In order.
        sequence: Where to look.
        run: None if it is not known; nothing contradicts that.
    """
    first = bisect_right(kept, sequence, key=attrgetter("end"))
    if run is None or first == len(kept) or kept[first].sequence > sequence:
        return False
    own = run_of(kept[first].content)
    return own is not None and own.number != run


def direct_records(requester: str, batch: Batch) -> messages.DirectRecords:
    """The message that carries `batch` to one requester."""
    topic, address = batch.partition
    return messages.DirectRecords(
        requester, topic, address, batch.sequence, batch.count, batch.content
    )


def stored_records(store: str, batch: Batch) -> messages.StoredRecords:
    """The message that carries `batch` to who listens at a store that has it."""
    topic, address = batch.partition
    return messages.StoredRecords(store, topic, address, batch.sequence, batch.count, batch.content)


def records(batch: Batch) -> messages.Records:
    """The message that carries `batch` to everybody."""
    topic, address = batch.partition
    return messages.Records(topic, address, batch.sequence, batch.count, batch.content)
