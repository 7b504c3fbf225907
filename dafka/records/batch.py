"""Record batches: Kafka's format v2, built and read with aiokafka's C extension.

A batch's base offset is the sequence of its first record; it stands outside the batch's CRC, so
giving a built batch its place costs eight bytes. Source: KIP-98, "Message Format".

The C reader trusts the header it is given (an empty buffer ends the process), so `checked_count`
stands between it and every byte that came from outside.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import (
    DefaultRecord,
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)

from dafka.errors import RecordError
from dafka.limits import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    COMPARED_BYTES_MAX,
    EXPANDED_BYTES_MAX,
)
from dafka.model import Batch, Header, Record
from dafka.records.compression import Codec, compressed, expanded
from dafka.records.envelope import ENVELOPE_BYTES, FRESH, Envelope, pack, unpack
from dafka.records.header import (
    ATTRIBUTES,
    CODEC_MASK,
    CRC_FROM,
    HEADER,
    LENGTH,
    LENGTH_AT,
    LENGTH_FROM,
    LOG_APPEND_MASK,
    MAGIC,
    NEWEST_FROM,
    NO_PRODUCER,
    RUN,
    RUN_FROM,
    TIMESTAMP,
    checked_fields,
    seal,
)
from dafka.records.large import LargeRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_LAST = 1
"""The producer's epoch in the last batch of a run; in the others there is none."""

_NO_HEADERS: list[tuple[str, bytes | None]] = []
"""Only read: one list for all records saves making one for each."""

RECORDS_FROM = ENVELOPE_BYTES + HEADER.size
"""Where in a content its first record begins."""

_new = tuple.__new__
"""Makes a named tuple at a third of the cost of its constructor: here it is paid per record."""


_PLACE_BYTES = 8
"""Of the base offset."""

Built: TypeAlias = "bytes | bytearray | tuple[bytes | bytearray, ...]"
"""A batch without envelope, as a whole or in its parts."""

PLACES = 1 << 31
"""Places in a run are counted modulo this: the field has 31 bits, and Kafka begins again too."""


class Run(NamedTuple):
    """Which run of a writer a batch comes from, and how far into it.

    A run is one life of a producer, or one attempt at a task that may be repeated. Stands in the
    fields in which Kafka keeps a producer's id and its sequence, for the same purposes: who has to
    repeat a run can tell from the log how much of it is there, and who stores can tell whether a
    batch goes on with what is there.

    Attributes:
        number: Of the run.
        first: Place of the batch's first record in the run, counted from 0.
    """

    number: int
    first: int

    def behind(self, records: int) -> Run:
        """The place so many records further on."""
        return Run(self.number, (self.first + records) % PLACES)


