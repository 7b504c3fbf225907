"""What is asked of a store and what it answers, as values and as bytes.

A frame is one version octet and one MessagePack array whose first element names the message. The
names of topics and producers are bytes here: the wire format allows any, MessagePack text does not.

Lists that may be long come in pages. A page with `more` is continued by asking again with `after`
set to its last element.

A store that keeps some slots only refuses (`SHARE`) what is asked of others, and lists of all that
there is where `part` does not say which slots it keeps: then whoever asks puts parts together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import DecodeError, Meta, Struct
from msgspec.msgpack import Decoder, Encoder

from dafka.errors import WireError
from dafka.groups import membership  # noqa: TC001  msgspec reads annotations at run time
from dafka.limits import (
    ADDRESS_BYTES_MAX,
    DIGESTS_MAX,
    HOLD_NEED_BYTES_MAX,
    NAMED_MAX,
    OPENING_CHARACTERS_MAX,
    QUERY_BYTES_MAX,
    READ_SPANS_MAX,
)
from dafka.query.slot_steps import MovingSlots, SlotAnswer, SlotQuestion, SlotRanges
from dafka.records.digest import DIGEST_BYTES

if TYPE_CHECKING:
    from dafka.reasons import Reason

VERSION = 1

SHARE = "share"
"""The reason of an `ErrorResponse` where other stores keep what is asked for."""

T = TypeVar("T")

Name = Annotated[bytes, Meta(max_length=ADDRESS_BYTES_MAX)]
"""A topic or an address, as on the wire."""

Place = tuple[Name, Name]
"""Topic and address: a partition."""

Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Sequence = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Moment = tuple[Annotated[str, Meta(max_length=OPENING_CHARACTERS_MAX)], Sequence]
"""A moment in the history of a store's log; see `dafka.storage.log.Mark`."""

DigestOctets = Annotated[bytes, Meta(max_length=DIGEST_BYTES)]


class TopicsRequest(Struct, frozen=True, array_like=True, tag="topics"):
    """Which topics are there, in order?"""

    after: Name | None = None
    part: SlotRanges = ()


class PartitionsRequest(Struct, frozen=True, array_like=True, tag="partitions"):
    """Which partitions are there, of one topic or of all, in order?"""

    topic: Name | None = None
    after: Place | None = None
    part: SlotRanges = ()


class RangesRequest(Struct, frozen=True, array_like=True, tag="ranges"):
    """What are the log start and the head of every partition, of one topic or of all?

    Attributes:
        topic: Of this one only.
        after: Of those behind this one.
        sizes: How many bytes of each are kept, too; a store of before tells of none.
    """

    topic: Name | None = None
    after: Place | None = None
    sizes: bool = False
    part: SlotRanges = ()


class NamedRangesRequest(Struct, frozen=True, array_like=True, tag="named"):
    """What are the log start and the head of these partitions, be they forgotten or not?

    Answered by a `RangesResponse` of those that there are or ever were.
    """

    places: Annotated[tuple[Place, ...], Meta(max_length=NAMED_MAX)]


class ChangesRequest(Struct, frozen=True, array_like=True, tag="changes"):
    """Which partitions have changed since a moment, and what do they hold now?

    Attributes:
        since: A `ChangesResponse.until`; without one, nothing has changed yet.
        topic: Of this topic only; a store of before that tells of all.
    """

    since: Moment | None = None
    topic: Name | None = None
    part: SlotRanges = ()


class ReadRequest(Struct, frozen=True, array_like=True, tag="read"):
    """The batches of a partition from the one that holds `sequence` on; see `RecordLog.read`."""

    topic: Name
    address: Name
    sequence: Sequence
    count_max: Count
    bytes_max: Count


class ReadsRequest(Struct, frozen=True, array_like=True, tag="reads"):
    """As `ReadRequest`, of many partitions in which there is little.

    Attributes:
        spans: Topic, address, sequence of the first record, and how many.
        bytes_max: Of each of them.
    """

    spans: Annotated[
        tuple[tuple[Name, Name, Sequence, Count], ...], Meta(max_length=READ_SPANS_MAX)
    ]
    bytes_max: Count


