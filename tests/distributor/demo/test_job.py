from __future__ import annotations

from collections import Counter

import pytest

from dafka.errors import QueryError
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from distributor.demo import job
from distributor.demo.job import ROW_HEADER, Published, ReadProof
from distributor.errors import ProcessError
from distributor.local.supervisor import Child
from distributor.operations.probe import Vitals
from topology.processes import Process, ProcessKind

pytestmark = pytest.mark.net

ORDERS = Partition("orders", "AB" * 16)


class FakeSupervisor:
    """Says who has died."""

    children = ()

    def __init__(self, *died):
        self.died = list(died)

    def watch(self):
        return self.died

    def log_file(self, child):
        return f"{child.process.name}.log"


class FakeChild:
    last_exit = "exit code 2"

    class process:  # noqa: N801
        name = "c1-tower-1"


def numbered(numbers, sequence=0):
    """A batch as the job publishes it: each record with its row's number."""
    builder = BatchBuilder(10_000)
    for number in numbers:
        builder.append(5, b"k", b"v", [(ROW_HEADER, str(number).encode())])
    return Batch(ORDERS, sequence, len(numbers), enclosed(builder.build(), sequence))


def test_what_clusters_hold_before_is_known_once_all_answer(pair):
    pair.fill(1, numbered([0, 1, 2]))
    with pair.running():
        assert job.wait_until_ready(pair.topology, FakeSupervisor()) == {"c1": 3, "c2": 0}


def test_a_process_that_dies_at_the_start_ends_the_wait(pair):
    with pytest.raises(ProcessError, match=r"c1-tower-1 has ended with exit code 2: .*\.log"):
        job.wait_until_ready(pair.topology, FakeSupervisor(FakeChild()))


def test_a_tower_that_dies_is_noticed_although_every_store_answers(pair):
    with pair.running(), pytest.raises(ProcessError, match="c1-tower-1 has ended"):
        job.wait_until_ready(pair.topology, FakeSupervisor(FakeChild()))


class Asked:
    """Answers for processes: each is ready when it is asked for the second time."""

    def __init__(self, state="not ready"):
        self.state = state
        self.times = Counter()

    def __call__(self, processes):
        self.times.update(process.name for process in processes)
        return [
            Vitals(one, "ok" if self.times[one.name] > 1 else self.state, ("no link",))
            for one in processes
        ]


def supervisor_of(*names):
    supervisor = FakeSupervisor()
    supervisor.children = [
        Child(Process(name=name, kind=ProcessKind.TOWER, cluster="c1", command=(), metrics=None))
        for name in names
    ]
    return supervisor


def test_each_process_is_waited_for_until_it_is_ready():
    shown, asked = [], Asked()
    job.wait_until_all_ready(supervisor_of("a", "b"), shown.append, ask=asked)
    assert shown == [0, 2]


def test_who_cannot_be_asked_is_not_waited_for():
    shown = []
    job.wait_until_all_ready(supervisor_of("a"), shown.append, ask=Asked("unknown"))
    assert shown == [1]


def test_who_is_not_ready_in_time_is_named_with_its_reason():
    with pytest.raises(ProcessError, match="a is not ready within 0 s: no link"):
        job.wait_until_all_ready(supervisor_of("a"), lambda _: None, 0, ask=Asked())


def test_who_ends_meanwhile_ends_the_wait_until_all_are_ready():
    with pytest.raises(ProcessError, match="c1-tower-1 has ended with exit code 2"):
        job.wait_until_all_ready(FakeSupervisor(FakeChild()), lambda _: None)


def test_clusters_that_never_answer_end_the_wait(pair):
    with pytest.raises(ProcessError, match="no answer within 0 s from c1, c2"):
        job.wait_until_ready(pair.topology, FakeSupervisor(), ready_s=0)


def test_waiting_ends_when_every_cluster_has_everything(pair):
    pair.fill(1, numbered([0, 1]))
    pair.fill(2, numbered([0, 1]))
    shown = []
    sending = job.in_background(lambda: Published(rows=2))
    sending.result(5)
    with pair.running():
        published = job.wait_until_everywhere(
            pair.topology,
            FakeSupervisor(),
            {"c1": 0, "c2": 0},
            sending,
            shown.append,
        )
    assert published.rows == 2
    assert shown[-1] == {"c1": 2, "c2": 2}


def test_waiting_ends_when_nothing_moves(pair):
    sending = job.in_background(lambda: Published(rows=2))
    with pair.running(), pytest.raises(ProcessError, match="nothing has moved"):
        job.wait_until_everywhere(
            pair.topology,
            FakeSupervisor(),
            {"c1": 0, "c2": 0},
            sending,
            lambda *_: None,
            stalled_s=0,
        )


def test_what_fails_in_the_background_is_raised_to_whoever_waits():
    def work():
        raise RuntimeError("reason")

    with pytest.raises(RuntimeError, match="reason"):
        job.in_background(work).result(5)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([0, 1, 2], ReadProof("c1", found=3)),
        ([0, 2], ReadProof("c1", found=2, lost=1)),
        ([0, 1, 1, 2], ReadProof("c1", found=4, duplicated=1, disordered=1)),
        ([0, 2, 1], ReadProof("c1", found=3, disordered=1)),
        ([], ReadProof("c1", lost=3)),
    ],
    ids=repr,
)
def test_the_proof_finds_what_is_lost_twice_or_out_of_order(pair, numbers, expected):
    if numbers:
        pair.fill(1, numbered(numbers))
    pair.fill(2, numbered([0, 1, 2]))
    told = []
    with pair.running():
        published = Published(rows=3, homes={ORDERS: "c1"})
        proofs = job.prove(pair.topology, published, told.append)
    assert proofs == [expected, ReadProof("c2", found=3)]
    assert sum(told) == len(numbers) + 3
    assert proofs[0].flawless == (numbers == [0, 1, 2])


def test_one_record_is_shown_as_each_cluster_has_it(pair):
    pair.fill(1, numbered([0, 1]))
    pair.fill(2, numbered([0, 1]))
    with pair.running():
        found = job.one_record_everywhere(pair.topology, Published(homes={ORDERS: "c1"}))
    assert list(found) == ["c1", "c2"]
    assert {(record.topic, record.sequence) for record in found.values()} == {("orders", 0)}


def test_a_record_that_is_not_there_is_said(pair):
    pair.fill(1, numbered([0]))
    with pair.running(), pytest.raises(QueryError, match="c2 has no record"):
        job.one_record_everywhere(pair.topology, Published(homes={ORDERS: "c1"}))
