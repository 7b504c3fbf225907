"""The segments of a log and the index that follows them (ADR 61).

A change is one frame at the end of the last segment and one sync: from then on it is there. The
index follows at once, and comes to the disk once in a while: what it lacks after a crash the
segments say again. So the segments are always ahead, and an index that cannot be written loses
nothing.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from dafka.errors import RestartError, StorageError
from dafka.model import Batch
from dafka.storage import rows
from dafka.storage.log import TableEntry
from dafka.storage.log_index import LogChange
from dafka.storage.rows import Standpoint
from dafka.storage.segment import (
    HEAD_BYTES,
    ContentHead,
    Frame,
    FrameChange,
    Scan,
    Span,
    frame,
    spans_of,
)

if TYPE_CHECKING:
    from dafka.model import Partition
    from dafka.storage.environment import Environment
    from dafka.storage.log_index import IndexPlan, LogIndex
    from dafka.storage.rows import Content
    from dafka.storage.segment_files import FreedRange, SegmentFiles

_log = logging.getLogger(__name__)

INDEXED_BYTES = 8 << 20
"""Behind so many bytes the index is written, or ..."""

INDEXED_APPENDS = 1_000
"""... behind so many appends: who opens the log after a crash has no more to read again."""

REFUSED_MS = 1_000
"""So long no records are taken in after the index could not be committed."""

_HOLES_MAX = 100_000
"""What is to be given back while a backup is made; of more, those that wait longest stay."""


class Journal:
    """Of one log. Used by one thread at a time; see `settle`.

    Args:
        environment: Of the index.
        index: Changed by this alone.
        files: The segments; closed with this.
        indexed_bytes: Behind so many the index is written.

    Raises:
        StorageError: What is there is damaged, or the disk refused.
    """

    def __init__(
        self, environment: Environment, index: LogIndex, files: SegmentFiles, indexed_bytes: int
    ) -> None:
        self._environment, self._index, self._files = environment, index, files
        self._indexed_bytes = indexed_bytes
        self._behind = False
        """Whether the index lacks what segments have, and has to be read again before it is used.
        It does from before a change until behind it: else, whatever ended that, a later commit
        would say that the index has it. What of it is in memory is right where the disk refused."""
        self._refusal: str | None = None
        """Why the index could not be committed when that was last tried, by the disk."""
        self._refused_ms = 0
        """When that was."""
        self._pending = self._pending_bytes = 0
        """Frames that are not in the index on the disk, and their bytes."""
        self._gone: list[int] = []
        """Segments that nothing needs and a backup may."""
        self._holes: list[FreedRange] = []
        """And ranges in others."""
        self._load()

    def index(self) -> LogIndex:
        """The index, with all that segments have, to be read.

        Raises:
            StorageError: The disk refused.
            RestartError: The segments cannot be read.
        """
        while self._behind or not self._written():
            self._read_again()
        return self._index

    def change(self, change: LogChange) -> None:
        """Do a change; see `RecordLog.append`.

        Raises:
            StorageError: The disk refused, or it cannot be done; nothing of it is there.
            RestartError: The disk refused, and what is there cannot be said.
        """
        if self._pending_bytes >= self._indexed_bytes or self._pending >= INDEXED_APPENDS:
            self._commit_before(change)
        if self._behind or change.trims:  # which read it
            self.index()
        plan = self._index.plan(change)
        contents = [one.content for one in change.batches]
        self._behind = True  # until the index has it, whatever comes between
        try:
            segment, spans = self._write(self._said(plan), plan.heads, contents)
        except StorageError:
            self._behind = False
            if change.batches:
                self._make_room()
                raise
            self._change_index_alone(change)
            return
        with suppress(StorageError):
            self._behind = not self._index.perform(plan, segment, spans)
        if self._behind:
            self._read_again()

    def _commit_before(self, change: LogChange) -> None:
        """Commit, but for records not again so soon after that was refused.

        What is not committed is lost each time, and read again for whoever reads next.
        """
        waited_ms = change.arrival_ms - self._refused_ms
        if self._refusal is not None and change.batches and 0 <= waited_ms < REFUSED_MS:
            raise StorageError(self._refusal)
        self._refused_ms = change.arrival_ms
        try:
            self.commit()
        except StorageError as error:
            self._refusal = str(error)
            raise
        self._refusal = None

    def commit(self) -> None:
        """Have the index on the disk as well, and give back what nothing needs.

        Raises:
            StorageError: The disk refused. What is in segments is there nevertheless.
            RestartError: The same, and they cannot be read.
        """
        if self._pending:
            self.index()
            while not self._committed():
                self._read_again()
        self._clear_up(self._files.bytes_max)

    def settle(self) -> None:
        """Commit what can be committed; afterwards another thread may use the log.

        A disk that is full is no reason not to serve what is there: what the index lacks is read
        again where it is used.

        Raises:
            RestartError: Segments cannot be read.
        """
        if self._behind:
            self._environment.drop()
            return
        try:
            self.commit()
        except StorageError as error:
            _log.warning("the index stays behind the segments: %s", error)

    def content(self, row: bytes) -> bytes:
        """Return the content of a batch, by its row.

        Raises:
            StorageError: It is not there, or the disk refused.
        """
        content = rows.content_of(row)
        if isinstance(content, bytes):
            return content
        return self._found(content, content.span.at, content.span.size)

    def strays(self, partition: Partition) -> list[int]:
        """Return the first sequences of batches of which segments have something else.

        Raises:
            StorageError: The disk refused.
        """
        index = self.index()
        number, start = index.number_of(partition), index.extents[partition].start
        found = []
        for first, row in index.batches(partition, start):
            content = rows.content_of(row)
            outline = rows.outline_of(first, row)
            if isinstance(content, bytes) or not outline.size:
                continue
            due = ContentHead(number, first, outline.end - first, outline.size)
            if self._found(content, content.span.at - HEAD_BYTES, HEAD_BYTES) != due.packed():
                found.append(first)
        return found

    def compact(self) -> tuple[int, int]:
        """Move what is left of sparse segments, and give these back.

        Returns:
            The bytes that segments took before, and take now.

        Raises:
            StorageError: The disk refused.
        """
        with self._environment.errors("compact"):
            before = self._files.taken()
            self._files.roll()
        self.index()
        while not self._moved():
            self._read_again()
        self.commit()
        self._clear_up(0)
        with self._environment.errors("compact"):
            self._files.drop_spare()
            return before, self._files.taken()

    def close(self) -> None:
        """Close the segments. What the index lacks is read again when the log is opened."""
        self._clear_up(0)  # who opens it again does not know of holes
        self._pending = 0
        self._gone, self._holes = [], []
        self._files.close()

    def _load(self) -> None:
        """Know what is there, in the index and behind it."""
        with self._environment.errors("open"):
            sizes = self._files.sizes()
        if not self._index.stands() and any(sizes.values()):
            raise self._environment.damaged("open", "there are segments that it does not know")
        standpoint = self._index.load()
        while not self._replayed(standpoint):
            standpoint = self._index.load()
        # Those that nothing needed when the log was closed.
        kept = self._index.used
        self._gone = [one for one in sizes if one < standpoint.segment and one not in kept]
        self.settle()

    def _read_again(self) -> None:
        """Take up the index as it is on the disk, and what segments have behind it.

        Raises:
            RestartError: That cannot be done.
        """
        try:
            self._environment.drop()
            while not self._replayed(self._index.load()):
                pass
        except StorageError as error:
            raise RestartError(f"{error}; start this process again") from error

    def _written(self) -> bool:
        """Have the tables of the index complete; False if the map was too small, and all is lost.

        Raises:
            StorageError: The disk refused, and all is lost.
        """
        self._behind = True
        self._behind = not self._index.write()
        return not self._behind

    def _replayed(self, standpoint: Standpoint) -> bool:
        """Do what segments say behind a place; False if the map was too small, and all is lost.

        Raises:
            StorageError: They are damaged, or the disk refused.
        """
        self._standpoint = standpoint
        self._pending = self._pending_bytes = 0
        self._behind = True
        with self._environment.errors("open"):
            sizes = self._files.sizes()
            for segment, use in self._index.used.items():
                if sizes.get(segment, 0) < use.end:
                    raise self._damaged(segment, f"{use.end:,} bytes are in use")
            scan = Scan(standpoint.mark, standpoint.number)
            last, end = standpoint.segment, standpoint.end
            names = self._index.named()
            for segment, size in self._files.sizes_from(standpoint.segment).items():
                base = standpoint.end if segment == standpoint.segment else 0
                octets = self._files.read(segment, base, max(0, size - base))
                try:
                    for found in scan.frames(octets):
                        if not self._replay(found, octets, segment, base, names):
                            return False
                except StorageError as error:
                    raise self._damaged(segment, str(error)) from error
                if scan.end:
                    self._files.settle(segment, base, octets[: scan.end])
                self._pending_bytes += scan.end
                last, end = segment, base + scan.end
            self._files.go_on(last, end)
        self._standpoint = standpoint._replace(segment=last, end=end, number=scan.number)
        self._behind = False
        return True

    def _replay(
        self, found: Frame, octets: bytes, segment: int, base: int, names: dict[int, Partition]
    ) -> bool:
        self._pending += 1
        change = found.change
        if change.moved:
            return True
        if change.trims and not self._index.write():
            return False
        names |= {number: rows.partition_of(key) for number, key in change.named}
        plan = self._index.plan(
            LogChange(
                [
                    Batch(
                        names[head.partition],
                        head.sequence,
                        head.records,
                        octets[span.at : span.end],
                    )
                    for head, span in zip(found.heads, found.spans, strict=True)
                ],
                {names[one]: sequence for one, sequence in change.trims},
                {names[one]: sequence for one, sequence in change.skips},
                [TableEntry(*entry) for entry in change.entries],
                [names[one] for one in change.forgets],
                change.arrival_ms,
                [names[one] for one in change.erases],
            )
        )
        if self._said(plan).named != change.named:
            raise StorageError(f"change {found.number} does not follow what the index has")
        spans = [Span(base + start, base + at, size) for start, at, size in found.spans]
        return self._index.perform(plan, segment, spans)

    def _change_index_alone(self, change: LogChange) -> None:
        """Do a change without batches where segments refuse it.

        On a disk that is full the index has room, whose pages are used again; and what makes room
        there is a change.

        Raises:
            StorageError: The disk refused.
        """
        self.commit()
        try:
            while not self._changed_alone(change):
                self._read_again()
        except StorageError:
            self._read_again()  # what is in memory has it
            raise
        self._clear_up(self._files.bytes_max)

    def _changed_alone(self, change: LogChange) -> bool:
        """Whether the index has it on the disk; if not there is room for it now, and it is lost."""
        plan = self.index().plan(change)
        self._behind = True
        done = self._index.perform(plan, self._standpoint.segment, ())
        return done and self._committed()

    def _moved(self) -> bool:
        """Move what is left of sparse segments to the last one; False if the map was too small."""
        active, _ = self._files.place
        sparse = {
            segment
            for segment, use in self._index.used.items()
            if segment < active and 2 * use.kept < use.end
        }
        key: bytes | None = b""
        while sparse and key is not None:
            moved, key = self._index.rows_in(sparse, key, self._indexed_bytes)
            contents = [self.content(row) for row in moved.values()]
            heads = []
            for place, row in moved.items():
                number, first = rows.batch_place(place)
                outline = rows.outline_of(first, row)
                heads.append(ContentHead(number, first, outline.end - first, outline.size))
            self._behind = True
            segment, spans = self._write(FrameChange(0, moved=True), heads, contents)
            self._behind = not self._index.move(moved, segment, spans)
            if self._behind:
                return False
        return True

    def _write(
        self, change: FrameChange, heads: list[ContentHead], contents: list[bytes]
    ) -> tuple[int, list[Span]]:
        """Write a frame: in which segment, and where in there its contents are."""
        mark, _, _, number, following = self._standpoint
        pieces, first = frame(mark, number, change, heads, contents)
        with self._environment.errors("append to"):
            segment, at = self._files.append(pieces)
        _, end = self._files.place
        self._standpoint = Standpoint(mark, segment, end, number + 1, following)
        self._pending += 1
        self._pending_bytes += end - at
        return segment, spans_of(heads, at, at + first)

    def _said(self, plan: IndexPlan) -> FrameChange:
        """What a frame says of a change."""
        of, number_of = plan.of, plan.numbers.__getitem__
        if of.only_grows and not (of.skips or plan.named):  # nearly all
            return FrameChange(of.arrival_ms)
        return FrameChange(
            of.arrival_ms,
            tuple((number, rows.partition_key(one)) for one, number in plan.named.items()),
            tuple((number_of(one), sequence) for one, sequence in of.trims.items()),
            tuple(
                (number_of(one), sequence)
                for one, sequence in of.skips.items()
                if one in plan.numbers
            ),
            tuple((one.table, one.key, one.value) for one in of.entries),
            tuple(self._index.number_of(one) for one in of.forgets),
            tuple(self._index.number_of(one) for one in of.erases),
        )

    def _committed(self) -> bool:
        """Whether the index is on the disk; if not there is room for it now, and it is lost."""
        standpoint = self._standpoint._replace(following=self._index.following)
        self._behind = True
        if not self._index.commit(standpoint):
            return False
        self._behind = False
        self._standpoint = standpoint
        self._pending = self._pending_bytes = 0
        gone, holes = self._index.settled(standpoint.segment)
        self._gone += gone
        known = self._index.used
        self._holes = [one for one in (*self._holes, *holes) if one.segment in known][-_HOLES_MAX:]
        return True

    def _clear_up(self, waiting_max: int) -> None:
        """Give back what the index on the disk does not need.

        Args:
            waiting_max: So many bytes of holes wait. A segment that is empty as a whole before they
                are given back is written over with all its blocks, for half of what others cost.
        """
        waiting = sum(hole.end - hole.start for hole in self._holes)
        due: list[FreedRange] = []
        for hole in self._holes:
            if waiting <= waiting_max:
                break
            waiting -= hole.end - hole.start
            due.append(hole)
        try:
            if self._files.let_go(self._gone, due):
                self._gone, self._holes = [], self._holes[len(due) :]
        except OSError as error:  # tried again behind the next commit
            _log.warning("cannot give back what is free: %s", error)

    def _make_room(self) -> None:
        """Give a disk that may be full what waits to be used again, for who tries once more."""
        self._clear_up(0)
        try:
            self._files.drop_spare()
        except OSError as error:
            _log.warning("cannot give back what is free: %s", error)

    def _found(self, content: Content, at: int, size: int) -> bytes:
        with self._environment.errors("read"):
            found = self._files.read(content.segment, at, size)
        if len(found) < size:
            what = f"{content.span.end:,} bytes are in use"
            raise self._damaged(content.segment, what, "read")
        return found

    def _damaged(self, segment: int, what: str, attempt: str = "open") -> StorageError:
        path = self._files.path(segment)
        return self._environment.damaged(attempt, what, f"{path.parent.name}/{path.name}")
