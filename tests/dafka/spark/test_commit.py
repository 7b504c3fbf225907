from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from dafka.errors import NotStoredError, QueryError
from dafka.groups.runs import STAGED, RunState
from dafka.model import ALL_SLOTS, SLOTS, Slots
from dafka.node.mirror import Mirror
from dafka.process import metrics
from dafka.query.agreement import Register
from dafka.query.client import StoreClient
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from dafka.spark import placing as placing_module
from dafka.spark.commit import RunCommit, RunName
from dafka.spark.options import sink_options
from dafka.spark.placing import RepeatedError
from dafka.transport.keys import Credentials, load_access, new_keys
from tests.dafka.spark.conftest import SparkCluster, close_mirrors, held_by
from tests.support.sink_runs import (
    KEY,
    DiedError,
    agreed_on,
    committed,
    dying,
    log_of,
    sink_of,
    staged,
)

pytestmark = [pytest.mark.slow, pytest.mark.net]


def numbers(first, end):
    return [b"%02d" % number for number in range(first, end)]


def test_runs_and_their_tasks_follow_each_other(cluster, options):
    committed(options, [b"1", b"2"], run=0)
    committed(options, [b"3"], [b"4"], run=1)
    committed(options, run=2)
    committed(options, [], [b"5"], run=3)
    assert log_of(cluster) == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize(
    "again",
    [
        ([b"1", b"2"], [b"3", b"4"]),
        ([b"4", b"2"], [b"1", b"3"]),
        ([b"1", b"2", b"3", b"4"],),
        ([b"1"], [b"2"], [b"3"], [b"4"]),
        ([b"random"], [b"rows"]),
    ],
    ids=["the same", "another order", "fewer tasks", "more tasks", "other rows"],
)
def test_a_run_is_written_once_however_it_is_repeated(cluster, options, again):
    first = committed(options, [b"1", b"2"], [b"3", b"4"])
    assert committed(options, *again) == first
    assert cluster.values() == [b"1", b"2", b"3", b"4"]
    committed(options, [b"5"], run=1)
    assert log_of(cluster) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_job_that_is_run_again_has_the_same_rows_or_is_refused(cluster, options):
    committed(options, [b"1", b"2"], [b"3"], exact=True)
    committed(options, [b"3", b"1", b"2"], exact=True)
    for rows in ([b"1", b"2"], [b"1", b"2", b"4"], []):
        with pytest.raises(RepeatedError, match="with 3 rows that are not these"):
            committed(options, rows, exact=True)
    assert cluster.values() == [b"1", b"2", b"3"]


def test_an_earlier_run_is_refused_by_number(cluster, options):
    committed(options, [b"1"], run=4)
    committed(options, [b"2"], run=5)
    with pytest.raises(RepeatedError, match=r"run 4 of query q is not committed: run 5 has been"):
        committed(options, [b"x"], run=4)
    assert cluster.values() == [b"1", b"2"]


def test_a_job_whose_key_nobody_knows_goes_on_where_others_are(cluster, options):
    committed(options, [b"1"], [b"2"])
    for job in (b"3", b"4"):
        committed(options, [job], key=f"job {job}", shared=False)
    committed(options, [b"5"], run=1)
    assert log_of(cluster) == [b"1", b"2", b"3", b"4", b"5"]


def test_what_is_only_staged_is_not_there(cluster, options):
    staged(options, [b"lost"], [b"lost too"])
    assert cluster.values() == []
    committed(options, [b"1"])
    assert cluster.values() == [b"1"]


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("next_run", [False, True])
def test_what_was_agreed_on_is_published_whoever_died(
    cluster, options, monkeypatch, after, next_run
):
    """By who repeats the run, with whatever rows, and by who comes with the next one."""
    with monkeypatch.context() as patch:
        dying(patch, after)
        with pytest.raises(DiedError):
            committed(options, [b"1", b"2"], [b"3", b"4"])
    assert len(cluster.values()) == after
    if not next_run:
        committed(options, [b"other", b"rows", b"and more"])
        assert cluster.values() == [b"1", b"2", b"3", b"4"]
    committed(options, [b"5"], run=1)
    assert log_of(cluster) == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("seed", range(3))