class FindRequest(Struct, frozen=True, array_like=True, tag="find"):
    """Which is the first record of a partition that is of this time or later?

    Attributes:
        timestamp_ms: Milliseconds since 1970.
    """

    topic: Name
    address: Name
    timestamp_ms: Sequence


class DigestRequest(Struct, frozen=True, array_like=True, tag="digest"):
    """What is the digest of these records of a partition? See `dafka.records.digest`.

    Attributes:
        sequence: Of the first record.
        count: How many; a store digests fewer if that is too much work at once.
        exact: Of exactly these records, whatever batches they are in; otherwise of the batches that
            hold them, whole and as they stand, which costs a store far less.
    """

    topic: Name
    address: Name
    sequence: Sequence
    count: Count
    exact: bool


class DigestsRequest(Struct, frozen=True, array_like=True, tag="digests"):
    """What are the digests of the headers of whole batches that cover these ranges?

    They tell whether two stores mean the same records, where these came in the same batches.

    Attributes:
        spans: Topic, address, sequence of the first record, and how many.
    """

    spans: Annotated[tuple[tuple[Name, Name, Sequence, Count], ...], Meta(max_length=DIGESTS_MAX)]


class DeleteRequest(Struct, frozen=True, array_like=True, tag="delete"):
    """Drop the records of a topic, some at a time; where its partitions ended is remembered."""

    topic: Name


class HolesRequest(Struct, frozen=True, array_like=True, tag="holes"):
    """What do you wait for that nobody has?"""


class SkipRequest(Struct, frozen=True, array_like=True, tag="skip"):
    """Go on without what lacks of a partition before `end`: nobody has it, nor will."""

    topic: Name
    address: Name
    end: Sequence


class GroupsRequest(Struct, frozen=True, array_like=True, tag="groups"):
    """Which groups of consumers have ever committed something, in order?"""

    after: Name | None = None


class CommitsRequest(Struct, frozen=True, array_like=True, tag="offsets"):
    """What has a group committed?"""

    group: Name
    after: Place | None = None


class MembersRequest(Struct, frozen=True, array_like=True, tag="members"):
    """Who belongs to a group?"""

    group: Name


class HeartbeatRequest(Struct, frozen=True, array_like=True, tag="beat"):
    """A member of a group is alive; answered as `MembersRequest`."""

    request: membership.Beat


class PrepareRequest(Struct, frozen=True, array_like=True, tag="prepare"):
    """Members of a group want to agree on its members: the first half."""

    request: membership.Prepare


class AcceptRequest(Struct, frozen=True, array_like=True, tag="accept"):
    """The second half."""

    request: membership.Accept


class LinkSyncRequest(Struct, frozen=True, array_like=True, tag="link"):
    """A link that brings positions of groups says how it stands.

    Attributes:
        link: Its name.
        in_sync: Whether all that its source has is at this cluster, too.
    """

    link: Name
    in_sync: bool


class HoldRequest(Struct, frozen=True, array_like=True, tag="hold"):
    """Keep of partitions what is not below a floor, as clusters lack it; see `dafka.storage.holds`.

    Attributes:
        epoch: Of who is in charge.
        need: A digest of which clusters must have what.
        floors: Topic, address, and the sequence below which all of them have all.
    """

    epoch: Count
    need: Annotated[bytes, Meta(max_length=HOLD_NEED_BYTES_MAX)]
    floors: Annotated[tuple[tuple[Name, Name, Sequence], ...], Meta(max_length=NAMED_MAX)]


class WritersRequest(Struct, frozen=True, array_like=True, tag="writers"):
    """These are written by who asks; in which epochs does anybody? See `dafka.groups.writers`.

    Attributes:
        rows: A flow, which share of it, of how many, and the epoch of who asks.
    """

    rows: Annotated[tuple[tuple[Name, Sequence, Count, Count], ...], Meta(max_length=NAMED_MAX)]


class HealthRequest(Struct, frozen=True, array_like=True, tag="health"):
    """Are you there, and who are you?"""


class CatchUpRequest(Struct, frozen=True, array_like=True, tag="catch up"):
    """You have all that each of the other stores had: your disk is new no more."""


