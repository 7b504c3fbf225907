from __future__ import annotations

import itertools

import pytest

from dafka.errors import MisuseError, QueryError, RefusedError
from dafka.groups.commit import Commit
from dafka.groups.commit_table import fold
from dafka.groups.membership import NO_BALLOT
from dafka.limits import DIGESTS_MAX, NAMED_MAX, PARTITIONS_MAX, READ_SPANS_MAX
from dafka.model import ALL_SLOTS, SLOTS, WHOLE, Batch, Partition, PartitionShare, Slots, slot_of
from dafka.query import messages
from dafka.query.client import StoreClient
from dafka.query.messages import decode_question, encode
from dafka.query.service import AnswerBounds, answer
from dafka.query.slot_steps import ROWS_MAX, SlotRowsResponse, told
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.digest import digest_of_headers
from dafka.storage.holds import Holds, HoldWord
from dafka.storage.memory import MemoryLog
from dafka.storage.passed_over import passing
from dafka.wire.primitives import text

pytestmark = pytest.mark.net

ORDERS = Partition("orders", "A1")
ODD = Partition(text(b"\xff"), text(b"\xfe\x00"))


@pytest.fixture
def client(serving):
    with StoreClient(serving.endpoint, timeout_ms=5_000) as client:
        yield client


def raw_batch(partition, sequence, times):
    builder = BatchBuilder(1 << 16)
    for time in times:
        builder.append(time, None, b"", ())
    return Batch(partition, sequence, len(times), enclosed(builder.build(), sequence))


def fill(serving, count=10, size=100):
    batches = [Batch(ORDERS, 5 * n, 5, bytes([n]) * size) for n in range(count)]
    serving.log.append([*batches, Batch(ODD, 0, 1, b"odd")])
    return batches


def test_a_store_that_tells_of_no_slots_is_named(client, monkeypatch):
    """Whoever asked for its health ended, or counted with slots below the first."""
    said = encode(messages.HealthResponse("AB" * 16, 0, 0, slots=((9, 3),)))
    monkeypatch.setattr(client._client, "ask", lambda *_: said)
    with pytest.raises(QueryError, match="told of slots that are none: a range of slots ends"):
        client.health()


def test_an_empty_store(client):
    assert client.topics() == []
    assert client.partitions() == []
    assert client.heads() == {}
    assert client.read(ORDERS, 0) == []
    assert list(client.scan(ORDERS, 0, 10)) == []
    assert client.health() == messages.HealthResponse("AB" * 16, 0, 0, new=True)
    client.catch_up()
    assert not client.health().new


def test_what_it_holds(serving, client):
    fill(serving)
    assert client.topics() == ["orders", ODD.topic]
    assert client.partitions() == [ORDERS, ODD]
    assert client.partitions("orders") == [ORDERS]
    assert client.heads() == {ORDERS: 49, ODD: 0}
    assert client.heads(ODD.topic) == {ODD: 0}
    assert client.health().records == 51


def test_how_many_bytes_are_kept(serving, client):
    fill(serving)
    serving.bounds = AnswerBounds(page_bytes=200)  # a partition a page
    assert client.sized_ranges() == {ORDERS: (range(50), 1_000), ODD: (range(1), 3)}
    assert client.sized_ranges("orders") == {ORDERS: (range(50), 1_000)}


def test_a_store_of_before_tells_no_bytes(serving, client):
    serving.respond = lambda _: encode(messages.RangesResponse(((b"t", b"A", 2, 5),), more=False))
    assert client.sized_ranges() == {Partition("t", "A"): (range(2, 5), None)}


@pytest.mark.parametrize(
    ("ranges", "sizes"),
    [
        ([(b"t", b"A", 0, 1)], (1, 2)),
        ([(b"t", b"A", 0, 1), (b"t", b"B", 0, 1)], (1,)),
        ([(b"t", b"A", 0, 1)] * 2, (1, 2)),
    ],
)
def test_bytes_of_other_partitions_are_no_answer(serving, client, ranges, sizes):
    answer = messages.RangesResponse(tuple(ranges), more=False, sizes=sizes)
    serving.respond = lambda _: encode(answer)
    with pytest.raises(QueryError, match="sizes of other partitions"):
        client.sized_ranges()


def test_digests(serving, client):
    serving.log.append([raw_batch(ORDERS, 0, [1, 2]), raw_batch(ORDERS, 2, [3])])
    whole = client.digest(ORDERS, 1, 3, exact=False)
    assert (whole.start, whole.end, whole.damage) == (0, 3, "")
    exact = client.digest(ORDERS, 1, 3, exact=True)
    assert (exact.start, exact.end) == (1, 3)
    assert exact.digest not in (whole.digest, client.digest(ORDERS, 0, 3, exact=True).digest)


