from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import StorageError, WireError
from dafka.groups import membership
from dafka.groups.acceptor import Registers
from dafka.groups.commit import Commit, CommitKey
from dafka.groups.commit import encode as encode_commit
from dafka.groups.commit_table import fold
from dafka.groups.link_sync import LinkSync
from dafka.groups.membership import Ballot, Beat, Member, Membership, Prepare
from dafka.limits import PARTITIONS_MAX, READ_BYTES_MAX
from dafka.model import Batch, Partition
from dafka.query import messages
from dafka.query.messages import decode_answer, encode
from dafka.query.service import ANSWER_BOUNDS, AnswerBounds, answer, answered
from dafka.records.batch import BatchBuilder, RawRecord, enclosed
from dafka.records.compression import Codec
from dafka.records.digest import digest_of_batches, digest_of_headers, digest_of_records
from dafka.records.envelope import FRESH
from dafka.storage.holds import Holds
from dafka.storage.memory import MemoryLog
from dafka.testing.strategies import batch_of
from dafka.transport.access import EVERYTHING, Rights
from dafka.wire.primitives import octets_of, text

A1, B2 = Partition("orders", "A1"), Partition("orders", "B2")


@pytest.fixture
def agreed(committed):
    agreed = MemoryLog("AB" * 16)
    rows = [("billing", A1, 3, 1, 10), ("billing", B2, None, 1, 10), ("audit", A1, 7, 1, 10)]
    batch = committed(0, *rows)
    agreed.append([batch], entries=fold(agreed, [batch]).entries)
    return agreed


def ask(agreed, question, **bounds):
    bounds = AnswerBounds(**bounds)
    return answered(question, agreed, Registers(agreed, -60_000), LinkSync(agreed, 0), 0, bounds)


def test_groups(agreed):
    assert ask(agreed, messages.GroupsRequest()) == messages.GroupsResponse(
        (b"audit", b"billing"), False
    )
    assert ask(agreed, messages.GroupsRequest(b"audit")) == messages.GroupsResponse(
        (b"billing",), False
    )


def test_commits_of_a_group_as_they_were_made(agreed):
    page = ask(agreed, messages.CommitsRequest(b"billing"))
    first = encode_commit(CommitKey("billing", A1), Commit(3, 1, 10))
    second = encode_commit(CommitKey("billing", B2), Commit(None, 1, 10))
    assert set(page.commits) == {first, second}
    assert not page.more
    assert ask(agreed, messages.CommitsRequest(b"nobody")) == messages.CommitsResponse((), False)


def test_a_page_has_so_many_rows_and_says_whether_there_are_more(agreed):
    first = ask(agreed, messages.GroupsRequest(), rows=1)
    assert first == messages.GroupsResponse((b"audit",), True)
    behind = ask(agreed, messages.GroupsRequest(b"billing"), rows=1)
    assert behind == messages.GroupsResponse((), False)
    assert len(ask(agreed, messages.CommitsRequest(b"billing"), rows=1).commits) == 1


FIRST = Ballot(1, "A")
TAKEN = membership.encode(Membership(1, 1, {"A": Member((b"orders",), 1_000)}))


def test_agreeing_on_members(agreed):
    registers, link_sync = Registers(agreed, -60_000), LinkSync(agreed, 0)

    def asked(question, now_ms=0):
        return answered(question, agreed, registers, link_sync, now_ms).reply

    assert asked(messages.PrepareRequest(Prepare("billing", FIRST))).promised == FIRST
    accept = messages.AcceptRequest(membership.Accept("billing", FIRST, TAKEN))
    assert asked(accept) == membership.Accepted(True, FIRST)
    assert asked(messages.HeartbeatRequest(Beat("billing", "A", 1)), 500).renewed
    roster = asked(messages.MembersRequest(b"billing"), 700)
    assert (roster.accepted, roster.membership, roster.renewed) == (FIRST, TAKEN, False)
    assert roster.pulses == (membership.Pulse("A", 200, True, 1),)