GroupQuestion = GroupsRequest | CommitsRequest | MembersRequest
GroupRequest = HeartbeatRequest | PrepareRequest | AcceptRequest | LinkSyncRequest
RecordQuestion = (
    TopicsRequest
    | PartitionsRequest
    | RangesRequest
    | NamedRangesRequest
    | ChangesRequest
    | ReadRequest
    | ReadsRequest
    | FindRequest
    | DigestRequest
    | DigestsRequest
    | HealthRequest
    | CatchUpRequest
)
HoleQuestion = HolesRequest | SkipRequest
Question = (
    RecordQuestion
    | DeleteRequest
    | HoleQuestion
    | HoldRequest
    | WritersRequest
    | SlotQuestion
    | GroupQuestion
    | GroupRequest
)


class TopicsResponse(Struct, frozen=True, array_like=True, tag="topics"):
    """Some topics."""

    topics: tuple[Name, ...]
    more: bool


class PartitionsResponse(Struct, frozen=True, array_like=True, tag="partitions"):
    """Some partitions."""

    partitions: tuple[Place, ...]
    more: bool


Kept = tuple[Name, Name, Sequence, Sequence]
"""A partition (topic, address) with its first sequence kept and the one to come.

The two are equal where nothing is kept any more.
"""


class RangesResponse(Struct, frozen=True, array_like=True, tag="ranges"):
    """What is kept of some partitions.

    Attributes:
        ranges: Of each.
        more: Whether others follow.
        sizes: Bytes of the batches that are kept of each; empty if that was not asked for.
    """

    ranges: tuple[Kept, ...]
    more: bool
    sizes: tuple[Sequence, ...] = ()


class ChangesResponse(Struct, frozen=True, array_like=True, tag="changed"):
    """What is kept of partitions that have changed.

    Attributes:
        ranges: Those that changed longest ago first.
        until: What has changed until then is told, with what was told before.
        more: Ask again, since `until`.
        unknown: All may have changed: the moment asked for is of another opening of the log, or too
            long ago.
        forgotten: Partitions that are listed no more: nothing of them is kept.
    """

    ranges: tuple[Kept, ...]
    until: Moment
    more: bool
    unknown: bool = False
    forgotten: tuple[Place, ...] = ()


class ReadResponse(Struct, frozen=True, array_like=True, tag="batches"):
    """Batches of the partition asked for: first sequence, record count, content."""

    batches: tuple[tuple[Sequence, Count, bytes], ...]


class ReadsResponse(Struct, frozen=True, array_like=True, tag="pages"):
    """Of the first partitions asked for, as many as one answer holds, but at least one.

    Attributes:
        pages: The batches of each, as in `ReadResponse`.
    """

    pages: tuple[tuple[tuple[Sequence, Count, bytes], ...], ...]


class FindResponse(Struct, frozen=True, array_like=True, tag="found"):
    """The sequence of the record found, or None: everything is older."""

    sequence: Sequence | None


class DigestResponse(Struct, frozen=True, array_like=True, tag="digested"):
    """The digest of what there is of the records asked for.

    Attributes:
        start: The first that is covered. Above the one asked for if that is kept no more, below it
            if its batch begins there and was digested whole.
        end: The sequence after the last one; `start` if there is nothing to cover.
        digest: Of those; empty if there are none.
        damage: Why they cannot be read; empty if they can.
    """

    start: Sequence
    end: Sequence
    digest: DigestOctets
    damage: str = ""


class DigestsResponse(Struct, frozen=True, array_like=True, tag="digests"):
    """Of the first ranges asked for, as many as are not too much work at once, but at least one.

    Attributes:
        digests: `start`, `end` and `digest` of each, as in `DigestResponse`.
    """

    digests: tuple[tuple[Sequence, Sequence, DigestOctets], ...]


class DeleteResponse(Struct, frozen=True, array_like=True, tag="deleted"):
    """So many records are gone; ask again if there are more."""

    records: int
    more: bool


class HolesResponse(Struct, frozen=True, array_like=True, tag="holes"):
    """For each hole, of the first so many: topic, address, the first sequence, the one behind."""

    holes: tuple[Kept, ...]


class SkipResponse(Struct, frozen=True, array_like=True, tag="skipped"):
    """So many records are gone."""

    records: int


class GroupsResponse(Struct, frozen=True, array_like=True, tag="groups"):
    """Some groups."""

    groups: tuple[Name, ...]
    more: bool


