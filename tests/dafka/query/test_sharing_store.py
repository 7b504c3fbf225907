"""Stores that share slots, each before its own log, asked through the client of their cluster."""

from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import QueryError, ShareError
from dafka.model import ALL_SLOTS, Partition, Slots, address_in, slot_of
from dafka.process.clock import Clock
from dafka.query.client import ANSWER_TIMEOUT_MS, StoreClient
from dafka.query.cluster_client import ClusterClient
from dafka.query.listing import Listing
from dafka.query.messages import HealthRequest, RangesRequest, decode_question
from dafka.query.patience import IMPATIENT_MS, SILENT_MS
from dafka.query.service import answer
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.memory import MemoryLog
from tests.support.batches import make_batch

LOW, HIGH = Slots.of([range(2_048)]), Slots.of([range(2_048, 4_096)])
DRAWN = "AB" * 16
P_LOW, P_HIGH = (Partition("orders", address_in(DRAWN, half, 2)) for half in (0, 1))
OWN = Partition("__consumer_offsets", DRAWN)
EVERYTHING = {P_LOW: range(3), P_HIGH: range(3), OWN: range(3)}


class SharingPorts:
    """The query ports of a cluster's stores; connections to them."""

    def __init__(self, **kept):
        self.kept = kept
        self.logs = {name: MemoryLog(name) for name in kept}
        self.down = set()
        self.asked = []
        self.waited = []
        self.now_ms = 0
        for name, slots in kept.items():
            for partition in EVERYTHING:
                if slots.keeps(*partition):
                    self.logs[name].append([make_batch([b"1", b"2", b"3"], 0, partition)])

    def connect(self, endpoint, _credentials):
        return SharingPort(self, endpoint)

    def client(self):
        clock = Clock(now_ms=lambda: self.now_ms)
        return ClusterClient(Cluster(stores=tuple(self.kept)), connect=self.connect, clock=clock)


class SharingPort:
    def __init__(self, ports, name):
        self.ports, self.name = ports, name

    def ask(self, question, timeout_ms):
        if self.name in self.ports.down:
            self.ports.waited.append((self.name, timeout_ms))
            self.ports.now_ms += timeout_ms
            raise QueryError(f"store at {self.name} does not answer")
        self.ports.asked.append((self.name, decode_question(question)))
        kept_slots = KeptSlots(MemoryLog("made for these"), self.ports.kept[self.name])
        return answer(question, self.ports.logs[self.name], kept_slots=kept_slots)

    def close(self):
        pass


@pytest.fixture
def ports():
    return SharingPorts(a=LOW, b=LOW, c=HIGH, d=HIGH)


def test_partitions_lie_where_the_test_says():
    assert LOW.has(slot_of(P_LOW.address))
    assert HIGH.has(slot_of(P_HIGH.address))


def test_each_store_answers_for_its_cluster(ports):
    stores = ports.client()
    assert stores.all(lambda store: store.ranges()).given == dict.fromkeys("abcd", EVERYTHING)
    assert stores.first(lambda store: store.heads("orders")) == {P_LOW: 2, P_HIGH: 2}
    assert stores.first(lambda store: store.topics()) == ["__consumer_offsets", "orders"]
    assert stores.first(lambda store: store.partitions()) == sorted(EVERYTHING)
    sized = stores.first(lambda store: store.sized_ranges())
    assert {one: kept for one, (kept, _) in sized.items()} == EVERYTHING
    assert all(size for _, size in sized.values())


def test_who_asks_all_stores_has_each_list_its_own_once():
    quarters = [Slots.of([range(first, first + 1_024)]) for first in range(0, 4_096, 1_024)]
    ports = SharingPorts(**dict(zip("abcd", quarters, strict=True)))
    stores = ports.client()

    def lists(end):
        del ports.asked[:]
        given = stores.all(lambda store: store.ranges("orders")).given
        assert given == {name: {P_LOW: range(3), P_HIGH: range(end)} for name in "abcd"}
        return sum(isinstance(one, RangesRequest) and bool(one.part) for _, one in ports.asked)

    assert lists(3) == 4, "16 before"
    (keeper,) = (name for name, slots in ports.kept.items() if slots.keeps(*P_HIGH))
    ports.logs[keeper].append([make_batch([b"4"], 3, P_HIGH)])
    assert lists(4) == 4, "not those of another time"
    assert stores.store("a").ranges("orders")[P_HIGH] == range(4)


