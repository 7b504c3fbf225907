from __future__ import annotations

import pytest

from dafka.errors import NotStoredError, QueryError
from dafka.schemas.entries import ConfigKey, Entry, Stamp
from dafka.schemas.memory_log import MemoryLog
from dafka.schemas.state import State

ENTRY = Entry(ConfigKey("a"), Stamp(1, 1), "FULL")


def test_what_one_writes_the_others_read_once():
    records = []
    one, other, state = MemoryLog(records, "A"), MemoryLog(records, "B"), State()
    one.write([ENTRY])
    other.read_into(state)
    other.read_into(state)
    assert (state.level("a"), state.changes) == ("FULL", 1)


def test_one_that_is_not_reachable_fails_as_stores_do():
    log = MemoryLog([], "A")
    log.reachable = False
    with pytest.raises(QueryError):
        log.read_into(State())
    with pytest.raises(NotStoredError):
        log.write([ENTRY])
    assert log.records == []
    log.close()