@pytest.mark.parametrize(
    "question",
    [
        messages.MembersRequest(b""),
        messages.PrepareRequest(Prepare("g" * 250, FIRST)),
        messages.AcceptRequest(membership.Accept("a\0b", FIRST, b"")),
        messages.AcceptRequest(membership.Accept("billing", FIRST, b"[]")),
    ],
    ids=repr,
)
def test_groups_and_members_that_cannot_be(agreed, question):
    with pytest.raises(WireError, match="membership"):
        ask(agreed, question)


ODD = text(b"\xff\xfe")


@pytest.fixture
def log():
    log = MemoryLog("AB" * 16)
    log.append(
        [
            Batch(Partition("b", "2"), 0, 5, b"five"),
            Batch(Partition("a", "9"), 0, 1, b"one"),
            Batch(Partition("b", "1"), 0, 2, b"two"),
            Batch(Partition("b", "2"), 5, 1, b"one"),
            Batch(Partition(ODD, ODD), 0, 1, b"odd"),
        ]
    )
    return log


def asked(question, log, **bounds):
    return decode_answer(answer(encode(question), log, bounds=AnswerBounds(**bounds)))


def test_topics(log):
    assert asked(messages.TopicsRequest(), log) == messages.TopicsResponse(
        (b"a", b"b", b"\xff\xfe"), False
    )
    assert asked(messages.TopicsRequest(b"a"), log) == messages.TopicsResponse(
        (b"b", b"\xff\xfe"), False
    )


def test_partitions(log):
    everything = ((b"a", b"9"), (b"b", b"1"), (b"b", b"2"), (b"\xff\xfe", b"\xff\xfe"))
    assert asked(messages.PartitionsRequest(), log) == messages.PartitionsResponse(
        everything, False
    )
    assert asked(messages.PartitionsRequest(b"b"), log).partitions == everything[1:3]
    assert asked(messages.PartitionsRequest(None, everything[1]), log).partitions == everything[2:]
    assert asked(messages.PartitionsRequest(b"none"), log).partitions == ()


def test_ranges(log):
    ranges = ((b"b", b"1", 0, 2), (b"b", b"2", 5, 6))
    log.append([], trims={Partition("b", "2"): 5})
    assert asked(messages.RangesRequest(b"b"), log) == messages.RangesResponse(ranges, False)
    assert asked(messages.RangesRequest(b"b", (b"b", b"1")), log) == messages.RangesResponse(
        ranges[1:], False
    )


def test_sizes_of_ranges_are_told_if_asked_for(log):
    log.append([], trims={Partition("b", "2"): 6})
    answer = asked(messages.RangesRequest(b"b", None, sizes=True), log)
    kept = log.extents()[Partition("b", "1")].size
    assert answer.sizes == (kept, 0) != (0, 0)


def test_changes(log):
    beginning = asked(messages.ChangesRequest(), log)
    assert beginning == messages.ChangesResponse((), beginning.until, more=False)
    since = messages.ChangesRequest(beginning.until)
    assert asked(since, log) == beginning
    log.append([Batch(Partition("b", "2"), 6, 2, b"two")])
    log.append([], trims={Partition("a", "9"): 1})
    found = asked(since, log)
    assert found.ranges == ((b"b", b"2", 0, 8), (b"a", b"9", 1, 1))
    assert asked(messages.ChangesRequest(found.until), log).ranges == ()
    of_one = asked(messages.ChangesRequest(beginning.until, b"b"), log)
    assert (of_one.ranges, of_one.until) == (((b"b", b"2", 0, 8),), found.until)
    unknown = asked(messages.ChangesRequest(("another opening", 1)), log)
    assert unknown == messages.ChangesResponse((), found.until, more=False, unknown=True)


