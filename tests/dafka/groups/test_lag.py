from __future__ import annotations

import pytest

from dafka.groups.commit_table import fold
from dafka.groups.lag import PAGE_COMMITS, GroupLags
from dafka.model import Partition
from dafka.storage.memory import MemoryLog
from tests.support.batches import make_batch

A, B = Partition("orders", "A" * 32), Partition("orders", "B" * 32)


@pytest.fixture
def log(committed):
    """Ten records of each of two partitions, and groups that have come so and so far."""
    log = MemoryLog("AB" * 16)
    for partition in (A, B):
        log.append([make_batch([b"v"] * 10, partition=partition)])
    log.append([], trims={B: 0})
    rows = (
        *(("behind", A, 3, 1, 1), ("behind", B, 10, 1, 1), ("forgot", A, None, 1, 1)),
        *(("ahead", A, 12, 1, 1), ("elsewhere", Partition("gone", "C" * 32), 5, 1, 1)),
    )
    batch = committed(0, *rows)
    log.append([batch], entries=fold(log, [batch]).entries)
    return log


def test_how_far_every_group_is_behind(log, committed):
    lags = GroupLags(log)
    expected = {"ahead": 0, "behind": 7, "elsewhere": 0, "forgot": None}
    assert dict(lags.step(10_000)) == expected
    log.append([make_batch([b"v"] * 5, 10, partition=A)])
    batch = committed(5, ("forgot", B, 0, 2, 2))
    log.append([batch], entries=fold(log, [batch]).entries)
    later = {**expected, "ahead": 3, "behind": 12, "forgot": 10}
    assert dict(lags.step(10_000)) == later, "the next round looks anew"


def test_it_comes_round_a_little_at_a_time(log, committed):
    many = [("wide", Partition("orders", f"{n:032}"), 0, 1, 1) for n in range(9 * PAGE_COMMITS)]
    batch = committed(5, *many)
    log.append([batch], entries=fold(log, [batch]).entries)
    lags, found, steps = GroupLags(log), {}, 0
    while "wide" not in found:
        found |= dict(lags.step(PAGE_COMMITS))
        steps += 1
    assert steps > 5
    assert found == {"ahead": 0, "behind": 7, "elsewhere": 0, "forgot": None, "wide": 0}
