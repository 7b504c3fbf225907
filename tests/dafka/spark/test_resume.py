from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.model import Batch, Partition
from dafka.query.client import StoreClient
from dafka.records.batch import BatchBuilder, Run, cut, enclosed
from dafka.spark.resume import (
    OverlappedError,
    PublishedDigests,
    RepeatedError,
    ResumePoint,
    address_for,
    check_tasks,
    resumed,
)
from dafka.transport.access import Access, Rights, fingerprint
from dafka.transport.keys import Credentials, new_keys


@pytest.fixture(params=[1, 1 << 20])
def published(make_batch, request):
    """Two batches, compared apart or together."""
    batches = [make_batch([b"0", b"1", b"2"]), make_batch([b"3", b"4"], 3)]
    published = PublishedDigests(batches[0].partition, portion_bytes=request.param)
    for batch in batches:
        published.add(batch)
    return published, batches


def test_stores_that_have_it_confirm_it(published, serve, silent):
    noted, batches = published
    whole, part = serve(*batches), serve(batches[0])
    noted.check(Cluster(stores=whole.endpoint), 1)
    noted.check(Cluster(stores=[silent, part.endpoint, whole.endpoint]), 1)
    with pytest.raises(QueryError, match=r"only 1 of 3 stores .*; 2 are needed") as raised:
        noted.check(Cluster(stores=[silent, part.endpoint, whole.endpoint]), 2)
    assert raised.value.retriable


def test_other_records_are_told_by_address_and_range(published, serve, make_batch):
    noted, batches = published
    other = serve(batches[0], make_batch([b"4", b"3"], 3))
    with pytest.raises(OverlappedError, match=r"to 4 of partition ABAB\w* of topic 'orders'"):
        noted.check(Cluster(stores=[serve(*batches).endpoint, other.endpoint]), 1)
    with pytest.raises(OverlappedError):
        noted.compare(Cluster(stores=other.endpoint))


def test_nothing_published_is_confirmed_by_anybody(serve, make_batch):
    PublishedDigests(make_batch([b"0"]).partition).check(Cluster(stores=serve().endpoint), 1)


LOG = Partition("orders", address_for(Cluster(), "query q", 3))


def batch(sequence, count, run, *, last=False):
    builder = BatchBuilder(1 << 20, run)
    for number in range(count):
        builder.append(5, None, b"%d" % number, ())
    return Batch(LOG, sequence, count, enclosed(builder.build(last=last), sequence))


def test_names_follow_from_query_and_task_and_nothing_else():
    queries = "query q", "job q"
    names = {address_for(Cluster(), query, task) for query in queries for task in range(3)}
    assert len(names) == 6
    assert all(len(name) == 32 and name == name.upper() for name in names)
    assert {address_for(Cluster(), "query q", task) for task in range(3)} < names


def test_names_are_of_the_jobs_key():
    public, secret = new_keys()
    keys = Credentials(Access(new_keys()[0], {public: Rights()}), public, secret)
    name = address_for(Cluster(credentials=keys), "query q", 3)
    assert name[:16] == fingerprint(public)
    assert name[16:] == address_for(Cluster(), "query q", 3)[16:]


def test_the_first_run_begins_at_the_beginning(serve):
    assert resumed(Cluster(stores=serve().endpoint), 1, LOG, 0) == ResumePoint(0, 0)


def test_the_next_run_goes_on_behind_the_last(serve):
    port = serve(batch(0, 4, Run(7, 0)))
    assert resumed(Cluster(stores=port.endpoint), 1, LOG, 8) == ResumePoint(4, 0)


def test_a_repeated_run_finds_what_it_wrote(serve):
    port = serve(batch(0, 4, Run(6, 0)), batch(4, 2, Run(7, 0)), batch(6, 3, Run(7, 2)))
    assert resumed(Cluster(stores=port.endpoint), 1, LOG, 7) == ResumePoint(4, 5)


@pytest.mark.parametrize("run", [7, 8])
def test_it_goes_on_behind_what_retention_has_taken(serve, run):
    port = serve(batch(0, 4, Run(7, 0)))
    port.log.append((), trims={LOG: 4})
    assert resumed(Cluster(stores=port.endpoint), 1, LOG, run) == ResumePoint(4, 0)


