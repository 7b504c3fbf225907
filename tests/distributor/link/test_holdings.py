from __future__ import annotations

import pytest

from dafka import Producer
from dafka.errors import QueryError, RefusedError
from dafka.model import Batch, Partition, PartitionShare
from dafka.query import cluster_client
from dafka.query.messages import DigestResponse
from dafka.storage.log import ChangeOrder
from distributor.link.events import Stops
from distributor.link.holdings import BothEnds, Holdings, StoreView
from tests.support.listed_store import ListedStore
from topology.model import ClusterSpec, StoreSpec

A, B, PRIVATE = Partition("orders", "A"), Partition("orders", "B"), Partition("private", "A")


class Silent:
    """A store that does not answer."""

    listed = ()

    def changes(self, since, topic=None):
        raise QueryError("silent")

    ranges = changes
    ranges_of = changes

    def health(self):
        raise QueryError("silent")


class Answering(ListedStore):
    """A store that answers; remembers also of which partitions it was asked by name."""

    def __init__(self, *batches):
        super().__init__(*batches)
        self.named = []

    def ranges_of(self, partitions):
        self.named.append(set(partitions))
        ends = self.log.ends()
        return {place: self.reach(place) for place in partitions if place in ends}

    def health(self):
        return None


class Older(Answering):
    """A store of before there were changes to ask for."""

    def changes(self, since, topic=None):
        raise RefusedError("query message")


@pytest.fixture
def survey(monkeypatch):
    """A function that makes the holdings of a cluster with these stores, by their endpoints."""

    def make(**stores):
        class Client:
            def __init__(self, endpoint, *_, **__):
                self.endpoint = endpoint

            def __getattr__(self, name):
                return getattr(stores[self.endpoint], name)

        monkeypatch.setattr(cluster_client, "SharingStore", Client)
        declared = [StoreSpec(query=name, data="") for name in stores]
        cluster = ClusterSpec(name="c1", id=1, towers=("tcp://h:1",), stores=tuple(declared))
        return Holdings(cluster, lambda topic: topic != "private"), stores

    return make


def batch(partition, sequence, count):
    return Batch(partition, sequence, count, b"content")


def said(holdings):
    view = holdings.said
    return view.heads, view.begins, view.empty


def test_all_is_asked_for_once_and_then_what_has_changed(survey):
    store = Answering(batch(A, 0, 5), batch(PRIVATE, 0, 1))
    holdings, _ = survey(one=store)
    assert holdings.ask()
    assert said(holdings) == ({A: 4}, {}, set())
    store.log.append([batch(B, 0, 2), batch(PRIVATE, 1, 1)])
    store.log.append([], trims={A: 5})
    assert holdings.ask()
    assert said(holdings) == (
        {A: 4, B: 1},
        {A: 5},
        {A},
    )
    store.log.append([batch(A, 5, 1)])
    assert holdings.ask()
    assert said(holdings) == (
        {A: 5, B: 1},
        {A: 5},
        set(),
    )
    assert len(store.listed) == 1


def test_of_a_share_only_its_own_partitions_are_taken_in_and_named():
    store = Answering(batch(A, 0, 5), batch(B, 0, 2))
    for number in range(2):
        view = StoreView(lambda _: True, PartitionShare(number, 2))
        view.read(store)
        assert view.heads == {
            one: head
            for one, head in ((A, 4), (B, 1))
            if PartitionShare(number, 2).has(one.address)
        }
    forget(store, A)
    forget(store, B)
    view.read(store)
    assert [*view.unlisted] == [one for one in (A, B) if PartitionShare(1, 2).has(one.address)]


def forget(store, partition):
    store.log.append([], trims={partition: 1 << 40})
    store.log.append([], forgets=[partition])


def test_what_is_forgotten_is_held_no_more(survey):
    store = Answering(batch(A, 0, 5), batch(B, 0, 2))
    holdings, _ = survey(one=store)
    assert holdings.ask()
    forget(store, A)
    assert holdings.ask()
    assert said(holdings) == ({B: 1}, {}, set())


def test_what_is_not_listed_is_asked_about_by_name_and_once(survey):
    store = Answering(batch(A, 0, 5), batch(B, 0, 2))
    holdings, _ = survey(one=store)
    forget(store, A)
    never = Partition("orders", "C")
    for _ in range(2):
        assert holdings.ask()
        assert holdings.name([A, B, never])
        assert holdings.said.unlisted == {A: 4, never: -1}
    assert store.named == [{A, never}]


