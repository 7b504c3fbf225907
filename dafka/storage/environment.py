"""An LMDB environment in a directory of its own: locked, marked, growing. Imports `lmdb`.

Whatever keeps something on disk is tables in one of these. LMDB writes pages that no reader can
see and then one page that makes them visible: what a crash interrupts was never there.

| table | key | value |
|---|---|---|
| `meta` | `format`, `identity` | version of the tables' layout, address of the owner |

One process per directory: two stores over one log would acknowledge past each other.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING
from uuid import uuid4
from zlib import crc32

import lmdb

from dafka.errors import RecordError, RestartError, StorageError
from dafka.model import address_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_CHECKSUM = struct.Struct(">I")
CHECKSUM_BYTES = _CHECKSUM.size

MAP_BYTES = 1 << 30
"""Address space mapped at first; it costs neither memory nor disk, and doubles when it is full."""

TABLES_MAX = 8

FILE = "data.mdb"
DRAFT = "draft"
"""A directory in which a file is made whole before it gets its name. Whatever a process that died
has left in it is of no use."""

OWNER_ONLY = 0o700
"""The mode of directories made here: what topics hold is for those who have a key."""

_DAMAGE = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    RecordError,
    struct.error,
)
"""What a damaged file shows: to LMDB, or in rows that are not what was written there."""


def sealed(key: bytes, value: bytes) -> bytes:
    """Return a row's value with the checksum of key and value behind it."""
    return value + _CHECKSUM.pack(crc32(value, crc32(key)))


