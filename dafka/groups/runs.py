"""What runs of Spark's sinks have written, and what the stores have agreed on of it.

A run is a micro-batch of a stream or a batch job. Each attempt of its tasks stages its rows in the
topic `__staged`, where no other one writes. The *manifest* of a run says which of them are its
rows. What is agreed on is kept in registers of groups (ADR 13), so of two that come at once one
wins, and both know which.

* Each *key*, a query or a named job, has a register: `AgreedRun`, its last run. An earlier one is
  refused, and of one run there is one manifest.
* Each topic has a register: `TopicSink`. It says how many partitions sinks have in the topic, where
  these end, and which run was placed there last. So runs have one order in a topic, whoever writes
  them; a run takes the place of the last one only when all of that is published.
"""

from __future__ import annotations

import json
from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid5

from dafka.errors import MisuseError, WireError
from dafka.groups.commit import SINKS
from dafka.groups.membership import NOBODY, Member, Membership, fits
from dafka.model import SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterable

STAGED = "__staged"
"""Rows that nobody has published yet. Like all topics that begin so, it stays in its cluster."""

STAGED_KEPT_MS = 86_400_000
"""For so long stores keep them: whoever comes after a driver that died while it published has a day
to end its run."""

SESSION_MS = 2_000
"""A round of agreement takes that long at most, and a store that has just begun waits so long with
its first word on a key; see `dafka.groups.acceptor`. Nobody beats."""

RECENT_RUNS = 64
"""Of runs that nobody can repeat a topic's register names so many: a driver whose word was taken
and whose answer was lost finds there that it has been."""

DIGESTS = 1 << 64
"""Digests are added up modulo this."""

_MEMBER = "run"
"""Always the same: a store does not take it for missing."""

_KEYS = UUID("a2f3b6f0-51d5-4a3c-9a43-7f0c1b1d2e57")
_TOPICS = UUID("c5a8d3c9-1c0e-4d0b-8e6f-0b5a9d3f6a11")
"""Both drawn once; make our names differ from everybody else's."""


class StagedRows(NamedTuple):
    """What one attempt of a task has staged for one topic.

    Attributes:
        topic: Where it is to go.
        task: Number of the task.
        address: Of a partition in `STAGED` in which one process writes, its tasks one after the
            other. A record there holds a whole batch, and its key is the number of the partition
            that the batch is for. Its time is when it was staged: the rows' own may be long ago.
        start: Sequence of the first of these batches.
        batches: How many follow each other from there on.
        partitions: To how many the rows were dealt.
        rows: How many go to each, by its number; only where there are some.
        digest: Of its rows; that of several segments is the sum.
    """

    topic: str
    task: int
    address: str
    start: int
    batches: int
    partitions: int
    rows: tuple[tuple[int, int], ...]
    digest: int

    @property
    def records(self) -> int:
        """How many rows."""
        return sum(count for _, count in self.rows)


class Manifest(NamedTuple):
    """What a run has written.

    Attributes:
        key: Of its query or job.
        run: Its number; the next one of its key has a larger one.
        shared: Whether anybody else may know the key, and so repeat the run.
        segments: What its tasks have staged, in the order in which it is published.
    """

    key: str
    run: int
    shared: bool
    segments: tuple[StagedRows, ...]

    @property
    def records(self) -> int:
        """How many rows."""
        return sum(segment.records for segment in self.segments)

    @property
    def digest(self) -> int:
        """Of all its rows, in whatever order and tasks."""
        return sum(segment.digest for segment in self.segments) % DIGESTS

    @property
    def topics(self) -> dict[str, int]:
        """The topics that it has rows for, in the order in which it is placed in them.

        And to how many partitions the rows of each were dealt.
        """
        return {one.topic: one.partitions for one in sorted(self.segments)}

    def is_that_of(self, other: Manifest | None) -> bool:
        """Whether both are of the same run."""
        return other is not None and (self.key, self.run) == (other.key, other.run)

    def rows_of(self, topic: str) -> Counter[int]:
        """How many rows go to each partition of a topic."""
        found: Counter[int] = Counter()
        for segment in self.segments:
            if segment.topic == topic:
                found.update(dict(segment.rows))
        return found


class RunState(IntEnum):
    """How far a run is."""

    OPEN = 0
    """All of it may be published, or nothing."""
    WHOLE = 1
    """All of it is."""
    LOST = 2
    """Not all of it is, and the rest is kept no more."""


class AgreedRun(NamedTuple):
    """The last run of a key.

    Attributes:
        manifest: What it has written.
        state: How far it is.
    """

    manifest: Manifest
    state: RunState = RunState.OPEN