@pytest.mark.parametrize(("start", "end"), [(0, 3), (1, 4), (3, 2)])
def test_a_digest_of_other_records_is_no_answer(serving, client, start, end):
    serving.respond = lambda _: encode(messages.DigestResponse(start, end, b""))
    with pytest.raises(QueryError, match="other records than asked for"):
        client.digest(ORDERS, 1, 3, exact=True)


def test_many_digests_come_in_as_many_answers_as_it_takes(serving, client):
    fill(serving)
    places = dict.fromkeys(client.heads(), range(1))
    assert len(places) > 1
    expected = {
        place: (batch.sequence, batch.end, digest_of_headers([batch]))
        for place in places
        for batch in serving.log.read(place, 0, 1, 0)
    }
    assert client.digests(places) == expected
    serving.bounds = AnswerBounds(digest_bytes=1)
    assert client.digests(places) == expected
    assert client.digests({}) == {}


def test_as_many_digests_as_are_asked_for_at_once(serving, client):
    places = [Partition(f"{number:0249}", f"{number:032X}") for number in range(DIGESTS_MAX + 1)]
    serving.log.append([Batch(place, 0, 1, b"content") for place in places])
    found = client.digests(dict.fromkeys(places, range(1)))
    assert list(found) == places
    assert len(set(found.values())) == 1


@pytest.mark.parametrize("count", [0, 2])
def test_more_or_no_digests_are_no_answer(serving, client, count):
    serving.respond = lambda _: encode(messages.DigestsResponse(((0, 0, b""),) * count))
    with pytest.raises(QueryError, match="other digests than asked for"):
        client.digests({ORDERS: range(1)})


def test_reading(serving, client):
    batches = fill(serving)
    assert client.read(ORDERS, 7) == batches[1:]
    assert client.read(ORDERS, 7, count_max=4) == batches[1:3]
    assert client.read(ORDERS, 7, bytes_max=1) == batches[1:2]
    assert client.read(ODD, 0) == [Batch(ODD, 0, 1, b"odd")]


def test_what_was_trimmed_is_not_in_the_range(serving, client):
    batches = fill(serving)
    serving.log.append([], trims={ORDERS: 7, ODD: 1})
    assert client.ranges() == {ORDERS: range(5, 50), ODD: range(1, 1)}
    assert client.heads() == {ORDERS: 49, ODD: 0}
    assert client.read(ORDERS, 4) == []
    assert client.read(ORDERS, 5, count_max=1) == batches[1:2]


def test_what_has_changed_since(serving, client):
    serving.bounds = AnswerBounds(page_bytes=100)
    fill(serving)
    nothing, mark = client.changes(None)
    assert nothing == {}
    serving.log.append([raw_batch(Partition("orders", name), 0, [1]) for name in "abcdef"])
    changed, mark = client.changes(mark)
    assert changed == {Partition("orders", name): range(1) for name in "abcdef"}
    assert client.changes(mark) == ({}, mark)
    serving.log = MemoryLog("CD" * 16)
    assert client.changes(mark) is None


def test_a_store_of_before_that_question_refuses_it(serving, client):
    serving.respond = lambda _: encode(messages.ErrorResponse("query message", "version 1"))
    with pytest.raises(RefusedError, match="refused: query message"):
        client.changes(None)


def test_forgotten_partitions_are_found_by_name(serving, client):
    fill(serving)
    ranges = client.ranges()
    _, since = client.changes(None)
    serving.log.append([], trims={ODD: 1 << 40})
    serving.log.append([], forgets=[ODD])
    assert client.changes(since)[0] == {ODD: None}
    assert ODD not in client.ranges()
    end = ranges[ODD].stop
    assert client.ranges_of([ODD, Partition("never", "A")]) == {ODD: range(end, end)}


def test_a_store_of_before_names_lists_all(serving, client):
    fill(serving)

    def respond(question):
        if b"named" in question:
            return encode(messages.ErrorResponse("query message", "version 1"))
        return answer(question, serving.log)

    serving.respond = respond
    kept = client.ranges()[ODD]
    assert client.ranges_of([ODD, Partition("never", "A")]) == {ODD: kept}


def test_very_many_are_named_in_several_questions(serving, client):
    asked = []

    def respond(question):
        asked.append(decode_question(question))
        return answer(question, serving.log)

    serving.respond = respond
    named = [Partition("t" * 249, f"{number}") for number in range(NAMED_MAX + 1)]
    assert client.ranges_of(named) == {}
    assert [len(question.places) for question in asked] == [NAMED_MAX, 1]