class Environment:
    """Opened, and used by one thread at a time.

    Args:
        directory: Created if it is not there; nothing else may be kept in it.
        kind: What it is, in a word, for error messages.
        tables: Their names; made if they are not there.
        layout: Version of the tables, kept with them: another one is refused.
        earlier: Versions that are read as they are, and are `layout` from then on.
        identity: Of the owner, if this makes the environment; by default one is drawn.
        sync: Whether a transaction that has ended survives a power cut.
        map_bytes: Address space mapped at first.

    Raises:
        StorageError: The directory cannot be used, is used by another process, or holds something
            that this version cannot read.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        kind: str,
        tables: tuple[bytes, ...],
        layout: str,
        earlier: tuple[str, ...] = (),
        identity: str = "",
        sync: bool = True,
        map_bytes: int = MAP_BYTES,
    ) -> None:
        self._directory = Path(directory)
        self._kind = kind
        self._layout = layout
        self._earlier = earlier
        self._drawn = identity or address_of(uuid4())
        self._sync = sync
        self._map_bytes = map_bytes
        self._kept: lmdb.Transaction[bytes] | None = None
        self._keeper = 0
        """The thread that has begun it."""
        created = self._made()
        with ExitStack() as opened, self.errors("open"):
            opened.callback(DirectoryLock(self._directory, kind).release)
            shutil.rmtree(self._directory / DRAFT, ignore_errors=True)
            if not (self._directory / FILE).exists():
                self._create()
            self._lmdb = _opened(self._directory, map_bytes, sync=sync)
            opened.callback(lambda: self._lmdb.close())
            self._see_that_it_is_whole()
            self.identity = self._own(self._lmdb)
            """The owner's address, drawn when the environment was created."""
            self._tables = {name: self._lmdb.open_db(name) for name in tables}
            if created:
                sync_directory(self._directory.parent)
            self._opened = opened.pop_all()

    def table(self, name: bytes) -> lmdb._Database:
        """Return one of its tables; good until the next `write` at most."""
        return self._tables[name]

    @contextmanager
    def reading(self, attempt: str = "read") -> Iterator[lmdb.Transaction[bytes]]:
        """A transaction that sees one state: the one that `change` has left, if it is open.

        While it is open no page that is freed can be used again, so it must not stay open.

        Raises:
            StorageError: The disk refused.
        """
        with self.errors(attempt):
            if self._kept is not None:
                yield self._kept_here()
                return
            with self._lmdb.begin() as transaction:
                yield transaction

    def change(self, attempt: str, work: Callable[[lmdb.Transaction[bytes]], None]) -> bool:
        """Do `work` in a transaction that stays open until `commit`, for whatever comes next.

        Args:
            attempt: What that is, for the error message.
            work: Not called again.

        Returns:
            Whether there was enough room. If not, there is now, and whatever was not committed is
            lost, as it is with errors.

        Raises:
            StorageError: The disk refused.
        """
        with self.errors(attempt):
            try:
                if self._kept is None:
                    self._kept, self._keeper = self._lmdb.begin(write=True), get_ident()
                work(self._kept_here())
            except lmdb.MapFullError:
                self.drop()
                self._make_room()
                return False
            except BaseException:
                self.drop()
                raise
        return True

    def commit(self, attempt: str) -> bool:
        """End what `change` has begun: it survives a power cut. Returns and raises as that does."""
        kept, self._kept = self._kept and self._kept_here(), None
        if kept is None:
            return True
        before = self._lmdb.info()["last_txnid"]
        with self.errors(attempt):
            try:
                kept.commit()
            except lmdb.MapFullError:
                self._make_room()
                return False
            except lmdb.Error:
                if self._has_given_up():
                    self._open_again(before)
                raise
        return True

    def drop(self) -> None:
        """Take back what was changed and not committed."""
        if self._kept is not None:
            self._kept_here().abort()
            self._kept = None

    def write(self, attempt: str, work: Callable[[lmdb.Transaction[bytes]], None]) -> None:
        """Do `work` in one transaction: all of it is there afterwards, or nothing.

        Args:
            attempt: What that is, for the error message.
            work: Called again, from the start, if there was not enough room.

        Raises:
            StorageError: The disk refused; nothing is there.
            RestartError: The same, and what is there cannot be said.
        """
        with self.errors(attempt):
            while not self._written(work):
                self._make_room()

    def unsealed(self, attempt: str, key: bytes, value: bytes) -> bytes:
        """Return what was `sealed`.

        Raises:
            StorageError: It is not what was written.
        """
        whole = value[:-CHECKSUM_BYTES]
        if sealed(key, whole) != value:
            raise self.damaged(attempt, f"the row of {key!r} is not what was written")
        return whole

    def compact(self) -> tuple[int, int]:
        """Write the file anew without the pages that are free, and close.

        Returns:
            The bytes before and after.

        Raises:
            StorageError: The disk refused, for instance because there is no room for both; or a
                backup is made.
        """
        file, draft = self._directory / FILE, self._directory / DRAFT
        with ExitStack() as locked, self.errors("compact"):
            backup = DirectoryLock(self._directory, f"{self._kind} to compact it", BACKUP_LOCK)
            locked.callback(backup.release)
            before = file.stat().st_size
            draft.mkdir(mode=OWNER_ONLY)
            try:
                self._lmdb.copy(str(draft), compact=True)
                (draft / FILE).chmod(0o600)
                sync_path(draft / FILE, os.O_RDWR)
                self._lmdb.close()
                # Still locked: nobody can have opened the old file that loses its name here.
                (draft / FILE).replace(file)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            sync_directory(self._directory)
            self.close()
            return before, file.stat().st_size

    def close(self) -> None:
        """Release the directory; may be called again. What is not committed is lost."""
        self.drop()
        self._opened.close()

    @contextmanager
    def errors(self, attempt: str) -> Iterator[None]:
        """Say of errors at the file, the library's and the rows', what was attempted, and where."""
        try:
            yield
        except _DAMAGE as error:
            raise self.damaged(attempt, str(error)) from error
        except (lmdb.Error, OSError) as error:
            raise StorageError(
                f"cannot {attempt} {self._kind} at {str(self._directory)!r}: {error}"
            ) from error

    def damaged(self, attempt: str, what: str, file: str = FILE) -> StorageError:
        """Return what to raise where a file holds something that was not written there."""
        return StorageError(
            f"cannot {attempt} {self._kind} at {str(self._directory)!r}: its file {file} is "
            f"damaged ({what}); put back a copy, or move the directory away and begin anew"
        )

    def _create(self) -> None:
        """Make the file elsewhere and give it its name when it is whole.

        A process that dies between LMDB's first writes would leave one that cannot be opened.
        """
        draft = self._directory / DRAFT
        draft.mkdir(mode=OWNER_ONLY)
        with _opened(draft, self._map_bytes, sync=True) as made:
            self._own(made)
        (draft / FILE).replace(self._directory / FILE)
        sync_directory(self._directory)
        shutil.rmtree(draft)

    def _see_that_it_is_whole(self) -> None:
        """Refuse a file that ends before its last page: touching that would end the process."""
        size = (self._directory / FILE).stat().st_size
        needed = (self._lmdb.info()["last_pgno"] + 1) * self._lmdb.stat()["psize"]
        if size < needed:
            raise self.damaged("open", f"{size:,} bytes, {needed:,} are in use")

    def _kept_here(self) -> lmdb.Transaction[bytes]:
        # The lock of a transaction belongs to its thread: another one would wait for ever.
        assert self._keeper == get_ident(), "changed by another thread, and not committed"
        assert self._kept is not None
        return self._kept

    def _make_room(self) -> None:
        # A backup that was killed holds what was freed since, until somebody looks.
        if not self._lmdb.reader_check():
            self._lmdb.set_mapsize(2 * self._lmdb.info()["map_size"])

    def _written(self, work: Callable[[lmdb.Transaction[bytes]], None]) -> bool:
        """Whether the map was large enough."""
        before = self._lmdb.info()["last_txnid"]
        try:
            with self._lmdb.begin(write=True) as transaction:
                work(transaction)
        except lmdb.MapFullError:
            return False
        except lmdb.Error:
            if not (self._has_given_up() and self._open_again(before)):
                raise
        return True

    def _has_given_up(self) -> bool:
        """Whether LMDB does nothing more with the file, but for being closed.

        So it is when a commit fails at its very last write, the page that makes it visible.
        """
        try:
            with self._lmdb.begin():
                return False
        except lmdb.PanicError:
            return True

    def _open_again(self, before: int) -> bool:
        """Open the file once more; whether the commit behind `before` is there all the same.

        Then it has to be on disk, too; and who is told that it failed must not meet it later.
        """
        try:
            self._lmdb.close()
            self._lmdb = _opened(self._directory, self._map_bytes, sync=self._sync)
            self._tables = {name: self._lmdb.open_db(name) for name in self._tables}
            if self._lmdb.info()["last_txnid"] == before:
                return False
            self._lmdb.sync(self._sync)
        except lmdb.Error as error:
            raise RestartError(
                f"{self._kind} at {str(self._directory)!r} cannot be opened again: {error}; "
                "start this process again"
            ) from error
        return True

    def _own(self, environment: lmdb.Environment) -> str:
        """Check that this is one of ours, or make it one; returns its identity.

        Nothing else in it is touched before, so one of a newer version stays whole.
        """
        with environment.begin() as transaction:
            empty = transaction.stat()["entries"] == 0
            foreign = not empty and transaction.get(b"meta") is None
        if foreign:
            raise self._unusable(f"it holds an LMDB environment that is not a {self._kind}")
        layout = self._layout.encode()
        with environment.begin(write=empty) as transaction:
            meta = environment.open_db(b"meta", transaction, create=empty)
            if empty:
                transaction.put(b"format", layout, db=meta)
                transaction.put(b"identity", self._drawn.encode(), db=meta)
            found = transaction.get(b"format", db=meta)
            identity = transaction.get(b"identity", db=meta)
        shown = "none" if found is None else found.decode("utf-8", "replace")
        if identity is None or shown not in (self._layout, *self._earlier):
            raise self._unusable(f"its format is {shown!r}, this version reads {self._layout!r}")
        if found != layout:
            with environment.begin(write=True) as transaction:
                meta = environment.open_db(b"meta", transaction)
                transaction.put(b"format", layout, db=meta)
        if empty:
            sync_directory(self._directory)
        return str(identity.decode())

    def _unusable(self, reason: str) -> StorageError:
        return StorageError(f"cannot open {self._kind} at {str(self._directory)!r}: {reason}")

    def _made(self) -> bool:
        """Make the directory if it is not there; True if it was not."""
        try:
            created = not self._directory.exists()
            self._directory.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot create {self._kind} directory {str(self._directory)!r}: {error}"
            ) from error
        return created