def test_what_was_asked_about_and_changes_is_asked_about_again(survey):
    store = Answering(batch(A, 0, 5), batch(B, 0, 2))
    holdings, _ = survey(one=store)
    forget(store, A)
    assert holdings.ask()
    assert holdings.name([A, B])
    store.log.append([batch(A, 5, 3)])
    forget(store, A)
    assert holdings.ask()
    assert holdings.name([A])
    assert holdings.said.unlisted == {A: 7}
    forget(store, B)
    assert holdings.ask()
    assert holdings.name(None)
    assert holdings.said.unlisted == {A: 7, B: 1}
    assert holdings.name([])
    assert holdings.said.unlisted == {}


def test_what_was_found_is_asked_about_beside_all_others(survey):
    store = Answering(batch(A, 0, 5), batch(B, 0, 2))
    holdings, _ = survey(one=store)
    forget(store, A)
    forget(store, B)
    assert holdings.ask()
    assert holdings.name([A], [B])
    assert holdings.said.unlisted == {A: 4, B: 1}
    assert holdings.name(None, [PRIVATE])
    assert holdings.said.unlisted == {A: 4, B: 1, PRIVATE: -1}


def test_one_that_does_not_answer_to_names_is_told(survey, caplog):
    store = Answering(batch(A, 0, 5))
    holdings, stores = survey(one=store)
    assert holdings.ask()
    stores["one"] = Silent()
    assert holdings.name([A])
    assert not holdings.name([B])
    assert "does not say what it holds" in caplog.text


def test_a_store_that_was_started_anew_is_asked_for_all(survey):
    store = Answering(batch(A, 0, 5), batch(B, 0, 2))
    holdings, stores = survey(one=store)
    assert holdings.ask()
    stores["one"] = emptied = Answering(batch(A, 0, 1))
    emptied.log.changes = ChangeOrder("another opening")
    assert holdings.ask()
    assert holdings.said.heads == {A: 0}
    assert len(emptied.listed) == 1


def test_the_first_that_answers_speaks_for_all_and_another_begins_anew(survey, caplog):
    one, two = Answering(batch(A, 0, 5)), Answering(batch(A, 0, 3), batch(B, 0, 1))
    holdings, stores = survey(one=one, two=two)
    assert holdings.ask()
    assert (holdings.store, holdings.said.heads) == ("one", {A: 4})
    stores["one"] = Silent()
    assert holdings.ask()
    assert (holdings.store, holdings.said.heads) == ("two", {A: 2, B: 0})
    assert "a store does not say what it holds" in caplog.text
    stores["one"], stores["two"] = one, Silent()
    assert holdings.ask()
    assert (holdings.store, holdings.said.heads) == ("one", {A: 4})


def test_who_gives_no_sign_of_life_is_not_asked_what_it_holds(survey):
    asked = []

    class Frozen(Silent):
        def changes(self, since, topic=None):
            asked.append(since)  # which may take ten seconds
            raise QueryError("silent")

    holdings, _ = survey(one=Frozen(), two=Answering(batch(A, 0, 3)))
    assert holdings.ask()
    assert holdings.said.heads == {A: 2}
    assert asked == []


def test_who_says_what_it_holds_counts_where_none_gives_a_sign_of_life_in_time(survey):
    class Busy(Answering):
        def health(self):
            raise QueryError("not within 900 ms")

    holdings, _ = survey(one=Busy(batch(A, 0, 3)), two=Silent())
    assert holdings.ask()
    assert holdings.said.heads == {A: 2}


def test_a_store_that_was_replaced_by_an_older_version_is_asked_for_all(survey):
    holdings, stores = survey(one=Answering(batch(A, 0, 5)))
    assert holdings.ask()
    stores["one"] = Older(batch(A, 0, 6))
    assert holdings.ask()
    assert holdings.said.heads == {A: 5}


def test_over_sockets(pair, make_batch):
    pair.fill(1, *(make_batch([b"1"], 0, Partition(f"t{n}", "A" * 32)) for n in range(500)))
    with pair.running(1):
        cluster = pair.topology.clusters[0]
        holdings = Holdings(cluster, lambda topic: topic != "t0")
        assert holdings.ask()
        assert len(holdings.said.heads) == 499
        with Producer(cluster.towers[0], max_block_ms=5_000) as producer:
            producer.send("orders", b"1")
            producer.flush(10)
        whole = dict(holdings.said.heads)
        assert holdings.ask()
        assert holdings.said.heads == whole | {Partition("orders", producer.address): 0}
        assert holdings.store == cluster.stores[0].query
        holdings.close()


