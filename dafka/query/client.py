"""Asking a store, with types. One thread at a time."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, TypeVar

from dafka.errors import CommitError, MisuseError, QueryError, RefusedError, ShareError, WireError
from dafka.groups.commit import decode
from dafka.groups.link_sync import LinkStanding
from dafka.limits import (
    BATCH_RECORDS_MAX,
    DIGESTS_MAX,
    NAMED_MAX,
    PARTITIONS_MAX,
    READ_BYTES_MAX,
    READ_SPANS_MAX,
)
from dafka.model import Batch, Partition
from dafka.query import messages
from dafka.query.messages import decode_answer, encode
from dafka.query.slot_steps import (
    LOOK,
    RegistersRequest,
    RegistersResponse,
    SlotRanges,
    SlotRowsRequest,
    SlotRowsResponse,
    SlotsRequest,
    SlotsResponse,
    slots_in,
)
from dafka.storage.log import Mark
from dafka.transport.request import QueryClient
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from dafka.groups.commit import Commit
    from dafka.groups.membership import Accept, Accepted, Ballot, Prepare, Promise, Roster
    from dafka.model import PartitionShare
    from dafka.storage.holds import HoldWord
    from dafka.transport.keys import Credentials
    from dafka.transport.request import ConnectClient

A = TypeVar("A")

SIGN_TIMEOUT_MS = 900
"""How long one store may take to give a sign of life, which it is asked for every second."""

LOOK_TIMEOUT_MS = 2_000
"""How long it may take for an answer that a person, or a loop with other work, waits for."""

ANSWER_TIMEOUT_MS = 10_000
"""How long otherwise: a busy store answers between two writes, maybe over a slow line."""

READ_TIMEOUT_MS = 30_000
"""How long where nothing is lost by waiting: comparing and copying whole logs."""


class StoreClient:
    """One store's query port. Not thread-safe: make one for each thread.

    Every method raises `QueryError`, naming the endpoint, if there is no answer in time or the
    store refuses. All may be repeated.

    Args:
        endpoint: `tcp://host:port`. That nobody listens there shows at the first question.
        timeout_ms: For each question; a list in several pages takes several.
        credentials: Whose to use, in a cluster with keys.
        connect: Makes the connection.

    Raises:
        MisuseError: The endpoint cannot be used.
    """

    def __init__(
        self,
        endpoint: str,
        timeout_ms: int = ANSWER_TIMEOUT_MS,
        credentials: Credentials | None = None,
        connect: ConnectClient = QueryClient,
    ) -> None:
        self.endpoint = endpoint
        self._client = connect(endpoint, credentials)
        self.timeout_ms = timeout_ms
        """For the questions that come."""
        self.part: SlotRanges = ()
        """Which slots the store keeps, if lists may be of these alone."""

    def topics(self) -> list[str]:
        """Return the topics of which the store has records."""
        found: list[str] = []
        after: bytes | None = None
        while True:
            page = self._ask(messages.TopicsRequest(after, self.part), messages.TopicsResponse)
            found += map(text, page.topics)
            if not page.more:
                return found
            after = self._continued(after, page.topics[-1:], len(found))

    def partitions(self, topic: str | None = None) -> list[Partition]:
        """Return the partitions of one topic or of all."""
        name = None if topic is None else octets_of(topic)
        found: list[Partition] = []
        after: messages.Place | None = None
        while True:
            question = messages.PartitionsRequest(name, after, self.part)
            page = self._ask(question, messages.PartitionsResponse)
            found += (Partition(text(topic), text(address)) for topic, address in page.partitions)
            if not page.more:
                return found
            after = self._continued(after, page.partitions[-1:], len(found))

    def ranges(self, topic: str | None = None) -> dict[Partition, range]:
        """Return the sequences that are kept of every partition of one topic or of all.

        Empty where everything has been dropped; it then begins at the sequence that comes next.
        """
        found: dict[Partition, range] = {}
        for page in self._range_pages(topic, sizes=False):
            found |= _ranges(page.ranges)
        return found

    def sized_ranges(self, topic: str | None = None) -> dict[Partition, tuple[range, int | None]]:
        """Return the same, each with the bytes of the batches that are kept.

        Returns:
            None for the bytes if the store is of before that question.
        """
        found: dict[Partition, tuple[range, int | None]] = {}
        for page in self._range_pages(topic, sizes=True):
            ranges, sizes = _ranges(page.ranges), page.sizes or (None,) * len(page.ranges)
            if not len(ranges) == len(page.ranges) == len(sizes):
                raise self._error("answered with the sizes of other partitions")
            found |= zip(ranges, zip(ranges.values(), sizes, strict=True), strict=True)
        return found

    def _range_pages(self, topic: str | None, *, sizes: bool) -> Iterator[messages.RangesResponse]:
        name = None if topic is None else octets_of(topic)
        after: messages.Place | None = None
        told = 0
        while True:
            question = messages.RangesRequest(name, after, sizes, self.part)
            page = self._ask(question, messages.RangesResponse)
            yield page
            if not page.more:
                return
            told += len(page.ranges)
            after = self._continued(after, tuple(place[:2] for place in page.ranges[-1:]), told)

    def ranges_of(self, partitions: Iterable[Partition]) -> dict[Partition, range]:
        """Return the same of these partitions, as far as there are or ever were any.

        Also of those that the store has forgotten, which `ranges` does not list: whoever has still
        to do with one learns so where it ended.
        """
        partitions = list(partitions)
        try:
            return self._named(partitions)
        except ShareError:
            raise
        except RefusedError:  # it is of before that question, and forgets nothing
            there = self.ranges()
            return {partition: there[partition] for partition in partitions if partition in there}

    def _named(self, partitions: Iterable[Partition]) -> dict[Partition, range]:
        names = [(octets_of(topic), octets_of(address)) for topic, address in partitions]
        found: dict[Partition, range] = {}
        for first in range(0, len(names), NAMED_MAX):
            question = messages.NamedRangesRequest(tuple(names[first : first + NAMED_MAX]))
            found |= _ranges(self._ask(question, messages.RangesResponse).ranges)
        return found

    def changes(
        self, since: Mark | None, topic: str | None = None
    ) -> tuple[dict[Partition, range | None], Mark] | None:
        """Return what is kept of every partition that has changed, as `ranges` does, and until now.

        Args:
            since: What was returned last; None for a beginning, with nothing in it.
            topic: Of one topic; a store of before that question tells of all.

        Returns:
            None if all may have changed: the store was started anew since then, or too much has.
            Not all of it if more changes while it is told; the rest has changed since, too. Of one
            that is forgotten since it is None.
        """
        name = None if topic is None else octets_of(topic)
        found: dict[Partition, range | None] = {}
        rows = 0
        while True:
            question = messages.ChangesRequest(since, name, self.part)
            page = self._ask(question, messages.ChangesResponse)
            if page.unknown:
                return None
            found |= _ranges(page.ranges)
            found |= {Partition(text(one), text(other)): None for one, other in page.forgotten}
            rows += len(page.ranges) + len(page.forgotten)
            before, since = since, Mark(*page.until)
            if not page.more or rows > PARTITIONS_MAX:
                return found, since
            if since == before:
                raise self._error("answered with a page that leads nowhere")

    def heads(self, topic: str | None = None) -> dict[Partition, int]:
        """Return the last sequence of every partition of one topic or of all."""
        return {partition: kept.stop - 1 for partition, kept in self.ranges(topic).items()}

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the sequence of the first record that is kept and of this time or later.

        Args:
            partition: Where to look; None is the answer too if the store does not have it.
            timestamp_ms: Milliseconds since 1970.
        """
        question = messages.FindRequest(
            octets_of(partition.topic), octets_of(partition.address), timestamp_ms
        )
        return self._ask(question, messages.FindResponse).sequence

    def digest(
        self, partition: Partition, start: int, end: int, *, exact: bool
    ) -> messages.DigestResponse:
        """Return the digest of the records from `start` to below `end`, or of the first of them.

        Args:
            partition: Whose.
            start: Sequence of the first one.
            end: The sequence after the last one, above `start`.
            exact: Of exactly these; otherwise of the batches that hold them, whole.
        """
        question = messages.DigestRequest(
            octets_of(partition.topic), octets_of(partition.address), start, end - start, exact
        )
        found = self._ask(question, messages.DigestResponse)
        if found.start > found.end or (exact and not (start <= found.start and found.end <= end)):
            raise self._error("answered with the digest of other records than asked for")
        return found

    def digests(self, spans: Mapping[Partition, range]) -> dict[Partition, tuple[int, int, bytes]]:
        """Return the digests of the headers of the batches that hold these records.

        Args:
            spans: The first record and the one behind the last, of each partition.

        Returns:
            What each covers, from and to, and the digest; not all of it where that is much.
        """
        wanted = list(spans.items())
        found: dict[Partition, tuple[int, int, bytes]] = {}
        while len(found) < len(wanted):
            asked = wanted[len(found) : len(found) + DIGESTS_MAX]
            question = messages.DigestsRequest(_spans(asked))
            page = self._ask(question, messages.DigestsResponse).digests
            if not 0 < len(page) <= len(asked):
                raise self._error("answered with other digests than asked for")
            found.update(zip((partition for partition, _ in asked), page, strict=False))
        return found

    def read(
        self,
        partition: Partition,
        sequence: int,
        count_max: int = BATCH_RECORDS_MAX,
        bytes_max: int = READ_BYTES_MAX,
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on, none if it is not there.

        Whole batches: the first may begin below `sequence`, the last end above what was asked. In a
        gap, from the first one behind it on.
        """
        question = messages.ReadRequest(
            octets_of(partition.topic), octets_of(partition.address), sequence, count_max, bytes_max
        )
        page = self._ask(question, messages.ReadResponse)
        return [Batch(partition, *batch) for batch in page.batches]

    def read_each(
        self, spans: Mapping[Partition, range], bytes_max: int, all_bytes_max: float = inf
    ) -> dict[Partition, list[Batch]]:
        """Return for each partition what `read` returns of a span.

        For many partitions in which there is little: hundreds are read with one question.

        Args:
            spans: What to read.
            bytes_max: Of one of them, if that is more than a batch.
            all_bytes_max: Of all of them: once so many have come, no others are asked for.
        """
        wanted = list(spans.items())
        found: dict[Partition, list[Batch]] = {}
        while len(found) < len(wanted) and all_bytes_max > 0:
            asked = wanted[len(found) : len(found) + READ_SPANS_MAX]
            question = messages.ReadsRequest(_spans(asked), bytes_max)
            pages = self._ask(question, messages.ReadsResponse).pages
            if not 0 < len(pages) <= len(asked):
                raise self._error("answered with other batches than asked for")
            for (partition, _), page in zip(asked, pages, strict=False):
                found[partition] = [Batch(partition, *batch) for batch in page]
                all_bytes_max -= sum(len(content) for _, _, content in page)
        return found

    def scan(
        self, partition: Partition, start: int, end: int, first: Sequence[Batch] = ()
    ) -> Iterator[Batch]:
        """Yield the batches that hold the sequences from `start` to below `end`.

        Ends early where the partition ends, and passes over gaps. Whole batches, as in `read`.

        Args:
            partition: Which.
            start: Where to begin.
            end: Where to end.
            first: What `read` returned from there on, if that is known already.
        """
        while start < end:
            count = min(end - start, BATCH_RECORDS_MAX)
            batches, first = first or self.read(partition, start, count), ()
            if not batches:
                return
            for batch in batches:
                if batch.end <= start:
                    raise self._error("answered with other batches than asked for")
                if batch.sequence >= end:
                    return
                yield batch
                start = batch.end

    def delete(self, topic: str) -> int:
        """Drop all records of a topic from this store, and return how many there were.

        Where its partitions ended is remembered: what comes later is stored, what was there is
        not copied back. The store must have been started to allow it.
        """
        deleted = 0
        while True:
            answer = self._ask(messages.DeleteRequest(octets_of(topic)), messages.DeleteResponse)
            deleted += answer.records
            if not answer.more:
                return deleted
            if answer.records == 0:
                raise self._error("does not get on with deleting")

    def holes(self) -> dict[Partition, range]:
        """Return what the store waits for that nobody has; of very many only the first.

        Their producers' records are behind it, and not acknowledged.
        """
        answer = self._ask(messages.HolesRequest(), messages.HolesResponse)
        return _ranges(answer.holes)

    def skip(self, partition: Partition, end: int) -> int:
        """Let the store go on at `end` of a partition that has a hole up to there.

        Returns:
            How many records it goes on without.
        """
        topic, address = map(octets_of, partition)
        return self._ask(messages.SkipRequest(topic, address, end), messages.SkipResponse).records

    def hold(self, word: HoldWord) -> str:
        """Let the store keep what clusters lack, and of what is named only what is not below that.

        Returns:
            The address of the store, that of its disk: another one has none of what was said.

        Raises:
            RefusedError: It has heard of a later epoch, or is of before this question.
            QueryError: It does not answer; it may do so all the same.
        """
        rows = tuple(
            (octets_of(topic), octets_of(address), end)
            for (topic, address), end in word.floors.items()
        )
        question = messages.HoldRequest(word.epoch, word.need, rows)
        return self._ask(question, messages.HoldResponse).identity

    def writers(self, rows: Sequence[tuple[str, PartitionShare, int]]) -> list[int]:
        """Say what is written here by whoever asks; return in which epochs anybody does.

        Args:
            rows: Flows, which shares of them, and in which epoch they are written.

        Returns:
            The latest epoch of who writes any of the same, of each.
        """
        found: list[int] = []
        while len(found) < len(rows):
            asked = rows[len(found) : len(found) + NAMED_MAX]
            told = tuple((octets_of(flow), *share, epoch) for flow, share, epoch in asked)
            answer = self._ask(messages.WritersRequest(told), messages.WritersResponse)
            if len(answer.epochs) != len(asked):
                raise self._error("answered for other writers than asked for")
            found += answer.epochs
        return found

    def groups(self) -> list[str]:
        """Return the groups of consumers that have ever committed something."""
        found: list[str] = []
        after: bytes | None = None
        while True:
            page = self._ask(messages.GroupsRequest(after), messages.GroupsResponse)
            found += map(text, page.groups)
            if not page.more:
                return found
            after = self._continued(after, page.groups[-1:], len(found))

    def offsets(self, group: str) -> dict[Partition, Commit]:
        """Return what holds of a group's commits; a position that was forgotten is None in it."""
        return self.commits(group)[0]

    def commits(self, group: str) -> tuple[dict[Partition, Commit], bool]:
        """Return the same, and whether it is what the group has done on other clusters, too.

        See `dafka.groups.link_sync`.
        """
        name = octets_of(group)
        found: dict[Partition, Commit] = {}
        after: messages.Place | None = None
        while True:
            page = self._ask(messages.CommitsRequest(name, after), messages.CommitsResponse)
            try:
                commits = [decode(*record) for record in page.commits]
            except CommitError as error:
                raise self._error(f"answered with a commit that is none ({error.reason})") from None
            found.update((key.partition, commit) for key, commit in commits)
            if not page.more:
                return found, page.in_sync
            places = tuple(
                (octets_of(key.partition.topic), octets_of(key.partition.address))
                for key, _ in commits[-1:]
            )
            after = self._continued(after, places, len(found))

    def tell_link(self, link: str, *, in_sync: bool) -> LinkStanding:
        """Say whether a link that brings positions of groups is in sync; return how it stands."""
        question = messages.LinkSyncRequest(octets_of(link), in_sync)
        answer = self._ask(question, messages.LinkSyncResponse)
        return LinkStanding(answer.known, answer.awaited)

    def members(self, group: str) -> Roster:
        """Return who belongs to a group, as far as this store knows, and who of them is alive."""
        return self._ask(messages.MembersRequest(octets_of(group)), messages.MembersResponse).reply

    def prepare(self, request: Prepare) -> Promise:
        """Let the store promise to take nothing of a lower ballot; see `dafka.groups.acceptor`."""
        return self._ask(messages.PrepareRequest(request), messages.PrepareResponse).reply

    def accept(self, request: Accept) -> Accepted:
        """Let the store take what members have agreed on; see `dafka.groups.acceptor`."""
        return self._ask(messages.AcceptRequest(request), messages.AcceptResponse).reply

    def health(self) -> messages.HealthResponse:
        """Return who the store is and how much it holds."""
        said = self._ask(messages.HealthRequest(), messages.HealthResponse)
        self._are_slots(said.slots)
        return said

    def slots(self, request: SlotsRequest = LOOK) -> SlotsResponse:
        """Take a step in moving slots, or look; see `dafka.query.slot_steps`.

        Raises:
            RefusedError: It may not be taken now, or the store is of before that question.
        """
        said = self._ask(request, SlotsResponse)
        for ranges in (said.kept, said.wanted, said.joining, said.stopped, said.dropped):
            self._are_slots(ranges)
        return said

    def _are_slots(self, ranges: SlotRanges) -> None:
        try:
            slots_in(ranges)
        except MisuseError as error:
            raise self._error(f"told of slots that are none: {error}") from None

    def passed_over(self, slots: SlotRanges) -> dict[Partition, list[range]]:
        """Return what the store never had of partitions that go on behind it, in order."""
        found: dict[Partition, list[range]] = {}
        after = b""
        while True:
            page = self._ask(SlotRowsRequest("passed over", slots, after), SlotRowsResponse)
            for topic, address, start, end in page.ranges:
                place = Partition(text(topic), text(address))
                found.setdefault(place, []).append(range(start, end))
            if not page.after:
                return found
            after = self._continued(after, (max(after, page.after),), len(found))

    def forgotten(self, slots: SlotRanges) -> Iterator[dict[Partition, int]]:
        """Yield where partitions ended that the store has forgotten, some at a time."""
        after = b""
        while True:
            page = self._ask(SlotRowsRequest("forgotten", slots, after), SlotRowsResponse)
            yield {one: ended.stop for one, ended in _ranges(page.ranges).items()}
            if not page.after:
                return
            after = self._continued(after, (max(after, page.after),), 0)

    def registers(self) -> dict[str, Ballot]:
        """Return of each register of runs that the store has the ballot of what it has taken."""
        found: dict[str, Ballot] = {}
        after = b""
        while True:
            page = self._ask(RegistersRequest(after), RegistersResponse)
            found |= {text(group): ballot for group, ballot in page.accepted}
            if not page.after:
                return found
            after = self._continued(after, (max(after, page.after),), len(found))

    def catch_up(self) -> None:
        """Tell the store that it has all that each of the others had: its disk is new no more."""
        self._ask(messages.CatchUpRequest(), messages.HealthResponse)

    def close(self) -> None:
        """Release the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, question: messages.Question, expected: type[A]) -> A:
        octets = self._client.ask(encode(question), self.timeout_ms)
        try:
            answer = decode_answer(octets)
        except WireError as error:
            raise self._error(f"answered with a {error.reason} this version cannot read") from error
        if isinstance(answer, messages.ErrorResponse):
            refused = ShareError if answer.reason == messages.SHARE else RefusedError
            raise refused(f"store at {self.endpoint} refused: {answer.reason} ({answer.detail})")
        if not isinstance(answer, expected):
            raise self._error(f"answered with {type(answer).__name__}")
        return answer

    def _continued(self, before: A | None, last: tuple[A, ...], found: int) -> A:
        """Where the next page begins; a store that stands still would hold us for ever."""
        if not last or last[0] == before:
            raise self._error("answered with a page that leads nowhere")
        if found > PARTITIONS_MAX:
            raise self._error(f"names more than {PARTITIONS_MAX:,}, as many as there may be")
        return last[0]

    def _error(self, complaint: str) -> QueryError:
        return QueryError(f"store at {self.endpoint} {complaint}")


def _spans(
    asked: Iterable[tuple[Partition, range]],
) -> tuple[tuple[bytes, bytes, int, int], ...]:
    return tuple(
        (octets_of(topic), octets_of(address), span.start, len(span))
        for (topic, address), span in asked
    )


def _ranges(rows: Iterable[messages.Kept]) -> dict[Partition, range]:
    return {
        Partition(text(topic), text(address)): range(start, end)
        for topic, address, start, end in rows
    }
