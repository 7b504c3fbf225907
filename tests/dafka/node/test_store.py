from __future__ import annotations

import resource
from itertools import count

import pytest
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.errors import MisuseError, QueryError, StorageError
from dafka.gateway.broker import KafkaPartition
from dafka.gateway.catalog import CATALOG, CHANGES, TOPICS
from dafka.gateway.events import LedgerLine, LineKind
from dafka.gateway.lines import LEDGER, chain_address, encoded
from dafka.gateway.share import batches_of
from dafka.groups import membership
from dafka.groups.acceptor import Registers
from dafka.groups.commit import CONTROLLERS, GATEWAYS, KEPT_MS
from dafka.groups.membership import Accept, Ballot, Member, Membership, Prepare
from dafka.model import Batch, Partition
from dafka.node.loop import NodeFailedError
from dafka.node.producer import Producer
from dafka.node.store import RETENTION_START_MS, Store, StoreRole
from dafka.node.store_settings import StoreSettings
from dafka.node.tower import Tower
from dafka.process.clock import Clock
from dafka.protocol.effects import Append, Publish, ReadRange
from dafka.protocol.events import PartitionsForgotten, Received, TurnEnded
from dafka.query.client import StoreClient
from dafka.query.messages import HealthRequest, encode
from dafka.records.batch import BatchBuilder, enclosed, records_of
from dafka.records.envelope import Envelope
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.memory import MemoryLog
from dafka.storage.retention import Retainer, Retention
from dafka.wire import messages
from tests.support.batches import make_batch
from tests.support.ledger_chains import chain
from tests.support.query_port import Questions

pytestmark = pytest.mark.net


def dropped(reason):
    labels = {"role": "store", "reason": reason}
    return REGISTRY.get_sample_value("dafka_dropped_total", labels) or 0


def test_a_store_started_again_has_everything_and_the_same_identity(cluster, take):
    store = cluster.store()
    first = cluster.producer()
    for number in range(100):
        first.send("orders", str(number).encode())
    first.close()
    store.close()

    again = cluster.store()
    assert again.address == store.address
    second = cluster.producer()
    second.send("orders", b"100")
    second.flush(10)
    records = take(cluster.consumer("orders"), 101)
    assert sorted(int(record.value) for record in records) == list(range(101))
    assert {record.address for record in records} == {first.address, second.address}


def test_questions_that_take_long_are_answered_one_a_turn():
    seconds = count()  # between two looks at the clock
    port = Questions(*[encode(HealthRequest())] * 5)
    role = StoreRole(
        MemoryLog("ME"), port, Retainer(()), clock=Clock(seconds=lambda: next(seconds))
    )
    for turn in range(1, 6):
        role.pollable()[port.socket]()
        assert len(port.answers) == turn
    role.close()


P = Partition("orders", "AA")


def one_record(**settings):
    """A store's role with one record."""
    log = MemoryLog("ME")
    builder = BatchBuilder(1 << 20)
    builder.append(0, None, b"value", ())
    log.append([Batch(P, 0, 1, enclosed(builder.build(), 0))])
    return StoreRole(log, Questions(), Retainer(()), **settings)


def fetched(role, *requesters):
    """Take FETCHes in; returns what that makes of itself."""
    return [role.perform(None, ReadRange(one, P, 0, 10, 1 << 20)) for one in requesters]


def answered(role):
    """End a turn; returns who is sent records, in order."""
    found, events = [], [TurnEnded()]
    for event in events:  # which grows on the way
        for _, effect in role.handle(None, event, 7):
            if not isinstance(effect, Publish):
                events += filter(None, [role.perform(None, effect)])
            elif isinstance(effect.message, messages.DirectRecords):
                found.append(effect.message.requester)
    return found


class Audience:
    """One who reads, and one who listens."""

    def __init__(self, *, reads="", listens=""):
        self.takes, self.listens = reads.__eq__, listens.__eq__


def test_heads_are_told_to_who_listens():
    role = one_record(audience=Audience(listens="LISTENS"))
    told = []
    for requester in ("DOES NOT", "LISTENS"):
        asked = Received(messages.GetHeads("orders", requester))
        told += [effect.message.requester for _, effect in role.handle(None, asked, 7)]
    assert told == ["LISTENS"]
    role.close()


def test_nothing_is_read_for_who_has_not_read_the_last_answer():
    role = one_record(audience=Audience(reads="READS"))
    before = dropped("not read")
    assert fetched(role, "DOES NOT", "READS") == [None, None]
    assert answered(role) == ["READS"]
    assert dropped("not read") == before + 1
    role.close()