def test_forgotten_partitions_are_listed_no_more_and_found_by_name(log):
    since = messages.ChangesRequest(asked(messages.ChangesRequest(), log).until)
    log.append([], trims={Partition("b", "2"): 6})
    log.append([], forgets=[Partition("b", "2")])
    assert asked(messages.RangesRequest(b"b"), log).ranges == ((b"b", b"1", 0, 2),)
    changed = asked(since, log)
    assert (changed.ranges, changed.forgotten) == ((), ((b"b", b"2"),))
    names = ((b"b", b"1"), (b"b", b"2"), (b"b", b"3"))
    found = asked(messages.NamedRangesRequest(names), log)
    assert sorted(found.ranges) == [(b"b", b"1", 0, 2), (b"b", b"2", 6, 6)]
    digest = asked(messages.DigestRequest(b"b", b"2", 3, 3, True), log)
    assert (digest.start, digest.end) == (6, 6)


def test_many_changes_come_in_pages():
    log = MemoryLog("AB" * 16)
    question, found, pages = messages.ChangesRequest(("AB" * 16, 0)), [], 0
    log.append([Batch(Partition("t", f"{n:032X}"), 0, 1, b"") for n in range(100)])
    while question is not None:
        page = asked(question, log, page_bytes=1_000)
        found += page.ranges
        pages += 1
        question = messages.ChangesRequest(page.until) if page.more else None
    assert pages > 5
    assert [row[1] for row in found] == [b"%032X" % n for n in range(100)]
    assert page.until == log.changes.now


def test_read(log):
    whole = messages.ReadResponse(((0, 5, b"five"), (5, 1, b"one")))
    assert asked(messages.ReadRequest(b"b", b"2", 3, 100, 100), log) == whole
    assert asked(messages.ReadRequest(b"b", b"2", 9, 100, 100), log) == messages.ReadResponse(())
    assert asked(messages.ReadRequest(b"b", b"missing", 0, 100, 100), log) == messages.ReadResponse(
        ()
    )
    assert (
        asked(messages.ReadRequest(b"\xff\xfe", b"\xff\xfe", 0, 1, 1), log).batches[0][2] == b"odd"
    )


def test_read_is_bounded_whatever_is_asked():
    log = MemoryLog("AB" * 16)
    partition = Partition("t", "A")
    log.append([Batch(partition, n, 1, bytes(1 << 20)) for n in range(20)])
    most = 2**63 - 1
    found = asked(messages.ReadRequest(b"t", b"A", 0, most, most), log)
    assert len(found.batches) == READ_BYTES_MAX >> 20


def reads(*spans, bytes_max=2**62):
    return messages.ReadsRequest(spans, bytes_max)


def test_of_many_partitions_each_is_read_as_if_alone(log):
    spans = [(b"b", b"2", 3, 1), (b"b", b"none", 0, 1), (b"\xff\xfe", b"\xff\xfe", 0, 1)]
    alone = [asked(messages.ReadRequest(*span, 100), log).batches for span in spans]
    assert asked(reads(*spans, bytes_max=100), log).pages == tuple(alone)
    assert [len(batches) for batches in alone] == [1, 0, 1]


def test_of_many_partitions_as_many_are_read_as_one_answer_holds():
    log = MemoryLog("AB" * 16)
    log.append([Batch(Partition("t", f"A{n}"), 0, 1, bytes(1 << 20)) for n in range(20)])
    spans = [(b"t", b"A%d" % n, 0, 1) for n in range(20)]
    assert len(asked(reads(*spans), log).pages) == READ_BYTES_MAX >> 20
    assert len(asked(reads(*spans), log, read_bytes=1).pages) == 1


@pytest.mark.parametrize(
    "question", [messages.ReadRequest(b"b", b"2", 3, 100, 100), reads((b"b", b"2", 3, 100))]
)
def test_nothing_is_read_for_who_has_no_room(log, monkeypatch, question):
    monkeypatch.setattr(log, "read", None)
    dropped = []
    bounds = AnswerBounds(read_bytes=0)
    found = answer(encode(question), log, bounds=bounds, dropped=dropped.append)
    assert (decode_answer(found).reason, dropped) == ("not read", ["not read"])


def numbered(first, count):
    builder = BatchBuilder(1 << 16)
    for number in range(first, first + count):
        builder.append(5, None, b"%d" % number, ())
    return Batch(Partition("n", "A"), first, count, enclosed(builder.build(), first))


