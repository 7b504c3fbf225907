from __future__ import annotations

import threading
from dataclasses import replace
from random import Random

import pytest

from dafka.errors import MisuseError, QueryError
from dafka.groups import runs
from dafka.groups.runs import RECENT_RUNS, STAGED, Manifest, RunState
from dafka.node.mirror import Mirror
from dafka.query.agreement import Register
from dafka.query.client import StoreClient
from dafka.query.cluster_client import ClusterClient
from dafka.spark import commit as commit_module
from dafka.spark.placing import Placing, RepeatedError
from dafka.spark.publication import CommitPorts, Publisher
from dafka.spark.staging import mirror_of
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

OTHER = "query other"


def died(monkeypatch, options, *tasks, after, **name):
    """A driver commits until it has published so many batches, and is never seen again."""
    with monkeypatch.context() as patch:
        dying(patch, after)
        with pytest.raises(DiedError):
            committed(options, *tasks, **name)


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("shared", [True, False])
def test_what_a_dead_driver_has_left_whoever_comes_next_ends(
    cluster, options, monkeypatch, after, shared
):
    """Of whatever query or job, with its own run behind it; and its owner finds it whole."""
    died(monkeypatch, options, [b"1", b"2"], [b"3"], after=after, shared=shared)
    assert len(cluster.values()) == after
    committed(options, [b"4"], key=OTHER, run=7)
    committed(options, [b"5"], key="job", shared=False)
    assert log_of(cluster) == [b"1", b"2", b"3", b"4", b"5"]
    if shared:
        assert agreed_on(options).state is RunState.WHOLE
        committed(options, [b"other", b"rows"])
        committed(options, [b"6"], run=1)
        assert log_of(cluster) == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_a_run_that_others_have_passed_by_is_still_known(cluster, options):
    """However many they were: its key says so, not the topic."""
    committed(options, [b"1"], run=5)
    committed(options, [b"other"], key=OTHER, run=3)
    for job in range(RECENT_RUNS + 2):
        committed(options, [b"job"], key=f"job {job}", shared=False)
    assert len(sink_of(options).recent) == RECENT_RUNS
    committed(options, [b"again"], run=5)
    with pytest.raises(RepeatedError, match="run 4 of query q is not committed: run 5 has been"):
        committed(options, [b"late"], run=4)
    committed(options, [b"2"], run=6)
    assert log_of(cluster) == [b"1", b"other", *[b"job"] * (RECENT_RUNS + 2), b"2"]


def at_topic(monkeypatch, topic):
    """Let a driver die before it places its run in a topic."""

    def placed(placing, name, *given):
        if name == topic:
            raise DiedError
        return place(placing, name, *given)

    place = Placing._placed
    monkeypatch.setattr(Placing, "_placed", placed)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("next_in", "ab")
def test_a_run_of_several_topics_is_ended_in_all_or_in_none(
    cluster, options, monkeypatch, shared, next_in
):
    """Its driver died between them. Who comes next in the first of them ends it in all."""
    rows = [("a", None, b"a1"), ("b", None, b"b1"), ("c", None, b"c1")]
    committed(options, [("b", None, b"b0")], key="job 0", shared=False)
    with monkeypatch.context() as patch:
        at_topic(patch, "b")
        with pytest.raises(DiedError):
            committed(options, rows, shared=shared)
    assert cluster.values() == [b"a1", b"b0"]
    committed(options, [(next_in, None, b"next")], key=OTHER)
    if next_in == "b":  # it had not come as far
        assert log_of(cluster, "b") == [b"b0", b"next"]
        committed(options, [("a", None, b"a2")], key=OTHER, run=1)
        assert log_of(cluster, "b") == [b"b0", b"next", b"b1"]
        assert log_of(cluster, "a") == [b"a1", b"a2"]
    else:
        assert log_of(cluster, "a") == [b"a1", b"next"]
        assert log_of(cluster, "b") == [b"b0", b"b1"]
    assert log_of(cluster, "c") == [b"c1"]
    if shared:
        committed(options, rows)
    committed(options, [(topic, None, b"z") for topic in "abc"], key="query z")
    assert cluster.values().count(b"b1") == 1
    assert [log_of(cluster, topic)[-1] for topic in "abc"] == [b"z"] * 3


def test_runs_of_several_topics_end_each_other(cluster, options, monkeypatch):
    """Each begun in a topic behind the one before, and left there: the last ends them all."""
    for number, topics in enumerate(("bd", "ab", "bc")):
        with monkeypatch.context() as patch:
            at_topic(patch, topics[1])
            rows = [(topic, None, b"%d" % number) for topic in topics]
            with pytest.raises(DiedError):
                committed(options, rows, key=f"query {number}")
        if number == 0:
            assert log_of(cluster, "b") == [b"0"]
    committed(options, [(topic, None, b"z") for topic in "abcd"], key="query z")
    found = {topic: log_of(cluster, topic) for topic in "abcd"}
    assert found["a"] == [b"1", b"z"]
    assert sorted(found["b"]) == [b"0", b"1", b"2", b"z"]
    assert (found["c"], found["d"]) == ([b"2", b"z"], [b"0", b"z"])


