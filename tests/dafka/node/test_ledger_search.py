"""Walks over a ledger, with a node and stores that are only counted."""

from __future__ import annotations

import asyncio

import pytest

from dafka.errors import QueryError, RecordError
from dafka.gateway.broker import MAX_TIMESTAMP_MS, ErrorCode, Found, KafkaPartition, Offsets
from dafka.gateway.effects import Located
from dafka.gateway.ledger import LedgerEntry
from dafka.node.ledger_search import FIND_MS_MAX, LedgerSearch

ORDERS = KafkaPartition("orders", 0)
ENTRIES = [LedgerEntry(10 * number, f"A{number}", 0, 10) for number in range(10)]


class Bench:
    """A node with a ledger of ten entries, and threads that find what a test says."""

    def __init__(self, *found):
        self.found = list(found)
        self.asked, self.read = [], []
        self.error = ErrorCode.NONE
        self.search = LedgerSearch(self.ask, self.answer, lambda: 5, part_entries=4)

    async def ask(self, make):
        wanted = make(1)
        self.asked.append(wanted.start)
        there = [entry for entry in ENTRIES if entry.end > wanted.start]
        part = tuple(there[: wanted.entries_max])
        return Located(1, self.error, Offsets(0, 100), entries=part)

    async def answer(self, work):
        self.read.append(work.keywords)
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def find(self, timestamp_ms):
        return asyncio.run(self.search.find(ORDERS, timestamp_ms))


NOTHING = Found(ErrorCode.NONE)


def test_the_node_is_asked_for_no_more_than_a_part_at_a_time_and_no_further_than_needed():
    there = Found(ErrorCode.NONE, 45, 7)
    bench = Bench(NOTHING, there)
    assert bench.find(7) == there
    assert bench.asked == [0, 40]
    assert [len(one["entries"]) for one in bench.read] == [4, 4]
    assert {one["until_ms"] for one in bench.read} == {5 + FIND_MS_MAX}


def test_what_is_nowhere_is_looked_for_everywhere():
    bench = Bench(NOTHING, NOTHING, NOTHING)
    assert bench.find(7) == NOTHING
    assert bench.asked == [0, 40, 80]
    assert [len(one["entries"]) for one in bench.read] == [4, 4, 2]


def test_the_largest_time_is_that_of_all_parts():
    best = Found(ErrorCode.NONE, 45, 7)
    bench = Bench(Found(ErrorCode.NONE, 3, 5), best, best)
    assert bench.find(MAX_TIMESTAMP_MS) == best
    assert [one["best"].timestamp_ms for one in bench.read] == [-1, 5, 7]


def test_what_is_not_its_own_is_not_read():
    bench = Bench()
    bench.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.find(7) == Found(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (TimeoutError(), ErrorCode.REQUEST_TIMED_OUT),
        (QueryError("no answer"), ErrorCode.KAFKA_STORAGE_ERROR),
        (RecordError("batch records"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_what_stores_do_not_give_is_an_error(raised, error):
    assert Bench(raised).find(7) == Found(error)