@pytest.fixture
def tens():
    """A log of 30 records in batches of ten."""
    log = MemoryLog("AB" * 16)
    log.append([numbered(first, 10) for first in (0, 10, 20)])
    return log


def digested(log, sequence, count, *, exact, **bounds):
    return asked(messages.DigestRequest(b"n", b"A", sequence, count, exact), log, **bounds)


def test_a_digest_covers_whole_batches_or_exactly_what_is_asked(tens):
    whole = digested(tens, 12, 10, exact=False)
    assert (whole.start, whole.end) == (10, 30)
    assert whole.digest == digest_of_batches([numbered(10, 10), numbered(20, 10)])
    exact = digested(tens, 12, 10, exact=True)
    assert (exact.start, exact.end) == (12, 22)
    assert exact.digest == digest_of_records([numbered(0, 30)], 12, 22)
    assert digested(tens, 25, 100, exact=True).end == 30


@pytest.mark.parametrize("exact", [True, False])
def test_a_digest_says_what_it_could_not_cover(tens, exact):
    tens.append([], trims={Partition("n", "A"): 10})
    found = digested(tens, 5, 10, exact=exact)
    assert (found.start, found.end) == (10, 15 if exact else 20)
    assert digested(tens, 2, 3, exact=exact) == messages.DigestResponse(10, 10, b"")
    assert digested(tens, 30, 3, exact=exact) == messages.DigestResponse(30, 30, b"")
    nowhere = messages.DigestRequest(b"n", b"none", 3, 3, exact)
    assert asked(nowhere, tens) == messages.DigestResponse(3, 3, b"")


def test_a_digest_is_bounded_whatever_is_asked(tens):
    assert digested(tens, 0, 2**62, exact=True, digest_records=15).end == 15
    two = 2 * len(numbered(10, 10).content)
    assert digested(tens, 0, 2**62, exact=False, digest_bytes=two).end == 20


@pytest.mark.parametrize("exact", [True, False], ids=["records", "batches"])
def test_what_compressed_batches_stand_for_is_digested_and_bounded(tens, exact):
    records = [RawRecord(0, 1_000, None, bytes(1_000), ())] * 5
    place = Partition("n", "A")
    plain = [batch_of(place, at, records, FRESH) for at in (30, 35)]
    tens.append([batch_of(place, at, records, FRESH, Codec.LZ4) for at in (30, 35)])
    digest = digest_of_records(plain, 30, 40) if exact else digest_of_batches(plain)
    assert digested(tens, 30, 2**62, exact=exact) == messages.DigestResponse(30, 40, digest)
    assert digested(tens, 30, 2**62, exact=exact, digest_bytes=6_000).end == 35


def spans(*found):
    return messages.DigestsRequest(tuple((b"n", b"A", *one) for one in found))


def test_digests_of_many_ranges_are_those_of_each(tens):
    tens.append([], trims={Partition("n", "A"): 10})
    found = asked(spans((12, 10), (25, 1), (2, 3), (5, 10), (30, 3)), tens).digests
    first, second = numbered(10, 10), numbered(20, 10)
    assert found == (
        (10, 30, digest_of_headers([first, second])),
        (20, 30, digest_of_headers([second])),
        (10, 10, b""),
        (10, 20, digest_of_headers([first])),
        (30, 30, b""),
    )
    assert asked(spans(), tens).digests == ()
    assert asked(messages.DigestsRequest(((b"n", b"none", 3, 3),)), tens).digests == ((3, 3, b""),)


def test_the_work_of_one_answer_with_digests_is_bounded(tens):
    one, both = (
        len(numbered(0, 10).content),
        len(numbered(0, 10).content + numbered(10, 10).content),
    )
    five = spans(*[(number, 1) for number in range(5)])
    assert len(asked(five, tens, digest_bytes=2 * one).digests) == 2
    ((*covered, _),) = asked(spans((0, 2**62), (0, 1)), tens, digest_bytes=both).digests
    assert covered == [0, 20]


