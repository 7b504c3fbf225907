"""Copies of a log that are made while its store runs, and what is made of them again (ADR 52).

A backup is a directory: one state of the log, `data.mdb` and its segments, and `manifest.json`,
which says what that is. It has its name when all are whole, and the log has been opened once.

The index is copied as it was committed, then the segments up to where they ended when the copy
began. Opened, the copy does again what its index lacks, as after a crash (ADR 61).

What is restored is a disk of its own. The rows of a few tables come along; all else that the store
has said or promised was said by a disk that knew more.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING
from uuid import uuid4

import lmdb

from dafka.errors import StorageError
from dafka.model import address_of
from dafka.storage import rows
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
    sync_directory,
    sync_path,
)
from dafka.storage.lmdb_log import FORMAT, LmdbLog
from dafka.storage.rows import ENTRIES, table_of
from dafka.storage.segment import Scan
from dafka.storage.segment_files import SEGMENTS, SegmentFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from io import RawIOBase
    from pathlib import Path

    from dafka.storage.log import Extent
    from dafka.storage.rows import SegmentUse, Standpoint

    Progress = Callable[[int, int], None]
    """Told how many bytes are copied, and of how many at most."""

MANIFEST = "manifest.json"

_LOCKS = LOCK_NAME, "lock.mdb"
"""What opening a log leaves."""

_SCANS = 5
"""So often segments that are written to are read at most, until what is read is whole."""

MANIFEST_VERSION = 2

_EARLIER = (1, "5")
"""Manifest and format of the release before: one file, with the contents in it."""

_FILES = re.compile(rf"{FILE}|{SEGMENTS}/[0-9]{{10}}\.log")
"""What a log consists of."""

_PATIENCE_S = 5.0
"""A store that gives disk back holds backups off for a moment, a compaction for longer."""

_PAUSE_S = 0.02

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
        files: The size of each in bytes, and its SHA-256.
        topics: Where each partition begins, and the sequence behind its last record, by topic and
            address.
    """

    version: int
    program: str
    log_format: str
    store: str
    made_ms: int
    files: dict[str, tuple[int, str]]
    topics: dict[str, dict[str, tuple[int, int]]]

    @property
    def size(self) -> int:
        """Of all files in bytes."""
        return sum(size for size, _ in self.files.values())

    @property
    def sha256(self) -> str:
        """Of what `sha256sum` says of all files, in their order."""
        lines = "".join(f"{digest}  {name}\n" for name, (_, digest) in self.files.items())
        return hashlib.sha256(lines.encode()).hexdigest()

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return sum(map(len, self.topics.values()))

    @property
    def records(self) -> int:
        """How many records: those that retention has dropped are none."""
        return sum(end - start for ends in self.topics.values() for start, end in ends.values())


