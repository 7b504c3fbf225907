from __future__ import annotations

from contextlib import closing

import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.storage.environment import Environment
from dafka.storage.log import ChangeOrder
from dafka.storage.log_index import TABLES, WAITING_MAX, LogChange, LogIndex
from dafka.storage.rows import BATCHES, PARTITIONS
from dafka.storage.segment import Span

P = Partition("orders", "A1")


def test_what_is_not_committed_is_lost_and_planned_alike_again(tmp_path):
    with closing(Environment(tmp_path, kind="log", tables=TABLES, layout="6")) as environment:
        index = LogIndex(environment, ChangeOrder("x"), 10)
        begin = index.load()
        change = LogChange([Batch(P, 0, 3, b"abc")], {}, {}, [], [], 7)
        plan = index.plan(change)
        assert index.extents == {}
        assert index.perform(plan, 1, [Span(0, 20, 3)])
        assert (index.records, index.following, index.used[1].kept) == (3, 1, 23)
        environment.drop()
        assert index.load() == begin
        assert (index.records, index.following, index.used) == (0, 0, {})
        again = index.plan(change)
        assert (again.named, again.numbers[P], again.changed) == ({P: 0}, 0, plan.changed)
        assert index.perform(again, 1, [Span(0, 20, 3)])
        assert index.commit(begin._replace(end=23, number=2, following=index.following))
        assert index.load() == begin._replace(end=23, number=2, following=1)
        assert index.used[1] == (23, 23)


def test_what_does_not_follow_is_not_planned(tmp_path):
    with closing(Environment(tmp_path, kind="log", tables=TABLES, layout="6")) as environment:
        index = LogIndex(environment, ChangeOrder("x"), 10)
        index.load()
        with pytest.raises(StorageError, match="sequence 4 follows -1"):
            index.plan(LogChange([Batch(P, 4, 3, b"abc")], {}, {}, [], [], 7))


def test_rows_wait_until_they_are_many_or_something_goes(tmp_path):
    with closing(Environment(tmp_path, kind="log", tables=TABLES, layout="6")) as environment:
        index = LogIndex(environment, ChangeOrder("x"), 10)
        index.load()

        def rows():
            with environment.reading() as transaction:
                tables = BATCHES, PARTITIONS
                return [transaction.stat(environment.table(one))["entries"] for one in tables]

        def grow(number, first, end):
            one = Partition("orders", f"A{number}")
            batches = [Batch(one, sequence, 1, b"abc") for sequence in range(first, end)]
            change = LogChange(batches, {}, {}, [], [], 7)
            assert index.perform(index.plan(change), 1, [Span(0, 20, 3)] * len(batches))
            return one

        one = grow(1, 0, 3)
        assert rows() == [0, 0]
        assert index.write()
        assert rows() == [3, 1]
        grow(1, 3, 5)
        other = grow(2, 0, 1)
        assert rows() == [3, 1]
        trim = LogChange([], {other: 1}, {}, [], [], 7)
        assert index.write()
        assert index.perform(index.plan(trim), 1, [])
        assert rows() == [5, 2]
        assert index.perform(index.plan(LogChange([], {}, {}, [], [], 7, [other])), 1, [])
        assert rows() == [5, 1]
        grow(1, 5, 5 + WAITING_MAX)
        assert rows() == [5 + WAITING_MAX, 1]
        assert [first for first, _ in index.batches(one, 0)] == [*range(5 + WAITING_MAX)]
