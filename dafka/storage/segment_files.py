"""The segments of a log: files of frames, written at the end of the last one (ADR 61).

What is written is on the disk when `append` returns; what it could not write is cut off again.
Segments of which nothing is needed are used again, one of them: a file that does not grow is synced
twice as fast. Of others, ranges that nothing needs are given back, where the file system can.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import RestartError, StorageError
from dafka.storage.environment import BACKUP_LOCK, DirectoryLock
from dafka.storage.file_calls import FILE_CALLS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from dafka.storage.file_calls import FileCalls

SEGMENTS = "segments"
"""The directory's name."""

SEGMENT_BYTES = 64 << 20
"""A segment has so many, or one frame."""

LEFT_BYTES = 16 << 20
"""So many bytes of a disk are not written to: on one that is full to the last page the index could
not be committed, and nothing could be dropped. It may be 8 MiB of contents behind, of which each
batch takes some 80 bytes there and 130 here."""

_SUFFIX = ".log"
_OPEN_MAX = 64
"""Files that are kept open for reading."""

_FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG
_CHUNK_BYTES = 1 << 20
_UNSEEN_BYTES = 1 << 20
"""So many are written before it is looked again what is left."""

_PAGE_BYTES = 4096
_PIECES_MAX = 1_000
"""In one write; the system's bound is IOV_MAX, 1,024."""


class FreedRange(NamedTuple):
    """Bytes of a segment that nothing needs."""

    segment: int
    start: int
    end: int


