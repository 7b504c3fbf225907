"""What the simulator of Kafka groups stands on."""

from __future__ import annotations

import random

from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from dafka.testing.kafka_site import CommitShelf, GroupSite
from dafka.testing.world import Faults, World

KEY = CommitKey("billing", Partition("orders", "A"))


def test_a_shelf_takes_logs_from_their_beginnings_and_holds_the_newest():
    one, other = CommitShelf(), CommitShelf()
    one.take("log", [(KEY, Commit(2, 1, 2)), (KEY, Commit(1, 1, 1))])
    one.take("log", [(KEY, Commit(2, 1, 2))])
    assert (len(one.logs["log"]), one.held) == (2, {KEY: Commit(2, 1, 2)})
    other.copy(one)
    assert (other.logs, other.held) == (one.logs, one.held)


def test_there_is_one_coordinator_at_a_time_and_generations_rise():
    site = GroupSite(World(1, Faults()), random.Random(1), 0, 200)
    for gateway in site.gateways:
        gateway.boot()
    site.tick()
    site.world.run_until(1_000)
    first = site.coordinator()
    assert first is not None
    assert [one for one in site.gateways if one.coordinates()] == [first]
    epoch = first.epoch
    first.frozen = True
    site.world.run_until(2_000)
    second = site.coordinator()
    assert second is not first
    assert second.epoch > epoch
    assert not first.coordinates()