def test_what_it_asks_itself_is_read_at_once():
    role = one_record(audience=Audience())
    (own,) = fetched(role, "ME")
    assert own.batches
    role.close()


def test_fetches_that_take_long_are_answered_one_a_turn():
    seconds = count()  # between two looks at the clock
    role = one_record(clock=Clock(seconds=lambda: next(seconds), now_ms=lambda: 7))
    assert answered(role) == []
    assert role.wakeup_ms() > 7
    fetched(role, "A" * 32, "B" * 32)
    for requester in ("A", "B"):
        assert role.wakeup_ms() == 7
        assert answered(role) == [requester * 32]
    assert role.wakeup_ms() > 7
    assert answered(role) == []
    role.close()


def test_a_fetch_of_what_is_forgotten_meanwhile_is_dropped():
    role = one_record()
    fetched(role, "A")
    role.machine.handle(PartitionsForgotten((P,)), 0)
    assert answered(role) == []
    role.close()


def test_a_producer_outlives_its_store(cluster, take):
    store = cluster.store()
    producer = cluster.producer()
    producer.send("orders", b"before")
    producer.flush(10)
    store.close()
    future = producer.send("orders", b"between")
    cluster.store()
    assert future.result(120).sequence == 1
    records = take(cluster.consumer("orders"), 2)
    assert [record.value for record in records] == [b"before", b"between"]


def test_the_query_port_tells_what_was_acknowledged(stored):
    producer = stored.producer()
    for number in range(7):
        producer.send("orders", str(number).encode())
    producer.flush(10)
    partition = Partition("orders", producer.address)
    with StoreClient(stored.query) as client:
        assert client.heads() == {partition: 6}
        values = [r.value for b in client.scan(partition, 0, 7) for r in records_of(b)]
    assert values == [str(number).encode() for number in range(7)]


def test_a_store_says_who_it_is(cluster):
    store = cluster.store()
    assert len(store.address) == 32
    with StoreClient(cluster.query) as client:
        assert client.health().identity == store.address


def test_commits_are_kept_for_seven_days(cluster):
    commits = Partition("__consumer_offsets", "AB" * 16)
    batch, log = make_batch([b"value"], partition=commits, timestamp_ms=1), MemoryLog("ME")
    log.append([batch])
    retainer = cluster.store()._role._retention._retainer
    assert retainer.due(log, 7 * 86_400_000, 9).trims == {}
    assert retainer.due(log, 7 * 86_400_000 + 2, 9).trims == {commits: 1}


def test_a_second_store_in_the_same_directory_is_refused(stored, free_ports):
    other = f"tcp://127.0.0.1:{free_ports(1)}"
    with pytest.raises(StorageError):
        Store(stored.data(), stored.endpoint, query=other)


def test_a_directory_that_is_a_file_is_refused(cluster, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StorageError):
        Store(tmp_path / "file", cluster.endpoint, query=cluster.query)


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": "nowhere"},
        {"cluster": "nowhere"},
        {"cluster": Cluster([])},
        {"cluster": Cluster("tcp://127.0.0.1:5556", host="192.0.2.1")},
    ],
    ids=repr,
)
def test_a_store_that_cannot_start_leaves_directory_and_port_free(
    cluster, tmp_path, reopened, wrong
):
    arguments = {"data": tmp_path / "d", "cluster": cluster.endpoint, "query": cluster.query}
    with pytest.raises(MisuseError):
        Store(**arguments | wrong)
    with reopened(lambda: Store(**arguments)) as store:
        assert not store.join(0)


def test_a_query_port_that_is_taken_is_refused(stored, tmp_path):
    with pytest.raises(MisuseError):
        Store(tmp_path / "other", stored.endpoint, query=stored.query)
    LmdbLog(tmp_path / "other").close()


def test_a_store_serves_a_log_filled_before_it_started(cluster, take):
    log = LmdbLog(cluster.data())
    builder = BatchBuilder(1_000)
    builder.append(5, b"k", b"old", ())
    partition = Partition("orders", "AB" * 16)
    log.append([Batch(partition, 0, 1, enclosed(builder.build(), 0))])
    log.close()
    cluster.store()
    (record,) = take(cluster.consumer("orders"), 1)
    assert (record.address, record.value, record.timestamp_ms) == ("AB" * 16, b"old", 5)


class Disk:
    """A log's file that may grow only so far, as on a full disk; for this whole process."""

    def __init__(self, size):
        _, self.hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self.hard))

    def free(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.hard, self.hard))