class CommitsResponse(Struct, frozen=True, array_like=True, tag="offsets"):
    """Some commits of a group, as they stand in their records, key and value.

    See `dafka.groups.commit`.

    Attributes:
        commits: These.
        more: Whether there are others behind them.
        in_sync: Whether they are those of other clusters, too: see `dafka.groups.link_sync`.
    """

    commits: tuple[tuple[bytes, bytes], ...]
    more: bool
    in_sync: bool = True


class MembersResponse(Struct, frozen=True, array_like=True, tag="roster"):
    """What a store knows of the members of a group."""

    reply: membership.Roster


class PrepareResponse(Struct, frozen=True, array_like=True, tag="promise"):
    """Answers `PrepareRequest`."""

    reply: membership.Promise


class AcceptResponse(Struct, frozen=True, array_like=True, tag="accepted"):
    """Answers `AcceptRequest`."""

    reply: membership.Accepted


class LinkSyncResponse(Struct, frozen=True, array_like=True, tag="linked"):
    """How that link stands, see `dafka.groups.link_sync.LinkStanding`."""

    known: bool
    awaited: bool


class HoldResponse(Struct, frozen=True, array_like=True, tag="held"):
    """It does so from now on, also after a restart.

    Attributes:
        identity: Its address: that of its disk.
    """

    identity: str


class WritersResponse(Struct, frozen=True, array_like=True, tag="written"):
    """The latest epoch of who writes any of the same, of each row in its order."""

    epochs: tuple[Count, ...]


class HealthResponse(Struct, frozen=True, array_like=True, tag="status"):
    """A store that is well.

    Attributes:
        identity: Its address.
        partitions: How many it holds.
        records: How many were ever appended.
        new: Whether its disk is, and may lack what the one before had.
        slots: What of the ring it keeps; none stands for all, an empty range for none.
        moving: Where that is not what it is to keep.
    """

    identity: str
    partitions: int
    records: int
    new: bool = False
    slots: SlotRanges = ()
    moving: MovingSlots = MovingSlots()


class ErrorResponse(Struct, frozen=True, array_like=True, tag="refused"):
    """No answer.

    Attributes:
        reason: A short constant.
        detail: For people.
    """

    reason: str
    detail: str


GroupReply = MembersResponse | PrepareResponse | AcceptResponse | LinkSyncResponse
GroupAnswer = GroupsResponse | CommitsResponse | GroupReply
Answer = (
    TopicsResponse
    | PartitionsResponse
    | RangesResponse
    | ChangesResponse
    | ReadResponse
    | FindResponse
    | DigestResponse
    | ReadsResponse
    | DigestsResponse
    | DeleteResponse
    | HolesResponse
    | SkipResponse
    | HoldResponse
    | WritersResponse
    | SlotAnswer
    | HealthResponse
    | ErrorResponse
    | GroupAnswer
)

_PREAMBLE = bytes((VERSION,))
_REASONS: tuple[Reason, Reason, Reason] = ("query size", "query version", "query message")
_encoder = Encoder()
_questions: Decoder[Question] = Decoder(Question)
_answers: Decoder[Answer] = Decoder(Answer)


def encode(message: Question | Answer) -> bytes:
    """Return the frame of a message."""
    return _PREAMBLE + _encoder.encode(message)


def decode_question(frame: bytes) -> Question:
    """Read a question.

    Raises:
        WireError: It is not one; the reason is a short constant.
    """
    return decoded(_questions, frame, _PREAMBLE, _REASONS)


def decode_answer(frame: bytes) -> Answer:
    """Read an answer.

    Raises:
        WireError: It is not one; the reason is a short constant.
    """
    return decoded(_answers, frame, _PREAMBLE, _REASONS)


def decoded(
    decoder: Decoder[T], frame: bytes, preamble: bytes, reasons: tuple[Reason, Reason, Reason]
) -> T:
    """Read a message of a port at which questions are asked.

    Args:
        decoder: Of its kind.
        frame: What has come.
        preamble: What it has to begin with.
        reasons: Why it is none: too long, of another version, or else.

    Raises:
        WireError: It is none.
    """
    size, version, message = reasons
    if len(frame) > QUERY_BYTES_MAX:
        raise WireError(size)
    if frame[:1] != preamble:
        raise WireError(version)
    try:
        return decoder.decode(memoryview(frame)[1:])
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(message) from error