def test_what_is_damaged_is_digested_as_it_stands_and_its_records_said_to_be(log):
    assert asked(messages.DigestRequest(b"b", b"2", 0, 6, False), log).end == 6
    found = asked(messages.DigestRequest(b"b", b"2", 0, 6, True), log)
    assert (found.start, found.end, found.digest) == (0, 6, b"")
    assert "cannot read record batch" in found.damage


def deleted(topic, log, bounds=ANSWER_BOUNDS):
    question = encode(messages.DeleteRequest(topic))
    return decode_answer(answer(question, log, deletable=True, bounds=bounds))


def test_a_deleted_topic_is_gone_and_its_ends_are_remembered(log):
    log.append([], trims={Partition("b", "2"): 5})
    assert deleted(b"b", log) == messages.DeleteResponse(3, False)
    assert deleted(b"b", log) == messages.DeleteResponse(0, False)
    assert asked(messages.TopicsRequest(), log).topics == (b"a", b"\xff\xfe")
    assert asked(messages.RangesRequest(b"b"), log).ranges == (
        (b"b", b"1", 2, 2),
        (b"b", b"2", 6, 6),
    )


def test_a_gap_is_no_record_that_is_deleted():
    log = MemoryLog("AB" * 16)
    place = Partition("t", "A")
    log.append([Batch(place, 0, 2, b"x")])
    log.append([Batch(place, 90, 1, b"x")], skips={place: 90})
    assert deleted(b"t", log) == messages.DeleteResponse(3, False)


@pytest.mark.parametrize("exact", [True, False])
def test_the_digest_of_a_gap_says_what_it_is(exact):
    log = MemoryLog("AB" * 16)
    before, behind = numbered(0, 5), numbered(90, 5)
    place = before.partition
    log.append([before])
    log.append([behind], skips={place: 90})

    def digest(sequence, count):
        topic, address = place.topic.encode(), place.address.encode()
        question = messages.DigestRequest(topic, address, sequence, count, exact)
        return decode_answer(answer(encode(question), log))

    whole = digest(0, 95)
    assert (whole.start, whole.end, whole.damage) == (0, 5, "")
    gap = digest(5, 90)
    assert (gap.start, gap.end, gap.digest) == (5, 90, b"")
    assert "passed over" in gap.damage
    within, last = digest(20, 3), digest(90, 5)
    assert (within.start, within.end) == (20, 23)
    assert (last.start, last.end, last.damage) == (90, 95, "")


def test_deleting_is_done_a_bounded_part_at_a_time():
    bounds = AnswerBounds(deleted_batches=4)
    log = MemoryLog("AB" * 16)
    places = Partition("t", "A"), Partition("t", "B")
    log.append([Batch(place, n, 1, b"x") for place in places for n in range(3)])
    assert deleted(b"t", log, bounds) == messages.DeleteResponse(4, True)
    assert deleted(b"t", log, bounds) == messages.DeleteResponse(2, False)


def test_deleting_must_have_been_allowed(log):
    assert asked(messages.DeleteRequest(b"b"), log).reason == "delete"
    assert log.heads()[Partition("b", "1")] == 1


def test_health(log):
    new = messages.HealthResponse("AB" * 16, 4, 10, new=True)
    assert asked(messages.HealthRequest(), log) == new
    assert not asked(messages.CatchUpRequest(), log).new
    assert not asked(messages.HealthRequest(), log).new


@pytest.mark.parametrize("kind", [messages.PartitionsRequest, messages.RangesRequest])
def test_long_lists_come_in_pages(kind):
    log = MemoryLog("AB" * 16)
    log.append([Batch(Partition("t", f"{n:032X}"), 0, 1, b"") for n in range(100)])
    found, after, pages = [], None, 0
    while True:
        page = asked(kind(b"t", after), log, page_bytes=1_000)
        items = page.ranges if kind is messages.RangesRequest else page.partitions
        assert len(items) > 0
        found += items
        pages += 1
        if not page.more:
            break
        after = items[-1][:2]
    assert pages > 5
    assert [item[1] for item in found] == [b"%032X" % n for n in range(100)]