def _opened(directory: Path, size: int, *, sync: bool) -> lmdb.Environment:
    return lmdb.open(str(directory), map_size=size, max_dbs=TABLES_MAX, sync=sync, mode=0o600)


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable: a synced file nobody can find is lost too."""
    sync_path(directory, os.O_RDONLY | os.O_DIRECTORY)


def sync_path(path: Path, flags: int) -> None:
    """Have on the disk what was written to a file or directory."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LOCK_NAME = "owner.pid"
"""Who writes."""

BACKUP_LOCK = "backup.pid"
"""Who copies. A file that is compacted meanwhile counts its transactions anew, while LMDB's table
of readers, which who copies keeps open, goes by the old ones."""


class DirectoryLock:
    """Held from construction until `release`, or until the process ends, however it ends.

    Args:
        directory: Exists.
        kind: What it holds, in a word, for error messages.
        name: Of the file that is locked.

    Raises:
        StorageError: Another process holds it, or the directory cannot be written to.
    """

    def __init__(self, directory: Path, kind: str, name: str = LOCK_NAME) -> None:
        path = directory / name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StorageError(
                f"cannot lock {kind} directory {str(directory)!r}: {error}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StorageError(
                f"cannot open {kind} at {str(directory)!r}: in use by process {holder or 'unknown'}"
            ) from error
        # For the message above only; a disk too full for it is no reason not to serve reads.
        with suppress(OSError):
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next process in. The file stays: removing it would race with that process."""
        os.close(self._descriptor)