def test_a_run_of_which_retention_took_a_part_is_refused(serve):
    port = serve(batch(0, 4, Run(7, 0)), batch(4, 2, Run(7, 4)))
    port.log.append((), trims={LOG: 4})
    with pytest.raises(RepeatedError, match="retention has taken 4 of the records"):
        resumed(Cluster(stores=port.endpoint), 1, LOG, 7)
    assert resumed(Cluster(stores=port.endpoint), 1, LOG, 8) == ResumePoint(6, 0)


def test_a_run_is_known_as_long_as_any_store_keeps_all_of_it(serve):
    full = [batch(0, 4, Run(7, 0)), batch(4, 2, Run(7, 4))]
    trimmed, whole = serve(*full), serve(*full)
    trimmed.log.append((), trims={LOG: 6})
    servers = [trimmed.endpoint, whole.endpoint]
    assert resumed(Cluster(stores=servers), 1, LOG, 7) == ResumePoint(0, 6)


def test_an_end_that_retention_takes_meanwhile_is_asked_for_again(serve, monkeypatch):
    port = serve(batch(0, 4, Run(7, 0)))
    ranges = StoreClient.ranges_of

    def trimmed_behind(client, partitions):
        found = ranges(client, partitions)
        port.log.append((), trims={LOG: 4})
        return found

    monkeypatch.setattr(StoreClient, "ranges_of", trimmed_behind)
    with pytest.raises(QueryError, match=r"dropped the end of .* just now") as raised:
        resumed(Cluster(stores=port.endpoint), 1, LOG, 7)
    assert raised.value.retriable


def test_a_run_that_comes_too_late_is_refused(serve):
    port = serve(batch(0, 4, Run(7, 0)))
    with pytest.raises(RepeatedError, match=r"run 6 cannot write .* any more: run 7 has"):
        resumed(Cluster(stores=port.endpoint), 1, LOG, 6)


def test_a_partition_of_somebody_else_is_refused(serve):
    port = serve(batch(0, 4, None))
    with pytest.raises(RepeatedError, match="somebody else has"):
        resumed(Cluster(stores=port.endpoint), 1, LOG, 6)


def test_a_run_that_was_begun_with_more_tasks_is_told(serve):
    port = serve(batch(0, 4, Run(6, 0)), batch(4, 2, Run(7, 0)))
    check_tasks(Cluster(stores=port.endpoint), "query q", 7, 4, "orders")
    check_tasks(Cluster(stores=port.endpoint), "query q", 6, 3, "orders")
    check_tasks(Cluster(stores=port.endpoint), "query r", 7, 2, "orders")
    for tasks in (1, 3):
        with pytest.raises(RepeatedError, match=f"task 3 wrote .* had only {tasks} tasks now"):
            check_tasks(Cluster(stores=port.endpoint), "query q", 7, tasks, "orders")


def test_that_a_task_had_ended_is_remembered(serve):
    whole = batch(0, 4, Run(7, 0), last=True)
    assert resumed(Cluster(stores=serve(whole).endpoint), 1, LOG, 7) == ResumePoint(
        0, 4, ended=True
    )
    half, rest = cut(whole, 0, 2), cut(whole, 2, 4)
    assert resumed(Cluster(stores=serve(half).endpoint), 1, LOG, 7) == ResumePoint(
        0, 2, ended=False
    )
    assert resumed(Cluster(stores=serve(half, rest).endpoint), 1, LOG, 7) == ResumePoint(
        0, 4, ended=True
    )


def test_as_many_stores_are_asked_as_it_takes_to_be_sure(serve, silent):
    behind, ahead = serve(), serve(batch(0, 4, Run(7, 0)))
    both = [behind.endpoint, ahead.endpoint]
    assert resumed(Cluster(stores=both), 1, LOG, 7) == ResumePoint(0, 4)
    with pytest.raises(QueryError, match=r"only 1 of 2 stores .* 2 are needed"):
        resumed(Cluster(stores=[silent, ahead.endpoint]), 1, LOG, 7)
    assert resumed(Cluster(stores=[silent, ahead.endpoint]), 2, LOG, 7) == ResumePoint(0, 4)
