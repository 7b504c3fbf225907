"""Which partitions are due to be forgotten, and when."""

from __future__ import annotations

import pytest

from dafka.limits import CHANGES_MAX
from dafka.model import Partition
from dafka.storage.forgetting import Forgetter
from dafka.storage.memory import MemoryLog
from tests.support.record_logs import ORDERS, OTHERS, batch


@pytest.fixture
def log():
    return MemoryLog("AB" * 16)


def empty(log, *partitions):
    for partition in partitions:
        log.append([batch(partition, 0, 1)])
        log.append([], trims={partition: 1})


def test_only_what_has_been_empty_for_a_while_is_due(log):
    forgetter = Forgetter(1_000)
    empty(log, ORDERS)
    log.append([batch(OTHERS, 0, 1)])
    assert forgetter.due(log, 5_000, 9) == []
    assert forgetter.due(log, 5_999, 9) == []
    assert forgetter.due(log, 6_000, 9) == [ORDERS]


def test_with_every_change_the_time_begins_anew(log):
    forgetter = Forgetter(1_000)
    assert forgetter.due(log, 0, 9) == []
    empty(log, ORDERS)
    assert forgetter.due(log, 100, 9) == []
    log.append([batch(ORDERS, 1, 1)])
    assert forgetter.due(log, 1_100, 9) == []
    log.append([], trims={ORDERS: 2})
    assert forgetter.due(log, 1_200, 9) == []
    assert forgetter.due(log, 2_199, 9) == []
    assert forgetter.due(log, 2_200, 9) == [ORDERS]


def test_what_is_forgotten_is_not_due_again(log):
    forgetter = Forgetter(0)
    empty(log, ORDERS)
    assert forgetter.due(log, 0, 9) == [ORDERS]
    log.append([], forgets=[ORDERS])
    assert forgetter.due(log, 1, 9) == []


def test_what_cannot_be_forgotten_does_not_keep_others_back(log):
    forgetter = Forgetter(10)
    empty(log, ORDERS, OTHERS)
    assert forgetter.due(log, 0, 1) == []
    assert [forgetter.due(log, 10, 1), forgetter.due(log, 11, 1)] == [[ORDERS], [OTHERS]]
    assert forgetter.due(log, 19, 1) == []
    assert forgetter.due(log, 20, 1) == [ORDERS]


def test_after_very_many_changes_all_are_looked_at(log):
    forgetter = Forgetter(1_000)
    empty(log, ORDERS, OTHERS)
    assert forgetter.due(log, 0, 9) == []
    log.append([], forgets=[OTHERS])
    log.append([batch(Partition("t", f"{number}"), 0, 1) for number in range(CHANGES_MAX + 1)])
    assert forgetter.due(log, 1_000, 9) == [ORDERS]
