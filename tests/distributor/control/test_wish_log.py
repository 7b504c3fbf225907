"""What controllers keep: the last word of the latest epoch, whoever asks."""

from __future__ import annotations

from contextlib import closing

import pytest

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.model import replace
from dafka.node.producer import Producer
from distributor.control.grants import NO_WISHES, Wished, Wishes
from distributor.control.wish_log import TOPIC, WishLog
from tests.support.control_commands import flow_of

pytestmark = pytest.mark.net

WISHES = Wishes(3, 0, {7: Wished(flow_of(1)), 9: Wished(flow_of(2), "r1", 4)})


def test_what_is_kept_is_the_last_of_the_latest_epoch(pair, caplog):
    place = Cluster.declared(pair.topology.clusters[0])
    with pair.running(1), closing(WishLog(place)) as one, closing(WishLog(place)) as other:
        assert one.read() == NO_WISHES
        one.write(WISHES)
        assert other.read() == WISHES
        newer = replace(WISHES, version=1, flows={})
        one.write(newer)
        assert other.read() == newer
        later = replace(WISHES, epoch=5)
        other.write(later)
        one.write(replace(WISHES, version=2))  # it has not heard of that
        assert one.read() == other.read() == later
        with Producer(place) as stranger:
            stranger.send(TOPIC, b"\xff").result(120)
        assert one.read() == later
        assert "is not understood" in caplog.text


def test_stores_that_are_away_are_said(pair):
    place = Cluster.declared(pair.topology.clusters[0])
    with closing(WishLog(place)) as one, pytest.raises(QueryError):
        one.read()
