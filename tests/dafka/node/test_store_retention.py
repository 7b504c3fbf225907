from __future__ import annotations

import logging

import pytest
from prometheus_client import REGISTRY

from dafka.model import Batch, Partition
from dafka.node.store import RETENTION_START_MS, StoreRole
from dafka.node.store_retention import TOLD_MAX, StoreRetention
from dafka.process.clock import Clock
from dafka.protocol.events import TurnEnded
from dafka.query.messages import HoldRequest, encode
from dafka.storage.holds import Holds, HoldWord
from dafka.storage.memory import MemoryLog
from dafka.storage.retention import HoldBounds, Retainer, Retention
from tests.support.query_port import Questions

ORDERS = Partition("orders", "A")
HELD = Retention(topics="*", age_ms=100, hold=HoldBounds(age_ms=1_000))


def log_of(*partitions):
    log = MemoryLog("ME")
    log.append([Batch(one, 0, 10, b"content") for one in partitions])
    return log


def retention_of(log):
    return StoreRetention(log, Retainer([HELD]), Holds(log))


def told(name):
    return REGISTRY.get_sample_value(name, {"address": "ME"}) or 0


@pytest.fixture
def retention():
    made = retention_of(log_of(ORDERS))
    yield made
    made.close()


def test_what_is_held_stays_and_shows_how_much_of_its_bound_is_used(retention):
    assert not retention.step(500, 0)
    assert told("dafka_store_hold_used_ratio") == 0.5
    assert not retention.behind


def test_what_a_bound_lets_go_is_counted_and_said_once(retention, caplog):
    before = told("dafka_store_released_records_total")
    assert retention.step(1_001, 0)
    assert told("dafka_store_released_records_total") == before + 10
    for _ in range(2):
        retention.tell()
    (said,) = (one for one in caplog.records if one.levelno == logging.ERROR)
    assert (said.topic, said.address, said.records, said.partitions) == ("orders", "A", 10, 1)


def test_with_nothing_to_drop_the_log_finishes_what_it_has_left_for_later():
    finished = []

    class Counted(MemoryLog):
        def commit(self):
            finished.append(len(self.heads()))

    log = Counted("ME")
    log.append([Batch(ORDERS, 0, 10, b"content")])
    retention = retention_of(log)
    assert retention.step(1_001, 0)
    assert finished == []
    assert not retention.step(1_002, 0)
    assert finished == [1]
    retention.close()


def test_what_nobody_lacks_goes_without_a_word(caplog):
    log = log_of(ORDERS)
    Holds(log).place(HoldWord(1, b"all", {ORDERS: 10}))
    retention = retention_of(log)
    before = told("dafka_store_released_records_total")
    assert retention.step(500, 0)
    retention.tell()
    assert told("dafka_store_released_records_total") == before
    assert not [one for one in caplog.records if one.levelno == logging.ERROR]
    retention.close()


def test_of_many_partitions_some_are_named(caplog):
    retention = retention_of(log_of(*(Partition("orders", str(n)) for n in range(TOLD_MAX + 5))))
    retention.step(1_001, 0)
    retention.tell()
    said = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.partitions for one in said] == [TOLD_MAX + 5] * TOLD_MAX
    retention.close()


def test_a_store_heeds_what_it_is_told_at_its_query_port():
    """Also after a restart, and with nobody who says it again."""
    log, now_ms = log_of(ORDERS), RETENTION_START_MS
    starts = []
    for questions in ((), (encode(HoldRequest(1, b"all", ((b"orders", b"A", 10),))),), ()):
        port = Questions(*questions)
        clock = Clock(lambda: 0, lambda: 500)
        role = StoreRole(log, port, Retainer([HELD]), clock=clock)
        if not questions:
            role.handle(None, TurnEnded(), now_ms)
        for serve in role.pollable().values():
            assert list(serve()) == []
        starts.append(log.extents()[ORDERS].start)
        role.close()
    assert starts == [0, 0, 10]
