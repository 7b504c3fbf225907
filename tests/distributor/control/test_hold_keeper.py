from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.errors import QueryError
from dafka.model import Batch, Partition
from dafka.query.service import answer
from dafka.storage.holds import Holds
from dafka.storage.memory import MemoryLog
from distributor.control.hold_keeper import HoldKeeper
from distributor.control.holds import HeldForRow
from topology.model import RetentionSpec, StoreSpec
from topology.testing import topology_of, tree_of

ORDERS = Partition("orders", "A")
EVERYTHING = RetentionSpec(topics="*", age_s=1, hold_age_s=2)


class Tree:
    """Stores in memory, two on the first cluster and one on each other, and who asks them."""

    def __init__(self, *names):
        topology = topology_of(tree_of((1, *names)))
        self.logs = {}
        clusters = []
        for one in topology.clusters:
            stores = [f"{one.name}-{n}" for n in range(2 if one is topology.clusters[0] else 1)]
            self.logs |= {store: MemoryLog(store.upper()) for store in stores}
            declared = tuple(StoreSpec(query=store, data="") for store in stores)
            clusters.append(replace(one, stores=declared))
        self.topology = replace(topology, clusters=tuple(clusters), retention=(EVERYTHING,))
        self.silent = set()

    def keeper(self, cluster="c1"):
        return HoldKeeper(self.topology, cluster, self.connect)

    def connect(self, endpoint, _credentials):
        return Line(self, endpoint)

    def has(self, store, end, start=0):
        log = self.logs[store]
        begin = log.heads().get(ORDERS, -1) + 1
        log.append([Batch(ORDERS, n, 1, b"x") for n in range(begin, end)])
        log.append((), trims={ORDERS: start})

    def floors(self, cluster="c1"):
        logs = [log for store, log in self.logs.items() if store.startswith(cluster)]
        return [Holds(log).floor(ORDERS) for log in logs]


class Line:
    def __init__(self, tree, endpoint):
        self._tree, self._endpoint = tree, endpoint

    def ask(self, question, _timeout_ms):
        if self._endpoint in self._tree.silent:
            raise QueryError("no answer")
        return answer(question, self._tree.logs[self._endpoint])

    def close(self):
        pass


@pytest.fixture
def tree():
    made = Tree("c1", "c2", "c3")
    for store, end in (("c1-0", 9), ("c1-1", 9), ("c2-0", 7), ("c3-0", 4)):
        made.has(store, end)
    return made


def test_every_store_is_told_the_least_that_any_cluster_has(tree):
    keeper = tree.keeper()
    keeper.place(1)
    assert keeper.round() == [HeldForRow("c2", True, 1, 2, 0), HeldForRow("c3", True, 1, 5, 0)]
    assert tree.floors() == [4, 4]
    tree.has("c3-0", 8)
    keeper.round()
    assert tree.floors() == [7, 7]
    keeper.close()


def test_of_a_cluster_the_store_counts_that_has_least(tree):
    keeper = tree.keeper("c2")
    keeper.place(1)
    keeper.round()
    tree.has("c3-0", 7)
    tree.logs["c1-1"] = MemoryLog("NEW")
    keeper.round()
    assert tree.floors("c2") == [0]
    tree.silent.add("c1-1")
    keeper.round()
    assert tree.floors("c2") == [7]


def test_silence_changes_nothing_and_a_new_need_holds_everything(tree):
    keeper = tree.keeper()
    keeper.place(1)
    keeper.round()
    tree.silent.add("c3-0")
    for epoch in (2, 3):
        keeper = tree.keeper()
        keeper.place(epoch)
        (_, silent) = keeper.round()
        assert not silent.heard
    assert tree.floors() == [4, 4]
    joined = Tree("c1", "c2", "c3", "c4")
    joined.logs |= tree.logs
    joined.silent = {"c4-0"}
    keeper = joined.keeper()
    keeper.place(4)
    keeper.round()
    assert tree.floors() == [0, 0]


def test_a_hold_stands_with_more_than_half_of_the_stores_and_the_others_get_it_later(tree):
    tree.silent.add("c1-1")
    keeper = tree.keeper()
    with pytest.raises(QueryError, match="1 stores hold for others, and 2 have to"):
        keeper.place(1)
    tree.silent.clear()
    keeper.place(1)
    tree.silent.add("c1-1")
    keeper.round()
    assert tree.floors() == [4, 0]
    tree.silent.clear()
    keeper.round()
    assert tree.floors() == [4, 4]


def test_who_was_superseded_changes_nothing(tree, caplog):
    old, new = tree.keeper(), tree.keeper()
    old.place(1)
    new.place(2)
    tree.has("c3-0", 9)
    old.round()
    assert tree.floors() == [0, 0]
    assert "a store is not told what to hold" in caplog.text
    with pytest.raises(QueryError):
        old.place(1)


def test_what_a_cluster_has_forgotten_it_has_had(tree):
    tree.has("c3-0", 9, start=9)
    tree.logs["c3-0"].append((), forgets=[ORDERS])
    keeper = tree.keeper()
    keeper.place(1)
    keeper.round()
    assert tree.floors() == [7, 7]


def test_what_is_gone_is_told(tree):
    for store in ("c1-0", "c1-1"):
        tree.has(store, 9, start=6)
    keeper = tree.keeper()
    keeper.place(1)
    assert keeper.round()[1] == HeldForRow("c3", True, 1, 5, 2)