def test_nothing_is_forgotten_while_no_store_answers(survey):
    store = Answering(batch(A, 0, 5))
    holdings, stores = survey(one=store)
    assert holdings.ask()
    stores["one"] = Silent()
    assert not holdings.ask()
    assert holdings.said.heads == {A: 4}
    stores["one"] = store
    store.log.append([batch(B, 0, 1)])
    assert holdings.ask()
    assert (holdings.said.heads, len(store.listed)) == ({A: 4, B: 0}, 1)


def test_where_logs_begin_is_what_all_stores_say(survey):
    places = [batch(place, first, 1) for place in (A, B) for first in range(5)]
    trimmed, whole = Answering(*places), Answering(*places[:5])
    trimmed.log.append([], trims={A: 3, B: 4})
    holdings, stores = survey(one=trimmed, two=Silent())
    assert holdings.ask()
    assert holdings.said.begins == {A: 3, B: 4}
    assert holdings.begins() is None
    stores["two"] = whole
    assert holdings.begins() == {A: 0, B: 4}, "who never had it says nothing"
    whole.log.append([], trims={A: 2})
    assert holdings.begins() == {A: 2, B: 4}


def test_what_no_store_keeps_is_what_all_say_that_they_keep_nothing_of(survey):
    emptied, whole = (Answering(batch(A, 0, 5), batch(B, 0, 2)) for _ in range(2))
    emptied.log.append([], trims={A: 5, B: 2})
    whole.log.append([], trims={B: 2})
    holdings, stores = survey(one=emptied, two=whole)
    assert holdings.ask()
    assert holdings.said.empty == {A, B}
    assert holdings.kept({A, B}) == {A}
    assert holdings.kept({B}) == set()
    stores["two"] = Silent()
    assert holdings.kept({B}) == {B}, "it may keep some"


def test_a_store_that_cannot_tell_what_has_changed_is_asked_for_all_each_time(survey):
    store = Older(batch(A, 0, 5))
    holdings, _ = survey(one=store)
    assert holdings.ask()
    store.log.append([batch(A, 5, 1)])
    assert holdings.ask()
    assert (holdings.said.heads, len(store.listed)) == ({A: 5}, 2)


def both_ends(monkeypatch, stores):
    """What a link asks, with stores by name: `source` and `target`, those that begin with these."""

    class Client:
        def __init__(self, endpoint, *_, **__):
            self.endpoint = endpoint

        def __getattr__(self, name):
            return getattr(stores[self.endpoint], name)

    monkeypatch.setattr(cluster_client, "SharingStore", Client)
    source, target = (
        ClusterSpec(
            name=end,
            id=1,
            towers=("tcp://h:1",),
            stores=tuple(StoreSpec(query=one, data="") for one in stores if one.startswith(end)),
        )
        for end in ("source", "target")
    )
    return BothEnds(source, target, lambda _: True)


class Showing(Answering):
    """A store that is asked for digests of records, too."""

    shows = True

    def digests(self, spans):
        if not self.shows:
            raise RefusedError("storage")
        return {one: (span.start, span.stop, b"same") for one, span in spans.items()}

    def digest(self, partition, start, end, *, exact):
        raise RefusedError("storage")


@pytest.mark.parametrize("answers", [False, True], ids=["silent", "behind"])
def test_what_the_source_does_not_speak_of_waits_until_it_was_compared(monkeypatch, answers):
    behind = Showing(batch(B, 0, 3))
    stores = {"source": behind if answers else Silent(), "target": Showing(batch(A, 0, 3))}
    link = both_ends(monkeypatch, stores)
    assert link.survey().waiting == {A}
    behind.log.append([batch(A, 0, 3)])
    stores["source"] = behind
    assert link.survey().waiting == frozenset()


@pytest.mark.parametrize("kept", [False, True])
def test_of_what_was_found_and_the_source_has_forgotten_it_is_said_where_it_ended(
    monkeypatch, kept
):
    stores = {name: Showing(batch(A, 0, 3), batch(B, 0, 1)) for name in ("source", "target")}
    link = both_ends(monkeypatch, stores)
    forget(stores["source"], A)
    if not kept:
        forget(stores["target"], A)
    heads = link.survey({A})
    assert (heads.source[A], heads.target[A]) == (2, 2)
    assert heads.waiting == frozenset(), "nothing is left that could differ"
    assert A not in link.survey().source


