"""How the nodes of a cluster find each other: towers, addresses, IPv6."""

from __future__ import annotations

import logging
import time

import pytest

from dafka.process import metrics
from tests.support.small_cluster import REUNION_MS, TIMEOUT_MS, endpoints, peers, said, send, values

pytestmark = pytest.mark.net


# A node without a tower.


def test_a_node_without_a_tower_says_so_once_and_when_it_is_found(cluster, caplog, until):
    caplog.set_level(logging.INFO)
    producer = cluster.producer(towers=cluster.towers[:1])
    (warning,) = until(lambda: said(caplog, "tower is not heard"))
    assert warning.levelname == "WARNING"
    assert (warning.role, warning.tower) == ("producer", cluster.towers[0])
    assert "start it or correct the endpoint" in warning.getMessage()
    time.sleep(1.5 * TIMEOUT_MS / 1_000)  # long enough to say it again
    assert len(said(caplog, "tower is not heard")) == 1
    cluster.start_tower()
    (found,) = until(lambda: said(caplog, "tower is heard"))
    assert found.tower == cluster.towers[0]
    cluster.store(towers=cluster.towers[:1])
    send(producer, 1)
    assert len(said(caplog, "tower is not heard")) == 1


# Several towers.


def test_nodes_at_different_towers_find_each_other_through_one_they_share(cluster, until):
    for number in (0, 1):
        cluster.start_tower(number)
    one, other = (cluster.producer(towers=[tower]) for tower in cluster.towers)
    both = cluster.producer()
    until(lambda: peers(one, other, both) == [1, 1, 2])


def test_with_two_towers_the_death_of_one_stops_nothing(cluster, caplog, until):
    first, _ = cluster.start_tower(0), cluster.start_tower(1)
    cluster.store()
    producer, consumer = cluster.producer(), cluster.consumer("orders")
    send(producer, 1)
    assert values(consumer, 1) == [1]
    first.close()
    until(lambda: len(said(caplog, "tower is not heard")) == 3)  # each node says so
    assert all("through the others" in one.getMessage() for one in said(caplog, "tower is not"))
    send(producer, 2)
    late = cluster.producer()
    send(late, 3)
    assert values(consumer, 2) == [2, 3]
    assert peers(producer, consumer) == [3, 3]


def test_a_dead_tower_in_the_list_keeps_nobody_from_starting(cluster, until):
    cluster.start_tower(1)
    cluster.store()
    producer, consumer = cluster.producer(), cluster.consumer("orders")
    send(producer, 1)
    assert values(consumer, 1) == [1]


# Where a node is reached.


def test_a_node_at_every_interface_is_reached_where_its_beacons_come_from(cluster, until):
    cluster.start_tower()
    store = cluster.store(towers=cluster.towers[:1], host="*", insecure=True)
    producer = cluster.producer(towers=cluster.towers[:1], host="0.0.0.0", insecure=True)
    send(producer, 1)
    until(lambda: peers(store, producer) == [1, 1])
    assert [one[:16] for one in endpoints(store)] == ["tcp://127.0.0.1:"]


def test_a_node_is_reached_where_it_says_others_reach_it(cluster, free_ports, until):
    # Bound at one port, forwarded to from another, as out of a container.
    cluster.start_tower()
    inside, outside = free_ports(1), free_ports(1)
    listener = cluster.consumer("orders", towers=cluster.towers[:1])
    cluster.producer(
        towers=cluster.towers[:1], host=f"127.0.0.1:{inside}", advertise=f"localhost:{outside}"
    )
    until(
        lambda: endpoints(listener) in ([f"tcp://127.0.0.1:{outside}"], [f"tcp://[::1]:{outside}"])
    )


def test_all_roles_over_ipv6(make_cluster, until):
    cluster = make_cluster(host="[::1]", towers=1)
    cluster.start_tower()
    store = cluster.store()
    producer, consumer = cluster.producer(host="::1"), cluster.consumer("orders")
    detected = cluster.producer(host="*", insecure=True)
    send(producer, 1)
    send(detected, 2)
    assert sorted(values(consumer, 2)) == [1, 2]
    until(lambda: peers(store, producer, detected, consumer) == [3] * 4)
    assert {one[:12] for one in endpoints(consumer)} == {"tcp://[::1]:"}


# Towers come and go, peers stay.


def all_say(caplog, text, count, until):
    until(lambda: len(said(caplog, text)) == count)
    caplog.clear()


def test_data_goes_on_without_a_tower_for_longer_than_peers_may_be_silent(cluster, caplog, until):
    only = cluster.towers[:1]
    tower = cluster.start_tower()
    cluster.store(towers=only)
    producer, consumer = cluster.producer(towers=only), cluster.consumer("orders", towers=only)
    send(producer, 1)
    for number in (2, 4):
        until(lambda: peers(producer, consumer) == [2, 2])
        tower.close()
        all_say(caplog, "tower is not heard", 3, until)
        time.sleep(1.5 * REUNION_MS / 1_000)
        send(producer, number)
        assert peers(producer, consumer) == [2, 2]
        tower = cluster.start_tower()
        all_say(caplog, "tower is heard", 3, until)
        send(producer, number + 1)
    assert values(consumer, 5) == [1, 2, 3, 4, 5]
    late = cluster.producer(towers=only)
    send(late, 6)
    assert values(consumer, 1) == [6]


def test_a_peer_whose_own_tower_is_away_stays_while_its_connection_lives(cluster, caplog, until):
    first, _ = cluster.start_tower(0), cluster.start_tower(1)
    one_sided, other = cluster.producer(towers=cluster.towers[:1]), cluster.producer()
    until(lambda: peers(one_sided, other) == [1, 1])
    first.close()
    until(lambda: len(said(caplog, "tower is not heard")) == 2)
    time.sleep(1.5 * TIMEOUT_MS / 1_000)
    assert peers(one_sided, other) == [1, 1]
    one_sided._node.stop()
    until(lambda: peers(other) == [0])


def test_a_step_of_the_wall_clock_changes_nothing(cluster, monkeypatch, caplog, until):
    only = cluster.towers[:1]
    cluster.start_tower()
    cluster.store(towers=only)
    producer, consumer = cluster.producer(towers=only), cluster.consumer("orders", towers=only)
    send(producer, 1)
    until(lambda: peers(producer, consumer) == [2, 2])
    left = metrics.PEERS_LEFT.labels("consumer")._value.get()
    for step_s in (86_400, -86_400):
        stepped = time.time_ns() + step_s * 10**9
        monkeypatch.setattr("time.time_ns", lambda now=stepped: now)
        monkeypatch.setattr("time.time", lambda now=stepped: now / 10**9)
        time.sleep(1.5 * TIMEOUT_MS / 1_000)
        assert peers(producer, consumer) == [2, 2]
    assert metrics.PEERS_LEFT.labels("consumer")._value.get() == left
    assert said(caplog, "tower is") == []
