"""The records of the topic `__consumer_offsets`: how far a group is in a partition.

A record's key says whose position it is, its value where that is and since when. Both are JSON
objects with exactly these fields:

    key    group, topic, address
    value  version, position, epoch, commit_ms, origin, copy_flags, metadata, record_ms
           and `processed` where that is not the position

For each key the commit of the highest `rank` holds, so what the records add up to does not depend
on the order in which they are read, and a record that comes twice counts once. That is also why a
position is forgotten by a commit whose `position` is null and not by a record without a value: such
a record has no rank, and an older commit that comes after it would undo it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from dafka.errors import CommitError, MisuseError
from dafka.limits import (
    ADDRESS_BYTES_MAX,
    COMMIT_BYTES_MAX,
    COMMIT_METADATA_BYTES_MAX,
    GROUP_BYTES_MAX,
    GROUP_NUMBER_MAX,
)
from dafka.model import NO_ORIGIN, Partition, checked_topic
from dafka.wire.primitives import octets_of

TOPIC = "__consumer_offsets"

GATEWAYS = "__gateways"
"""The group of a cluster's gateways, whose generations are the epochs of what they write. What is
committed for a group lifts its generation, so nobody commits for this one."""

CONTROLLERS = "__controllers"
"""That of the controllers of a cluster's distributors, whose generations are their epochs."""

SINKS = "__sink."
"""What the groups begin with in whose registers runs are agreed on (`dafka.groups.runs`)."""

_RESERVED = {GATEWAYS: "gateways", CONTROLLERS: "controllers"}

KEPT_MS = 7 * 86_400_000
"""For so long stores keep the records, as Kafka does by default (`offsets.retention.minutes`). What
they add up to each store keeps in its table; one with a new disk knows what the records say."""

RESTATED_MS = KEPT_MS // 2
"""What a living group committed so long ago it commits again, so that records say all it holds."""

VERSION = 1

_SAYS = {
    *("position", "epoch", "commit_ms", "origin", "copy_flags", "metadata", "record_ms"),
    "processed",
}
_U16 = 2**16 - 1
_I64 = 2**63 - 1
_U64 = 2**64 - 1


class Rank(NamedTuple):
    """Which of two commits for one key holds: the one with the higher rank.

    The epoch comes first, so a member that was replaced cannot undo what its successor commits,
    however late its own commits arrive and whatever its clock says. The rest settles commits of one
    epoch: the later one, and then any, as long as every store takes the same.
    """

    epoch: int
    commit_ms: int
    origin: int
    position: int
    copy_flags: int
    metadata: str
    record_ms: int
    processed: int


class CommitKey(NamedTuple):
    """Whose position, and in which partition."""

    group: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class Commit:
    """A position, and since when it holds.

    Attributes:
        position: The first sequence that the group has not processed; None: forgotten.
        epoch: Generation of the group that committed it; the next one is larger, also on another
            cluster.
        commit_ms: When, in milliseconds since 1970, by the clock of whoever committed.
        origin: Number of the cluster it was committed at; 0 while no distributor has copied it.
        copy_flags: One bit per tree level that the commit has crossed (bit level - 1).
        metadata: A text of the application's own.
        record_ms: Time of the last record before the position that was committed, where it was
            committed; None while nobody has looked it up, or if it has none.
        processed: The first sequence that the group has processed nowhere, where a margin has put
            the position before it; else None.
    """

    position: int | None
    epoch: int
    commit_ms: int
    origin: int = NO_ORIGIN
    copy_flags: int = 0
    metadata: str = ""
    record_ms: int | None = None
    processed: int | None = None

    @property
    def reached(self) -> int:
        """How far the group has come, here or anywhere."""
        return max(self.position or 0, self.processed or 0)

    def rank(self) -> Rank:
        """Which of two commits holds; see there."""
        position = -1 if self.position is None else self.position
        return Rank(
            self.epoch,
            self.commit_ms,
            self.origin,
            position,
            self.copy_flags,
            self.metadata,
            -1 if self.record_ms is None else self.record_ms,
            -1 if self.processed is None else self.processed,
        )