def test_a_partition_is_asked_of_who_keeps_it(ports):
    store = ports.client().store("a")
    spans = {P_HIGH: range(1, 3), P_LOW: range(3)}
    assert [batch.end for batch in store.read(P_HIGH, 1)] == [3]
    assert [batch.end for batch in store.scan(P_HIGH, 0, 3)] == [3]
    assert store.find(P_HIGH, 0) == 0
    assert store.digest(P_HIGH, 0, 3, exact=False).end == 3
    assert store.digests(spans).keys() == spans.keys()
    assert store.ranges_of([P_LOW, P_HIGH]) == {P_LOW: range(3), P_HIGH: range(3)}
    read = store.read_each(spans, 1_000)
    assert {one: batches[0].end for one, batches in read.items()} == {P_LOW: 3, P_HIGH: 3}


def test_what_is_read_of_several_stores_stops_where_it_is_enough(ports):
    spans = {P_LOW: range(3), P_HIGH: range(3)}
    assert ports.client().store("a").read_each(spans, 1_000, 1).keys() == {P_LOW}


def test_another_that_keeps_it_answers_where_one_does_not(ports):
    stores = ports.client()
    ports.down = {"c"}
    assert stores.store("a").ranges() == EVERYTHING
    assert stores.store("a").find(P_HIGH, 0) == 0
    ports.down = {"d"}
    assert stores.store("a").ranges() == EVERYTHING
    assert stores.store("a").find(P_HIGH, 0) == 0


def test_a_part_is_never_taken_for_all(ports):
    stores = ports.client()
    ports.down = {"c", "d"}
    complaint = "store at a does not keep slots 2048-4095, nor does another: store at d does not"
    for ask in (StoreClient.topics, StoreClient.partitions, StoreClient.ranges):
        with pytest.raises(QueryError, match=complaint):
            getattr(stores.store("a"), ask.__name__)()
    with pytest.raises(QueryError, match=f"does not keep partition .*{P_HIGH.address}"):
        stores.store("a").read(P_HIGH, 0)
    assert stores.first(lambda store: store.read(P_LOW, 0))[0].end == 3


def test_where_all_answer_and_some_slots_nobody_keeps_further_stores_are_asked_for():
    ports = SharingPorts(a=LOW, b=LOW)
    complaint = "does not keep slots 2048-4095, nor does another: name stores that keep all slots"
    with pytest.raises(QueryError, match=complaint):
        ports.client().store("a").ranges()


def test_who_is_silent_is_said_to_be_also_where_others_have_its_slots(ports):
    stores = ports.client()
    assert stores.all(lambda store: store.ranges()).failures == {}
    ports.down = {"b"}
    assert [*stores.all(lambda store: store.ranges()).failures] == ["b"]
    assert [*stores.all(lambda store: store.find(P_LOW, 0)).failures] == ["b"]


def test_who_knows_of_no_slots_is_refused(ports):
    store = StoreClient("a", connect=ports.connect)
    for ask in (
        store.topics,
        store.partitions,
        store.ranges,
        lambda: store.changes(None),
        lambda: store.ranges_of([P_HIGH]),
        lambda: store.read(P_HIGH, 0),
        lambda: store.read_each({P_HIGH: range(1)}, 1),
        lambda: store.find(P_HIGH, 0),
        lambda: store.digest(P_HIGH, 0, 1, exact=True),
        lambda: store.digests({P_HIGH: range(1)}),
    ):
        with pytest.raises(ShareError, match=r"store at a refused: share \(it keeps slots 0-2047"):
            ask()
    assert store.read(P_LOW, 0)
    assert store.ranges("__consumer_offsets") == {OWN: range(3)}
    assert store.health().slots == ((0, 2_048),)


