"""What flows do beside copying records: begun once they may write."""

from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.groups.commit import Commit, CommitKey
from dafka.node.committer import Committer
from dafka.query.client import StoreClient
from distributor.control import flow_work as module
from distributor.control.flow_work import NOTHING, LinkAndBeats, OffsetsFlow, WhileAllowed
from tests.support.control_sessions import FakeWork
from topology import plan


class Beats(FakeWork):
    """Something that was begun."""

    def unready(self):
        return "waits for stores"


class Begun:
    """Begins things, and remembers them."""

    def __init__(self):
        self.all = []

    def __call__(self):
        self.all.append(Beats(None, permitted=True))
        return self.all[-1]


@pytest.fixture
def begun():
    return Begun()


@pytest.mark.parametrize("permitted", [False, True])
def test_it_is_begun_once_it_may_write_and_only_once(begun, permitted):
    work = WhileAllowed(begun, permitted=permitted)
    assert len(begun.all) == permitted
    assert (work.permitted, work.closed, work.row()) == (permitted, False, None)
    assert (work.unready(), work.progress) == ("waits for stores" if permitted else "", NOTHING)
    work.permit()
    work.permit()
    (one,) = begun.all
    assert not work.join(0)
    one.failure = MisuseError("port taken")
    assert work.unwell() == "port taken"
    with pytest.raises(MisuseError):
        work.join(0)
    work.close()
    assert one.closed
    assert (work.permitted, work.closed) == (True, True)


def test_what_was_never_begun_is_well_and_ends(begun):
    work = WhileAllowed(begun, permitted=False)
    assert (work.join(0), work.unwell(), work.unready()) == (False, "", "")
    assert work.turned_ms <= work.turned_ms
    work.close()
    assert begun.all == []


def test_heartbeats_go_on_beside_a_link_while_it_may_write(begun):
    link = FakeWork(None, permitted=False)
    both = LinkAndBeats(link, WhileAllowed(begun, permitted=False))
    assert begun.all == []
    assert both.unready() == "it may not write"
    assert not both.permitted
    both.permit()
    assert (link.permitted, len(begun.all)) == (True, 1)
    assert (both.permitted, both.row()) == (True, link.row())
    assert (both.progress, both.turned_ms) == (link.progress, link.turned_ms)
    assert (both.unready(), both.unwell(), both.join(0)) == ("", "", False)
    begun.all[0].failure = MisuseError("no heartbeats")
    assert both.unwell() == "no heartbeats"
    with pytest.raises(MisuseError):
        both.join(0)
    assert not both.closed
    both.close()
    assert (link.closed, begun.all[0].closed, both.closed) == (True, True, True)


class Node:
    """The positions of a link towards one target."""

    def __init__(self, _topology, _link, target):
        self.target = target
        self.closed = False
        self.failure = None
        NODES.append(self)

    def join(self, _timeout):
        if self.failure is not None:
            raise self.failure
        return False

    def unwell(self):
        return str(self.failure or "")

    def close(self):
        self.closed = True


NODES: list[Node] = []


@pytest.fixture
def nodes(monkeypatch):
    monkeypatch.setattr(module, "OffsetsNode", Node)
    NODES.clear()
    return NODES


@pytest.fixture
def link(pair):
    return plan(pair.topology).links[0]


def test_positions_follow_where_the_link_aims_once_they_may(pair, link, nodes):
    flow = OffsetsFlow(pair.topology, link, permitted=False)
    try:
        flow.reopen("c1")
        assert (nodes, flow.target, flow.unwell(), flow.join(0)) == ([], "c1", "", False)
        flow.permit()
        flow.permit()
        assert [one.target for one in nodes] == ["c1"]
        flow.hold()
        flow.reopen("c2")
        assert [(one.target, one.closed) for one in nodes] == [("c1", True), ("c2", False)]
        assert (flow.unready(), flow.sent, flow.progress) == ("", {}, NOTHING)
        nodes[1].failure = MisuseError("port taken")
        assert flow.unwell() == "port taken"
        with pytest.raises(MisuseError):
            flow.join(0)
    finally:
        flow.close()
    assert nodes[1].closed


@pytest.mark.net
@pytest.mark.slow
def test_positions_are_brought_once_they_may_be(pair, link, make_batch, until):
    batch = make_batch([b""] * 10)
    for number in (1, 2):
        pair.fill(number, batch)
    first, second = pair.topology.clusters
    key = CommitKey("readers", batch.partition)
    with pair.running():
        flow = OffsetsFlow(pair.topology, link, permitted=False)
        try:
            committer = Committer(Cluster.declared(first))
            committer.write([(key, Commit(7, 1, 1))])
            committer.close()
            with StoreClient(second.stores[0].query) as store:
                assert store.offsets("readers") == {}
                flow.permit()
                until(lambda: [one.position for one in store.offsets("readers").values()] == [7])
        finally:
            flow.close()
