from __future__ import annotations

from contextlib import closing

import pytest

from dafka.errors import QueryError
from dafka.model import Partition
from dafka.node.mirror import Mirror
from distributor.spark.histories import Histories
from distributor.verify.divergence import Witness
from tests.support.query_port import unanswered
from topology import plan

pytestmark = pytest.mark.net

SAME, OTHER = Partition("orders", "AB" * 16), Partition("orders", "CD" * 16)
OWN = Partition("__staged", "CD" * 16)


@pytest.fixture
def histories(pair):
    (link,) = (link for link in plan(pair.topology).links if link.source == "c1")
    with closing(Histories(pair.topology, link, "c2")) as histories:
        yield histories


@pytest.fixture
def filled(pair, make_batch):
    """Two partitions that both have, of which one is not the same, and one of c1's own."""
    for number, value in ((1, b"here"), (2, b"there")):
        pair.fill(number, make_batch([b"0", b"1"], partition=SAME))
        pair.fill(number, make_batch([b"0", value], partition=OTHER))
        pair.fill(number, make_batch([value], partition=OWN))
    return pair


def looked(histories, until):
    found = []
    until(lambda: found.append(histories.looked()) or found[-1] is not None)
    return found[-1]


def test_what_has_parted_is_known_before_anything_is_copied(filled, histories):
    with filled.running():
        assert histories.settled() == {OTHER: 1}


def test_what_parts_later_is_found_by_looking_again(pair, make_batch, histories, until):
    pair.fill(1, make_batch([b"here"], partition=OTHER), make_batch([b"0"], partition=SAME))
    with pair.running():
        assert histories.settled() == {}
        assert looked(histories, until) == {}
        with closing(Mirror(pair.topology.cluster("c2").towers[0])) as mirror:
            for partition, value in ((OTHER, b"there"), (SAME, b"0")):
                mirror.publish(make_batch([value], partition=partition), 60)
            mirror.flush(60)
        until(lambda: looked(histories, until) == {OTHER: 0})


def test_nothing_is_known_while_an_end_is_silent(filled, histories, monkeypatch, until):
    with filled.running(1):
        with monkeypatch.context() as away:
            unanswered(away, filled.queries[1])
            with pytest.raises(QueryError, match="cannot compare c1 and c2: no store of the targ"):
                histories.settled()
            assert histories.looked() is None
            until(lambda: histories._looking.done())
            assert histories.looked() is None
        with filled.running(2):
            assert histories.settled() == {OTHER: 1}


def test_what_stores_do_not_show_is_not_taken_for_the_same(filled, histories, monkeypatch):
    def refuse(*_):
        raise QueryError("not shown")

    monkeypatch.setattr(Witness, "look", refuse)
    with filled.running(), pytest.raises(QueryError, match="do not show 2 partitions, such as ord"):
        histories.settled()