def test_a_full_disk_is_reported_not_acknowledged_and_resumed_when_there_is_room(
    cluster, until, caplog
):
    store = cluster.store()
    failures = REGISTRY.get_sample_value("dafka_store_append_failures_total")
    producer = cluster.producer()
    producer.send("orders", b"fits")
    producer.flush(10)
    disk = Disk(1 << 20)
    try:
        futures = [producer.send("orders", bytes(100_000)) for _ in range(40)]
        until(store.unready)
        assert "cannot append" in store.unready()
        assert not futures[-1].done()
        assert REGISTRY.get_sample_value("dafka_store_append_failures_total") > failures
        assert any("nothing is taken in" in record.getMessage() for record in caplog.records)
    finally:
        disk.free()
    assert futures[-1].result(120).sequence == 40
    assert store.unready() == ""


LOGS = Partition("logs", "AB" * 16)
WALL_MS = 1_700_000_000_000


class Time:
    """The monotonic clock at `now_ms`, and one on the wall that may be ahead."""

    def __init__(self):
        self.now_ms = self.ahead_ms = 0

    def role(self, log, number=0):
        """A store's role that keeps logs for ten minutes."""
        clock = Clock(lambda: self.now_ms, lambda: WALL_MS + self.now_ms + self.ahead_ms)
        rule = Retention(topics="log*", age_ms=600_000)
        settings = StoreSettings(number=number)
        return StoreRole(log, Questions(), Retainer([rule]), settings=settings, clock=clock)


def of_age(sequence, age_ms, origin=0):
    builder = BatchBuilder(1_000)
    builder.append(WALL_MS - age_ms, None, str(sequence).encode(), ())
    return Batch(LOGS, sequence, 1, enclosed(builder.build(), sequence, Envelope(origin=origin)))


def test_a_clock_that_is_ahead_drops_nothing_too_early():
    time, log = Time(), MemoryLog("ME")
    role = time.role(log)
    role.perform(None, Append(1, (of_age(0, 0),)))
    time.ahead_ms = 3_600_000
    starts = []
    for time.now_ms in (RETENTION_START_MS, 590_000, 610_000):
        role.handle(None, TurnEnded(), time.now_ms)
        starts.append(log.extents()[LOGS].start)
    assert starts == [0, 0, 1]
    role.close()


def test_a_store_that_has_heard_no_other_cluster_since_its_start_drops_nothing_by_age():
    time, log = Time(), MemoryLog("ME")
    log.append([of_age(0, 0)])
    time.ahead_ms = 3_600_000
    role = time.role(log, number=1)
    starts = []
    for time.now_ms in (RETENTION_START_MS, 610_000):
        role.handle(None, TurnEnded(), time.now_ms)
        starts.append(log.extents()[LOGS].start)
    role.perform(None, Append(1, (of_age(1, -610_000, origin=2),)))
    time.now_ms = 620_000
    role.handle(None, TurnEnded(), time.now_ms)
    assert [*starts, log.extents()[LOGS].start] == [0, 0, 1]
    role.close()


def test_retention_moves_the_log_start_and_readers_begin_there(cluster, take):
    log = LmdbLog(cluster.data())
    log.append([of_age(n, age_ms) for n, age_ms in enumerate((3_600_000, 3_500_000, 60_000))])
    time, starts = Time(), []
    role = time.role(log)
    for time.now_ms in (0, RETENTION_START_MS - 1, RETENTION_START_MS):
        role.handle(None, TurnEnded(), time.now_ms)
        starts.append(log.extents()[LOGS].start)
    assert starts == [0, 0, 2]
    role.close()
    cluster.store()
    (record,) = take(cluster.consumer("logs"), 1)
    assert record.value == b"2"


def ledger_of_two_owners():
    """A log with two chains of a Kafka partition, and which."""
    log, orders = MemoryLog("ME"), KafkaPartition("orders", 0)
    chains = [chain(1), [*chain(2), LedgerLine(2, 2, LineKind.SETTLED, 0)]]
    places = [Partition(LEDGER, chain_address("A" * 32, orders, epoch)) for epoch in (1, 2)]
    for place, lines in zip(places, chains, strict=True):
        log.append(batches_of(place, 0, [encoded(line, orders) for line in lines]))
    return log, places


