from __future__ import annotations

import pytest

from dafka.model import ALL_SLOTS, Partition
from dafka.spark.staging import _places
from dafka.testing.sink_logs import problems
from dafka.testing.sink_site import (
    KEYS,
    LATE_MS_MAX,
    PARTITIONS,
    TASKS,
    SinkSite,
    SinkStore,
    SinkWork,
)
from dafka.testing.world import Faults, World
from tests.support.batches import make_batch
from tests.support.shares import HIGH, LOW

ORDERS = Partition("orders", "AB" * 16)


@pytest.fixture
def world():
    return World(1, Faults())


def written(site, topics=("a",), key="job", for_ms=60_000):
    driver = site.start(SinkWork(key, 0, False, topics))
    site.world.run_until(site.world.now_ms + for_ms)
    return driver


def test_a_run_is_committed_by_a_driver_and_is_on_all_stores(world):
    site = SinkSite(world, [ALL_SLOTS] * 3)
    driver = written(site, ("a", "c"))
    site.repair()
    assert driver.done
    assert site.written == {("job", 0)}
    logs = site.logs()
    assert {topic: len(parts) for topic, parts in logs.items()} == {"a": 2, "b": 0, "c": 2}
    assert problems(logs, site.topics, TASKS * len(KEYS), site.written) == []
    assert len(logs["a"]) == PARTITIONS


def test_where_stores_share_slots_each_takes_what_it_keeps(world):
    site = SinkSite(world, [HIGH, LOW, ALL_SLOTS])
    written(site)
    site.repair()
    assert site.written == {("job", 0)}
    assert len(site.logs()["a"]) == PARTITIONS
    high, low, _ = site.stores.values()
    low.take(make_batch([b"1"]))
    high.repair(low)
    high.take(make_batch([b"1"]))
    assert (low.end(ORDERS), high.end(ORDERS)) == (1, 0)


def test_a_driver_that_is_killed_does_nothing_more_and_what_it_sent_may_arrive(world):
    site = SinkSite(world, [ALL_SLOTS] * 3)
    kept = dict(_places)
    driver = written(site, for_ms=5)
    assert not driver.done
    site.kill(driver)
    world.run_until(world.now_ms + LATE_MS_MAX)
    site.repair()
    assert driver.done
    assert site.logs()["a"] == {}
    assert site.written == set()
    assert _places == kept, "nothing is left of it"
    site.kill(driver)


def test_without_a_majority_it_is_said_why_a_query_is_not_written(world):
    site = SinkSite(world, [ALL_SLOTS] * 3)
    for store in list(site.stores.values())[1:]:
        store.crash()
    site.start(SinkWork("query", 0, True, ("a",)))
    world.run_until(600_000)
    assert "no store acknowledges" in site.errors["query", 0]


def test_a_store_takes_what_goes_on_and_refuses_another_batch_in_its_place(world):
    store = SinkStore(world, "S")
    store.take(make_batch([b"2"], 1))
    assert store.end(ORDERS) == 0
    store.take(make_batch([b"1"]))
    store.take(make_batch([b"1"]))
    assert store.end(ORDERS) == 1
    with pytest.raises(AssertionError, match="two batches are 0 of"):
        store.take(make_batch([b"other"]))
    store.crash()
    store.take(make_batch([b"2"], 1))
    assert (store.alive, store.end(ORDERS)) == (False, 1)


def test_a_store_takes_from_another_one_what_it_lacks(world):
    one, other = SinkStore(world, "S"), SinkStore(world, "T")
    other.take(make_batch([b"1"]))
    other.take(make_batch([b"2"], 1))
    one.crash()
    one.repair(other)
    assert one.end(ORDERS) == 0
    one.boot()
    one.repair(other)
    assert one.end(ORDERS) == 2


def test_a_line_that_is_cut_brings_nothing(world):
    site = SinkSite(world, [ALL_SLOTS] * 3)
    site.start(SinkWork("query", 0, True, ("a",)))
    for store in site.stores.values():
        world.cut("D0", store.name, both=True)
    world.run_until(600_000)
    assert site.written == set()
    assert site.errors