class BatchBuilder:
    """Collects records into one batch.

    Args:
        bytes_max: Size the batch shall not pass, as it is before it is compressed; one record
            always fits.
        run: Which run of a writer the batch belongs to, if that is known.
        append_time: Whether its time is that of whoever took it in, not its producer's.
        codec: How its records are compressed, where that makes them smaller.
    """

    __slots__ = ("_append_time", "_builder", "_bytes_max", "_codec", "_large", "_run", "count")

    def __init__(
        self,
        bytes_max: int,
        run: Run | None = None,
        *,
        append_time: bool = False,
        codec: Codec = Codec.NONE,
    ) -> None:
        self._bytes_max, self._append_time, self._codec = bytes_max, append_time, codec
        self._run = run or Run(NO_PRODUCER, NO_PRODUCER)
        self._large = LargeRecords()
        self._builder: DefaultRecordBatchBuilder | None = None
        """Takes all records, once there is one that is none of those."""
        self.count = 0

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> bool:
        """Add a record; False if it does not fit any more and was not added."""
        if self._builder is None and not headers:
            added = self._large.append(timestamp_ms, key, value, self._bytes_max)
            if added is not None:
                self.count += added
                return added
        builder = self._builder or self._begun()
        if self.count == BATCH_RECORDS_MAX:
            return False
        fields = [*headers] if headers else _NO_HEADERS
        if builder.append(self.count, timestamp_ms, key, value, fields) is None:
            return False
        self.count += 1
        return True

    def extend(self, timestamp_ms: int, values: Sequence[bytes | None], start: int) -> int:
        """Add records without key and headers, from `values[start]` on, as long as they fit.

        Returns:
            The index of the first value that was not added.
        """
        if self._builder is None:
            start = self._large.extend(timestamp_ms, values, start, self._bytes_max)
            self.count = self._large.count
            # The next one does not fit, or is not one of these.
            if start == len(values) or not self.append(timestamp_ms, None, values[start], ()):
                return start
            start += 1
        append, count = (self._builder or self._begun()).append, self.count
        end = min(len(values), start + BATCH_RECORDS_MAX - count)
        try:
            for index in range(start, end):
                if append(count, timestamp_ms, None, values[index], _NO_HEADERS) is None:
                    return index
                count += 1
        finally:
            # Also when a value is of the wrong type: those before it are in the batch.
            self.count = count
        return end

    @property
    def size(self) -> int:
        """Bytes so far at most, before they are compressed."""
        return self._large.size if self._builder is None else int(self._builder.size())

    def build(self, *, last: bool = False) -> bytes | bytearray:
        """Return the record batch, its base offset 0, without envelope.

        It may be the builder's own memory: nothing may be added any more.

        Args:
            last: Whether its run ends with it.
        """
        parts = self.parts(last=last)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def parts(self, *, last: bool = False) -> tuple[bytes | bytearray, ...]:
        """Return what `build` does, in parts that were not joined: `enclosed` joins them."""
        number, first = self._run
        epoch = _LAST if last and number != NO_PRODUCER else NO_PRODUCER
        if self._large.count and self._builder is None:
            header, records = self._large.header(number, epoch, first), self._large.octets()
        else:
            builder = self._begun()
            if epoch == _LAST:
                builder.set_producer_state(number, epoch, first)
            built: bytearray = builder.build()
            if self._codec is Codec.NONE and not self._append_time:
                return (built,)
            header, records = built[: HEADER.size], bytes(memoryview(built)[HEADER.size :])
        attributes = LOG_APPEND_MASK if self._append_time else 0
        if self._codec is not Codec.NONE:
            smaller = compressed(records, self._codec)
            if len(smaller) < len(records):
                records, attributes = smaller, attributes | self._codec
        ATTRIBUTES.pack_into(header, CRC_FROM, attributes)
        seal(header, records)
        return header, records

    def _begun(self) -> DefaultRecordBatchBuilder:
        """What takes any record, begun with those so far."""
        if self._builder is not None:
            return self._builder
        number, first = self._run
        builder = DefaultRecordBatchBuilder(
            magic=MAGIC,
            compression_type=0,
            is_transactional=0,
            producer_id=number,
            producer_epoch=NO_PRODUCER,
            base_sequence=first,
            batch_size=self._bytes_max,
        )
        for place, (timestamp_ms, key, value) in enumerate(self._large):
            builder.append(place, timestamp_ms, key, value, _NO_HEADERS)
        self._builder = builder
        return builder


def enclosed(batch: Built, sequence: int, envelope: Envelope = FRESH) -> bytes:
    """Return the content frame for a built batch whose first record has `sequence`."""
    first, *others = batch if isinstance(batch, tuple) else (batch,)
    place = sequence.to_bytes(_PLACE_BYTES, "big")
    return b"".join((pack(envelope), place, memoryview(first)[_PLACE_BYTES:], *others))


class BatchHeader(NamedTuple):
    """What a record batch says of its records.

    Attributes:
        records: How many there are.
        first_timestamp_ms: What the records' timestamps count from.
        max_timestamp_ms: The latest of them.
        log_append_time: Whether `max_timestamp_ms` stands for all of them.
        run: Which run of a writer they come from, if that is known.
        last: Whether that run ends with them.
        codec: How they are compressed.
    """

    records: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    log_append_time: bool
    run: Run | None
    last: bool
    codec: Codec


