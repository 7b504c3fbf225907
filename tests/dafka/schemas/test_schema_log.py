from __future__ import annotations

from contextlib import ExitStack, closing

import pytest

from dafka.cluster import Cluster
from dafka.errors import NotStoredError, QueryError
from dafka.node.producer import Producer
from dafka.schemas.entries import TOPIC, ConfigKey, SchemaEntry, Stamp
from dafka.schemas.schema_log import MemorySchemaLog, SchemaLog
from dafka.schemas.state import State
from tests.support.shares import HIGH, LOW
from tests.support.small_cluster import SmallCluster

pytestmark = pytest.mark.net


@pytest.fixture
def endpoints(cluster, free_ports):
    cluster.store()
    return cluster.endpoint, cluster.query, f"tcp://127.0.0.1:{free_ports(1)}"


def test_what_one_writes_another_reads_and_strangers_are_passed_over(endpoints):
    tower, query, _ = endpoints
    with Producer(tower) as producer:
        producer.send(TOPIC, b"not ours")
    one, two = SchemaLog(Cluster(tower, query)), SchemaLog(Cluster(tower, query))
    state = State()
    try:
        for number, level in enumerate(("NONE", "FULL"), 1):
            one.write([SchemaEntry(ConfigKey(None), Stamp(1, number), level)])
            two.read_into(state)
            assert state.level(None) == level
        assert two.strangers == 1
    finally:
        one.close()
        two.close()


def test_each_of_stores_that_share_slots_has_all(tmp_path, free_ports, reopened):
    shared = SmallCluster(tmp_path, free_ports, reopened, stores=2)
    subjects = [f"s{number}" for number in range(3)]
    with ExitStack() as opened:
        opened.callback(shared.close)
        shared.start_tower()
        for number, slots in enumerate((HIGH, LOW)):
            shared.store(number, slots=slots)
        for number, subject in enumerate(subjects, 1):
            log = opened.enter_context(closing(SchemaLog(Cluster(shared.endpoint, shared.queries))))
            log.write([SchemaEntry(ConfigKey(subject), Stamp(1, number), "NONE")])
        for query in shared.queries:
            alone = opened.enter_context(closing(SchemaLog(Cluster(shared.endpoint, query))))
            state = State()
            alone.read_into(state)
            assert [state.level(subject) for subject in subjects] == ["NONE"] * 3


def test_more_than_half_of_the_stores_must_answer_where_it_matters(endpoints, monkeypatch):
    tower, query, dead = endpoints
    log = SchemaLog(Cluster(tower, [dead, query]))

    def lost(_topic):
        raise QueryError("no answer")

    monkeypatch.setattr(log._stores.store(dead), "ranges", lost)
    try:
        assert log.majority == 2
        log.read_into(State())
        with pytest.raises(QueryError, match="1 of 2 stores"):
            log.read_into(State(), log.majority)
    finally:
        log.close()


def test_a_store_that_has_lost_what_it_told_does_not_count(endpoints, monkeypatch):
    tower, query, _ = endpoints
    log, state = SchemaLog(Cluster(tower, query)), State()
    try:
        log.write([SchemaEntry(ConfigKey(None), Stamp(1, 1), "NONE")])
        log.read_into(state)
        store = log._stores.store()
        whole = store.ranges(TOPIC)
        for left in ({}, {partition: range(kept.stop - 1) for partition, kept in whole.items()}):
            monkeypatch.setattr(store, "ranges", lambda _, left=left: left)
            with pytest.raises(QueryError, match="lost records of _schemas: start this process"):
                log.read_into(state)
        monkeypatch.undo()
        log.read_into(state)
    finally:
        log.close()


ENTRY = SchemaEntry(ConfigKey("a"), Stamp(1, 1), "FULL")


def test_what_one_writes_the_others_read_once():
    records = []
    one, other, state = MemorySchemaLog(records, "A"), MemorySchemaLog(records, "B"), State()
    one.write([ENTRY])
    other.read_into(state)
    other.read_into(state)
    assert (state.level("a"), state.changes) == ("FULL", 1)


def test_one_that_is_not_reachable_fails_as_stores_do():
    log = MemorySchemaLog([], "A")
    log.reachable = False
    with pytest.raises(QueryError):
        log.read_into(State())
    with pytest.raises(NotStoredError):
        log.write([ENTRY])
    assert log.records == []
    log.close()