def back_up(
    directory: Path,
    target: Path,
    *,
    program: str,
    wall_ms: int,
    progress: Progress,
    patience_s: float = _PATIENCE_S,
) -> BackupManifest:
    """Copy a log as it is at one moment, whoever writes to it.

    Args:
        directory: Of the store.
        target: Where the backup will be; nothing may be there.
        program: The version of who asks.
        wall_ms: The time.
        progress: Told how far it is.
        patience_s: How long it waits for who holds backups off.

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
        source_lock = _held(directory, patience_s)
        open_things.callback(source_lock.release)
        draft.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        open_things.callback(DirectoryLock(draft, "backup", BACKUP_LOCK).release)
        open_things.callback(shutil.rmtree, draft, ignore_errors=True)
        for left in draft.iterdir():  # by one that was killed
            if left.name == SEGMENTS:
                shutil.rmtree(left)
            elif left.name != BACKUP_LOCK:
                left.unlink()
        _copied(directory, draft, progress)
        store, extents = _contents(draft)
        for lock in _LOCKS:
            (draft / lock).unlink(missing_ok=True)
        manifest = BackupManifest(
            version=MANIFEST_VERSION,
            program=program,
            log_format=FORMAT,
            store=store,
            made_ms=wall_ms,
            files=_files(draft),
            topics=extents,
        )
        with (draft / MANIFEST).open("w", encoding="utf-8") as written:
            json.dump(asdict(manifest), written)
        sync_path(draft / MANIFEST, os.O_RDWR)
        (draft / BACKUP_LOCK).unlink()
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
        if (said["version"], said["log_format"]) == _EARLIER:
            said["files"] = {FILE: (said.pop("size"), said.pop("sha256"))}
            said |= {"version": MANIFEST_VERSION, "log_format": FORMAT}
        elif (said["version"], said["log_format"]) != (MANIFEST_VERSION, FORMAT):
            raise StorageError(
                f"cannot restore {str(source)!r}: its log has the format {said['log_format']!r}, "
                f"this version restores {FORMAT!r}: use {said['program']!r}, which made it"
            )
        manifest = BackupManifest(**said)
        manifest.records, manifest.sha256  # noqa: B018 - of the right shape
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise StorageError(
            f"cannot read backup at {str(source)!r}: its {MANIFEST} is none of this version's "
            f"({error})"
        ) from error
    strange = [name for name in manifest.files if not _FILES.fullmatch(name)]
    if strange or FILE not in manifest.files:
        raise StorageError(
            f"cannot read backup at {str(source)!r}: its {MANIFEST} names {strange}, which is no "
            "file of a log"
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
        copied = _Copied(progress, manifest.size)
        for name, said in manifest.files.items():
            (draft / name).parent.mkdir(mode=OWNER_ONLY, exist_ok=True)
            with (source / name).open("rb", buffering=0) as octets:
                size, digest = _written(_chunks(octets), draft / name, copied)
            if (size, digest) != tuple(said):
                raise StorageError(
                    f"cannot restore {str(source)!r}: its {name} is damaged ({size:,} bytes of "
                    f"{said[0]:,}, SHA-256 {digest}); take another backup"
                )
        _contents(draft)  # a backup of a version before may have an index that is behind
        identity = _as_new(draft, keeps)
        sync_path(draft / FILE, os.O_RDWR)
        if (draft / SEGMENTS).exists():
            sync_directory(draft / SEGMENTS)
            (draft / SEGMENTS).replace(directory / SEGMENTS)
            sync_directory(directory)
        (draft / FILE).replace(directory / FILE)  # from here on it is a log
        sync_directory(directory)
        sync_directory(directory.parent)
        return manifest, identity


@contextmanager
def _errors(attempt: str, place: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise StorageError(f"cannot {attempt} {str(place)!r}: {error}") from error


def _held(directory: Path, patience_s: float) -> DirectoryLock:
    until = monotonic() + patience_s
    while True:
        try:
            return DirectoryLock(directory, "log to back it up", BACKUP_LOCK)
        except StorageError as error:
            if not isinstance(error.__cause__, BlockingIOError) or monotonic() >= until:
                raise
        sleep(_PAUSE_S)


class _Copied:
    """Tells how far a copy is."""

    def __init__(self, progress: Progress, most: int) -> None:
        self._progress, self._most, self._done = progress, most, 0

    def more(self, size: int) -> None:
        self._done += size
        self._progress(self._done, max(self._done, self._most))


def _copied(directory: Path, draft: Path, progress: Progress) -> None:
    """Copy a log: its index as it is committed, segments up to where they end now."""
    room = 2 * (directory / FILE).stat().st_size + MAP_BYTES
    with (
        closing(SegmentFiles(directory, sync=False)) as files,
        lmdb.open(
            str(directory), readonly=True, map_size=room, max_dbs=TABLES_MAX, max_spare_txns=0
        ) as source,
    ):
        # One that was killed before has left its place, and with it what nobody can use again.
        source.reader_check()
        _refuse_other_formats(directory, source)
        end = _end_of(files, _segments_of(source)[0])
        index = (source.info()["last_pgno"] + 1) * source.stat()["psize"]
        copied = _Copied(progress, index + sum(files.sizes().values()))
        ours, theirs = os.pipe()
        with ThreadPoolExecutor(1) as copying, os.fdopen(ours, "rb", buffering=0) as octets:
            copy = copying.submit(_copy, source, theirs)
            try:
                _written(_chunks(octets), draft / FILE, copied)
            finally:
                octets.close()  # who copies then ends, if the target has refused
            copy.result()
        # It is committed up to here, which may be behind what was the end.
        with lmdb.open(str(draft), readonly=True, lock=False, max_dbs=TABLES_MAX) as made:
            standpoint, used = _segments_of(made)
        (draft / SEGMENTS).mkdir(mode=OWNER_ONLY)
        end = max(end, standpoint, key=lambda one: one.number)
        sizes = {one: use.end for one, use in used.items() if one < standpoint.segment}
        behind = (one for one in files.sizes() if standpoint.segment <= one <= end.segment)
        sizes |= {one: files.sizes()[one] for one in behind}
        if end.segment in sizes:
            sizes[end.segment] = end.end
        for segment, size in sizes.items():
            _written(
                files.chunks(segment, size), draft / SEGMENTS / files.path(segment).name, copied
            )
        sync_directory(draft / SEGMENTS)


def _segments_of(environment: lmdb.Environment) -> tuple[Standpoint, dict[int, SegmentUse]]:
    """Up to where an index has what segments have, and what of them it needs.

    Raises:
        StorageError: That was never said.
    """
    with environment.begin() as transaction:
        try:
            table = environment.open_db(rows.SEGMENTS, transaction, create=False)
            return rows.segments_of(
                (key, value[:-CHECKSUM_BYTES]) for key, value in transaction.cursor(table)
            )
        except (lmdb.NotFoundError, KeyError):
            raise StorageError(
                f"cannot back up log at {environment.path()!r}: it was killed before it was whole; "
                "start the store once"
            ) from None


def _end_of(files: SegmentFiles, standpoint: Standpoint) -> Standpoint:
    """Where segments end that are written to meanwhile.

    Raises:
        StorageError: They are damaged.
    """
    end = standpoint
    for attempt in range(_SCANS):
        scan, end = Scan(standpoint.mark, standpoint.number), standpoint
        try:
            for segment, size in files.sizes_from(standpoint.segment).items():
                base = standpoint.end if segment == standpoint.segment else 0
                for _ in scan.frames(files.read(segment, base, max(0, size - base))):
                    pass
                end = end._replace(segment=segment, end=base + scan.end, number=scan.number)
        except StorageError:
            if attempt == _SCANS - 1:
                raise  # else one was half written, and the next one was there when that was read
        else:
            break
    return end


def _copy(source: lmdb.Environment, descriptor: int) -> None:
    try:
        source.copyfd(descriptor, compact=True)
    finally:
        os.close(descriptor)


def _chunks(octets: RawIOBase) -> Iterator[bytes]:
    while chunk := octets.read(_CHUNK_BYTES):
        yield chunk


def _written(chunks: Iterable[bytes], file: Path, copied: _Copied) -> tuple[int, str]:
    """Write a file, with holes where there is nothing, and see it on the disk; size and SHA-256."""
    size, digest = 0, hashlib.sha256()
    with file.open("xb", buffering=0) as written:
        file.chmod(0o600)
        for chunk in chunks:
            digest.update(chunk)
            if chunk.count(0) == len(chunk):
                written.seek(len(chunk), os.SEEK_CUR)
            else:
                written.write(chunk)
            size += len(chunk)
            copied.more(len(chunk))
        written.truncate(size)
    sync_path(file, os.O_RDWR)
    return size, digest.hexdigest()


def _files(draft: Path) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of each file of a log."""
    found = {}
    for path in sorted([draft / FILE, *(draft / SEGMENTS).iterdir()]):
        with path.open("rb") as octets:
            digest = hashlib.file_digest(octets, "sha256").hexdigest()
        found[str(path.relative_to(draft))] = path.stat().st_size, digest
        sync_path(path, os.O_RDWR)
    return found


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


def _contents(copy: Path) -> tuple[str, dict[str, dict[str, tuple[int, int]]]]:
    """Open a copy, and see its store's address, and where its partitions end."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    with closing(LmdbLog(copy)) as log:
        log.commit()  # else segments would say again what is taken from it as it is restored
        for partition, extent in log.extents().items():
            found.setdefault(partition.topic, {})[partition.address] = _ends(extent)
        return log.identity, found


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