def checked_count(content: bytes, sequence: int) -> int:
    """Verify `content`, envelope, structure and CRC32C, and return how many records it holds.

    Raises:
        RecordError: It is not one batch of at least one record starting at `sequence`.
    """
    return checked_header(content, sequence).records


def checked_header(content: bytes, sequence: int) -> BatchHeader:
    """Verify `content` as `checked_count` does, and return what its header says.

    Raises:
        RecordError: It is not one batch of at least one record starting at `sequence`.
    """
    if len(content) < RECORDS_FROM or len(content) > BATCH_BYTES_MAX:
        raise RecordError("batch size")
    if unpack(content) is None:
        raise RecordError("envelope")
    fields = checked_fields(content, ENVELOPE_BYTES)
    if fields.base_offset != sequence:
        raise RecordError("batch sequence")
    return BatchHeader(
        fields.records,
        fields.first_timestamp_ms,
        fields.max_timestamp_ms,
        bool(fields.attributes & LOG_APPEND_MASK),
        _run(fields.leader_epoch, fields.producer_id, fields.base_sequence),
        fields.leader_epoch <= 0 and fields.producer_epoch == _LAST,
        Codec(fields.attributes & CODEC_MASK),
    )


def is_compressed(content: bytes) -> bool:
    """Whether the records of a content, checked or none of ours, are compressed."""
    if len(content) < RECORDS_FROM:
        return False
    (attributes,) = ATTRIBUTES.unpack_from(content, ENVELOPE_BYTES + CRC_FROM)
    return bool(attributes & CODEC_MASK)


def plain(content: bytes, bytes_max: int = EXPANDED_BYTES_MAX) -> bytes:
    """Return a checked content with its records as they were before they were compressed.

    Its checksum is that of the compressed ones: it is for taking apart, not for passing on.

    Args:
        content: Any.
        bytes_max: What compressed records may stand for.

    Raises:
        RecordError: They are damaged, or stand for more.
    """
    if not is_compressed(content):
        return content
    records = _expanded_records(content, bytes_max)
    header = bytearray(content[:RECORDS_FROM])
    length = HEADER.size - LENGTH_FROM + len(records)
    LENGTH.pack_into(header, ENVELOPE_BYTES + LENGTH_AT, length)
    (attributes,) = ATTRIBUTES.unpack_from(header, ENVELOPE_BYTES + CRC_FROM)
    ATTRIBUTES.pack_into(header, ENVELOPE_BYTES + CRC_FROM, attributes & ~CODEC_MASK)
    return b"".join((header, records))


def compressed_content(content: bytes, codec: Codec) -> bytes:
    """Return a checked content with its records compressed.

    `expanded_content` makes of it what it was, octet by octet. It stays as it is if they are
    compressed already, get no smaller, or are more than what stores expand to compare.
    """
    if codec is Codec.NONE or len(content) > COMPARED_BYTES_MAX or is_compressed(content):
        return content
    smaller = compressed(content[RECORDS_FROM:], codec)
    if RECORDS_FROM + len(smaller) >= len(content):
        return content
    return _with_records(content, smaller, codec)


def expanded_content(content: bytes, bytes_max: int) -> bytes:
    """Return a checked content as it was before it was compressed; itself if it is not.

    Args:
        content: Any.
        bytes_max: What its records may stand for.

    Raises:
        RecordError: They are damaged, or stand for more.
    """
    if not is_compressed(content):
        return content
    return _with_records(content, _expanded_records(content, bytes_max), Codec.NONE)


def _expanded_records(content: bytes, bytes_max: int) -> bytes:
    (attributes,) = ATTRIBUTES.unpack_from(content, ENVELOPE_BYTES + CRC_FROM)
    codec = Codec(attributes & CODEC_MASK)
    return expanded(memoryview(content)[RECORDS_FROM:], codec, bytes_max)