def forget_staged(cluster):
    with StoreClient(cluster.query) as client:
        client.delete(STAGED)


@pytest.mark.parametrize("shared", [True, False])
def test_where_rows_are_lost_others_go_on_in_other_partitions(
    cluster, options, monkeypatch, shared, caplog
):
    """In these there would be a hole. Whose rows they were is told so, now and later."""
    cluster.running.close()
    cluster.running = cluster.store(deletable=True)
    died(monkeypatch, options, [b"1", b"2"], after=1, shared=shared)
    forget_staged(cluster)
    before = sink_of(options)
    committed(options, [b"3"], key=OTHER)
    assert "rows are lost: run 0 of query q cannot be ended" in caplog.text
    after = sink_of(options)
    assert after.seed != before.seed
    assert after.ends == (1,)
    committed(options, [b"4"], key=OTHER, run=1)
    assert cluster.values() == [b"1", b"3", b"4"]
    if shared:
        assert agreed_on(options).state is RunState.LOST
        for run in (0, 1):
            with pytest.raises(RepeatedError, match="run 0 of query q cannot be ended"):
                committed(options, [b"1", b"2"], run=run)
    assert cluster.values() == [b"1", b"3", b"4"]


def test_what_is_published_and_staged_no_more_is_not_lost(cluster, options):
    cluster.running.close()
    cluster.running = cluster.store(deletable=True)
    committed(options, [b"1", b"2"])
    seed = sink_of(options).seed
    forget_staged(cluster)
    committed(options, [b"3"], key=OTHER)
    assert log_of(cluster) == [b"1", b"2", b"3"]
    assert sink_of(options).seed == seed


def test_partitions_that_stores_have_forgotten_come_back_at_their_ends(cluster, options, until):
    """After an hour without records nobody lists them; another query goes on, and a repetition."""
    cluster.running.close()
    cluster.running = cluster.store(deletable=True, forget_after_ms=300)
    options = replace(options, partitions=3)
    rows = [(None, b"%d" % number, b"%d" % number) for number in range(9)]
    committed(options, rows)
    ends = sink_of(options).ends
    with StoreClient(cluster.query) as client:
        for topic in ("out", STAGED):
            client.delete(topic)
        until(lambda: not client.ranges("out"))
        committed(options, rows)
        assert cluster.values() == [], "the same run is not written again"
        committed(options, rows[::-1], key=OTHER)
        kept = client.ranges("out")
    assert sorted(one.start for one in kept.values()) == sorted(ends)
    assert sum(one.stop for one in kept.values()) == sum(sink_of(options).ends) == 18
    assert len(kept) == 3


def test_a_topic_has_the_number_of_partitions_that_it_was_first_written_with(cluster, options):
    rows = [(None, b"%d" % number, b"%d" % number) for number in range(20)]
    committed(replace(options, partitions=3), rows)
    committed(options, rows, run=1)
    for run, shared in ((2, True), (0, False)):
        with pytest.raises(MisuseError, match=r"dealt to 4 partitions, and sinks have 3 there"):
            committed(replace(options, partitions=4), rows, run=run, shared=shared)
    committed(replace(options, partitions=3), rows, run=2)
    assert len(cluster.published()) == 3
    assert sum(sink_of(options).ends) == len(cluster.values()) == 60


def test_a_driver_whose_word_was_taken_and_passed_by_does_not_say_it_again(
    cluster, options, monkeypatch
):
    """A job that nobody can repeat: its own answer is lost, and another run has come since."""
    change, left = Register.change, [True]

    def lost_answer(register, offer):
        agreed = change(register, offer)
        if left and register._group == runs.group_of_topic("out"):
            left.clear()
            committed(options, [b"2"], key=OTHER)
            return change(register, offer)  # as it is after a round that comes to nothing
        return agreed

    committed(options, [b"0"], key="job 0", shared=False)
    monkeypatch.setattr(Register, "change", lost_answer)
    committed(options, [b"1"], key="job", shared=False)
    assert log_of(cluster) == [b"0", b"1", b"2"]


def test_where_too_many_have_come_meanwhile_it_is_said_that_it_is_not_known(
    cluster, options, monkeypatch
):
    place, jobs = Placing._placed, iter(range(RECENT_RUNS + 2))

    def beaten(placing, topic, manifest, before):
        if manifest.key == "job" and (job := next(jobs, None)) is not None:
            committed(options, [b"%d" % job], key=f"job {job}", shared=False)
        return place(placing, topic, manifest, before)

    committed(options, [b"a"], key="job a", shared=False)
    monkeypatch.setattr(Placing, "_placed", beaten)
    with pytest.raises(QueryError, match="not known whether job was among them"):
        committed(options, [b"lost"], key="job", shared=False)
    assert b"lost" not in cluster.values()