def test_what_a_cluster_says_of_itself_is_as_the_store_says_that_is_asked(ports):
    ports.logs["c"].append([make_batch([b"4"], 3, OWN)])
    stores = ports.client()
    assert stores.store("a").ranges("__consumer_offsets") == {OWN: range(3)}
    assert stores.store("c").ranges("__consumer_offsets") == {OWN: range(4)}
    assert stores.store("a").ranges()[OWN] == range(3)
    assert stores.store("c").ranges()[OWN] == range(4)


def test_of_several_stores_all_is_listed_each_time_and_of_one_what_has_changed(ports):
    store, listing = ports.client().store("a"), Listing()
    assert [listing.read(store) for _ in range(2)] == [(EVERYTHING, True)] * 2
    own = Listing("__consumer_offsets")
    assert [own.read(store) for _ in range(2)] == [({OWN: range(3)}, True), ({}, False)]


def test_a_store_that_keeps_all_is_asked_nothing_more():
    ports = SharingPorts(a=ALL_SLOTS, b=ALL_SLOTS)
    stores = ports.client()
    assert stores.first(lambda store: store.ranges()) == EVERYTHING
    assert stores.first(lambda store: store.find(P_HIGH, 0)) == 0
    assert {name for name, _ in ports.asked} == {"a"}
    assert not any(isinstance(question, HealthRequest) for _, question in ports.asked)


def test_stores_that_keep_all_stand_beside_others():
    ports = SharingPorts(a=LOW, b=ALL_SLOTS)
    given = ports.client().all(lambda store: store.ranges()).given
    assert given == {"a": EVERYTHING, "b": EVERYTHING}


def test_a_store_with_other_slots_at_the_same_place_is_asked_what_it_keeps(ports):
    store = ports.client().store("a")
    assert store.ranges() == EVERYTHING
    other = SharingPorts(a=HIGH, b=LOW, c=LOW, d=LOW)
    ports.kept, ports.logs = other.kept, other.logs
    for attempt in range(4):
        try:
            assert store.ranges() == EVERYTHING
            break
        except QueryError:
            assert attempt < 3, "it is not found out"
    assert store.find(P_LOW, 0) == store.find(P_HIGH, 0) == 0


def test_who_lists_again_after_slots_have_moved_asks_who_keeps_them_now(ports):
    stores = ports.client()
    assert stores.all(lambda store: store.ranges()).failures == {}
    ports.kept |= {"a": ALL_SLOTS, "c": Slots(0), "d": Slots(0)}
    ports.logs["a"].append([make_batch([b"1", b"2", b"3"], 0, P_HIGH)])
    given = [stores.all(lambda store: store.ranges()).given for _ in range(2)][1]
    assert given == dict.fromkeys("abcd", EVERYTHING)
    ports.kept |= {"a": Slots(0), "c": ALL_SLOTS, "d": ALL_SLOTS}
    ports.logs["c"].append([make_batch([b"1", b"2", b"3"], 0, P_LOW)])
    ports.logs["d"].append([make_batch([b"1", b"2", b"3"], 0, P_LOW)])
    given = [stores.all(lambda store: store.find(P_LOW, 0)).given for _ in range(2)][1]
    assert given == dict.fromkeys("abcd", 0)


def test_one_that_had_nothing_when_it_was_asked_is_asked_again():
    ports = SharingPorts(a=ALL_SLOTS, b=ALL_SLOTS)
    ports.kept["b"] = Slots(0)
    stores = ports.client()
    assert stores.store("b").ranges() == EVERYTHING
    ports.kept |= {"a": LOW, "b": HIGH}
    given = [stores.all(lambda store: store.ranges()).given for _ in range(2)][1]
    assert given == {"a": EVERYTHING, "b": EVERYTHING}