def _with_records(content: bytes, records: bytes, codec: Codec) -> bytes:
    """Return a content with its records compressed otherwise, and the checksum of these."""
    header = bytearray(content[ENVELOPE_BYTES:RECORDS_FROM])
    (attributes,) = ATTRIBUTES.unpack_from(header, CRC_FROM)
    ATTRIBUTES.pack_into(header, CRC_FROM, attributes & ~CODEC_MASK | codec)
    seal(header, records)
    return b"".join((content[:ENVELOPE_BYTES], header, records))


def has_append_time(content: bytes) -> bool:
    """Whether the records of a checked content have the time of whoever took them in.

    It is no part of what they are: two stores that a bare value reaches keep the same record.
    """
    (attributes,) = ATTRIBUTES.unpack_from(content, ENVELOPE_BYTES + CRC_FROM)
    return bool(attributes & LOG_APPEND_MASK)


def run_of(content: bytes) -> Run | None:
    """Return which run a content that `checked_count` has passed comes from, if that is known."""
    leader_epoch, number, _, index = RUN.unpack_from(content, ENVELOPE_BYTES + RUN_FROM)
    return _run(leader_epoch, number, index)


def _run(leader_epoch: int, number: int, first: int) -> Run | None:
    # Who took it in for Kafka clients has an epoch. Then these are the numbers of one of them, and
    # those of many stand in one partition.
    of_ours = leader_epoch <= 0 and number >= 0 and first >= 0
    return Run(number, first) if of_ours else None


def newest_ms(content: bytes) -> int | None:
    """Return the largest timestamp in a batch, None if `content` is none or has none.

    Reads the header only: what a store keeps was checked when it came in.
    """
    if len(content) < ENVELOPE_BYTES + HEADER.size or unpack(content) is None:
        return None
    (found,) = TIMESTAMP.unpack_from(content, ENVELOPE_BYTES + NEWEST_FROM)
    return found if found >= 0 else None


class RawRecord(NamedTuple):
    """A record as it stands in its batch."""

    sequence: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def raw_records(content: bytes, bytes_max: int = EXPANDED_BYTES_MAX) -> Iterator[RawRecord]:
    """Yield the records of a content that `checked_count` has passed.

    Args:
        content: Any.
        bytes_max: What compressed records may stand for; with 0 there must not be any.

    Raises:
        RecordError: The records inside do not parse, or have not one sequence after the other,
            although the checksum is right.
    """
    with _reading():
        for sequence, record in _numbered(content, bytes_max):
            if record.offset != sequence:
                raise RecordError("batch records")
            yield _new(
                RawRecord,
                (sequence, record.timestamp, record.key, record.value, record.headers),
            )


PassedOver: TypeAlias = "Callable[[Batch, int], None]"
"""Told of a batch whose records cannot be read from a sequence on, though its checksum is right.

No producer of ours makes one, and to take every batch apart before it is stored would take a store
as much time as all else that it does. So readers leave out what nobody can read, and go on.
"""


def records_of(
    batch: Batch, start: int = 0, passed_over: PassedOver | None = None, *, checked: bool = False
) -> Iterator[Record]:
    """Yield the records of `batch` from sequence `start` on, complete with their place.

    Args:
        batch: Any.
        start: Leaves out those before.
        passed_over: What to tell of records that cannot be read, rather than to raise.
        checked: Whether its content is known to be whole: a machine has received it.

    Raises:
        RecordError: The content does not hold what the batch says.
    """
    if not checked and checked_count(batch.content, batch.sequence) != batch.count:
        raise RecordError("batch count")
    topic, address = batch.partition
    origin, copy_flags, _ = unpack(batch.content) or FRESH
    # Its own loop over the reader: a second generator, or lists in between, cost as much as the
    # records do.
    with _reading(batch, passed_over):
        for sequence, record in _numbered(batch.content):
            if record.offset != sequence:
                raise RecordError("batch records")
            if sequence < start:
                continue
            headers = record.headers
            yield _new(
                Record,
                (
                    topic,
                    address,
                    sequence,
                    record.timestamp,
                    record.key,
                    record.value,
                    tuple([Header(*header) for header in headers]) if headers else (),
                    copy_flags,
                    origin,
                ),
            )


