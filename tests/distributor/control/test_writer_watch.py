from __future__ import annotations

import threading

import pytest

from dafka.errors import QueryError
from dafka.groups.writers import HEARD_MS, Writers
from dafka.model import PartitionShare, replace
from dafka.query.service import answer
from dafka.storage.memory import MemoryLog
from distributor.control import writer_watch as module
from distributor.control.messages import Flow, FlowKind
from distributor.control.writer_watch import WriterWatch
from topology import plan


class Targets:
    """Stores in this process: what each remembers; some of them do not answer."""

    def __init__(self):
        self.writers = {}
        self.silent = set()
        self.asked = threading.Semaphore(0)
        self.now_ms = 0

    def connect(self, endpoint, _credentials):
        return Connection(self, endpoint)


class Connection:
    def __init__(self, targets, endpoint):
        self._targets, self._endpoint = targets, endpoint

    def ask(self, question, _timeout_ms):
        targets = self._targets
        targets.asked.release()
        if self._endpoint in targets.silent:
            raise QueryError("no answer")
        writers = targets.writers.setdefault(self._endpoint, Writers())
        return answer(question, MemoryLog("S"), writers=writers, now_ms=targets.now_ms)

    def close(self):
        pass


@pytest.fixture
def targets():
    return Targets()


@pytest.fixture
def processes(pair, targets):
    """Two processes that may write the same."""
    watches = [WriterWatch(pair.topology, targets.connect, 20) for _ in range(2)]
    yield watches
    for watch in watches:
        watch.close()


@pytest.fixture
def flow(pair):
    return Flow(plan(pair.topology).links[0], FlowKind.RECORDS)


def test_who_writes_hears_of_a_later_writer_and_no_other(processes, flow, until):
    first, second = processes
    changes = []
    old = first.begin(flow, 3, lambda: changes.append(old.later))
    new = second.begin(flow, 4, changes.clear)
    until(lambda: old.later == 4)
    until(lambda: changes == [4])
    assert (old.epoch, new.later) == (3, 0)
    newer = first.begin(flow, 5, changes.clear)
    until(lambda: new.later == 5)
    until(lambda: old.later == 5)
    assert newer.later == 0
    for standing in (old, newer):
        standing.end()


def test_other_flows_and_shares_are_others(processes, flow, until, targets):
    first, second = processes
    half = replace(flow, share=0, shares=2)
    one = first.begin(half, 3, list)
    others = [replace(flow, share=1, shares=2), replace(flow, kind=FlowKind.OFFSETS)]
    standings = [second.begin(other, 4 + n, list) for n, other in enumerate(others)]
    for _ in range(8):
        assert targets.asked.acquire(timeout=60)
    assert [one.later, *(other.later for other in standings)] == [0, 0, 0]
    second.begin(flow, 9, list)
    until(lambda: one.later == 9)


def test_a_writer_that_is_gone_does_not_count_for_long(
    processes, flow, until, targets, monkeypatch
):
    first, second = processes
    old = first.begin(flow, 3, list)
    new = second.begin(flow, 4, list)
    until(lambda: old.later == 4)
    new.end()
    targets.now_ms += HEARD_MS
    until(lambda: old.later == 0)


def test_stores_that_do_not_answer_stop_nobody(processes, flow, until, targets, pair, caplog):
    first, second = processes
    (silent,) = (one.query for one in pair.topology.cluster(flow.link.target).stores)
    targets.silent.add(silent)
    old = first.begin(flow, 3, list)
    second.begin(flow, 4, list)
    for _ in range(6):
        assert targets.asked.acquire(timeout=60)
    assert old.later == 0
    assert caplog.text.count("a store does not say who writes") == 2, "once for each process"
    targets.silent.clear()
    until(lambda: old.later == 4)


def test_what_a_store_has_said_does_not_count_for_ever(flow, until, targets, pair, monkeypatch):
    at_ms = [0]
    monkeypatch.setattr(module, "now_ms", lambda: at_ms[0])
    (store,) = (one.query for one in pair.topology.cluster(flow.link.target).stores)
    targets.writers[store] = Writers()
    watch = WriterWatch(pair.topology, targets.connect, 20)
    old = watch.begin(flow, 3, list)
    targets.writers[store].heard(old.writing.flow, PartitionShare(), 4, 0)
    until(lambda: old.later == 4)
    targets.silent.add(store)
    at_ms[0] = HEARD_MS
    until(lambda: old.later == 0)
    watch.close()
