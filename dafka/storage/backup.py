"""Copies of a log that are made while its store runs, and what is made of them again (ADR 52).

A backup is a directory of two files: `data.mdb`, one state of the log, and `manifest.json`, which
says what that is. It has its name when both are whole.

What is restored is a disk of its own. The rows of a few tables come along; all else that the store
has said or promised was said by a disk that knew more.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import lmdb

from dafka.errors import StorageError
from dafka.model import address_of
from dafka.storage.environment import (
    BACKUP_LOCK,
    CHECKSUM_BYTES,
    DRAFT,
    FILE,
    LOCK_NAME,
    MAP_BYTES,
    OWNER_ONLY,
    TABLES_MAX,
    DirectoryLock,
    sealed,
    sync_directory,
    sync_path,
)
from dafka.storage.lmdb_log import ENTRIES, FORMAT, PARTITIONS, partition_row, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from io import RawIOBase
    from pathlib import Path

    from dafka.storage.log import Extent

    Progress = Callable[[int, int], None]
    """Told how many bytes are copied, and of how many at most."""

MANIFEST = "manifest.json"

MANIFEST_VERSION = 1

_CHUNK_BYTES = 1 << 16
"""What a pipe holds; more would be waited for."""

_DAMAGE = (lmdb.Error, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """What a backup says of itself.

    Attributes:
        version: Of this description.
        program: The version of what made it.
        log_format: Of the file.
        store: The address of the store that it was made of.
        made_ms: When, in milliseconds since the epoch.
        size: Of the file in bytes.
        sha256: Of the file.
        topics: Where each partition begins, and the sequence behind its last record, by topic and
            address.
    """

    version: int
    program: str
    log_format: str
    store: str
    made_ms: int
    size: int
    sha256: str
    topics: dict[str, dict[str, tuple[int, int]]]

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return sum(map(len, self.topics.values()))

    @property
    def records(self) -> int:
        """How many records: those that retention has dropped are none."""
        return sum(end - start for ends in self.topics.values() for start, end in ends.values())


def back_up(
    directory: Path, target: Path, *, program: str, wall_ms: int, progress: Progress
) -> BackupManifest:
    """Copy a log as it is at one moment, whoever writes to it.

    Args:
        directory: Of the store.
        target: Where the backup will be; nothing may be there.
        program: The version of who asks.
        wall_ms: The time.
        progress: Told how far it is.

    Raises:
        StorageError: The log cannot be read, is being compacted or backed up, has a format of
            before, or the target cannot be written; nothing is at the target then.
    """
    if target.exists():
        raise StorageError(
            f"cannot back up to {str(target)!r}: it is there already; name a directory that is not"
        )
    draft = target.with_name(f".{target.name}.{DRAFT}")
    with ExitStack() as open_things, _errors("back up log at", directory):
        source_lock = DirectoryLock(directory, "log to back it up", BACKUP_LOCK)
        open_things.callback(source_lock.release)
        draft.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        open_things.callback(DirectoryLock(draft, "backup").release)
        open_things.callback(shutil.rmtree, draft, ignore_errors=True)
        for left in (FILE, MANIFEST):  # by one that was killed
            (draft / left).unlink(missing_ok=True)
        size, digest = _copied(directory, draft / FILE, progress)
        log_format, store, extents = _contents(draft)
        manifest = BackupManifest(
            version=MANIFEST_VERSION,
            program=program,
            log_format=log_format,
            store=store,
            made_ms=wall_ms,
            size=size,
            sha256=digest,
            topics=extents,
        )
        with (draft / MANIFEST).open("w", encoding="utf-8") as written:
            json.dump(asdict(manifest), written)
        sync_path(draft / MANIFEST, os.O_RDWR)
        (draft / LOCK_NAME).unlink()
        sync_directory(draft)
        draft.rename(target)
        sync_directory(target.parent)
        return manifest


def read_manifest(source: Path) -> BackupManifest:
    """Read what a backup says of itself.

    Raises:
        StorageError: It is none, or one that this version cannot restore.
    """
    with _errors("read backup at", source):
        text = (source / MANIFEST).read_text(encoding="utf-8")
    try:
        said = json.loads(text)
        manifest = BackupManifest(**said)
        manifest.records  # noqa: B018 - of the right shape
    except (ValueError, TypeError, AttributeError) as error:
        raise StorageError(
            f"cannot read backup at {str(source)!r}: its {MANIFEST} is none of this version's "
            f"({error})"
        ) from error
    if (manifest.version, manifest.log_format) != (MANIFEST_VERSION, FORMAT):
        raise StorageError(
            f"cannot restore {str(source)!r}: its log has the format {manifest.log_format!r}, this "
            f"version restores {FORMAT!r}: use {manifest.program!r}, which made it"
        )
    return manifest


def restore(
    source: Path, directory: Path, *, keeps: Collection[str], progress: Progress
) -> tuple[BackupManifest, str]:
    """Make a log of a backup, one that no store has had.

    Args:
        source: The backup.
        directory: Of the store that is to have it; empty, or not there.
        keeps: The tables that come along.
        progress: Told how far it is.

    Returns:
        What the backup says, and the new address.

    Raises:
        StorageError: It is no backup, or damaged, or the directory is not empty or cannot be
            written; no log is there then.
    """
    manifest = read_manifest(source)
    with ExitStack() as open_things, _errors("restore log to", directory):
        directory.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        open_things.callback(DirectoryLock(directory, "log").release)
        found = {one.name for one in directory.iterdir()} - {LOCK_NAME, DRAFT}
        if found:
            raise StorageError(
                f"cannot restore log to {str(directory)!r}: it has {sorted(found)[0]!r}; a log is "
                "restored into an empty directory: move this one away, or name another"
            )
        draft = directory / DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=OWNER_ONLY)
        open_things.callback(shutil.rmtree, draft, ignore_errors=True)
        with (source / FILE).open("rb", buffering=0) as octets:
            size, digest = _written(octets, draft / FILE, manifest.size, progress)
        if (size, digest) != (manifest.size, manifest.sha256):
            raise StorageError(
                f"cannot restore {str(source)!r}: its {FILE} is damaged ({size:,} bytes of "
                f"{manifest.size:,}, SHA-256 {digest}); take another backup"
            )
        identity = _as_new(draft, keeps)
        sync_path(draft / FILE, os.O_RDWR)
        (draft / FILE).replace(directory / FILE)
        sync_directory(directory)
        sync_directory(directory.parent)
        return manifest, identity


@contextmanager
def _errors(attempt: str, place: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise StorageError(f"cannot {attempt} {str(place)!r}: {error}") from error


def _copied(directory: Path, file: Path, progress: Progress) -> tuple[int, str]:
    """Write one state of a log to a file; its size and SHA-256."""
    room = 2 * (directory / FILE).stat().st_size + MAP_BYTES
    with lmdb.open(
        str(directory), readonly=True, map_size=room, max_dbs=TABLES_MAX, max_spare_txns=0
    ) as source:
        # One that was killed before has left its place, and with it what nobody can use again.
        source.reader_check()
        _refuse_other_formats(directory, source)
        most = (source.info()["last_pgno"] + 1) * source.stat()["psize"]
        ours, theirs = os.pipe()
        with ThreadPoolExecutor(1) as copying, os.fdopen(ours, "rb", buffering=0) as octets:
            copied = copying.submit(_copy, source, theirs)
            try:
                found = _written(octets, file, most, progress)
            finally:
                octets.close()  # who copies then ends, if the target has refused
            copied.result()
        return found


def _copy(source: lmdb.Environment, descriptor: int) -> None:
    try:
        source.copyfd(descriptor, compact=True)
    finally:
        os.close(descriptor)


def _written(octets: RawIOBase, file: Path, most: int, progress: Progress) -> tuple[int, str]:
    """Write a file from a stream, and see it on the disk; its size and SHA-256."""
    size, digest = 0, hashlib.sha256()
    with file.open("xb", buffering=0) as written:
        file.chmod(0o600)
        while chunk := octets.read(_CHUNK_BYTES):
            digest.update(chunk)
            written.write(chunk)
            size += len(chunk)
            progress(size, max(size, most))
    sync_path(file, os.O_RDWR)
    return size, digest.hexdigest()


def _refuse_other_formats(directory: Path, source: lmdb.Environment) -> None:
    with source.begin() as transaction:
        try:
            meta = source.open_db(b"meta", transaction, create=False)
            found = transaction.get(b"format", db=meta)
        except lmdb.NotFoundError:
            found = None
    shown = "none" if found is None else found.decode("utf-8", "replace")
    if shown != FORMAT:
        raise StorageError(
            f"cannot back up log at {str(directory)!r}: its format is {shown!r}, this version "
            f"copies {FORMAT!r}; start the store with this version once"
        )


def _contents(copy: Path) -> tuple[str, str, dict[str, dict[str, tuple[int, int]]]]:
    """What a copy says: its format, its store's address, and where its partitions end."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    with (
        lmdb.open(str(copy), readonly=True, lock=False, max_dbs=TABLES_MAX) as copied,
        copied.begin() as transaction,
    ):
        meta = copied.open_db(b"meta", transaction, create=False)
        partitions = copied.open_db(PARTITIONS, transaction, create=False)
        for place, value in transaction.cursor(partitions):
            standing = value[:-CHECKSUM_BYTES]
            if sealed(place, standing) != value:
                raise StorageError(
                    f"cannot back up: the row of {place!r} in the log is not what was written; "
                    "stop the store, and look with `dafka store check`"
                )
            partition, _, extent = partition_row(place, standing)
            found.setdefault(partition.topic, {})[partition.address] = _ends(extent)
        said = (transaction.get(name, db=meta) or b"" for name in (b"format", b"identity"))
        log_format, store = (one.decode("utf-8", "replace") for one in said)
    return log_format, store, found


def _ends(extent: Extent) -> tuple[int, int]:
    return extent.start, extent.head + 1


def _as_new(draft: Path, keeps: Collection[str]) -> str:
    """Give a log a new address, and take from it what its store has said; the address."""
    identity = address_of(uuid4())
    room = 2 * (draft / FILE).stat().st_size + MAP_BYTES
    with (
        lmdb.open(str(draft), lock=False, map_size=room, max_dbs=TABLES_MAX) as made,
        made.begin(write=True) as transaction,
    ):
        meta = made.open_db(b"meta", transaction, create=False)
        entries = made.open_db(ENTRIES, transaction, create=False)
        transaction.put(b"identity", identity.encode(), db=meta)
        with transaction.cursor(entries) as cursor:
            there = cursor.first()
            while there:
                # What is deleted is followed by what the cursor is at then.
                there = cursor.next() if table_of(cursor.key()) in keeps else _dropped(cursor)
    return identity


def _dropped(cursor: lmdb.Cursor[bytes]) -> bool:
    cursor.delete()
    return bool(cursor.key())