def test_of_ledgers_only_what_nobody_reads_is_dropped():
    log, places = ledger_of_two_owners()
    role = Time().role(log)
    role.handle(None, TurnEnded(), RETENTION_START_MS)
    assert [log.extents()[place].start for place in places] == [0, 0], "it knows of no gateways"
    role.close()
    ballot = Ballot(1, "A")
    second = Membership(2, 1, {"A": Member((b"__gateways",), 3_000)})
    registers = Registers(log, -3_001)
    registers.prepare(Prepare(GATEWAYS, ballot), 0)
    assert registers.accept(Accept(GATEWAYS, ballot, membership.encode(second)), 0).granted
    role = Time().role(log)
    role.handle(None, TurnEnded(), RETENTION_START_MS)
    assert [log.extents()[place].start for place in places] == [2, 0]
    role.close()


def test_no_rule_drops_what_gateways_need(cluster):
    log, _ = ledger_of_two_owners()
    for topic in (TOPICS, CATALOG):
        log.append(batches_of(Partition(topic, "A"), 0, [b"x"]))
    everything = Retention(topics="_*", age_ms=0)
    assert (
        cluster.store(retention=(everything,))._role._retention._retainer.due(log, 2**60, 9).trims
        == {}
    )


def test_what_controllers_want_is_kept_and_what_they_wanted_before_in_part(cluster):
    log, before, now = (MemoryLog("ME"), *(Partition(CONTROLLERS, one) for one in "AB"))
    for partition, length in ((before, 70), (now, 10)):
        for sequence in range(length):
            log.append(batches_of(partition, sequence, [bytes(1_000_000)]))
    everything = Retention(topics="_*", age_ms=0)
    retainer = cluster.store(retention=(everything,))._role._retention._retainer
    trims = retainer.due(log, 2**60, 99).trims
    assert trims.keys() == {before}
    assert 10 < trims[before] < 20


def test_changes_of_topics_are_kept_for_some_days(cluster):
    log, changes = MemoryLog("ME"), Partition(CHANGES, "A")
    log.append(batches_of(changes, 0, [b"x"]))
    retainer = cluster.store(
        retention=(Retention(topics="_*", age_ms=0),)
    )._role._retention._retainer
    arrived_ms = log.extents()[changes].oldest_ms
    assert retainer.due(log, arrived_ms + KEPT_MS, 9).trims == {}
    assert retainer.due(log, arrived_ms + KEPT_MS + 1, 9).trims == {changes: 1}


def test_a_topic_is_deleted_only_where_that_is_allowed(cluster, tmp_path):
    for allowed in (False, True):
        with (
            Store(
                tmp_path / str(allowed),
                cluster.endpoint,
                query=cluster.query,
                durability=Durability.OS,
                deletable=allowed,
            ),
            StoreClient(cluster.query) as client,
            Producer(cluster.endpoint) as producer,
        ):
            producer.send("orders", b"x")
            producer.flush(10)
            if not allowed:
                with pytest.raises(QueryError, match="delete"):
                    client.delete("orders")
                continue
            assert client.delete("orders") == 1
            assert client.topics() == []
            assert producer.send("orders", b"y").result(10).sequence == 1
            assert client.ranges() == {Partition("orders", producer.address): range(1, 2)}


def test_a_store_whose_disk_does_not_give_some_batches_serves_the_others(
    stored, take, monkeypatch, caplog, until
):
    producer = stored.producer()
    for topic in ("whole", "damaged"):
        producer.send(topic, b"x")
    producer.flush(10)
    read = LmdbLog.read

    def failing(self, partition, *rest):
        if partition.topic == "damaged":
            raise StorageError("cannot read log: damaged")
        return read(self, partition, *rest)

    monkeypatch.setattr(LmdbLog, "read", failing)
    (record,) = take(stored.consumer("damaged", "whole"), 1)
    assert record.topic == "whole"
    # Which of the two is asked for first is not settled.
    until(lambda: any("damaged" in record.getMessage() for record in caplog.records))


def test_a_failed_store_says_so_when_it_is_joined(cluster, until):
    store = cluster.store()
    assert not store.join(0)
    store._node.post(None, "no event")
    until(lambda: store._node.failure)
    with pytest.raises(NodeFailedError, match="store has failed"):
        store.join(60)


def test_a_cluster_may_stand_at_a_name(tmp_path, free_ports):
    first = free_ports(3)
    tower, query = f"tcp://localhost:{first}", f"tcp://localhost:{first + 2}"
    data = tmp_path / "store"
    with (
        Tower(tower),
        Store(data, Cluster(tower, host="localhost"), query=query, durability=Durability.OS),
        Producer(Cluster(tower, host="localhost")) as producer,
    ):
        producer.send("orders", b"x")
        producer.flush(20)
        with StoreClient(query) as client:
            assert client.topics() == ["orders"]
