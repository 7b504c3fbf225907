"""Receiving partitions in order over a transport that may lose, repeat and reorder.

One `Inflow` serves a whole node, consumer or store. Per partition it knows the next sequence it
expects and the highest it has heard of. What arrives in order moves to `ready`; what arrives ahead
of a gap waits in a bounded buffer; the gap itself is asked for with FETCH:

* exactly the missing range, at most one FETCH per partition for an eighth of the room, and per node
  as many as bring `FETCHED_BYTES_MAX`: of a few partitions much, of many a little,
* again after a time that doubles while nothing comes, at once after an answered window,
* never while the node holds more bytes than its bound. What then arrives live is dropped: the
  heads are remembered, so it is asked for later. A drop is slow, never wrong;
* of the one store that was the first to say it has it, or whose answer was the first of use; of
  everybody, or of every store, when none is known or that one has no more. Several answers to each
  FETCH would be as many times the traffic.

What nobody has any more (retention) is skipped, but only when every store that was heard of lately
has said so, or nobody has anything else to say for some time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.limits import (
    BATCH_RECORDS_MAX,
    FETCH_ANSWER_BYTES_MAX,
    FETCHED_BYTES_MAX,
    HEARSAY_MAX,
    PEER_BOUNDS,
    REORDER_BYTES_MAX,
    PeerBounds,
)
from dafka.model import Batch, Partition, mark_of
from dafka.protocol.fetches import FETCH_SILENCE_MS, Gaps, RecordSize, Stream, Window
from dafka.protocol.stores import KnownStores
from dafka.records.batch import checked_count
from dafka.wire import messages

if TYPE_CHECKING:
    from collections.abc import Collection

    from dafka.model import Slots
    from dafka.reasons import Reason


def arrived(message: messages.Batch) -> Batch:
    """Return the batch in a message.

    What was damaged on its way, or lies about its place, must not take the place of the batch that
    belongs there: it is not kept, so that another is asked for.

    Raises:
        RecordError: The content is not what the message says.
    """
    count = checked_count(message.content, message.sequence)
    if count != message.count:
        raise RecordError("batch count")
    return Batch(
        Partition(message.topic, message.address), message.sequence, count, message.content
    )


PROBE_RECORDS = 1_000
"""What is asked of everybody at first; whoever answers is asked for the rest."""

SETTLING_MS = 1_000
"""Nothing is skipped so soon after the first FETCH: not every store may have been found yet. What a
consumer skips others still have."""

BARREN_WINDOWS_MAX = 5
"""So many windows may bring nothing but log starts before the next one is enough to skip: nine
seconds, in which a store is started again, and a slow disk has written."""


class Hearsay:
    """Partitions of which nothing is known but what their producers, or whoever, say of them."""

    def __init__(self, all_max: int) -> None:
        self._all_max = all_max
        self._partitions: set[Partition] = set()
        self._owners: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def takes(self, partition: Partition) -> bool:
        """Whether there is room for one more, which is there then."""
        if partition in self._partitions:
            return True
        owner = mark_of(partition.address)
        if self._owners[owner] >= HEARSAY_MAX or len(self._partitions) >= self._all_max:
            return False
        self._partitions.add(partition)
        self._owners[owner] += 1
        return True

    def proved(self, partition: Partition) -> None:
        """A store has it, or something of it has come."""
        if partition in self._partitions:
            self._partitions.remove(partition)
            owner = mark_of(partition.address)
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]


class Inflow:
    """The partitions a node receives.

    Args:
        requester: The node's own address, where answers are sent to.
        bounds: Of what peers name.
        settling_ms: For how long after it has begun nothing is skipped.
        stored: Whether only stores are asked: what they have not is of no use.
    """

    def __init__(
        self,
        requester: str,
        bounds: PeerBounds = PEER_BOUNDS,
        settling_ms: int = 0,
        *,
        stored: bool = False,
    ) -> None:
        self._requester = requester
        self._bounds = bounds
        self._settling_ms = settling_ms
        self._everybody = messages.ANY_STORE if stored else None
        self._streams: dict[Partition, Stream] = {}
        self._gaps = Gaps(self._streams)
        self._hearsay = Hearsay(bounds.hearsay_all)
        self._stores = KnownStores(bounds.stores)
        self._record_size = RecordSize()
        self._woke_ms: int | None = None
        """When it began."""
        self._began_ms: int | None = None
        """When the first FETCH was sent."""
        self._ahead_batches = 0
        self.ahead_bytes = 0
        """Bytes of batches received beyond gaps."""
        self.ready_bytes = 0
        """Bytes of batches received in order and not taken."""

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._streams

    @property
    def lacking(self) -> bool:
        """Whether anything is known of and not received."""
        return bool(self._gaps)

    def expected(self, partition: Partition) -> int:
        """Next sequence that continues what was received."""
        return self._streams[partition].expected

    def head(self, partition: Partition) -> int:
        """Highest sequence heard of; -1 if none."""
        return self._streams[partition].head

    def reached(self, partition: Partition) -> int:
        """The same of any partition; -1, too, if it is not tracked."""
        stream = self._streams.get(partition)
        return -1 if stream is None else stream.head

    def start(self, partition: Partition, sequence: int) -> bool:
        """Receive `partition` from `sequence` on, forgetting what was received of it before.

        Returns:
            False if the node tracks as many partitions as it may.
        """
        stream = self._streams.get(partition)
        if stream is None:
            # Whoever publishes names partitions as it likes.
            if len(self._streams) >= self._bounds.partitions:
                return False
            self._streams[partition] = Stream(sequence)
            return True
        ahead = stream.ahead.values()
        self._count_ahead(-len(ahead), -sum(len(batch.content) for batch in ahead))
        self.ready_bytes -= sum(len(batch.content) for batch in stream.ready)
        self._streams[partition] = Stream(sequence, stream.head, stream.confirmed)
        self._gaps.forget(partition)
        self._note_gap(partition, self._streams[partition])
        return True

    def lacks(self, partition: Partition) -> bool:
        """Whether more of it is known of than has come."""
        stream = self._streams[partition]
        return stream.head >= stream.expected

    def first(self, partition: Partition) -> Batch | None:
        """What is to be taken next, if it was received."""
        ready = self._streams[partition].ready
        return ready[0] if ready else None

    def rests(self, partition: Partition) -> bool:
        """Whether nothing of it is on its way, or known of and not here."""
        stream = self._streams[partition]
        return stream.head < stream.expected and not stream.ready and not stream.ahead

    def forget(self, partition: Partition) -> None:
        """Track it no more; it `rests`."""
        assert self.rests(partition)
        del self._streams[partition]
        self._gaps.forget(partition)
        self.proved(partition)

    def partitions(self) -> list[Partition]:
        """All that are tracked."""
        return [*self._streams]

    def leave(self, partition: Partition) -> None:
        """Track it no more, whatever is on its way."""
        self.start(partition, 0)  # takes back what it counts for
        del self._streams[partition]
        self._gaps.forget(partition)
        self.proved(partition)

    def named(self, partition: Partition) -> bool:
        """Somebody says that a partition is there; False if its owner has said so of too many."""
        if partition in self._streams:
            return True
        room = len(self._streams) < self._bounds.partitions
        return room and self._hearsay.takes(partition)

    def proved(self, partition: Partition) -> None:
        """A store says that it has something of it."""
        if self._hearsay:
            self._hearsay.proved(partition)

    def rest(self, partition: Partition, now_ms: int, rest_ms: int) -> None:
        """What came of it is of no use, and would come again: ask for it after a while."""
        self._gaps.rest(partition, now_ms, rest_ms)

    def heard(self, partition: Partition, head: int) -> None:
        """Somebody says the partition reaches to `head`."""
        stream = self._streams[partition]
        if head > stream.head:
            stream.head = head
            if head >= stream.expected:
                self._note_gap(partition, stream)

    def offer(self, batch: Batch) -> Reason | None:
        """Take a received batch in.

        Returns:
            None if it was kept, else why not.
        """
        stream = self._streams[batch.partition]
        # Also of what is not kept: then it is known to be there, and is asked for later.
        stream.head = max(stream.head, batch.end - 1)
        if batch.end <= stream.expected:
            return "duplicate"
        if batch.sequence > stream.expected:
            return self._keep_ahead(stream, batch)
        self.proved(batch.partition)
        stream.ready.append(batch)
        self._record_size.took(batch)
        self.ready_bytes += len(batch.content)
        stream.expected = batch.end
        if stream.ahead:
            self._close_gap(stream)
        self._progressed(batch.partition, stream)
        return None

    def take(self, partition: Partition, bound: int | None = None) -> list[Batch]:
        """Take out what was received in order, as far as it ends at or below `bound`.

        The first batch may begin below what was taken before.
        """
        ready = self._streams[partition].ready
        count = len(ready)
        if bound is not None:
            count = bisect_right(ready, bound, key=attrgetter("end"))
        taken = ready[:count]
        del ready[:count]
        self.ready_bytes -= sum(len(batch.content) for batch in taken)
        return taken

    def stored(self, partition: Partition, store: str | None, head: int) -> None:
        """A store says it has the partition up to `head`: the first with what comes next is asked.

        Args:
            partition: Whose.
            store: Who says so; None is a publisher, or a store of another make.
            head: How far it has it.
        """
        stream = self._streams[partition]
        if store is not None:
            stream.confirmed = max(stream.confirmed, head)
        if stream.store is None and head >= stream.expected:
            stream.store = store

    def renewed(self, partition: Partition) -> None:
        """A store has come to have more: what was asked for in vain is asked for at once."""
        self._streams[partition].barren = 0
        self._gaps.narrowed(partition)

    def answered(self, partition: Partition, store: str | None, head: int) -> None:
        """Somebody says how far the partition reaches there: an answer to FETCH ends with that.

        Args:
            partition: Whose.
            store: Who answered; None is a publisher.
            head: How far the partition reaches there.
        """
        window, stream = self._gaps.window(partition), self._streams[partition]
        if store is not None:
            self._stores.told_of(partition, store)
        if window is None:
            self.stored(partition, store, head)
            return
        if store is not None:
            stream.confirmed = max(stream.confirmed, head)
        if window.store not in (None, store):
            return  # it answers GET-HEADS, or an earlier FETCH
        if stream.expected > window.reached:
            self._answered(partition, stream, store)
        elif head < stream.expected and store is not None:
            # Without progress the sender does not have it, and only time makes us ask again.
            self._go_without(partition, stream, window, store, 0)

    def knows(self, store: str) -> bool:
        """Whether this store was heard of before."""
        return store in self._stores

    def heard_from(self, store: str, now_ms: int) -> bool:
        """A store is there, and waited for before anything is skipped; False if too many are."""
        return self._stores.heard_from(store, now_ms)

    def keeps(self, store: str, slots: Slots) -> None:
        """A store that was heard of says which slots it keeps: for others it is not waited for."""
        self._stores.keeps(store, slots)

    def all_fresh(self, now_ms: int) -> bool:
        """Whether every store that ever was has been heard of just now; False if there was none."""
        return self._stores.all_fresh(now_ms)

    def log_start(
        self,
        partition: Partition,
        sender: str,
        sequence: int,
        now_ms: int,
        asked: Collection[str] | None = None,
    ) -> int | None:
        """Somebody keeps the partition only from `sequence` on.

        Args:
            partition: Whose.
            sender: Who says so.
            sequence: Where it begins there.
            now_ms: The time.
            asked: If given, nothing is skipped but what each of these stores has just said that it
                lacks, however long that takes; if it is empty, nothing.

        Returns:
            The sequence to `skip` to if nobody has more than that, else None.
        """
        window, stream = self._gaps.window(partition), self._streams[partition]
        is_late = window is None
        if window is None and (window := self._gaps.late(partition)) is not None:
            window.store = None  # it rests, so nobody is asked in that one's place
        # What is ready waits for an ACK, and comes first.
        if window is None or window.store not in (None, sender) or stream.ready:
            return None
        if not stream.expected < sequence <= stream.head + 1:
            return None  # Nobody keeps a partition only from behind its end on.
        if not stream.reaches(sequence):
            return None  # So far only a head says that there was anything, which anybody may say.
        if not self._go_without(partition, stream, window, sender, sequence):
            return None
        if not self._settled(now_ms):
            return None
        if asked is not None and not (asked and window.without.keys() >= set(asked)):
            return None
        # What has come behind it shows that its producer is there, which may have the rest: one
        # FETCH is lost easily.
        if stream.ahead and window.rest_ms == FETCH_SILENCE_MS:
            return None
        # To skip is to lose, so every store is waited for; but one that is gone or never answers
        # must not stop the partition for ever.
        if (is_late or stream.barren < BARREN_WINDOWS_MAX) and any(
            store not in window.without for store in self._stores.keepers(partition, now_ms)
        ):
            return None
        # The least: somebody has the records from there on.
        return min(start for start in window.without.values() if start > stream.expected)

    def _settled(self, now_ms: int) -> bool:
        """Whether every store that is there can have been found by now."""
        asked = self._began_ms is not None and now_ms >= self._began_ms + SETTLING_MS
        return asked and (self._woke_ms is None or now_ms >= self._woke_ms + self._settling_ms)

    def holes(self) -> dict[Partition, range]:
        """What lacks before something that has come, and that nobody sends, asked again and again.

        Not what is only spoken of: anybody can say that there is more.
        """
        streams = ((partition, self._streams[partition]) for partition in self._gaps.in_vain())
        return {
            partition: range(stream.expected, min(stream.ahead))
            for partition, stream in streams
            if stream.ahead
        }

    def skip(self, partition: Partition, sequence: int) -> None:
        """Go on at `sequence`: what lies before it will not come. Everything ready was taken."""
        stream = self._streams[partition]
        assert not stream.ready
        assert sequence > stream.expected
        stream.expected = sequence
        stream.head = max(stream.head, sequence - 1)
        stream.barren = 0
        self._close_gap(stream)
        self._gaps.forget(partition)
        self._note_gap(partition, stream)

    def _go_without(
        self, partition: Partition, stream: Stream, window: Window, sender: str, start: int
    ) -> bool:
        """Note that `sender` does not have what is asked for; False if others are asked now."""
        if window.store is None:
            if sender in window.without or len(window.without) < self._bounds.stores:
                window.without[sender] = max(start, window.without.get(sender, 0))
            return True
        stream.store = None
        self._gaps.again(partition)
        return False

    def _keep_ahead(self, stream: Stream, batch: Batch) -> Reason | None:
        self._note_gap(batch.partition, stream)
        size = len(batch.content)
        if batch.sequence in stream.ahead:
            return "duplicate"
        if (
            self.ahead_bytes + size > REORDER_BYTES_MAX
            or self._ahead_batches >= self._bounds.reorder_batches
        ):
            return "reorder buffer full"
        stream.ahead[batch.sequence] = batch
        self._count_ahead(1, size)
        return None

    def _count_ahead(self, batches: int, size: int) -> None:
        self._ahead_batches += batches
        self.ahead_bytes += size

    def _close_gap(self, stream: Stream) -> None:
        """Move what was waiting behind the gap to `ready`."""
        while True:
            batch = stream.ahead.pop(stream.expected, None)
            if batch is None:
                batch = self._overlapping(stream)
                if batch is None:
                    return
            self._count_ahead(-1, -len(batch.content))
            stream.ready.append(batch)
            self.ready_bytes += len(batch.content)
            stream.expected = batch.end

    def _overlapping(self, stream: Stream) -> Batch | None:
        """Take out a waiting batch that covers `expected`, dropping those already passed.

        Other publishers and stores of the same records may cut batches elsewhere.
        """
        passed = [first for first in stream.ahead if first < stream.expected]
        for first in passed:
            batch = stream.ahead.pop(first)
            if batch.end > stream.expected:
                return batch
            self._count_ahead(-1, -len(batch.content))
        return None

    def _note_gap(self, partition: Partition, stream: Stream) -> None:
        if stream.expected <= stream.head:
            self._gaps.noted(partition)

    def _progressed(self, partition: Partition, stream: Stream) -> None:
        if not self._gaps:
            return
        window = self._gaps.window(partition)
        if stream.expected > stream.head:
            self._gaps.forget(partition)
        elif window is not None and window.store and stream.expected >= window.end:
            # Of the one that was asked all has come: it need not say so.
            self._answered(partition, stream, window.store)
        else:
            self._gaps.narrowed(partition)

    def _answered(self, partition: Partition, stream: Stream, store: str | None) -> None:
        """A FETCH was of use: what is still lacking is asked for at once."""
        self._gaps.close(partition)
        stream.store, stream.answered, stream.barren = store, True, 0
        self._note_gap(partition, stream)

    def fetches(self, now_ms: int, room: int = FETCHED_BYTES_MAX) -> list[messages.Fetch]:
        """The FETCHes to send now, for as many bytes as there is room for at most."""
        fetches: list[messages.Fetch] = []
        while (due := self._gaps.due(room)) is not None:
            partition, rest_ms = due
            stream = self._streams[partition]
            # Not what waits behind the gap already; and it may have come while it waited its turn.
            end = min(stream.ahead, default=stream.head + 1)
            if stream.expected >= end:
                continue
            if self._began_ms is None:
                self._began_ms = now_ms
            fetch = self._fetch(partition, stream, end, room)
            size = min(self._record_size.bytes_of(fetch.count), FETCH_ANSWER_BYTES_MAX)
            due_ms = now_ms + FETCH_SILENCE_MS
            asked_end = fetch.sequence + fetch.count
            asked = None if fetch.store == self._everybody else fetch.store
            window = Window(fetch.sequence, asked_end, due_ms, rest_ms, asked, size)
            self._gaps.asked(partition, window)
            fetches.append(fetch)
        return fetches

    def _fetch(self, partition: Partition, stream: Stream, end: int, room: int) -> messages.Fetch:
        """Ask for what one partition lacks below `end`, or for its share of the room."""
        topic, address = partition
        # As long as nobody is known to have it everybody answers, so little is asked for.
        tried = stream.answered or stream.store is not None
        # An eighth of the room: a few windows fill it, and one that is silent keeps little from it.
        share = self._record_size.records_in(room * FETCH_ANSWER_BYTES_MAX // FETCHED_BYTES_MAX)
        most = min(share, BATCH_RECORDS_MAX if tried else PROBE_RECORDS)
        count = min(end - stream.expected, most)
        store = stream.store if self._stores.answers(stream.store) else None
        store = store or self._everybody
        return messages.Fetch(topic, address, self._requester, stream.expected, count, store)

    def wakeup_ms(self) -> int | None:
        """When `wake` has something to do; sometimes nothing then."""
        return self._gaps.wakeup_ms()

    def wake(self, now_ms: int) -> None:
        """Give up what has brought nothing for long. What has come is to be taken in before.

        A store that has written for a second would else take for silence what waits to be read.
        """
        if self._woke_ms is None:
            self._woke_ms = now_ms
        self._stores.fell_silent(self._gaps.expire(now_ms))

    def misses(self, size: int) -> bool:
        """Whether more than so many bytes are known of and not received; an estimate.

        Not counting what was asked for in vain.
        """
        left = self._record_size.records_in(size)
        for partition in self._gaps:
            stream = self._streams[partition]
            left -= stream.head + 1 - stream.expected
            if left < 0:
                return True
        return False

    def check(self) -> None:
        """Assert that counters and order are what they should be."""
        ahead_bytes = ahead_batches = ready_bytes = 0
        for partition, stream in self._streams.items():
            if not stream.ahead and not stream.ready:
                continue  # the simulator asks after every event, and most streams are idle
            for first, batch in stream.ahead.items():
                assert batch.partition == partition
                assert first == batch.sequence
                ahead_bytes += len(batch.content)
                ahead_batches += 1
            if stream.ready:
                ready_bytes += sum(len(batch.content) for batch in stream.ready)
                assert stream.ready[-1].end == stream.expected
        assert ahead_bytes == self.ahead_bytes <= REORDER_BYTES_MAX
        assert ahead_batches == self._ahead_batches <= self._bounds.reorder_batches
        assert ready_bytes == self.ready_bytes
        self._gaps.check()
