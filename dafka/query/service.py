"""The store's side of the query port: a question's bytes in, an answer's bytes out.

Also of what is asked and agreed on about groups of consumers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, assert_never

from dafka.errors import MisuseError, RecordError, StorageError, WireError
from dafka.gateway.lines import LEDGER
from dafka.groups.acceptor import Registers
from dafka.groups.commit import TOPIC as COMMITS_TOPIC
from dafka.groups.commit import checked_group
from dafka.groups.commit_table import commits_of, groups_of
from dafka.groups.link_sync import LinkSync
from dafka.groups.writers import Writers
from dafka.limits import DELETED_BATCHES_MAX, DIGEST_BYTES_MAX, DIGEST_RECORDS_MAX, READ_BYTES_MAX
from dafka.model import ALL_SLOTS, Partition, PartitionShare
from dafka.query import messages, slot_steps
from dafka.query.messages import VERSION, decode_question, encode
from dafka.query.paging import PAGE_BYTES_MAX, page
from dafka.query.slot_share import is_kept
from dafka.query.slot_steps import SlotQuestion, moving, part_of, slots_answer
from dafka.records.batch import newest_ms, raw_records
from dafka.records.digest import (
    digest_of_batches,
    digest_of_headers,
    digest_of_records,
    expanded_batches,
)
from dafka.storage.holds import Holds, HoldWord
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.log import Mark, extent_of, goes_on
from dafka.storage.new_disk import catch_up, is_new
from dafka.transport.access import ANYBODY
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.model import Batch
    from dafka.query.messages import (
        Answer,
        GroupAnswer,
        GroupQuestion,
        GroupRequest,
        Place,
        Question,
        RecordQuestion,
    )
    from dafka.reasons import Reason
    from dafka.storage.log import Extent, RecordLog
    from dafka.transport.access import Rights


GROUP_QUESTIONS = (
    messages.GroupsRequest,
    messages.CommitsRequest,
    messages.MembersRequest,
    messages.HeartbeatRequest,
    messages.PrepareRequest,
    messages.AcceptRequest,
    messages.LinkSyncRequest,
)


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """What one answer holds at most, and what is done for it before others get their turn.

    Attributes:
        rows: Groups or commits looked up; a commit may have 64 KiB.
        page_bytes: Names and numbers of a long list.
        read_bytes: Batches to read, at least one of them; 0 if none may be.
        digest_bytes: Batches to digest, at least one of them.
        digest_records: Records to digest one by one.
        deleted_batches: Batches to delete.
    """

    rows: int = 500
    page_bytes: int = PAGE_BYTES_MAX
    read_bytes: int = READ_BYTES_MAX
    digest_bytes: int = DIGEST_BYTES_MAX
    digest_records: int = DIGEST_RECORDS_MAX
    deleted_batches: int = DELETED_BATCHES_MAX


ANSWER_BOUNDS = AnswerBounds()


def answered(
    question: GroupQuestion | GroupRequest,
    log: RecordLog,
    registers: Registers,
    link_sync: LinkSync,
    now_ms: int,
    bounds: AnswerBounds = ANSWER_BOUNDS,
) -> GroupAnswer:
    """Return the answer to `question`.

    Args:
        question: What is asked.
        log: Where commits are.
        registers: Where members are.
        link_sync: Which links have brought positions.
        now_ms: The time, by the clock that `registers` is always given.
        bounds: Of the answer.

    Raises:
        StorageError: The disk refused.
        WireError: What is to be agreed on is no membership, or there are too many groups or links.
    """
    match question:
        case messages.GroupsRequest(after):
            last = None if after is None else text(after)
            groups = [octets_of(group) for group in groups_of(log, bounds.rows, last)]
            return messages.GroupsResponse(tuple(groups), len(groups) == bounds.rows)
        case messages.CommitsRequest(group, place):
            behind = None if place is None else Partition(text(place[0]), text(place[1]))
            found = commits_of(log, text(group), bounds.rows, behind)
            commits, more = page(found, lambda row: len(row[0]) + len(row[1]), bounds.page_bytes)
            more = more or len(found) == bounds.rows
            return messages.CommitsResponse(tuple(commits), more, link_sync.in_sync(now_ms))
        case messages.MembersRequest(group):
            return messages.MembersResponse(registers.roster(_checked(text(group)), now_ms))
        case messages.HeartbeatRequest(request):
            return messages.MembersResponse(registers.beat(request, now_ms))
        case messages.PrepareRequest(request):
            _checked(request.group)
            return messages.PrepareResponse(registers.prepare(request, now_ms))
        case messages.AcceptRequest(request):
            _checked(request.group)
            return messages.AcceptResponse(registers.accept(request, now_ms))
        case messages.LinkSyncRequest(link, in_sync):
            return messages.LinkSyncResponse(*link_sync.told(text(link), now_ms, in_sync=in_sync))


def _checked(group: str) -> str:
    try:
        return checked_group(group)
    except MisuseError as error:
        raise WireError("membership") from error


def answer(
    question: bytes,
    log: RecordLog,
    rights: Rights = ANYBODY,
    *,
    deletable: bool = False,
    dropped: Callable[[Reason], None] = lambda _reason: None,
    registers: Registers | None = None,
    link_sync: LinkSync | None = None,
    hold_words: Holds | None = None,
    writers: Writers | None = None,
    bounds: AnswerBounds = ANSWER_BOUNDS,
    holes: Holes | None = None,
    kept_slots: KeptSlots | None = None,
    now_ms: int = 0,
) -> bytes:
    """Return the answer to `question`, whatever it is: a peer cannot make this raise.

    Args:
        question: What was received.
        log: What it is about.
        rights: Those of whoever asks.
        deletable: Whether topics may be deleted.
        dropped: Called if what came is no question, or not one that this key may ask.
        registers: Of the groups' members, if this store keeps them.
        link_sync: Which links have brought positions, if this store keeps that.
        hold_words: What clusters have that must have it, if this store keeps that.
        writers: Who writes what here, if this store remembers that.
        bounds: Of the answer, and of the work for it.
        holes: What the store waits for in vain, if it can be asked.
        kept_slots: Which of the ring the store keeps; all, if not given.
        now_ms: The time, by a clock that does not jump.
    """
    try:
        asked = decode_question(question)
        if not _permitted(asked, rights):
            dropped("not permitted")
            return encode(messages.ErrorResponse("not permitted", "this key has no right to that"))
        if isinstance(asked, GROUP_QUESTIONS):
            registers = registers or Registers(log, now_ms)
            link_sync = link_sync or LinkSync(log, now_ms)
            return encode(answered(asked, log, registers, link_sync, now_ms, bounds))
        if isinstance(asked, messages.HolesRequest | messages.SkipRequest):
            return encode(_of_holes(asked, holes))
        if isinstance(asked, messages.HoldRequest):
            return encode(_hold(asked, log, hold_words or Holds(log)))
        if isinstance(asked, messages.WritersRequest):
            return encode(_writers(asked, writers or Writers(), now_ms))
        if isinstance(asked, messages.DeleteRequest):
            return encode(_delete(asked, log, bounds) if deletable else _NOT_DELETABLE)
        if isinstance(asked, _READS) and not bounds.read_bytes:
            dropped("not read")
            return encode(_NOT_READ)
        return encode(_of_share(asked, log, bounds, kept_slots or KeptSlots(log), now_ms))
    except WireError as error:
        dropped(error.reason)
        return encode(messages.ErrorResponse(error.reason, f"this store speaks version {VERSION}"))
    except (StorageError, RecordError) as error:
        return encode(messages.ErrorResponse("storage", str(error)))


_READS = messages.ReadRequest | messages.ReadsRequest

_NOT_READ = messages.ErrorResponse("not read", "take the answers that are on their way first")

_NOT_DELETABLE = messages.ErrorResponse("delete", "this store was not started to allow that")


def _of_share(
    question: RecordQuestion | SlotQuestion,
    log: RecordLog,
    bounds: AnswerBounds,
    kept_slots: KeptSlots,
    now_ms: int,
) -> Answer:
    if isinstance(question, SlotQuestion):
        try:
            return slots_answer(question, log, kept_slots, now_ms)
        except MisuseError as error:
            return messages.ErrorResponse("slots", str(error))
    slots = kept_slots.keeping.kept
    if slots != ALL_SLOTS and not is_kept(question, slots):
        return messages.ErrorResponse(messages.SHARE, f"it keeps slots {slots or 'none'}")
    return _answer(question, log, bounds, kept_slots)


class Holes(Protocol):
    """What a store waits for that nobody has: its role."""

    def holes(self) -> Mapping[Partition, range]:
        """By partition."""

    def skip(self, partition: Partition, end: int) -> None:
        """Go on without that, a moment later."""


HOLES_MAX = 1_000
"""So many are listed."""


def _of_holes(question: messages.HoleQuestion, holes: Holes | None) -> Answer:
    found = {} if holes is None else holes.holes()
    if isinstance(question, messages.HolesRequest):
        rows = [(*_octets(place), hole.start, hole.stop) for place, hole in found.items()]
        return messages.HolesResponse(tuple(sorted(rows)[:HOLES_MAX]))
    partition = Partition(text(question.topic), text(question.address))
    hole = found.get(partition)
    if holes is None or hole is None or hole.stop != question.end:
        return messages.ErrorResponse("skip", "this store waits for nothing of it up to there")
    holes.skip(partition, hole.stop)
    return messages.SkipResponse(len(hole))


def _hold(question: messages.HoldRequest, log: RecordLog, holds: Holds) -> messages.HoldResponse:
    floors = {Partition(text(one), text(other)): end for one, other, end in question.floors}
    holds.place(HoldWord(question.epoch, question.need, floors))
    return messages.HoldResponse(log.identity)


def _writers(
    question: messages.WritersRequest, writers: Writers, now_ms: int
) -> messages.WritersResponse:
    epochs = (
        writers.heard(text(flow), PartitionShare(share, of), epoch, now_ms)
        for flow, share, of, epoch in question.rows
    )
    return messages.WritersResponse(tuple(epochs))


def _delete(
    question: messages.DeleteRequest, log: RecordLog, bounds: AnswerBounds
) -> messages.DeleteResponse:
    """Drop a bounded number of batches: acknowledging must not wait for long."""
    topic, left, records = text(question.topic), bounds.deleted_batches, 0
    trims: dict[Partition, int] = {}
    for partition, extent in log.extents().items():
        if partition.topic != topic or extent.start > extent.head or not left:
            continue
        outlines = log.outlines(partition, extent.start, left)
        left -= len(outlines)
        trims[partition] = outlines[-1].end
        records += sum(one.end - one.sequence for one in outlines if one.size)
    log.append((), trims=trims)
    kept = (one for place, one in log.extents().items() if place.topic == topic)
    return messages.DeleteResponse(records, any(one.start <= one.head for one in kept))


def _permitted(question: Question, rights: Rights) -> bool:
    """Whether it may be answered; what is asked of all topics takes the right to all."""
    match question:
        case messages.HealthRequest() | messages.CatchUpRequest():
            # Health is only numbers; what a disk lacks matters to ledgers.
            return isinstance(question, messages.HealthRequest) or rights.may_write(LEDGER)
        case messages.TopicsRequest() | messages.HolesRequest():
            return rights.may_read("")
        case messages.SkipRequest():
            return rights.may_mirror(text(question.topic))
        case messages.DeleteRequest():
            return rights.may_write(text(question.topic))
        case messages.DigestsRequest() | messages.ReadsRequest():
            return all(
                rights.may_read(text(topic)) for topic in {span[0] for span in question.spans}
            )
        case messages.NamedRangesRequest():
            return all(
                rights.may_read(text(topic)) for topic in {place[0] for place in question.places}
            )
        case messages.GroupsRequest() | messages.CommitsRequest() | messages.MembersRequest():
            return rights.may_read(COMMITS_TOPIC)
        case (
            messages.HeartbeatRequest(request)
            | messages.PrepareRequest(request)
            | messages.AcceptRequest(request)
        ):
            return rights.may_write(COMMITS_TOPIC) and rights.may_commit(request.group)
        case (
            messages.LinkSyncRequest()
            | messages.HoldRequest()
            | messages.WritersRequest()
            | slot_steps.SlotsRequest()
            | slot_steps.SlotRowsRequest()
            | slot_steps.RegistersRequest()
        ):
            return all(map(rights.may_mirror, _mirrored(question)))
        case _:
            return rights.may_read(text(question.topic or b""))


def _mirrored(
    question: messages.LinkSyncRequest
    | messages.HoldRequest
    | messages.WritersRequest
    | SlotQuestion,
) -> set[str]:
    """The topics that only distributors tell of like this."""
    if isinstance(question, SlotQuestion):
        return {""}  # a slot has records of all topics
    rows = question.floors if isinstance(question, messages.HoldRequest) else ()
    return {COMMITS_TOPIC, *(text(topic) for topic, _, _ in rows)}


def _answer(
    question: RecordQuestion, log: RecordLog, bounds: AnswerBounds, kept_slots: KeptSlots
) -> Answer:
    match question:
        case messages.TopicsRequest():
            return _topics(question, log, bounds)
        case messages.PartitionsRequest() | messages.RangesRequest():
            return _listed(question, log, bounds)
        case messages.NamedRangesRequest():
            return _named(question, log)
        case messages.ChangesRequest():
            return _changes(question, log, bounds)
        case messages.ReadRequest() | messages.ReadsRequest():
            return _read_any(question, log, bounds)
        case messages.FindRequest():
            return messages.FindResponse(_found(question, log))
        case messages.DigestRequest():
            return _digest(question, log, bounds)
        case messages.DigestsRequest():
            return _digests(question, log, bounds)
        case messages.HealthRequest() | messages.CatchUpRequest():
            return _health(question, log, kept_slots)
        case _:
            assert_never(question)


def _health(
    question: messages.HealthRequest | messages.CatchUpRequest,
    log: RecordLog,
    kept_slots: KeptSlots,
) -> messages.HealthResponse:
    if isinstance(question, messages.CatchUpRequest):
        catch_up(log)
    return messages.HealthResponse(
        log.identity,
        len(log.extents()),
        log.records,
        is_new(log),
        part_of(kept_slots.keeping.kept),
        moving(kept_slots),
    )


def _topics(
    question: messages.TopicsRequest, log: RecordLog, bounds: AnswerBounds
) -> messages.TopicsResponse:
    names = {
        octets_of(partition.topic)
        for partition, extent in log.extents().items()
        if extent.start <= extent.head
    }
    if question.after is not None:
        names = {name for name in names if name > question.after}
    topics, more = page(sorted(names), len, bounds.page_bytes)
    return messages.TopicsResponse(tuple(topics), more)


def _places(
    log: RecordLog, topic: bytes | None, after: Place | None, bounds: AnswerBounds
) -> tuple[list[Partition], bool]:
    """A page of partitions in order, and whether more follow."""
    chosen: Iterable[Partition] = log.extents()
    if topic is not None:
        name = text(topic)
        chosen = [partition for partition in chosen if partition.topic == name]
    if after is not None:
        last = Partition(text(after[0]), text(after[1]))
        chosen = [partition for partition in chosen if partition > last]
    return page(sorted(chosen), _size, bounds.page_bytes)


def _listed(
    question: messages.PartitionsRequest | messages.RangesRequest,
    log: RecordLog,
    bounds: AnswerBounds,
) -> messages.PartitionsResponse | messages.RangesResponse:
    places, more = _places(log, question.topic, question.after, bounds)
    if isinstance(question, messages.RangesRequest):
        extents = log.extents()
        sizes = tuple(extents[place].size for place in places) if question.sizes else ()
        return messages.RangesResponse(_ranges(extents, places), more, sizes)
    return messages.PartitionsResponse(tuple(_octets(place) for place in places), more)


def _named(question: messages.NamedRangesRequest, log: RecordLog) -> messages.RangesResponse:
    places = [Partition(text(topic), text(address)) for topic, address in question.places]
    extents = log.extents()
    known = log.recall(places) | {place: extents[place] for place in places if place in extents}
    return messages.RangesResponse(_ranges(known, known), more=False)


def _changes(
    question: messages.ChangesRequest, log: RecordLog, bounds: AnswerBounds
) -> messages.ChangesResponse:
    changes = log.changes
    if question.since is None:
        return messages.ChangesResponse((), changes.now, more=False)
    changed = changes.since(Mark(*question.since))
    if changed is None:
        return messages.ChangesResponse((), changes.now, more=False, unknown=True)
    if question.topic is not None:
        name = text(question.topic)
        changed = [change for change in changed if change[0].topic == name]
    told, more = page(changed, lambda change: _size(change[0]), bounds.page_bytes)
    until = told[-1][1] if more else changes.now
    extents = log.extents()
    listed = [place for place, _ in told if place in extents]
    forgotten = tuple(_octets(place) for place, _ in told if place not in extents)
    return messages.ChangesResponse(_ranges(extents, listed), until, more, forgotten=forgotten)


def _ranges(
    extents: Mapping[Partition, Extent], places: Iterable[Partition]
) -> tuple[messages.Kept, ...]:
    rows = ((place, extents[place]) for place in places)
    return tuple((*_octets(place), kept.start, kept.head + 1) for place, kept in rows)


def _size(place: Partition) -> int:
    """Octets of its names at most: no character takes more than four."""
    return 4 * (len(place.topic) + len(place.address))


def _read(
    question: messages.ReadRequest, log: RecordLog, bounds: AnswerBounds
) -> messages.ReadResponse:
    batches = log.read(
        Partition(text(question.topic), text(question.address)),
        question.sequence,
        question.count_max,
        min(question.bytes_max, bounds.read_bytes),
    )
    return messages.ReadResponse(
        tuple((batch.sequence, batch.count, batch.content) for batch in batches)
    )


def _read_any(
    question: messages.ReadRequest | messages.ReadsRequest, log: RecordLog, bounds: AnswerBounds
) -> messages.ReadResponse | messages.ReadsResponse:
    if isinstance(question, messages.ReadsRequest):
        return _reads(question, log, bounds)
    return _read(question, log, bounds)


def _reads(
    question: messages.ReadsRequest, log: RecordLog, bounds: AnswerBounds
) -> messages.ReadsResponse:
    """Read as many as one answer may hold."""
    pages: list[tuple[tuple[int, int, bytes], ...]] = []
    left = bounds.read_bytes
    for span in question.spans:
        if left <= 0:
            break
        one = messages.ReadRequest(*span, min(question.bytes_max, left))
        pages.append(_read(one, log, bounds).batches)
        left -= sum(len(content) for _, _, content in pages[-1])
    return messages.ReadsResponse(tuple(pages))


def _found(question: messages.FindRequest, log: RecordLog) -> int | None:
    """The log knows the batch; the record is looked for inside.

    Of a batch that cannot be read it is the first: one of them must not hold back whoever looks for
    the places of many, and nothing is passed over so.
    """
    partition = Partition(text(question.topic), text(question.address))
    sequence = log.find(partition, question.timestamp_ms)
    if sequence is None:
        return None
    (batch,) = log.read(partition, sequence, 1, 0)
    if newest_ms(batch.content) is None:
        return sequence
    try:
        later = (
            record.sequence
            for record in raw_records(batch.content)
            if record.timestamp_ms >= question.timestamp_ms
        )
        return next(later, sequence)
    except RecordError:
        return sequence


def _digest(
    question: messages.DigestRequest, log: RecordLog, bounds: AnswerBounds
) -> messages.DigestResponse:
    """Digest a bounded part of what is asked: acknowledging must not wait for long."""
    partition = Partition(text(question.topic), text(question.address))
    first = _kept_from(log, partition, question.sequence)
    count = question.sequence + question.count - first
    if question.exact:
        count = min(count, bounds.digest_records)
    stored = log.read(partition, first, count, bounds.digest_bytes) if count > 0 else []
    batches = expanded_batches(stored, bounds.digest_bytes)
    gap_end = _gap_end(log, partition, first, batches) if count > 0 else first
    if gap_end > first:
        return messages.DigestResponse(first, min(gap_end, first + count), b"", _GAP)
    if not batches or not question.exact:
        return messages.DigestResponse(*_whole(batches, first, digest_of_batches))
    end = min(batches[-1].end, first + count)
    try:
        return messages.DigestResponse(first, end, digest_of_records(batches, first, end))
    except RecordError as error:
        return messages.DigestResponse(first, end, b"", str(error))


def _digests(
    question: messages.DigestsRequest, log: RecordLog, bounds: AnswerBounds
) -> messages.DigestsResponse:
    """Digest the headers of as many ranges as may be read for one request."""
    found: list[tuple[int, int, bytes]] = []
    left = bounds.digest_bytes
    for topic, address, sequence, count in question.spans:
        if left <= 0:
            break
        partition = Partition(text(topic), text(address))
        first = _kept_from(log, partition, sequence)
        count -= first - sequence
        batches = log.read(partition, first, count, left) if count > 0 else []
        left -= sum(len(batch.content) for batch in batches)
        found.append(_whole(batches, first, digest_of_headers))
    return messages.DigestsResponse(tuple(found))


def _kept_from(log: RecordLog, partition: Partition, sequence: int) -> int:
    """The first sequence from `sequence` on that retention has not taken."""
    extent = extent_of(log, partition)
    return sequence if extent is None else max(sequence, extent.start)


def _gap_end(log: RecordLog, partition: Partition, first: int, batches: list[Batch]) -> int:
    """Where the log goes on with `batches`, or comes to, if `first` lies in a gap; else `first`."""
    extent = log.extents().get(partition)
    if extent is None or not extent.start <= first <= extent.head:
        return first
    return goes_on(extent, first, batches) or first


_GAP = "passed over: no store of the cluster had these records"


def _whole(
    batches: list[Batch], first: int, digest_of: Callable[[list[Batch]], bytes]
) -> tuple[int, int, bytes]:
    """What batches cover, and their digest."""
    if not batches:
        return first, first, b""
    return batches[0].sequence, batches[-1].end, digest_of(batches)


def _octets(partition: Partition) -> Place:
    return octets_of(partition.topic), octets_of(partition.address)
