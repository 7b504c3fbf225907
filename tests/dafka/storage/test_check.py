from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.check import PROBLEMS_MAX, check
from dafka.storage.memory import MemoryLog

P, Q = Partition("flights", "AA"), Partition("flights", "BB")


def batch(partition, sequence, count=2):
    builder = BatchBuilder(1_000)
    for number in range(count):
        builder.append(number, None, b"value", ())
    return Batch(partition, sequence, count, enclosed(builder.build(), sequence))


@pytest.fixture
def log():
    log = MemoryLog("AB" * 16)
    log.append([batch(P, 0), batch(P, 2), batch(Q, 0, 3)])
    return log


def test_a_log_that_is_whole(log):
    findings = check(log)
    assert (findings.partitions, findings.batches, findings.records) == (2, 3, 7)
    assert findings.size == sum(one.size for one in log.extents().values())
    assert findings.problems == []


def test_what_was_trimmed_is_not_missing(log):
    log.append([], trims={P: 2, Q: 3})
    findings = check(log)
    assert (findings.records, findings.problems) == (2, [])


def test_a_gap_is_told_and_no_problem(log):
    log.append([batch(P, 90)], skips={P: 90})
    log.append([], skips={Q: 50})
    findings = check(log)
    assert findings.problems == []
    assert findings.gaps == ["flights/AA: 4 to 89", "flights/BB: 3 to 49"]
    assert findings.records == 9


def damaged(log, partition, index, change):
    kept = log._kept[partition]
    kept[index] = kept[index]._replace(batch=change(kept[index].batch))


def test_a_changed_bit_is_found(log):
    def flipped(one):
        content = one.content[:-1] + bytes([one.content[-1] ^ 1])
        return Batch(one.partition, one.sequence, one.count, content)

    damaged(log, P, 1, flipped)
    assert check(log).problems == ["flights/AA at 2: batch checksum"]


def test_a_wrong_count_and_a_missing_batch_are_found(log):
    damaged(log, P, 1, lambda one: Batch(P, 2, 1, one.content))
    del log._kept[Q][0]
    log._kept[Q].append(log._kept[P][0]._replace(batch=batch(Q, 1)))
    problems = check(log).problems
    assert problems[0] == "flights/AA at 2: 2 records, it says 1"
    assert problems[1].startswith("flights/AA: records from 3 on are missing")
    assert problems[-1] == "flights/BB: records from 0 on are missing"


def test_sums_that_do_not_agree_are_found(log):
    log._extents[P] = log._extents[P]._replace(size=1)
    (problem,) = check(log).problems
    assert problem.startswith("flights/AA: ")
    assert problem.endswith("it says 1 up to 3")


def test_what_cannot_be_read_is_told_and_the_rest_is_read(log, monkeypatch):
    read = log.read

    def failing(partition, *rest):
        if partition == P:
            raise StorageError("cannot read log: damaged")
        return read(partition, *rest)

    monkeypatch.setattr(log, "read", failing)
    findings = check(log)
    assert findings.problems == ["flights/AA: cannot read log: damaged"]
    assert findings.records == 3


def test_problems_are_bounded(log):
    places = [Partition("flights", f"{number:03}") for number in range(PROBLEMS_MAX + 1)]
    log.append([batch(place, 0) for place in places])
    for place in places:
        log._extents[place] = log._extents[place]._replace(size=1)
    findings = check(log)
    assert len(findings.problems) == PROBLEMS_MAX
    assert (findings.partitions, findings.unread) == (PROBLEMS_MAX, 3)