def values_of(
    batch: Batch, start: int = 0, passed_over: PassedOver | None = None, *, checked: bool = False
) -> list[bytes | None]:
    """Return the values of `batch` as `records_of` does, at a third of what records cost.

    Raises:
        RecordError: The content does not hold what the batch says.
    """
    if not checked and checked_count(batch.content, batch.sequence) != batch.count:
        raise RecordError("batch count")
    try:
        with _reading():
            numbered = _numbered(batch.content)
            values = [record.value for place, record in numbered if record.offset == place]
    except RecordError:
        values = []
    if len(values) != batch.count:
        values = [record.value for record in records_of(batch, passed_over=passed_over)]
    return values[max(0, start - batch.sequence) :]


def readable_part(batch: Batch) -> Batch | None:
    """Return what comes before the first unreadable record of `batch`; None if nothing does.

    Raises:
        RecordError: The content does not hold what the batch says.
    """
    end = _readable_end(batch)
    return _rebuilt(batch, batch.sequence, end) if end > batch.sequence else None


def _numbered(
    content: bytes, bytes_max: int = EXPANDED_BYTES_MAX
) -> Iterator[tuple[int, DefaultRecord]]:
    """The records as the library reads them, with the sequences they must have."""
    reader = DefaultRecordBatch(memoryview(plain(content, bytes_max))[ENVELOPE_BYTES:])
    return enumerate(reader, reader.base_offset)


@contextmanager
def _reading(batch: Batch | None = None, passed_over: PassedOver | None = None) -> Iterator[None]:
    """Errors of the library as ours; the last two are lengths near the end of its numbers."""
    try:
        yield
    except (
        RecordError,
        CorruptRecordException,
        ValueError,
        IndexError,
        OverflowError,
        MemoryError,
    ) as error:
        if batch is None or passed_over is None:
            raise RecordError("batch records") from error
        passed_over(batch, _readable_end(batch))


def _readable_end(batch: Batch) -> int:
    """The first sequence of a batch that cannot be read: counted anew, as nobody should need it."""
    end = batch.sequence
    try:
        for raw in raw_records(batch.content):
            end = raw.sequence + 1
    except RecordError:
        return end
    return batch.end


def without_first(batch: Batch, dropped: int) -> Batch:
    """Return `batch` less its first `dropped` records, under the same envelope.

    Raises:
        RecordError: The records inside do not parse, or the rest would be too large a batch.
    """
    return cut(batch, batch.sequence + dropped, batch.end)


def cut(batch: Batch, start: int, end: int) -> Batch:
    """Return the records of `batch` from sequence `start` to below `end`, at least one.

    Raises:
        RecordError: The records inside do not parse, or would be too large a batch.
    """
    first, behind = max(start, batch.sequence), min(end, batch.end)
    if (first, behind) == (batch.sequence, batch.end):
        return batch
    return _rebuilt(batch, first, behind)


def _rebuilt(batch: Batch, first: int, behind: int) -> Batch:
    header = checked_header(batch.content, batch.sequence)
    run = header.run
    if run is not None:
        run = run.behind(first - batch.sequence)
    # Timestamps are kept as the difference from the first one, so without it the rest can be
    # larger than the whole was; a builder that is full would leave records out.
    room = BATCH_BYTES_MAX if header.codec is Codec.NONE else EXPANDED_BYTES_MAX
    builder = BatchBuilder(
        room - ENVELOPE_BYTES, run, append_time=header.log_append_time, codec=header.codec
    )
    for raw in raw_records(batch.content):
        if raw.sequence < first:
            continue
        if not builder.append(raw.timestamp_ms, raw.key, raw.value, raw.headers):
            raise RecordError("batch size")
        if raw.sequence == behind - 1:
            break  # nothing depends on whether those behind it can be read
    envelope = unpack(batch.content) or FRESH
    last = header.last and behind == batch.end
    content = enclosed(builder.build(last=last), first, envelope)
    if len(content) > BATCH_BYTES_MAX:
        raise RecordError("batch size")
    return Batch(batch.partition, first, behind - first, content)