def test_drivers_that_die_anywhere_leave_every_run_once(cluster, options, monkeypatch, seed):
    """Each time with the rows in another order, and dealt to another number of tasks."""
    random = Random(seed)
    for run in range(3):
        rows = numbers(run * 10, run * 10 + 8)
        for _ in range(random.randrange(3)):
            with monkeypatch.context() as patch, suppress(DiedError):
                dying(patch, random.randrange(9))
                committed(options, *dealt(random, rows), run=run)
        committed(options, *dealt(random, rows), run=run)
    expected = [value for run in range(3) for value in numbers(run * 10, run * 10 + 8)]
    assert cluster.values() == expected
    runs = [value[:1] for value in log_of(cluster)]
    assert runs == sorted(runs), "a partition has the runs in order"


def test_a_task_that_died_leaves_nothing_to_the_next_one(cluster, options, monkeypatch):
    """What it had published and not seen acknowledged is where nobody stages any more."""
    staged(options, [b"0"])
    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "flush", silent_stores)
        with pytest.raises(NotStoredError):
            staged(options, [b"lost"])
    committed(options, [b"1", b"2"])
    assert cluster.values() == [b"1", b"2"]


def dealt(random, rows):
    rows = random.sample(rows, len(rows))
    tasks = random.randint(1, 3)
    return [rows[number::tasks] for number in range(tasks)]


def disputes():
    return metrics.DISPUTED._value.get()


