from __future__ import annotations

import pytest

from distributor.demo.committed_reading import CommittedReading

HERE, THERE = ("flights", 0), ("flights", 1)


@pytest.fixture
def reading():
    return CommittedReading()


def take(reading, place, *offsets, rows=None):
    for offset, row in zip(offsets, rows or offsets, strict=True):
        reading.take(place, offset, row)


def test_every_row_once_and_in_order_is_flawless(reading):
    take(reading, HERE, 0, 1, 2, rows=(0, 2, 4))
    take(reading, THERE, 0, 1, rows=(1, 3))
    proof = reading.proof("c4", 5)
    assert (proof.cluster, proof.found) == ("c4", 5)
    assert proof.flawless


def test_what_is_read_again_before_it_is_committed_counts_once(reading):
    take(reading, HERE, 0, 1, 2)
    reading.commit({HERE: 1})
    take(reading, HERE, 1, 2, 3)
    assert (reading.rows, reading.twice, reading.again) == (4, 2, 0)
    assert reading.proof("c4", 4).flawless


def test_what_is_read_again_though_it_was_committed_is_a_duplicate(reading):
    take(reading, HERE, 0, 1, 2)
    reading.commit({HERE: 3})
    take(reading, HERE, 2)
    assert reading.again == 1
    assert reading.proof("c4", 3).duplicated == 1


def test_one_partition_does_not_go_back_for_another(reading):
    take(reading, HERE, 0, 1)
    reading.commit({HERE: 2})
    take(reading, THERE, 0, 1, rows=(2, 3))
    assert (reading.twice, reading.again) == (0, 0)


def test_what_is_missing_double_or_in_another_order_is_counted(reading):
    take(reading, HERE, 0, 1, 2, 3, rows=(0, 3, 2, 2))
    proof = reading.proof("c4", 5)
    assert (proof.found, proof.lost, proof.duplicated, proof.disordered) == (4, 2, 1, 2)