def test_the_largest_page_fits_into_an_answer():
    # The page of the longest names: none of them ASCII, so the estimate is at its lowest.
    names = [text(b"\xff" * 245 + b"%04d" % n) for n in range(10_000)]
    log = MemoryLog("AB" * 16)
    log.append([Batch(Partition(name, name), 0, 1, b"") for name in names])
    octets = answer(encode(messages.RangesRequest()), log)
    assert decode_answer(octets).more
    assert len(octets) <= READ_BYTES_MAX


def test_short_names_fit_too():
    log = MemoryLog("AB" * 16)
    log.append([Batch(Partition("t", f"{n:x}"), 0, 2**62, b"") for n in range(PARTITIONS_MAX)])
    octets = answer(encode(messages.RangesRequest()), log)
    assert len(octets) <= READ_BYTES_MAX


def test_refusals_name_their_reason(log):
    refused = decode_answer(answer(b"\x09hello", log))
    assert refused == messages.ErrorResponse("query version", "this store speaks version 1")
    assert decode_answer(answer(b"\x01hello", log)).reason == "query message"


def test_finding_in_a_damaged_batch_finds_its_beginning(log):
    place = Partition("b", "1")
    builder = BatchBuilder(1_000)
    builder.append(5, None, b"value", ())
    log.append([Batch(place, 2, 1, enclosed(builder.build(), 2)[:-3])])
    assert asked(messages.FindRequest(b"b", b"1", 0), log) == messages.FindResponse(0)
    log.append([], trims={place: 2})
    assert asked(messages.FindRequest(b"b", b"1", 5), log) == messages.FindResponse(2)


def test_a_broken_disk_is_a_refusal(log, monkeypatch):
    def broken(*_):
        raise StorageError("cannot read log: I/O error")

    monkeypatch.setattr(log, "read", broken)
    refused = asked(messages.ReadRequest(b"b", b"2", 0, 1, 1), log)
    assert refused == messages.ErrorResponse("storage", "cannot read log: I/O error")


@given(st.binary(max_size=100))
def test_any_bytes_are_answered(octets):
    log = MemoryLog("AB" * 16)
    for frame in (octets, b"\x01" + octets):
        decode_answer(answer(frame, log))


@pytest.mark.parametrize(
    ("question", "reads", "writes"),
    [
        (messages.HealthRequest(), True, True),
        (messages.TopicsRequest(), False, False),
        (messages.PartitionsRequest(), False, False),
        (messages.RangesRequest(b""), False, False),
        (messages.ChangesRequest(), False, False),
        (messages.ChangesRequest(topic=b"a"), False, False),
        (messages.ChangesRequest(topic=b"b"), True, False),
        (messages.NamedRangesRequest(((b"b", b"1"), (b"b", b"2"))), True, False),
        (messages.NamedRangesRequest(((b"b", b"1"), (b"a", b"1"))), False, False),
        (messages.PartitionsRequest(b"b"), True, False),
        (messages.RangesRequest(b"b"), True, False),
        (messages.RangesRequest(b"a"), False, False),
        (messages.ReadRequest(b"b", b"1", 0, 1, 1), True, False),
        (messages.FindRequest(b"b", b"1", 0), True, False),
        (messages.DigestRequest(b"b", b"1", 0, 1, True), True, False),
        (messages.DigestRequest(b"a", b"1", 0, 1, False), False, False),
        (messages.DigestsRequest(((b"b", b"1", 0, 1), (b"b", b"2", 0, 1))), True, False),
        (messages.DigestsRequest(((b"b", b"1", 0, 1), (b"a", b"1", 0, 1))), False, False),
        (messages.DeleteRequest(b"b"), False, True),
        (messages.DeleteRequest(b"a"), False, False),
        (messages.HolesRequest(), False, False),
        (messages.SkipRequest(b"b", b"1", 7), False, False),
        (messages.LinkSyncRequest(b"1 at level 2", False), False, False),
        (messages.WritersRequest(((b"b", 0, 1, 1),)), False, False),
        (messages.HoldRequest(1, b"all", ()), False, False),
        (messages.HoldRequest(1, b"all", ((b"b", b"1", 5),)), False, False),
        (messages.CatchUpRequest(), False, False),
    ],
    ids=repr,
)
def test_questions_take_the_right_to_what_they_ask_for(log, question, reads, writes):
    def permitted(rights):
        found = decode_answer(answer(encode(question), log, rights))
        return not (isinstance(found, messages.ErrorResponse) and found.reason == "not permitted")

    assert permitted(Rights(read=("b",))) is reads
    assert permitted(Rights(write=("b",))) is writes
    assert permitted(Rights()) is isinstance(question, messages.HealthRequest)
    assert permitted(Rights(EVERYTHING, EVERYTHING, EVERYTHING))