def test_of_drivers_at_the_same_time_one_wins_and_all_publish_it(cluster, options, apart):
    names = b"abcd"
    runs = [[b"%c%d" % (name, number) for number in range(20)] for name in names]
    before, found = disputes(), []

    def drive(segments):
        found.append(RunCommit(options, RunName(KEY, 0), segments).commit())

    threads = [
        threading.Thread(target=drive, args=(staged(options, rows[:7], rows[7:]),)) for rows in runs
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert cluster.values() in [sorted(rows) for rows in runs]
    assert disputes() == before


def test_a_driver_that_wakes_when_others_have_gone_on_changes_nothing(
    cluster, options, apart, monkeypatch
):
    """It had agreed on its run, and begins to publish it when the next one is done, too."""
    publish, before = Mirror.publish, disputes()
    asleep, wake = threading.Event(), threading.Event()

    def sleeping(mirror, batch, silence_s):
        if threading.current_thread().name == "zombie" and batch.partition.topic != STAGED:
            asleep.set()
            assert wake.wait(60)
        publish(mirror, batch, silence_s)

    monkeypatch.setattr(Mirror, "publish", sleeping)
    segments = staged(options, [b"1", b"2"])
    driver = RunCommit(options, RunName(KEY, 0), segments)
    zombie = threading.Thread(target=driver.commit, name="zombie")
    zombie.start()
    assert asleep.wait(60)
    committed(options, [b"2", b"1"])
    committed(options, [b"3"], run=1)
    wake.set()
    zombie.join(60)
    assert not zombie.is_alive()
    assert log_of(cluster) == [b"1", b"2", b"3"]
    assert disputes() == before


def test_what_was_agreed_on_and_is_lost_is_told(cluster, options, monkeypatch):
    cluster.running.close()
    cluster.running = cluster.store(deletable=True)
    with monkeypatch.context() as patch:
        dying(patch, 1)
        with pytest.raises(DiedError):
            committed(options, [b"1", b"2"])
    with StoreClient(cluster.query) as client:
        client.delete(STAGED)
    for run in (0, 1):
        with pytest.raises(RepeatedError, match=r"cannot be ended: .* is kept no more: sequences"):
            committed(options, [b"1", b"2"], run=run)
    assert cluster.values() == [b"1"]


def test_a_run_goes_on_behind_what_retention_has_taken(cluster, options):
    cluster.running.close()
    cluster.running = cluster.store(deletable=True)
    committed(options, [b"1", b"2"])
    with StoreClient(cluster.query) as client:
        client.delete("out")
        client.delete(STAGED)
    committed(options, [b"1", b"2"])
    assert cluster.values() == [], "what was there is not written again"
    committed(options, [b"3"], run=1)
    with StoreClient(cluster.query) as client:
        ((partition, kept),) = client.ranges("out").items()
        (batch,) = client.read(partition, 2)
    assert kept == range(2, 3)
    assert [(record.sequence, record.value) for record in records_of(batch)] == [(2, b"3")]


class ManyStores(SparkCluster):
    """A cluster whose stores can be away."""

    @property
    def options(self):
        return {**super().options, "topic": "out"}

    def records_of(self, number):
        """The values that one of the stores has."""
        with StoreClient(self.queries[number]) as store:
            held = held_by(store)
        return sorted(
            record.value
            for one, records in held.items()
            if one.topic != STAGED
            for record in records
        )


@pytest.fixture
def many(tmp_path, free_ports, reopened):
    """A function that opens a cluster of so many stores."""
    opened = []

    def many(stores=1, shares=()):
        cluster = ManyStores(tmp_path, free_ports, reopened, stores=stores, shares=shares)
        opened.append(cluster)
        cluster.start_tower()
        cluster.open()
        return cluster, replace(sink_options(cluster.options, stream=True), silence_s=20.0)

    yield many
    close_mirrors()
    for cluster in opened:
        cluster.close()


def test_one_of_three_stores_may_be_away(many, until):
    """Another one each time: each majority has one that knows where partitions end."""
    cluster, options = many(3)
    assert options.min_acks == 2
    committed(options, [b"0"], run=0)
    for away in range(3):
        cluster.stores[away].close()
        run = 1 + away
        committed(options, [b"%d" % run], run=run)
        assert committed(options, [b"x"], run=run).run == run
        cluster.stores[away] = cluster.store(away)
        until(lambda: cluster.records_of(away) == numbers_of(run))  # noqa: B023
    for number in range(3):
        until(lambda: cluster.records_of(number) == numbers_of(3))  # noqa: B023


THIRDS = [Slots.of([range(SLOTS * one // 3, SLOTS * (one + 1) // 3)]) for one in range(3)]


@pytest.mark.parametrize("copies", [1, 2])
def test_of_what_is_published_so_many_have_it_as_keep_its_slot(many, until, copies):
    """And of what is staged, which all stores keep, as many as ever: at once, or a little later."""
    shares = [slots if copies == 1 else ALL_SLOTS.without(slots) for slots in THIRDS]
    _, options = many(shares=shares)
    options = replace(options, partitions=6, silence_s=10.0)
    assert options.min_acks == 2
    for run in range(2):
        rows = [b"%02d" % (10 * run + number) for number in range(6)]
        assert committed(options, rows[:3], rows[3:], run=run).run == run
        assert committed(options, [b"others"], run=run).run == run
    with ClusterClient(options.cluster.open()) as stores:

        def kept():
            given = stores.all(lambda store: store.own_ranges("out")).given.values()
            return Counter(partition for ranges in given for partition in ranges)

        until(lambda: set(kept().values()) == {copies})

        def seen():
            given = stores.all(lambda store: store.ranges("out")).given.values()
            return [sum(map(len, ranges.values())) for ranges in given]

        until(lambda: seen() == [12] * 3)


def numbers_of(last):
    return [b"%d" % number for number in range(last + 1)]


@pytest.mark.parametrize(
    ("stores", "min_acks", "away", "goes_on"),
    [
        *((2, 1, 0, True), (2, 1, 1, False), (2, 2, 0, True), (2, 2, 1, False)),
        *((3, 1, 1, True), (3, 2, 1, True), (3, 3, 1, False), (3, 1, 2, False)),
    ],
)
def test_what_a_query_needs_is_a_majority_and_its_acknowledgements(
    many, monkeypatch, stores, min_acks, away, goes_on
):
    """As docs/spark.md says it: so many stores have what is done, and nothing is done by halves."""
    cluster, options = many(stores)
    options = replace(options, min_acks=min_acks, acks_given=True)
    for number in range(away):
        cluster.stores[number].close()
    if goes_on:
        committed(options, [b"0"])
    else:
        options = replace(options, silence_s=3.0)
        monkeypatch.setattr(placing_module, "Register", hasty)
        with pytest.raises((QueryError, NotStoredError)):
            committed(options, [b"0"])
    held = [cluster.records_of(number) for number in range(away, stores)]
    if goes_on:
        assert held.count([b"0"]) >= min_acks
    else:
        assert not any(held)


def test_with_one_of_two_stores_new_jobs_go_on_and_queries_wait(many, monkeypatch, until):
    cluster, options = many(2)
    assert options.min_acks == 1
    committed(options, [b"0"], run=0)
    cluster.stores[0].close()
    committed(options, [b"job"], key="job j", shared=False)
    segments = staged(options, [b"1"])
    with monkeypatch.context() as patch:
        patch.setattr(placing_module, "Register", hasty)
        with pytest.raises(QueryError, match="1 of 2 stores"):
            RunCommit(options, RunName(KEY, 1), segments).commit()
    assert b"1" not in cluster.records_of(1), "nothing of it is published"
    cluster.stores[0] = cluster.store(0)
    RunCommit(options, RunName(KEY, 1), segments).commit()
    until(lambda: b"1" in cluster.records_of(1))  # either may have been the one that had it


def hasty(*given, patience_ms, **named):
    return Register(*given, patience_ms=min(patience_ms, 500), **named)


def silent_stores(*_):
    raise NotStoredError("no store has acknowledged anything", [])


def test_where_nobody_acknowledges_the_run_is_not_done(cluster, options, monkeypatch):
    segments = staged(options, [b"1"])
    with monkeypatch.context() as patch:
        patch.setattr(
            Mirror, "flush", lambda *_: (_ for _ in ()).throw(NotStoredError("silent", []))
        )
        with pytest.raises(NotStoredError):
            RunCommit(options, RunName(KEY, 0), segments).commit()
    RunCommit(options, RunName(KEY, 0), segments).commit()
    assert cluster.values() == [b"1"]


def test_registers_have_what_is_published(cluster, options):
    found = committed(options, [b"1", b"2"], [b"3"])
    assert agreed_on(options) == (found, RunState.OPEN)
    assert (sink_of(options).last, sink_of(options).ends) == (found, (3,))


@pytest.fixture
def guarded(tmp_path, free_ports, reopened):
    """A function that opens a cluster with keys, for a sink that may read and write these."""
    cluster = SparkCluster(tmp_path, free_ports, reopened)

    def guarded(*topics, stream=True):
        (own, own_secret), (public, secret) = new_keys(), new_keys()
        access, key = tmp_path / "access.toml", tmp_path / "sink.secret"
        rules = [f"{topic}*" for topic in topics]
        access.write_text(
            f'cluster = "{own}"\n[keys.sink]\npublic = "{public}"\n'
            f'read = {rules}\nwrite = {rules}\ngroups = ["__sink.*"]\n'
        )
        key.touch(mode=0o600)
        key.write_text(secret)
        credentials = Credentials(load_access(access), own, own_secret)
        cluster.start_tower(credentials=credentials)
        cluster.running = cluster.store(credentials=credentials)
        files = {"access": str(access), "key": str(key)}
        return sink_options({**cluster.options, **files, "topic": "out"}, stream=stream)

    yield guarded
    close_mirrors()
    cluster.close()


def test_with_these_rights_a_sink_writes(guarded):
    options = guarded("out", "__staged", "__consumer_offsets")
    found = committed(options, [b"1", b"2"])
    assert committed(options, [b"2", b"1"]) == found
    assert committed(options, [b"3"], run=1).records == 1