def checked_group(group: str) -> str:
    """Return `group` if it can be a group's name.

    Raises:
        MisuseError: It is empty, too long, contains a NUL or is not UTF-8 text.
    """
    try:
        size = len(group.encode())
    except (AttributeError, UnicodeEncodeError) as error:
        raise MisuseError(f"group {group!r} cannot be used: it is not a text") from error
    if not 1 <= size <= GROUP_BYTES_MAX or "\0" in group:
        raise MisuseError(
            f"group {group!r} cannot be used: 1 to {GROUP_BYTES_MAX} bytes without NUL, got {size}"
        )
    return group


def checked_consumers(group: str) -> str:
    """Return `group` if it can be the name of a group of consumers.

    Raises:
        MisuseError: It can be none, or is that of the gateways, controllers or sinks.
    """
    whose = _RESERVED.get(checked_group(group))
    if group.startswith(SINKS):
        whose = "sinks"
    if whose is not None:
        raise MisuseError(f"group {group!r} cannot be used: it is that of the cluster's {whose}")
    return group


def encode(key: CommitKey, commit: Commit) -> tuple[bytes, bytes]:
    """Return a record's key and value.

    Raises:
        MisuseError: The commit breaks a limit.
    """
    group, (topic, address) = key
    about = {"group": group, "topic": topic, "address": address}
    says = {
        "version": VERSION,
        "position": commit.position,
        "epoch": commit.epoch,
        "commit_ms": commit.commit_ms,
        "origin": commit.origin,
        "copy_flags": commit.copy_flags,
        "metadata": commit.metadata,
        "record_ms": commit.record_ms,
    }
    if commit.processed is not None:
        says["processed"] = commit.processed
    encoded = json.dumps(about).encode(), json.dumps(says).encode()
    try:
        decode(*encoded)
    except CommitError as error:
        raise MisuseError(f"cannot commit {commit} for {key}: {error.reason}") from error
    return encoded


def decode(key: bytes | None, value: bytes | None) -> tuple[CommitKey, Commit]:
    """Read a record's key and value.

    Raises:
        CommitError: They are not a commit; the reason is a short constant.
    """
    about = _object(key, ("group", "topic", "address"))
    says = {"processed": None} | _object(value, None)
    if says.pop("version", None) != VERSION:
        raise CommitError("version")
    if says.keys() != _SAYS:
        raise CommitError("fields")
    commit = Commit(
        position=_optional(says["position"]),
        epoch=_number(says["epoch"], GROUP_NUMBER_MAX),
        commit_ms=_number(says["commit_ms"], _I64),
        origin=_number(says["origin"], _U16),
        copy_flags=_number(says["copy_flags"], _U64),
        metadata=_text(says["metadata"]),
        record_ms=_optional(says["record_ms"]),
        processed=_optional(says["processed"]),
    )
    if len(octets_of(commit.metadata)) > COMMIT_METADATA_BYTES_MAX:
        raise CommitError("metadata size")
    return _key(about), commit


def _key(about: dict[str, object]) -> CommitKey:
    topic, address = _text(about["topic"]), _text(about["address"])
    try:
        group = checked_group(_text(about["group"]))
        return CommitKey(group, Partition(checked_topic(topic), checked_address(address)))
    except MisuseError as error:
        raise CommitError("name") from error


def checked_address(address: str) -> str:
    """Return `address` if a partition can have it.

    Raises:
        MisuseError: It is empty or too long.
    """
    if not 1 <= len(octets_of(address)) <= ADDRESS_BYTES_MAX:
        raise MisuseError(f"address {address!r} cannot be used: 1 to {ADDRESS_BYTES_MAX} bytes")
    return address


def _object(octets: bytes | None, fields: tuple[str, ...] | None) -> dict[str, object]:
    if octets is None:
        raise CommitError("empty")
    if len(octets) > COMMIT_BYTES_MAX:
        raise CommitError("size")
    try:
        found = json.loads(octets, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise CommitError("syntax") from error
    if not isinstance(found, dict) or (fields is not None and found.keys() != set(fields)):
        raise CommitError("fields")
    return found


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field stands twice")
    return found


def _number(value: object, largest: int) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise CommitError("number")
    return value


def _optional(value: object) -> int | None:
    return None if value is None else _number(value, _I64)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise CommitError("text")
    try:
        octets_of(value)
    except UnicodeEncodeError as error:
        raise CommitError("text") from error
    return value