def test_many_queries_at_once_have_one_order(cluster, options, apart):
    """Each run whole before the next, in every partition, and each key in the order of its runs."""
    options = replace(options, partitions=3)
    keys = [b"k%d" % number for number in range(9)]
    work = {
        query: [
            staged(options, [(None, key, b"%d-%d-%s" % (query, run, key)) for key in keys])
            for run in range(4)
        ]
        for query in range(3)
    }

    def drive(query):
        for run, segments in enumerate(work[query]):
            name = commit_module.RunName(f"query {query}", run)
            commit_module.RunCommit(options, name, segments).commit()

    threads = [threading.Thread(target=drive, args=(query,)) for query in work]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    logs = cluster.published()
    assert len(logs) == 3
    assert len(cluster.values()) == len(set(cluster.values())) == 3 * 4 * 9
    orders = set()
    for records in logs.values():
        runs_seen = [record.value.rsplit(b"-", 1)[0] for record in records]
        order = list(dict.fromkeys(runs_seen))
        assert runs_seen == sorted(runs_seen, key=order.index), "no run is inside another"
        orders.add(tuple(order))
    assert len(orders) == 1, "all partitions have them in one order"


@pytest.mark.parametrize("seed", range(3))
def test_drivers_of_two_queries_that_die_anywhere_leave_every_run_once(
    cluster, options, monkeypatch, seed
):
    random = Random(seed)
    options = replace(options, partitions=2)
    expected = []
    for run in range(3):
        for key in (KEY, OTHER):
            rows = [
                (None, b"%d" % (number % 3), b"%s%d%d" % (key.encode(), run, number))
                for number in range(5)
            ]
            expected += [value for _, _, value in rows]
            for _ in range(random.randrange(3)):
                with monkeypatch.context() as patch:
                    dying(patch, random.randrange(6))
                    try:
                        committed(options, rows[:2], rows[2:], run=run, key=key)
                    except DiedError:
                        agreed = agreed_on(options, key)
                        if agreed and agreed.manifest.run == run and random.random() < 0.5:
                            break
            else:
                committed(options, rows, run=run, key=key)
    for key in (KEY, OTHER):
        committed(options, [], run=3, key=key)
    assert cluster.values() == sorted(expected)
    for records in cluster.published().values():
        for key in (b"0", b"1", b"2"):
            for query in (KEY, OTHER):
                mine = [
                    record.value
                    for record in records
                    if record.key == key and record.value.startswith(query.encode())
                ]
                assert mine == sorted(mine), "a key's rows are in the order of the runs"


def test_a_run_of_a_living_driver_is_waited_for(cluster, options, apart, monkeypatch):
    """Whoever comes next publishes nothing of it while it gets on."""
    options = replace(options, stalled_s=3.0)
    publish, sent = Mirror.publish, []

    def slowly(mirror, batch, silence_s):
        if batch.partition.topic != STAGED:
            sent.append(threading.current_thread().name)
            if sent[-1] == "slow":
                mirror.flush(10)
                threading.Event().wait(0.5)
        publish(mirror, batch, silence_s)

    monkeypatch.setattr(Mirror, "publish", slowly)
    segments = staged(options, [b"%d" % number for number in range(9)])
    driver = commit_module.RunCommit(options, commit_module.RunName(KEY, 0), segments)
    slow = threading.Thread(target=driver.commit, name="slow")
    slow.start()
    while not sent:
        threading.Event().wait(0.01)
    committed(options, [b"next"], key=OTHER)
    slow.join(60)
    assert sent.count("slow") == 9
    assert len(sent) == 10
    assert log_of(cluster)[-1] == b"next"


def test_a_topic_is_claimed_once(options):
    cluster = options.cluster.open()
    with ClusterClient(cluster) as stores:
        ports = CommitPorts(mirror_of)
        placing = Placing(cluster, stores, Publisher(options, cluster, stores, ports), ports)
        for _ in range(2):
            placing.claim("out", 2)
        assert placing.stores_agree()
    assert sink_of(options).ends == (0, 0)


@pytest.mark.parametrize("shared", [True, False])
def test_stores_that_have_lost_what_they_agreed_on_are_told_of(options, shared):
    """They have other disks: nobody knows where the run is, or whether it is whole."""
    manifest = Manifest(KEY, 0, shared, tuple(staged(options, [b"1"])))
    cluster = options.cluster.open()
    with ClusterClient(cluster) as stores:
        ports = CommitPorts(mirror_of)
        placing = Placing(cluster, stores, Publisher(options, cluster, stores, ports), ports)
        with pytest.raises(QueryError, match="topic 'out' is not known any more"):
            placing.end(manifest, mine=False)
        placing.claim("out", 1)
        if shared:
            with pytest.raises(QueryError, match="the run of query q is not known any more"):
                placing.end(manifest, mine=False)