def test_where_something_always_changes_what_was_told_counts(serving, client):
    numbers = itertools.count(1)

    def page(_question):
        end = next(numbers)
        rows = ((b"t", b"A", 0, end),) * (PARTITIONS_MAX // 2)
        return encode(messages.ChangesResponse(rows, ("one", end), True))

    serving.respond = page
    assert client.changes(None) == ({Partition("t", "A"): range(3)}, ("one", 3))


def test_a_store_that_stands_still_with_changes_is_left(serving, client):
    serving.respond = lambda _: encode(messages.ChangesResponse((), ("one", 1), True))
    with pytest.raises(QueryError, match="leads nowhere"):
        client.changes(None)


def test_deleting_a_topic(serving, client):
    fill(serving)
    with pytest.raises(QueryError, match="not started to allow that"):
        client.delete("orders")
    bounds = AnswerBounds(deleted_batches=3)
    serving.respond = lambda question: answer(question, serving.log, deletable=True, bounds=bounds)
    assert client.delete("orders") == 50
    assert client.delete("orders") == 0
    assert client.topics() == [ODD.topic]


def test_a_store_that_does_not_get_on_with_deleting(serving, client):
    serving.respond = lambda _: encode(messages.DeleteResponse(0, True))
    with pytest.raises(QueryError, match="does not get on"):
        client.delete("orders")


def test_finding_a_time(serving, client):
    for sequence, records in enumerate(([100, 300], [200, 250], [400, 500])):
        batch = raw_batch(ORDERS, 2 * sequence, records)
        serving.log.append([batch])
    found = {time: client.find(ORDERS, time) for time in (0, 100, 101, 300, 301, 400, 401, 501)}
    assert found == {0: 0, 100: 0, 101: 1, 300: 1, 301: 4, 400: 4, 401: 5, 501: None}
    assert client.find(ODD, 0) is None
    serving.log.append([Batch(ODD, 0, 3, b"without a time of its own")])
    assert client.find(ODD, 0) == 0


def test_scanning(serving, client):
    batches = fill(serving)
    assert list(client.scan(ORDERS, 0, 50)) == batches
    assert list(client.scan(ORDERS, 7, 11)) == batches[1:3]
    assert list(client.scan(ORDERS, 7, 1_000)) == batches[1:]
    assert list(client.scan(ORDERS, 7, 7)) == []


def test_reading_many_partitions(serving, client):
    places = [Partition("t", f"{number:04}") for number in range(READ_SPANS_MAX + 200)]
    batches = {place: [Batch(place, 0, 1, place.address.encode())] for place in places}
    serving.log.append([batch for found in batches.values() for batch in found])
    spans = dict.fromkeys(places, range(1))
    assert client.read_each(spans, 100) == batches
    serving.bounds = AnswerBounds(read_bytes=2_000)
    assert client.read_each(spans, 100) == batches
    batches[ORDERS] = []
    assert client.read_each({**spans, ORDERS: range(5)}, 100) == batches
    assert client.read_each({}, 100) == {}
    some = client.read_each(spans, 100, 100)
    assert 0 < len(some) < len(spans)
    assert some.items() <= batches.items()


def test_scanning_more_than_one_answer_holds(serving, client):
    batches = fill(serving, count=12, size=1 << 20)
    assert list(client.scan(ORDERS, 3, 60)) == batches


def test_long_lists_are_put_together(serving, client):
    serving.bounds = AnswerBounds(page_bytes=500)
    places = [Partition(f"t{n % 50:02}", f"{n:04}") for n in range(200)]
    serving.log.append([Batch(place, 0, 1, b"") for place in places])
    assert client.heads() == dict.fromkeys(places, 0)
    assert client.partitions() == sorted(places)
    assert client.topics() == sorted({place.topic for place in places})


def test_nobody_there():
    client = StoreClient("tcp://127.0.0.1:1", timeout_ms=100)
    with pytest.raises(QueryError, match=r"tcp://127\.0\.0\.1:1 within 100 ms"):
        client.health()
    client.close()


def test_an_endpoint_that_is_none():
    with pytest.raises(MisuseError, match="nonsense"):
        StoreClient("nonsense")


@pytest.mark.parametrize(
    ("answered", "complaint"),
    [
        (encode(messages.ErrorResponse("storage", "broken")), r"refused: storage \(broken\)"),
        (encode(messages.ReadResponse(())), "answered with ReadResponse"),
        (b"\x02new", "query version this version cannot read"),
        (b"\x01\xff", "query message this version cannot read"),
        (encode(messages.RangesResponse((), True)), "leads nowhere"),
        (encode(messages.RangesResponse(((b"t", b"A", 0, 1),), True)), "leads nowhere"),
    ],
)
def test_bad_answers(serving, client, answered, complaint):
    serving.respond = lambda _: answered
    with pytest.raises(QueryError, match=complaint) as failure:
        client.heads()
    assert serving.endpoint in str(failure.value)


def test_scanning_passes_over_a_gap(serving, client):
    place = Partition("gaps", "A")
    one, other = Batch(place, 0, 2, b"one"), Batch(place, 9, 1, b"other")
    serving.log.append([one])
    serving.log.append([other], skips={place: 9})
    assert list(client.scan(place, 0, 10)) == [one, other]
    assert list(client.scan(place, 3, 10)) == [other]
    assert list(client.scan(place, 0, 9)) == [one]


def test_scanning_what_was_not_asked_for(serving, client):
    serving.respond = lambda _: encode(messages.ReadResponse(((0, 1, b""),)))
    with pytest.raises(QueryError, match="other batches"):
        list(client.scan(ORDERS, 5, 10))


def test_positions_of_groups_in_pages(serving, client, committed):
    serving.bounds = AnswerBounds(rows=3)
    places = [Partition("orders", f"{n:X}") for n in range(10)]
    rows = [("billing", place, n, 1, 5) for n, place in enumerate(places)]
    batch = committed(0, *rows, *((f"group-{n}", ORDERS, 1, 1, 1) for n in range(7)))
    serving.log.append([batch], entries=fold(serving.log, [batch]).entries)
    assert client.offsets("billing") == {place: Commit(n, 1, 5) for n, place in enumerate(places)}
    assert client.offsets("nobody") == {}
    assert client.groups() == ["billing", *(f"group-{n}" for n in range(7))]


def test_a_store_is_told_what_to_hold(serving, client):
    serving.log.append([Batch(ORDERS, 0, 1, b"x")])
    assert client.hold(HoldWord(2, b"all", {ORDERS: 1})) == serving.log.identity
    assert Holds(serving.log).floor(ORDERS) == 1
    with pytest.raises(RefusedError, match="hold"):
        client.hold(HoldWord(1, b"all", {}))


def test_writers_are_told_of_later_ones(serving, client):
    rows = [("a", WHOLE, 3), ("b", PartitionShare(1, 2), 4)]
    many = [(str(number), WHOLE, number + 1) for number in range(NAMED_MAX)]
    assert client.writers([*rows, *many]) == [3, 4, *range(1, NAMED_MAX + 1)]
    assert client.writers([("b", WHOLE, 3), ("a", WHOLE, 7)]) == [4, 7]
    assert client.writers([]) == []
    serving.respond = lambda _: encode(messages.WritersResponse((1, 2)))
    with pytest.raises(QueryError, match="for other writers than asked for"):
        client.writers(rows[:1])


def test_a_link_tells_how_it_stands(serving, client):
    serving.respond = lambda question: encode(
        messages.LinkSyncResponse(decode_question(question).in_sync, awaited=True)
    )
    assert client.tell_link("1 at level 2", in_sync=False) == (False, True)
    assert client.tell_link("1 at level 2", in_sync=True) == (True, True)


def test_commits_that_are_none_are_the_stores_fault(serving, client):
    serving.respond = lambda _: encode(messages.CommitsResponse(((b"key", b"value"),), False))
    with pytest.raises(QueryError, match="a commit that is none"):
        client.offsets("billing")


def test_what_a_store_never_had_in_pages(serving, client):
    skips = {Partition("orders", f"{n:X}"): n for n in range(1, ROWS_MAX + 10)}
    serving.log.append([], skips=skips, entries=passing(serving.log, skips))
    assert client.passed_over(told(ALL_SLOTS)) == {one: [range(n)] for one, n in skips.items()}
    half = Slots.of([range(SLOTS // 2)])
    assert client.passed_over(told(half)).keys() == {
        one for one in skips if half.has(slot_of(one.address))
    }
    serving.respond = lambda _: encode(SlotRowsResponse((), b"again"))
    with pytest.raises(QueryError, match="leads nowhere"):
        client.passed_over(told(ALL_SLOTS))


def test_a_store_that_turns_no_page_is_left(serving, client):
    serving.respond = lambda _: encode(messages.CommitsResponse((), True))
    with pytest.raises(QueryError, match="leads nowhere"):
        client.offsets("billing")


def test_a_store_that_never_comes_to_an_end_is_left(serving, client):
    numbers = itertools.count()

    def page(_question):
        names = (b"%d" % next(numbers) for _ in range(PARTITIONS_MAX // 2))
        return encode(messages.RangesResponse(tuple((name, b"A", 0, 1) for name in names), True))

    serving.respond = page
    with pytest.raises(QueryError, match="names more than 200,000"):
        client.ranges()


def test_members_of_a_group(client):
    assert client.members("billing") == (NO_BALLOT, b"", 0, False, ())
