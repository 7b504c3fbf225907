"""What a run of a sink has written, and what its stores have agreed on of it.

A run is a micro-batch of a stream or a batch job. Each attempt of its tasks stages its rows in the
topic `__staged`, where no other one writes. The *manifest* of a run says which of them are its
rows, and where they are published. It is agreed on in the register of a group (ADR 13): the run is
the generation, and what its one member takes is the manifest. So the stores refuse an earlier run,
and of one run there is one manifest.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid5

from dafka.errors import MisuseError, WireError
from dafka.groups.commit import SINKS
from dafka.groups.membership import NOBODY, Member, Membership, fits
from dafka.model import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable

STAGED = "__staged"
"""Rows that nobody has published yet. Like all topics that begin so, it stays in its cluster."""

STAGED_KEPT_MS = 86_400_000
"""For so long stores keep them: a driver that died while it published has a day to come back."""

SESSION_MS = 2_000
"""A round of agreement takes that long at most, and a store that has just begun waits so long with
its first word on a key; see `dafka.groups.acceptor`. Nobody beats."""

_MEMBER = "run"
"""Always the same: a store does not take it for missing."""

_NAMESPACE = UUID("0d7c1bd5-6f0c-4f0b-8a55-0d8f6f9a3f1e")
"""Drawn once; makes our names differ from everybody else's."""


class StagedRows(NamedTuple):
    """What one attempt of a task has staged for one topic.

    Attributes:
        topic: Where it is to go.
        task: Number of the task.
        address: Of a partition in `STAGED` in which one process writes, its tasks one after the
            other. A record there holds a whole batch, and its time is when that was staged: the
            rows' own may be long ago.
        start: Sequence of the first of these batches.
        batches: How many follow each other from there on.
        records: How many rows.
        digest: Of its rows; that of several segments is the sum.
    """

    topic: str
    task: int
    address: str
    start: int
    batches: int
    records: int
    digest: int


class RunPart(NamedTuple):
    """Where staged records are published: all of a segment, in one partition.

    Attributes:
        partition: Which.
        first: Sequence of the first record.
        records: How many.
        staged: The address in `STAGED`.
        start: Sequence of the first batch there.
        batches: How many.
    """

    partition: Partition
    first: int
    records: int
    staged: str
    start: int
    batches: int

    @property
    def end(self) -> int:
        """The sequence after the last one."""
        return self.first + self.records


class Manifest(NamedTuple):
    """What a run has written.

    Attributes:
        run: Its number; the next one of its key has a larger one.
        digest: Of all its rows.
        parts: Where they are.
    """

    run: int
    digest: int
    parts: tuple[RunPart, ...]

    @property
    def records(self) -> int:
        """How many rows."""
        return sum(part.records for part in self.parts)

    def has_the_rows_of(self, other: Manifest) -> bool:
        """Whether both have the same rows, in whatever order and tasks."""
        return (self.records, self.digest) == (other.records, other.digest)


DIGESTS = 1 << 64
"""Digests are added up modulo this."""


def group_of(key: str) -> str:
    """The name of the group in whose register the runs of a key are agreed on."""
    return f"{SINKS}{uuid5(_NAMESPACE, key).hex}"


def digest_of(segments: Iterable[StagedRows]) -> int:
    """The digest of the rows of all these."""
    return sum(segment.digest for segment in segments) % DIGESTS


def enrolled(manifest: Manifest, stores: int) -> Membership:
    """Return what the register has once a manifest is agreed on.

    Raises:
        MisuseError: It has too many parts.
    """
    parts = [[*part.partition, *part[1:]] for part in manifest.parts]
    says = json.dumps([manifest.digest, parts], separators=(",", ":")).encode()
    members = {_MEMBER: Member((says,), SESSION_MS)}
    membership = Membership(manifest.run + 1, stores, members)
    if not fits(membership):
        raise MisuseError(
            f"a run of {len(parts)} tasks and topics is too much to be agreed on at once: "
            "write by fewer tasks (coalesce) or to fewer topics"
        )
    return membership


def manifest_in(membership: Membership) -> Manifest | None:
    """Return the manifest that a register has; None before the first.

    Raises:
        WireError: It has something else.
    """
    if membership == NOBODY:
        return None
    try:
        ((says,),) = (member.topics for member in membership.members.values())
        digest, parts = json.loads(says)
        return Manifest(
            membership.generation - 1, _whole(digest), tuple(_part(*one) for one in parts)
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError("membership") from error


def _part(topic: str, address: str, first: int, records: int, *staged: str | int) -> RunPart:
    place, start, batches = staged
    for name in (topic, address, place):
        if not isinstance(name, str):
            raise TypeError(name)
    partition = Partition(topic, address)
    return RunPart(
        partition, _whole(first), _whole(records), str(place), _whole(start), _whole(batches)
    )


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value