class SegmentFiles:
    """Of one log; nothing is opened or made before it is needed.

    Args:
        directory: Of the log.
        sync: Whether what is written has to be on the disk.
        bytes_max: Of a segment.
        calls: What does it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        sync: bool,
        bytes_max: int = SEGMENT_BYTES,
        calls: FileCalls = FILE_CALLS,
    ) -> None:
        self._log, self._directory = directory, directory / SEGMENTS
        self._sync, self._calls = sync, calls
        self.bytes_max = bytes_max
        """Of a segment."""
        self._named = False
        """Whether the directory is there, and its name on the disk."""
        self._active, self._end = 1, 0
        self._file: int | None = None
        self._taken = 0
        """What of it is there already; to write it over takes no room."""
        self._seen_left = 0
        """So many more bytes may be written without looking what is left."""
        self._spare: int | None = None
        self._open: OrderedDict[int, int] = OrderedDict()
        self._punches = True

    @property
    def place(self) -> tuple[int, int]:
        """The last segment, and where it ends."""
        return self._active, self._end

    def sizes(self) -> dict[int, int]:
        """Return the bytes of each segment that is there, by number, in order.

        Raises:
            OSError: The disk refused, or what has such a name is no segment.
        """
        if not self._directory.exists():
            return {}
        found: dict[int, int] = {}
        with os.scandir(self._directory) as entries:
            for entry in entries:
                number = entry.name.removesuffix(_SUFFIX)
                if number == entry.name or not number.isdecimal():
                    continue
                if not entry.is_file(follow_symlinks=False):  # to open a pipe would wait for ever
                    raise OSError(errno.EINVAL, "it is not a file", entry.path)
                if entry.name != self.path(int(number)).name:  # else it would hide another
                    raise OSError(errno.EINVAL, "it is no segment: move it away", entry.path)
                found[int(number)] = entry.stat(follow_symlinks=False).st_size
        return dict(sorted(found.items()))

    def sizes_from(self, segment: int) -> dict[int, int]:
        """Return the same of one, which may not be there yet, and of those that follow it.

        Raises:
            OSError: The same, or one is missing before another.
        """
        found = {one: size for one, size in self.sizes().items() if one >= segment}
        last = segment
        for one in found:
            if one > last + 1:
                name = self.path(last + 1).name
                reason = f"{name} is missing before it: put that back, or move this away"
                raise OSError(errno.EINVAL, reason, str(self.path(one)))
            last = one
        return found

    def path(self, segment: int) -> Path:
        """Where a segment is."""
        return self._directory / f"{segment:010}{_SUFFIX}"

    def go_on(self, segment: int, end: int) -> None:
        """Write on at a place, over whatever lies behind it.

        What a power cut has left of a frame there is none, and becomes none by being written over;
        what a segment had before it was used again has lower numbers.
        """
        self._shut()
        self._active, self._end = segment, end

    def settle(self, segment: int, at: int, octets: bytes) -> None:
        """See on the disk what was read there: who wrote it may have died before its sync.

        It is written once more: a sync that failed is told once, and then the system takes what it
        did not write for written.

        Raises:
            OSError: The disk refused.
        """
        if self._sync:
            file = self._calls.open(self.path(segment))
            try:
                try:
                    self._write(file, [octets], at)
                except OSError as error:
                    if error.errno not in _FULL:  # where what is there takes room to be written
                        raise
                self._calls.sync(file)
            finally:
                os.close(file)

    def append(self, pieces: Sequence[bytes]) -> tuple[int, int]:
        """Write a frame, one piece behind the other; return in which segment it begins, and where.

        Raises:
            OSError: The disk refused; nothing of it is there.
            RestartError: The same, and what is there cannot be said.
        """
        size = sum(map(len, pieces))
        if self._end and self._end + size > self.bytes_max:
            self._roll(self._active + 1)
        if self._file is None:
            self._roll(self._active)
        assert self._file is not None
        self._see_room(self._file, size)
        try:
            self._write(self._file, pieces, self._end)
            if self._sync:
                self._calls.sync(self._file)
        except OSError as error:
            self._undo(error)
            raise
        place = self._active, self._end
        self._end += size
        return place

    def roll(self) -> None:
        """Let the next frame begin a segment.

        Raises:
            OSError: The disk refused.
        """
        if self._end:
            self._roll(self._active + 1)

    def read(self, segment: int, at: int, size: int) -> bytes:
        """Return bytes of a segment; fewer if it ends before.

        Raises:
            OSError: The disk refused.
        """
        file = self._open.get(segment)
        if file is None:
            file = self._calls.open_to_read(self.path(segment))
            self._open[segment] = file
            while len(self._open) > _OPEN_MAX:
                os.close(self._open.popitem(last=False)[1])
        else:
            self._open.move_to_end(segment)
        return self._calls.read(file, size, at)

    def chunks(self, segment: int, size: int) -> Iterator[bytes]:
        """Yield the first bytes of a segment, bit by bit.

        Raises:
            OSError: The disk refused.
        """
        for at in range(0, size, _CHUNK_BYTES):
            yield self.read(segment, at, min(_CHUNK_BYTES, size - at))

    def let_go(self, segments: Collection[int], holes: Collection[FreedRange]) -> bool:
        """Nothing of these is needed, nor in an index that may be opened again.

        Args:
            segments: As a whole.
            holes: In others: whole pages of them are given back to the disk, if that can be.

        Returns:
            Whether it is done; not while a backup is made, which may need them.

        Raises:
            OSError: The disk refused.
        """
        if not (segments or holes):
            return True
        lock = self._unless_copied()
        if lock is None:
            return False
        try:
            for segment in segments:
                self._let_go(segment)
            for hole in _joined(holes):
                self._give_back(hole)
        finally:
            lock.release()
        return True

    def drop_spare(self) -> None:
        """Give the disk back the segment that would be used again, unless a backup is made.

        Raises:
            OSError: The disk refused.
        """
        lock = None if self._spare is None else self._unless_copied()
        if self._spare is not None and lock is not None:
            try:
                self._calls.remove(self.path(self._spare))
                self._spare = None
            finally:
                lock.release()

    def taken(self) -> int:
        """Return the bytes that segments take on the disk; holes take none.

        Raises:
            OSError: The disk refused.
        """
        return sum(512 * self.path(one).stat().st_blocks for one in self.sizes())

    def close(self) -> None:
        """Close all files."""
        self._shut()
        while self._open:
            os.close(self._open.popitem()[1])

    def _roll(self, segment: int) -> None:
        """Begin a segment, or open the one that is there; the last one stays that if it cannot."""
        if not self._named:
            if not self._directory.exists():
                self._calls.make_directory(self._directory)
            self._sync_names(self._log)  # who made it may have died before
            self._named = True
        if self._spare is not None and not self.path(segment).exists():
            self._use_again(self._spare, segment)
        file = self._calls.open(self.path(segment))
        try:
            taken = self._calls.taken(file)
            self._sync_names(self._directory)
        except OSError:
            os.close(file)
            raise
        self._shut()
        self._file, self._taken = file, taken
        if segment != self._active:
            self._active, self._end = segment, 0

    def _use_again(self, spare: int, segment: int) -> None:
        lock = self._unless_copied()
        if lock is not None:
            try:
                self._calls.rename(self.path(spare), self.path(segment))
                self._spare = None
            finally:
                lock.release()

    def _let_go(self, segment: int) -> None:
        if segment in self._open:
            os.close(self._open.pop(segment))
        if self._spare is None and self.path(segment).exists():
            self._spare = segment
        elif segment != self._spare:
            self._calls.remove(self.path(segment))

    def _give_back(self, hole: FreedRange) -> None:
        first, last = -(-hole.start // _PAGE_BYTES), hole.end // _PAGE_BYTES
        if not self._punches or first >= last or not self.path(hole.segment).exists():
            return
        file = self._calls.open(self.path(hole.segment))
        try:
            at, size = first * _PAGE_BYTES, (last - first) * _PAGE_BYTES
            self._punches = self._calls.punch(file, at, size)
        finally:
            os.close(file)

    def _unless_copied(self) -> DirectoryLock | None:
        """Hold backups off; None if one is made."""
        try:
            return DirectoryLock(self._log, "log", BACKUP_LOCK)
        except StorageError:
            return None

    def _sync_names(self, directory: Path) -> None:
        if self._sync:
            self._calls.sync_directory(directory)

    def _write(self, file: int, pieces: Sequence[bytes], at: int) -> None:
        rest = [*pieces]
        while rest:
            written = self._calls.write(file, rest[:_PIECES_MAX], at)
            at += written
            done = 0
            while done < len(rest) and written >= len(rest[done]):
                written -= len(rest[done])
                done += 1
            rest = rest[done:]
            if written:
                rest[0] = rest[0][written:]

    def _see_room(self, file: int, size: int) -> None:
        if self._end + size <= self._taken:
            return
        if size > self._seen_left:
            left = self._calls.free(file) - LEFT_BYTES
            self._seen_left = min(left, size + _UNSEEN_BYTES)
            if size > left:
                self._seen_left = 0
                reason = f"No space left on device but {LEFT_BYTES >> 20} MiB for the index"
                raise OSError(errno.ENOSPC, reason)
        self._seen_left -= size

    def _undo(self, error: OSError) -> None:
        try:
            self._cut()
        except OSError as again:
            raise RestartError(
                f"cannot append to {str(self.path(self._active))!r}: {error}; nor can what was "
                f"written be taken back: {again}; start this process again"
            ) from error

    def _cut(self) -> None:
        assert self._file is not None
        self._calls.cut(self._file, self._end)
        self._taken = self._end
        if self._sync:
            self._calls.sync(self._file)

    def _shut(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _joined(holes: Collection[FreedRange]) -> list[FreedRange]:
    joined: list[FreedRange] = []
    for hole in sorted(holes):
        last = joined[-1] if joined else None
        if last is not None and (last.segment, last.end) == (hole.segment, hole.start):
            joined[-1] = last._replace(end=hole.end)
        else:
            joined.append(hole)
    return joined
