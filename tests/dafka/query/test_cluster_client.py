from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError, QueryError, RefusedError
from dafka.process.clock import Clock
from dafka.query import cluster_client
from dafka.query.client import ANSWER_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.query.patience import IMPATIENT_MS, SILENT_MS


class FakeStore:
    """What it is asked for is what it was given, or an error."""

    def __init__(self, endpoint, patience, credentials, connect, *, others, lists):
        self.endpoint = self.name = endpoint
        self.patience = patience
        self.asked = 0
        self.closed = False

    def value(self):
        self.asked += 1
        self.timeout_ms = self.patience.timeout_ms(self.name)
        if self.endpoint.startswith("dead"):
            raise QueryError(f"store at {self.endpoint} does not answer")
        self.patience.answered(self.name)
        return int(self.endpoint.rpartition("-")[2])

    def close(self):
        self.closed = True


@pytest.fixture
def ask(monkeypatch):
    """A function that makes a client of stores with these names."""
    monkeypatch.setattr(cluster_client, "SharingStore", FakeStore)
    return lambda *stores, **more: ClusterClient(Cluster(stores=stores), **more)


def value(store):
    return store.value()


def positive(store):
    return store.value() or None


def test_the_first_that_answers_speaks_for_all(ask):
    stores = ask("dead-1", "live-2", "live-3")
    assert stores.first(value) == 2
    assert stores.store("live-3").asked == 0
    with pytest.raises(QueryError, match="dead-2"):
        ask("dead-1", "dead-2").first(value)


def test_who_did_not_answer_is_asked_last_from_then_on(ask):
    stores = ask("dead-1", "live-2", "dead-3")
    assert [stores.first(value) for _ in range(3)] == [2, 2, 2]
    assert (stores.store("dead-1").asked, stores.store("dead-3").asked) == (1, 0)
    assert list(stores.all(value).failures) == ["dead-3", "dead-1"]


def test_one_may_be_preferred(ask):
    stores = ask("live-1", "live-2", "live-3")
    stores.prefer("live-3")
    assert stores.first(value) == 3
    assert stores.some(value, 2) == [3, 1]


def test_the_first_that_has_it(ask):
    assert ask("dead-1", "live-0", "live-3").first_with(positive) == 3
    assert ask("live-0", "live-0").first_with(positive) is None
    with pytest.raises(QueryError, match="dead-1"):
        ask("dead-1", "live-0").first_with(positive)


def test_who_may_have_it_and_did_not_answer_is_asked_last_from_then_on(ask):
    """A page after another, each would wait for it."""
    stores = ask("dead-1", "live-0", "live-3")
    assert [stores.first_with(positive) for _ in range(3)] == [3, 3, 3]
    assert [stores.store(one).asked for one in ("dead-1", "live-0", "live-3")] == [1, 3, 3]


class TestWhoDoesNotAnswer:
    @pytest.fixture
    def now(self):
        return [0]

    @pytest.fixture
    def stores(self, ask, now):
        return ask("dead-1", "live-2", clock=Clock(now_ms=lambda: now[0]))

    def test_it_is_not_waited_for_long_while_others_do(self, stores, now):
        assert (stores.all(value).given, stores.silent) == ({"live-2": 2}, ("dead-1",))
        dead = stores.store("dead-1")
        assert dead.timeout_ms == ANSWER_TIMEOUT_MS
        now[0] = SILENT_MS - 1
        stores.all(value)
        assert (dead.asked, dead.timeout_ms) == (2, IMPATIENT_MS)
        assert stores.store("live-2").timeout_ms == ANSWER_TIMEOUT_MS

    def test_it_has_its_time_again_later_and_when_it_answers(self, stores, now):
        stores.all(value)
        dead = stores.store("dead-1")
        now[0] = SILENT_MS
        assert stores.silent == ()
        stores.all(value)
        assert dead.timeout_ms == ANSWER_TIMEOUT_MS
        dead.endpoint = "live-1"
        stores.all(value)
        stores.all(value)
        assert (dead.timeout_ms, stores.silent) == (ANSWER_TIMEOUT_MS, ())

    def test_it_has_its_time_where_nobody_answers(self, stores):
        stores.all(value)
        stores.store("live-2").endpoint = "dead-2"
        for _ in range(2):
            assert stores.all(value).given == {}
        assert stores.silent == ()
        assert stores.store("dead-1").timeout_ms == ANSWER_TIMEOUT_MS

    def test_who_refuses_has_answered(self, stores):
        def refused(store):
            raise RefusedError("no")

        stores.all(lambda store: refused(store) if store.endpoint == "dead-1" else 1)
        assert stores.silent == ()

    def test_of_a_short_time_none_is_made_longer(self, ask):
        stores = ask("dead-1", "live-2", timeout_ms=100)
        for _ in range(2):
            stores.all(value)
        assert stores.store("dead-1").timeout_ms == 100


def test_the_best_of_all(ask):
    assert ask("live-1", "dead-9", "live-3", "live-2").best(value, lambda one: one) == 3
    assert ask("live-1", "live-3").best(value, lambda one: -one) == 1
    with pytest.raises(QueryError, match="dead-9"):
        ask("dead-9").best(value, lambda one: one)


def test_more_than_half(ask):
    assert ask("live-1", "dead-2", "live-3").majority(value) == [1, 3]
    assert ask("live-1", "live-2", "live-3").majority(value) == [1, 2], "no more than it takes"
    with pytest.raises(QueryError, match="1 of 2 stores can be read: store at dead-2"):
        ask("live-1", "dead-2").majority(value)
    assert ask("live-1", "dead-2", "live-3").some(value, 2) == [1, 3]


def test_whatever_is_answered(ask):
    answers = ask("dead-1", "live-2", "dead-3").all(value)
    assert answers.given == {"live-2": 2}
    assert list(answers.failures) == ["dead-1", "dead-3"]
    assert str(answers.failure) == "store at dead-3 does not answer"
    assert ask("live-2").all(value).failure is None


def test_connections_are_made_once_when_needed_and_closed(ask):
    with ask("live-1", "live-2") as stores:
        assert stores.first(value) + stores.first(value) == 2
        assert stores.store() is stores.store("live-1")
        assert stores.store().asked == 2
        assert stores.store().timeout_ms == cluster_client.ANSWER_TIMEOUT_MS
        client = stores.store()
    assert client.closed


def test_a_cluster_without_stores_cannot_be_asked():
    with pytest.raises(MisuseError, match="at least one store of cluster 'c1'"):
        ClusterClient(Cluster(name="c1"))


def test_a_store_that_has_never_answered_is_not_waited_for_longer_than_it_takes_to_connect(ask):
    stores = ask("live-1", connect_timeout=1.5)
    assert stores.first(waited_ms) == 1_500
    assert stores.first(waited_ms) == ANSWER_TIMEOUT_MS
    assert ask("live-1", timeout_ms=1_000, connect_timeout=2).first(waited_ms) == 1_000
    with pytest.raises(MisuseError, match="connect_timeout must be more than 0 seconds: 0"):
        ask("live-1", connect_timeout=0)


def waited_ms(store):
    store.value()
    return store.timeout_ms
