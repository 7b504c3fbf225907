"""Gaps: what is known of partitions and not here, and when to ask for it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from dafka.limits import (
    BATCH_RECORDS_MAX,
    FETCH_ANSWER_BYTES_MAX,
    FETCHED_BYTES_MAX,
    FETCHES_IN_FLIGHT_MAX,
)
from dafka.model import mark_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dafka.model import Batch, Partition


@dataclass(slots=True)
class Stream:
    """One partition being received."""

    expected: int
    """Next sequence that continues what was received."""
    head: int = -1
    """Highest sequence heard of."""
    confirmed: int = -1
    """Highest sequence that a store has said to have."""
    # A list, not a deque: thousands of partitions are idle, and an empty deque has 600 bytes.
    ready: list[Batch] = field(default_factory=list)
    """Received in order, not taken yet. The first may begin below what is wanted."""
    ahead: dict[int, Batch] = field(default_factory=dict)
    """Received beyond a gap, by first sequence."""
    store: str | None = None
    """The store that is asked."""
    answered: bool = False
    """Whether a FETCH has brought something."""
    barren: int = 0
    """Windows in a row that brought nothing but log starts."""

    def reaches(self, sequence: int) -> bool:
        """Whether a store says that it has, or had, all before `sequence`, or what is there came.

        The latter is how a log that a link copies begins at its target.
        """
        return self.confirmed >= sequence - 1 or any(
            first <= sequence < batch.end for first, batch in self.ahead.items()
        )


@dataclass(slots=True)
class Window:
    """One FETCH without an answer yet."""

    reached: int
    """What was expected when it was sent, or when it last brought something."""
    end: int
    """Sequence behind what was asked for."""
    due_ms: int
    rest_ms: int
    """How long to wait before asking again, should it bring nothing."""
    store: str | None
    """The one that was asked; None is everybody."""
    size: int
    """What it may bring, in bytes, as far as that can be told."""
    spoke: bool = False
    """Whether it has brought something, and not all."""
    without: dict[str, int] = field(default_factory=dict)
    """Who does not have it: a log start behind it, or 0 for who has not come so far."""


class Turns:
    """Partitions that wait, and how long each is to rest; taken out from each owner in turn.

    Whoever names thousands of partitions that nobody has makes only its own wait.
    """

    def __init__(self) -> None:
        self._owners: OrderedDict[str, OrderedDict[Partition, int]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._owners)

    def __contains__(self, partition: Partition) -> bool:
        waiting = self._owners.get(mark_of(partition.address))
        return waiting is not None and partition in waiting

    def __iter__(self) -> Iterator[Partition]:
        return chain.from_iterable(self._owners.values())

    def put(self, partition: Partition, rest_ms: int) -> None:
        """Let a partition wait for its turn."""
        owner = mark_of(partition.address)
        waiting = self._owners.get(owner)
        if waiting is None:
            waiting = self._owners[owner] = OrderedDict()
        waiting[partition] = rest_ms

    def drop(self, partition: Partition) -> bool:
        """Let it wait no more; returns whether it did."""
        owner = mark_of(partition.address)
        waiting = self._owners.get(owner)
        if waiting is None or waiting.pop(partition, None) is None:
            return False
        if not waiting:
            del self._owners[owner]
        return True

    def rests(self) -> Iterator[tuple[Partition, int]]:
        """Each, with how long it is to rest."""
        return chain.from_iterable(waiting.items() for waiting in self._owners.values())

    def take(self) -> tuple[Partition, int]:
        """Take out the next one."""
        owner, waiting = self._owners.popitem(last=False)
        taken = waiting.popitem(last=False)
        if waiting:
            self._owners[owner] = waiting  # behind all others
        return taken


class RecordSize:
    """The mean over everything that was received: what cannot be seen is as large on average."""

    def __init__(self) -> None:
        self._records = self._batches = self._bytes = 0

    def took(self, batch: Batch) -> None:
        """A batch was received."""
        self._records += batch.count
        self._batches += 1
        self._bytes += len(batch.content)

    def records_in(self, size: int) -> int:
        """How many records so many bytes are, at least one; many if none was seen yet."""
        return max(1, size * self._records // self._bytes) if self._bytes else BATCH_RECORDS_MAX

    def bytes_of(self, records: int) -> int:
        """How many bytes come for so many records, at least a batch; if none was seen yet, many."""
        if not self._records:
            return FETCH_ANSWER_BYTES_MAX
        return max(records * self._bytes // self._records, self._bytes // self._batches)


FETCH_SILENCE_MS = 250
"""A FETCH that has brought nothing for this long is given up and its place given to another."""

IN_VAIN_MS = 4_000
"""A FETCH that rests for so long has been sent five times, in eight seconds."""

FETCH_REST_MS_MAX = 8_000
"""The rest before asking again doubles up to this: an unanswerable FETCH costs next to nothing."""


class Gaps:
    """The partitions that lack something; each is in one of four places.

    | place | waits for | leaves it |
    |---|---|---|
    | behind | room | asked for: window |
    | window | an answer | asked for again at once: behind; nothing has come: resting |
    | resting | a time that doubles | it is over: retried; something has come: behind |
    | retried | room | asked for: window; something has come: behind |

    It leaves each of them when it lacks nothing any more.

    Args:
        streams: Of all partitions.
    """

    def __init__(self, streams: Mapping[Partition, Stream]) -> None:
        self._streams = streams
        self._behind, self._retried = Turns(), Turns()
        """With each, how long to rest when it is asked for in vain."""
        self._windows: dict[Partition, Window] = {}
        self._resting: dict[Partition, Window] = {}
        """`due_ms` is when to ask again."""
        self._asked_bytes = 0
        """What the windows may bring."""
        self._due_ms = 0
        """Nothing is due before. A bound, so that most turns look at no window at all."""
        self._retry_next = False

    def __bool__(self) -> bool:
        return bool(self._behind or self._retried or self._windows or self._resting)

    def __iter__(self) -> Iterator[Partition]:
        """Those that are not resting."""
        return chain(self._windows, self._behind, self._retried)

    def window(self, partition: Partition) -> Window | None:
        """What was asked for of a partition."""
        return self._windows.get(partition)

    def late(self, partition: Partition) -> Window | None:
        """What was asked for in vain, and has not been again: answers may still come."""
        window = self._resting.get(partition)
        return window if window is not None and window.end else None

    def noted(self, partition: Partition) -> None:
        """Something of it is lacking."""
        if (
            partition not in self._windows
            and partition not in self._behind
            and partition not in self._retried
            and partition not in self._resting
        ):
            self._behind.put(partition, FETCH_SILENCE_MS)

    def narrowed(self, partition: Partition) -> None:
        """Something has come, and more is lacking: who rested is asked for at once."""
        if self._resting.pop(partition, None) or self._retried.drop(partition):
            self._behind.put(partition, FETCH_SILENCE_MS)

    def forget(self, partition: Partition) -> None:
        """Nothing of it is lacking."""
        self._behind.drop(partition)
        self._retried.drop(partition)
        self.close(partition)
        self._resting.pop(partition, None)

    def rest(self, partition: Partition, now_ms: int, rest_ms: int) -> None:
        """What came of it is of no use: it is asked for again after so long."""
        self.forget(partition)
        due_ms = now_ms + rest_ms
        self._resting[partition] = Window(0, 0, due_ms, rest_ms, None, 0)
        self._due_ms = min(self._due_ms, due_ms)

    def in_vain(self) -> list[Partition]:
        """Those that were asked for several times, for seconds, and nothing has come."""
        windows = chain(self._windows.items(), self._resting.items())
        rests = ((partition, window.rest_ms) for partition, window in windows)
        return [
            partition
            for partition, rest_ms in chain(rests, self._retried.rests())
            if rest_ms >= IN_VAIN_MS
        ]

    def close(self, partition: Partition) -> None:
        """What was asked for has come, or is waited for no more."""
        window = self._windows.pop(partition, None)
        if window is not None:
            self._asked_bytes -= window.size

    def again(self, partition: Partition) -> None:
        """Who was asked does not have it: others are asked at once."""
        rest_ms = self._windows[partition].rest_ms
        self.close(partition)
        self._behind.put(partition, rest_ms)

    def due(self, room: int) -> tuple[Partition, int] | None:
        """Take out the next one to ask for, and how long to rest then; None if that is enough.

        Args:
            room: Bytes that may be under way.
        """
        # Flow control: what finds no room when it comes has been sent in vain. The last one asked
        # for may go beyond the room, or where a record is larger nothing would ever come.
        if len(self._windows) >= FETCHES_IN_FLIGHT_MAX:
            return None
        if self._asked_bytes >= min(room, FETCHED_BYTES_MAX):
            return None
        # By turns: of what nobody has any more there may be thousands, which come back for ever,
        # and what was missed just now is not to wait for all of them.
        queue = self._retried if self._retry_next else self._behind
        queue = queue or self._behind or self._retried
        if not queue:
            return None
        self._retry_next = queue is self._behind
        return queue.take()

    def asked(self, partition: Partition, window: Window) -> None:
        """One that was taken out has been asked for."""
        self._windows[partition] = window
        self._asked_bytes += window.size
        self._due_ms = min(self._due_ms, window.due_ms)

    def expire(self, now_ms: int) -> set[str]:
        """Give up what has brought nothing for long, and end rests.

        Returns:
            Who was asked alone and has said nothing.
        """
        silent: set[str] = set()
        if now_ms < self._due_ms or not self:
            return silent
        for partition, window in [*self._windows.items()]:
            if window.due_ms <= now_ms:
                stream = self._streams[partition]
                if stream.expected > window.reached:
                    # It brings something, slowly: to ask again now would be to receive it twice.
                    window.reached, window.due_ms = stream.expected, now_ms + FETCH_SILENCE_MS
                    window.rest_ms, window.spoke = FETCH_SILENCE_MS, True
                else:
                    # Its place is for another partition; next time everybody is asked.
                    self.close(partition)
                    stream.store = None
                    if window.store is not None and not window.spoke:
                        silent.add(window.store)
                    stream.barren += any(window.without.values())
                    window.due_ms = now_ms + window.rest_ms
                    self._resting[partition] = window
        for partition, window in [*self._resting.items()]:
            if window.due_ms <= now_ms:
                del self._resting[partition]
                self._retried.put(partition, min(window.rest_ms * 2, FETCH_REST_MS_MAX))
        waiting = (*self._windows.values(), *self._resting.values())
        self._due_ms = min((one.due_ms for one in waiting), default=now_ms + FETCH_SILENCE_MS)
        return silent

    def wakeup_ms(self) -> int | None:
        """When `expire` has something to do; sometimes nothing then."""
        return self._due_ms if self._windows or self._resting else None

    def check(self) -> None:
        """Assert that each partition is in one place, and counters and bounds."""
        if not self._windows and not self._resting:
            return
        assert len(self._windows) <= FETCHES_IN_FLIGHT_MAX
        assert self._asked_bytes == sum(window.size for window in self._windows.values())
        for window in (*self._windows.values(), *self._resting.values()):
            assert self._due_ms <= window.due_ms
        places = [*self._windows, *self._resting, *self._behind, *self._retried]
        assert len(set(places)) == len(places)