def test_what_a_store_is_asked_for_itself_no_other_answers(ports):
    """Nor where it turns out that it has given up what it was known to keep."""
    store = ports.client().store("a")
    assert store.own_ranges_of(EVERYTHING) == {P_LOW: range(3), OWN: range(3)}
    ports.kept |= {"a": HIGH, "c": LOW}
    with pytest.raises(ShareError):
        store.own_ranges_of(EVERYTHING)
    assert store.own_ranges_of([P_LOW]) == {}
    assert {name for name, _ in ports.asked} == {"a"}


def test_a_question_about_nothing_is_asked_of_nobody(ports):
    store = ports.client().store("a")
    assert store.ranges_of([P_HIGH]) == {P_HIGH: range(3)}
    ports.asked.clear()
    store.forget_kept()
    assert store.ranges_of([]) == store.digests({}) == store.read_each({}, 1_000) == {}
    assert ports.asked == []


class TestOneOfTwoKeepersIsDown:
    """Each question about what it keeps would wait for it."""

    @pytest.fixture(params=[True, False], ids=["its slots are known", "they are not"])
    def stores(self, request, ports):
        stores = ports.client()
        if request.param:
            assert stores.first(lambda store: store.ranges()) == EVERYTHING
        ports.down = {"c"}
        return stores

    def test_it_is_waited_for_once(self, ports, stores):
        for _ in range(10):
            assert stores.first(lambda store: store.read(P_HIGH, 0))
            assert stores.store("b").digest(P_HIGH, 0, 3, exact=False).end == 3
            assert stores.store("b").ranges() == EVERYTHING
        assert ports.waited == [("c", ANSWER_TIMEOUT_MS)]
        assert stores.silent == ("c",)

    def test_it_is_asked_last_until_it_has_answered(self, ports, stores):
        assert stores.store("a").find(P_HIGH, 0) == 0
        ports.now_ms += SILENT_MS
        assert stores.store("a").find(P_HIGH, 0) == 0
        assert ports.waited == [("c", ANSWER_TIMEOUT_MS)]
        ports.down = {"d"}
        assert stores.store("a").find(P_HIGH, 0) == 0
        assert stores.silent == ("d",)
        assert [*stores.all(lambda store: store.find(P_HIGH, 0)).failures] == ["d"]
        assert ports.waited[1:] == [("d", ANSWER_TIMEOUT_MS), ("d", IMPATIENT_MS)]

    def test_who_asks_all_waits_for_it_no_longer_than_for_one_that_keeps_all(self, ports, stores):
        assert [*stores.all(lambda store: store.ranges("orders")).failures] == ["c"]
        assert ports.waited == [("c", ANSWER_TIMEOUT_MS), ("c", IMPATIENT_MS)]

    def test_that_it_answers_of_what_others_keep_is_no_answer_of_its_own(self, ports, stores):
        for ask in (StoreClient.health, lambda store: store.find(P_LOW, 0)):
            stores.all(ask)
            assert stores.silent == ("c",)

    def test_who_is_told_of_it_does_not_wait_for_it(self, ports, stores):
        stores.prefer("c", ("c",))
        stores.prefer("b", ("c",))
        assert stores.first(lambda store: store.read(P_HIGH, 0))
        assert ports.waited == []
        assert stores.silent == ("c",)


def test_one_that_alone_keeps_something_is_waited_for_once_by_who_asks_all():
    ports = SharingPorts(a=LOW, b=LOW, c=HIGH)
    stores = ports.client()
    assert stores.all(lambda store: store.ranges()).failures == {}
    ports.down = {"c"}
    assert [*stores.all(lambda store: store.ranges()).failures] == ["a", "b", "c"]
    assert ports.waited == [("c", ANSWER_TIMEOUT_MS)] * 2, "for the others, and for itself"
    assert [*stores.all(lambda store: store.read(P_HIGH, 0)).failures] == ["a", "b", "c"]
    assert ports.waited[2:] == [("c", ANSWER_TIMEOUT_MS)] * 2
