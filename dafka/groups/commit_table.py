"""What commits add up to: a table of the store, changed in the transaction that appends them.

| table | key | value |
|---|---|---|
| `commits` | group, NUL, digest of the partition | the record: size of its key u32, key, value |
| `groups` | group | the highest epoch of its commits u64 |

The digest stands for names of up to 504 bytes, for which a table's key has no room. A forgotten
position stays in the table: an older commit that comes later must find it.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.errors import CommitError, RecordError
from dafka.groups.commit import TOPIC, Commit, CommitKey, decode
from dafka.limits import GROUP_NUMBERS_AHEAD_MAX
from dafka.records.batch import raw_records
from dafka.storage.log import TableEntry
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dafka.model import Batch, Partition
    from dafka.storage.log import RecordLog

TABLE = "commits"
GROUPS_TABLE = "groups"

_SIZE = struct.Struct(">I")
_EPOCH = struct.Struct(">Q")
_NUL = b"\0"
_DIGEST_BYTES = 32
COMPRESSED_MAX = 0
"""Nobody compresses commits, and to expand them would be work that anybody can give a store."""


@dataclass(slots=True)
class Folded:
    """What some batches change.

    Attributes:
        entries: Of the table.
        commits: How many records were commits.
        refused: How many were none, or none that may change anything, and were passed over.
    """

    entries: list[TableEntry]
    commits: int = 0
    refused: int = 0


NONE = Folded([])
"""What batches of other topics change."""


def anybody(_address: str, _group: str) -> bool:
    """Return True: whoever has an address may commit for any group."""
    return True


def fold(
    log: RecordLog, batches: Iterable[Batch], may_commit: Callable[[str, str], bool] = anybody
) -> Folded:
    """Return what `batches`, about to be appended to `log`, change in its table of commits.

    Args:
        log: What they are appended to.
        batches: Of any topics.
        may_commit: Whether who has an address may commit for a group.

    Raises:
        StorageError: The disk refused to read.
    """
    chosen = [batch for batch in batches if batch.partition.topic == TOPIC]
    if not chosen:
        return NONE
    folded = Folded([])
    held: dict[bytes, tuple[Commit, bytes]] = {}
    epochs: dict[str, int] = {}
    for batch in chosen:
        for key, commit, record in _commits(batch, folded):
            known = epochs.get(key.group)
            if known is None:
                known = epoch_of(log, key.group)
            ahead = commit.epoch > known + GROUP_NUMBERS_AHEAD_MAX
            if ahead or not may_commit(batch.partition.address, key.group):
                folded.refused += 1
                continue
            folded.commits += 1
            row = _row(key)
            if row in held:
                before: Commit | None = held[row][0]
            else:
                before = _commit_at(log, row)
            if before is None or commit.rank() > before.rank():
                held[row] = commit, record
            epochs[key.group] = max(commit.epoch, known)
    folded.entries = [TableEntry(TABLE, row, record) for row, (_, record) in held.items()]
    for group, epoch in epochs.items():
        folded.entries.append(TableEntry(GROUPS_TABLE, octets_of(group), _EPOCH.pack(epoch)))
    return folded


def epoch_of(log: RecordLog, group: str) -> int:
    """Return the highest epoch of a group's commits; 0 if there is none."""
    stored = log.get(GROUPS_TABLE, octets_of(group))
    return 0 if stored is None else int(_EPOCH.unpack(stored)[0])


def commit_of(log: RecordLog, key: CommitKey) -> Commit | None:
    """Return the commit that holds for `key`; None if there never was one."""
    return _commit_at(log, _row(key))


def commits_of(
    log: RecordLog, group: str, count_max: int, after: Partition | None = None
) -> list[tuple[bytes, bytes]]:
    """Return at most `count_max` commits of a group, behind that for `after`, in a fixed order.

    As they stand in their records, key and value; with those by which a position was forgotten.
    """
    prefix = octets_of(group) + _NUL
    last = None if after is None else _row(CommitKey(group, after))
    return [_record(stored) for _, stored in log.scan(TABLE, prefix, count_max, last)]


def groups_of(log: RecordLog, count_max: int, after: str | None = None) -> list[str]:
    """Return at most `count_max` groups of which something was ever committed, in order."""
    last = None if after is None else octets_of(after)
    return [text(group) for group, _ in log.scan(GROUPS_TABLE, b"", count_max, last)]


def _commit_at(log: RecordLog, row: bytes) -> Commit | None:
    stored = log.get(TABLE, row)
    return None if stored is None else decode(*_record(stored))[1]


def _commits(batch: Batch, folded: Folded) -> Iterator[tuple[CommitKey, Commit, bytes]]:
    """The commits of a batch, each with what is to stand in its row."""
    try:
        for record in raw_records(batch.content, COMPRESSED_MAX):
            try:
                key, commit = decode(record.key, record.value)
            except CommitError:
                folded.refused += 1
                continue
            yield key, commit, _packed(record.key or b"", record.value or b"")
    except RecordError:
        # What a peer wrote must not keep a store from taking the rest.
        folded.refused += 1


def _row(key: CommitKey) -> bytes:
    topic, address = octets_of(key.partition.topic), octets_of(key.partition.address)
    digest = hashlib.blake2b(topic + _NUL + address, digest_size=_DIGEST_BYTES).digest()
    return octets_of(key.group) + _NUL + digest


def _packed(key: bytes, value: bytes) -> bytes:
    return _SIZE.pack(len(key)) + key + value


def _record(stored: bytes) -> tuple[bytes, bytes]:
    (size,) = _SIZE.unpack_from(stored)
    return stored[_SIZE.size : _SIZE.size + size], stored[_SIZE.size + size :]
