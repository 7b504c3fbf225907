"""What a store never had is on its disk, apart from what retention has taken."""

from __future__ import annotations

import pytest

from dafka.storage.passed_over import RANGES_MAX, TABLE, parting, passed_over, passing
from tests.support.record_logs import ORDERS, OTHERS, Lmdb, Memory, batch


@pytest.fixture(params=[Memory, Lmdb])
def log(request, tmp_path):
    made = request.param(tmp_path)
    yield made.log
    made.log.close()


def skip(log, partition, end):
    skips = {partition: end}
    log.append((), skips=skips, entries=passing(log, skips))


def listed(log):
    return passed_over(log, b"", 10)[0]


def test_each_gap_is_known_from_where_the_partition_ended(log):
    skip(log, ORDERS, 10)
    log.append([batch(ORDERS, 10, 5), batch(OTHERS, 0, 1)])
    skip(log, ORDERS, 12)  # reached
    skip(log, ORDERS, 20)
    skip(log, OTHERS, 3)
    assert listed(log) == {ORDERS: [range(10), range(15, 20)], OTHERS: [range(1, 3)]}


def test_behind_what_was_forgotten_a_gap_begins_where_that_ended(log):
    log.append([batch(ORDERS, 0, 5)])
    log.append((), trims={ORDERS: 5})
    log.append((), forgets=[ORDERS])
    skip(log, ORDERS, 9)
    assert listed(log) == {ORDERS: [range(5, 9)]}


def test_retention_is_no_gap(log):
    log.append([batch(ORDERS, 0, 5), batch(ORDERS, 5, 5)])
    log.append((), trims={ORDERS: 5})
    assert listed(log) == {}


def test_a_row_goes_with_its_partition(log):
    skip(log, ORDERS, 10)
    skip(log, OTHERS, 10)
    log.append((), forgets=[ORDERS], entries=parting(log, [ORDERS]))
    assert listed(log) == {OTHERS: [range(10)]}
    assert parting(log, [ORDERS]) == []


def test_of_very_many_the_first_become_one(log):
    for number in range(RANGES_MAX + 1):
        skip(log, ORDERS, 10 * number + 5)
        log.append([batch(ORDERS, 10 * number + 5, 5)])
    (ranges,) = listed(log).values()
    assert len(ranges) == RANGES_MAX
    assert ranges[:2] == [range(15), range(20, 25)]


def test_a_list_comes_in_pages(log):
    for partition in (ORDERS, OTHERS):
        skip(log, partition, 10)
    found, after = passed_over(log, b"", 1)
    rest, end = passed_over(log, after, 2)
    assert found | rest == {ORDERS: [range(10)], OTHERS: [range(10)]}
    assert end is None
    assert passed_over(log, after, 1)[1] is not None, "that there are no more it does not know yet"
    assert log.scan(TABLE, b"", 9)