def test_what_another_store_of_the_target_keeps_is_not_empty_behind_a_hole(monkeypatch):
    """Retention takes it from that one, too, but until then somebody reads across the hole."""
    source = Showing(batch(A, 0, 3), batch(A, 3, 2), batch(A, 5, 2))
    first, second = (Showing(batch(A, 0, 3)) for _ in range(2))
    link = both_ends(monkeypatch, {"source": source, "target-1": first, "target-2": second})
    source.log.append([], trims={A: 5})
    first.log.append([], trims={A: 3})
    heads = link.survey()
    assert (heads.begins, heads.target) == ({A: 5}, {A: 2})
    assert heads.empty == frozenset()
    second.log.append([], trims={A: 3})
    assert link.survey().empty == {A}


def test_what_another_store_of_the_target_keeps_or_may_is_said_where_this_one_never_had_it(
    monkeypatch,
):
    """The first store has a new disk."""
    source = Showing(batch(A, 0, 5), batch(A, 5, 2), batch(B, 0, 1))
    source.log.append([], trims={A: 5})
    second = Showing(batch(A, 0, 3))
    stores = {"source": source, "target-1": Showing(), "target-2": second}
    link = both_ends(monkeypatch, stores)
    heads = link.survey()
    assert (heads.target, heads.empty, heads.kept) == ({}, frozenset(), {A})
    stores["target-2"] = Silent()
    assert link.survey().kept == {A}
    stores["target-2"] = second
    second.log.append([], trims={A: 3})
    assert link.survey().kept == frozenset()


def test_where_the_source_begins_by_the_word_of_all_is_where_the_target_is_asked(monkeypatch):
    """The store of the source that speaks has not the partition of which another one lost some."""
    first = Showing(batch(B, 0, 1), batch(B, 1, 1))
    second = Showing(batch(A, 0, 5), batch(A, 5, 2))
    first.log.append([], trims={B: 1})
    second.log.append([], trims={A: 5})
    stores = {
        "source-1": first,
        "source-2": second,
        "target-1": Showing(),
        "target-2": Showing(batch(A, 0, 3)),
    }
    heads = both_ends(monkeypatch, stores).survey()
    assert (heads.begins, heads.kept) == ({A: 5, B: 1}, {A})


def test_a_source_that_is_silent_keeps_a_hole_waiting(monkeypatch):
    stores = {"source": Showing(batch(A, 0, 3)), "target": Showing(batch(A, 0, 3))}
    link = both_ends(monkeypatch, stores)
    assert link.survey().certain
    stores["source"] = Silent()
    silent = link.survey()
    assert not silent.certain
    stops = Stops()
    stops.overtaken(A, 3, 5, unsure=True)
    assert stops.take(silent, 0) == ([], [])


class Differing(Showing):
    """A store that has other records than all others."""

    def digests(self, spans):
        return {one: (span.start, span.stop, b"other") for one, span in spans.items()}

    def digest(self, partition, start, end, *, exact):
        return DigestResponse(start, end, b"other")


def test_a_store_of_the_target_with_a_new_disk_does_not_speak_for_another_history(monkeypatch):
    source, second = Showing(batch(A, 0, 3)), Differing(batch(A, 0, 3))
    source.digest = lambda _partition, start, end, *, exact: DigestResponse(start, end, b"same")
    stores = {"source": source, "target-1": Differing(batch(A, 0, 3)), "target-2": second}
    link = both_ends(monkeypatch, stores)
    assert link.survey().diverged == {A: 2}
    stores["target-1"] = new = Differing()
    new.log.changes = ChangeOrder("another opening")
    assert link.survey().diverged == {A: 2}, "the other one has it"
    stores["target-2"] = Silent()
    assert link.survey().diverged == {A: 2}, "it may have it"
    stores["source"] = Silent()
    assert link.survey().diverged == {A: 2}
    stores["source"], stores["target-2"] = source, second
    second.log = Differing().log
    second.log.changes = ChangeOrder("another opening")
    heads = link.survey()
    assert (heads.diverged, heads.waiting) == ({}, frozenset())


@pytest.mark.parametrize("sick", ["neither", "source", "target"])
def test_it_is_said_whether_the_target_shows_what_it_has(monkeypatch, sick):
    ends = {name: Showing(batch(A, 0, 3)) for name in ("source", "target")}
    if sick in ends:
        ends[sick].shows = False
    heads = both_ends(monkeypatch, ends).survey()
    assert heads.hidden == (sick == "target")
    assert heads.waiting == (frozenset() if sick == "neither" else {A})