def test_commits_say_whether_links_are_waited_for(agreed):
    def told(link_sync, question):
        return answered(question, agreed, Registers(agreed, -60_000), link_sync, 0)

    commits, link = messages.CommitsRequest(b"billing"), b"1 at level 2"
    first = LinkSync(agreed, 0)
    assert told(first, commits).in_sync
    assert not told(first, messages.LinkSyncRequest(link, False)).known
    assert told(first, messages.LinkSyncRequest(link, True)).known
    again = LinkSync(agreed, 0)
    assert not told(again, commits).in_sync
    assert told(again, messages.LinkSyncRequest(link, True)).known
    assert told(again, commits).in_sync


@pytest.mark.parametrize(
    "question", [messages.GroupsRequest(), messages.CommitsRequest(b"billing")], ids=repr
)
def test_positions_are_read_by_whoever_may_read_their_topic(log, question):
    def reason(rights):
        return getattr(decode_answer(answer(encode(question), log, rights)), "reason", "")

    assert reason(Rights(read=("__consumer_offsets",))) == ""
    assert reason(Rights(read=("orders",))) == "not permitted"


def test_members_of_groups_are_whoever_may_commit(log):
    beat = messages.HeartbeatRequest(Beat("billing", "A", 0))
    questions = (beat, messages.PrepareRequest(Prepare("billing", Ballot(1, "A"))))

    def reason(question, rights):
        return getattr(decode_answer(answer(encode(question), log, rights)), "reason", "")

    for question in questions:
        assert reason(question, Rights(write=("__consumer_offsets",))) == ""
        assert reason(question, Rights(read=("",), write=("orders",))) == "not permitted"
        some = Rights(write=("__consumer_offsets",), groups=("bill", "shop"))
        assert reason(question, some) == ""
        assert reason(question, replace(some, groups=("shop",))) == "not permitted"
        assert reason(question, replace(some, groups=())) == "not permitted"


@pytest.mark.parametrize(
    ("mirrors", "permitted"),
    [
        (("",), True),
        (("orders", "__consumer_offsets"), True),
        (("orders",), False),
        (("o",), False),
    ],
)
def test_who_may_mirror_what_is_named_and_positions_may_say_what_is_held(log, mirrors, permitted):
    question = encode(messages.HoldRequest(1, b"all", ((b"orders", b"1", 5),)))
    found = decode_answer(answer(question, log, Rights(EVERYTHING, EVERYTHING, mirrors)))
    assert isinstance(found, messages.HoldResponse) is permitted


def test_a_word_on_holds_is_kept_and_an_older_one_refused(log):
    place = next(iter(log.extents()))
    row = (octets_of(place.topic), octets_of(place.address), 1)
    found, reasons = [], []
    for epoch in (2, 1):
        question = encode(messages.HoldRequest(epoch, b"all", (row,)))
        found.append(decode_answer(answer(question, log, dropped=reasons.append)))
    assert found[0] == messages.HoldResponse(log.identity)
    assert (found[1].reason, reasons) == ("hold", ["hold"])
    assert Holds(log).floor(place) == 1