class TopicSink(NamedTuple):
    """What sinks have in a topic.

    Attributes:
        generation: Another one after each change.
        seed: What the addresses of its partitions are made of.
        ends: Where each partition ends, once `last` is published.
        recent: Keys of runs before it that nobody can repeat, the latest ones.
        last: The run that was placed here last; None if all that ever was is published.
    """

    generation: int
    seed: str
    ends: tuple[int, ...]
    recent: tuple[str, ...] = ()
    last: Manifest | None = None

    def parts(self, topic: str) -> dict[int, range]:
        """Return which sequences the last run has, by the number of the partition."""
        if self.last is None:
            return {}
        rows, ends = self.last.rows_of(topic), enumerate(self.ends)
        return {number: range(end - rows[number], end) for number, end in ends if rows[number]}

    def without_last(self) -> TopicSink:
        """Return what there is once all of the last run is published, or lost."""
        passed = () if self.last is None or self.last.shared else (self.last.key,)
        recent = (*self.recent, *passed)[-RECENT_RUNS:]
        return TopicSink(self.generation + 1, self.seed, self.ends, recent)

    def after(self, topic: str, manifest: Manifest, seed: str | None = None) -> TopicSink:
        """Return what there is with another run behind the last one.

        Args:
            topic: Of which.
            manifest: Of the run.
            seed: Of other partitions, if these cannot go on.
        """
        rows = manifest.rows_of(topic)
        before = self.ends if seed is None else (0,) * len(self.ends)
        ends = tuple(end + rows[number] for number, end in enumerate(before))
        recent = self.without_last().recent
        return TopicSink(self.generation + 1, seed or self.seed, ends, recent, manifest)


def group_of_key(key: str) -> str:
    """The name of the group in whose register the last run of a key is."""
    return f"{SINKS}{uuid5(_KEYS, ascii(key)).hex}"


def group_of_topic(topic: str, mark: str = "") -> str:
    """The name of the group in whose register is what sinks have in a topic.

    Args:
        topic: Which.
        mark: Of the key with which they write: partitions are those of one key.
    """
    return f"{SINKS}{uuid5(_TOPICS, ascii((mark, topic))).hex}"


def enrolled_run(agreed: AgreedRun, generation: int, stores: int) -> Membership:
    """Return what a key's register has once a run is agreed on.

    Raises:
        MisuseError: It is too large.
    """
    return _enrolled([agreed.state, _told(agreed.manifest)], generation, stores, agreed.manifest)


def enrolled_sink(sink: TopicSink, stores: int) -> Membership:
    """Return what a topic's register has.

    Raises:
        MisuseError: It is too large.
    """
    last = None if sink.last is None else _told(sink.last)
    says = [sink.seed, sink.ends, sink.recent, last]
    return _enrolled(says, sink.generation, stores, sink.last)


def _enrolled(says: object, generation: int, stores: int, run: Manifest | None) -> Membership:
    octets = json.dumps(says, separators=(",", ":")).encode()
    membership = Membership(generation, stores, {_MEMBER: Member((octets,), SESSION_MS)})
    if not fits(membership):
        parts = 0 if run is None else len(run.segments)
        raise MisuseError(
            f"a run of {parts} tasks and topics is too much to be agreed on at once: "
            "write by fewer tasks (coalesce), to fewer topics or to fewer partitions"
        )
    return membership


def run_in(membership: Membership) -> AgreedRun | None:
    """Return the last run that a key's register has; None before the first.

    Raises:
        WireError: It has something else.
    """
    if membership == NOBODY:
        return None
    try:
        state, manifest = _said(membership)
        return AgreedRun(_manifest(manifest), RunState(state))
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError("membership") from error


def sink_in(membership: Membership) -> TopicSink | None:
    """Return what a topic's register has; None before the first run.

    Raises:
        WireError: It has something else.
    """
    if membership == NOBODY:
        return None
    try:
        seed, ends, recent, last = _said(membership)
        return TopicSink(
            membership.generation,
            _text(seed),
            _ends(ends),
            tuple(map(_text, recent)),
            None if last is None else _manifest(last),
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError("membership") from error


def _ends(told: Iterable[object]) -> tuple[int, ...]:
    ends = tuple(map(_whole, told))
    if not 1 <= len(ends) <= SLOTS:
        raise ValueError(told)
    return ends


def _said(membership: Membership) -> Any:  # noqa: ANN401 (whatever JSON has)
    ((says,),) = (member.topics for member in membership.members.values())
    return json.loads(says)


def _told(manifest: Manifest) -> list[object]:
    segments = [
        [*segment[:-2], [number for pair in segment.rows for number in pair], segment.digest]
        for segment in manifest.segments
    ]
    return [manifest.key, manifest.run, int(manifest.shared), segments]


def _manifest(told: Iterable[Any]) -> Manifest:
    key, run, shared, segments = told
    return Manifest(_text(key), _whole(run), bool(_whole(shared)), tuple(map(_segment, segments)))


def _segment(told: Iterable[Any]) -> StagedRows:
    topic, task, address, start, batches, partitions, rows, digest = told
    numbers, counts = map(_whole, rows[::2]), map(_whole, rows[1::2])
    pairs = tuple(zip(numbers, counts, strict=True))
    if any(number >= _whole(partitions) for number, _ in pairs):
        raise ValueError(rows)
    staged = _whole(start), _whole(batches), partitions
    return StagedRows(_text(topic), _whole(task), _text(address), *staged, pairs, _whole(digest))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value
