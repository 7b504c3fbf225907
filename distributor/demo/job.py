"""The main job's steps, each with its progress: publish, wait until everywhere, prove."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from distributor.errors import ProcessError
from distributor.operations.probe import probe
from distributor.survey import survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dafka.model import Partition, Record
    from distributor.local.supervisor import Supervisor
    from distributor.operations.probe import Vitals
    from topology.model import ClusterSpec, Topology
    from topology.processes import Process

_T = TypeVar("_T")

READY_S = 60.0
"""How long the stores may take to answer after the start: on a busy machine some took 13 s. Of a
process that dies it is told at once."""

STALLED_S = 60.0
"""The job is given up when no cluster has got a record for this long."""

POLL_S = 0.1

_LOOK_S = 0.1
"""Processes start within a second or two."""

_READY = ("ok", "unknown", "refused")
"""States of processes that need not be waited for: those that do not say are not asked again."""

ROW_HEADER = "row"
"""Name of the header with the row's number in this run: what proves that none is lost or twice."""

READ_TIMEOUT_MS = 30_000


@dataclass(slots=True)
class Published:
    """What this run has published.

    Attributes:
        rows: How many.
        size: Bytes of keys and values.
        homes: Cluster of each partition.
        seconds: From the first `send` to the last ACK.
    """

    rows: int = 0
    size: int = 0
    homes: dict[Partition, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __add__(self, later: Published) -> Published:
        """What both have published, one after the other."""
        return Published(
            self.rows + later.rows,
            self.size + later.size,
            self.homes | later.homes,
            self.seconds + later.seconds,
        )


@dataclass(slots=True)
class ReadProof:
    """What reading everything back from one cluster has shown.

    Attributes:
        cluster: Which.
        found: Records of this run.
        lost: Rows that are not there.
        duplicated: Rows that are there more than once.
        disordered: Records that stand behind one sent later.
    """

    cluster: str
    found: int = 0
    lost: int = 0
    duplicated: int = 0
    disordered: int = 0

    @property
    def flawless(self) -> bool:
        """Everything once, in order."""
        return not (self.lost or self.duplicated or self.disordered)


def wait_until_all_ready(
    supervisor: Supervisor,
    show: Callable[[int], None],
    ready_s: float = READY_S,
    ask: Callable[[Sequence[Process]], list[Vitals]] = probe,
) -> None:
    """Wait until every process that can be asked says that it is ready.

    Args:
        supervisor: Of the processes.
        show: Told how many are.
        ready_s: How long that may take.
        ask: Asks processes how they are.

    Raises:
        ProcessError: One is not in time, or a process has ended.
    """
    deadline = time.monotonic() + ready_s
    processes = [child.process for child in supervisor.children]
    waiting = processes
    while True:
        _refuse_deaths(supervisor)
        asked = ask(waiting)
        waiting = [one.process for one in asked if one.state not in _READY]
        show(len(processes) - len(waiting))
        if not waiting:
            return
        if time.monotonic() > deadline:
            late = next(one for one in asked if one.process in waiting)
            why = "; ".join(late.reasons)
            raise ProcessError(f"{late.process.name} is not ready within {ready_s:.0f} s: {why}")
        time.sleep(_LOOK_S)


def _refuse_deaths(supervisor: Supervisor) -> None:
    """At the start a death is a mistake in the file or a taken port, not an accident."""
    for child in supervisor.watch():
        raise ProcessError(
            f"{child.process.name} has ended with {child.last_exit}: "
            f"see {supervisor.log_file(child)}"
        )


def wait_until_ready(
    topology: Topology, supervisor: Supervisor, ready_s: float = READY_S
) -> dict[str, int]:
    """Wait until every cluster answers; returns how many records each has already.

    Args:
        topology: Whose clusters.
        supervisor: Of its processes.
        ready_s: How long the stores may take to answer.

    Raises:
        ProcessError: One does not answer in time, or a process keeps dying.
    """
    deadline = time.monotonic() + ready_s
    while True:
        holdings = survey(topology, timeout_ms=500)
        _refuse_deaths(supervisor)
        missing = [holding.cluster for holding in holdings if holding.store is None]
        if not missing:
            return {holding.cluster: holding.records for holding in holdings}
        if time.monotonic() > deadline:
            raise ProcessError(f"no answer within {ready_s:.0f} s from {', '.join(missing)}")
        time.sleep(POLL_S)


def in_background(work: Callable[[], _T]) -> Future[_T]:
    """Do `work` in a thread that does not keep the process from ending."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 (whoever waits gets it)
            future.set_exception(error)

    Thread(target=run, name="demo", daemon=True).start()
    return future


def wait_until_everywhere(
    topology: Topology,
    supervisor: Supervisor,
    before: dict[str, int],
    sending: Future[Published],
    show: Callable[[dict[str, int]], None],
    stalled_s: float = STALLED_S,
) -> Published:
    """Keep the processes alive until everything has been sent and every cluster holds it.

    Args:
        topology: Whose clusters.
        supervisor: Of its processes; this thread must be the one that started them.
        before: Records each cluster held before.
        sending: What is being published.
        show: Told now and then what each cluster holds.
        stalled_s: How long no cluster may get a record.

    Raises:
        ProcessError: Nothing has moved for so long.
    """
    moved = time.monotonic()
    last: dict[str, int] = {}
    while True:
        supervisor.watch()
        published = sending.result() if sending.done() else None
        now = {holding.cluster: holding.records for holding in survey(topology)}
        show(now)
        if published and all(
            now[name] >= records + published.rows for name, records in before.items()
        ):
            return published
        if now != last:
            last, moved = now, time.monotonic()
        elif time.monotonic() - moved > stalled_s:
            raise ProcessError(f"nothing has moved for {stalled_s:.0f} s; clusters hold {now}")
        time.sleep(POLL_S)


def prove(
    topology: Topology, published: Published, advance: Callable[[int], None]
) -> list[ReadProof]:
    """Read this run's records back from every cluster and look for every row."""
    return [_prove_one(cluster, published, advance) for cluster in topology.clusters]


def _prove_one(
    cluster: ClusterSpec, published: Published, advance: Callable[[int], None]
) -> ReadProof:
    proof = ReadProof(cluster.name)
    seen = bytearray(published.rows)
    with ClusterClient(Cluster.declared(cluster), READ_TIMEOUT_MS) as stores:
        client = stores.store()
        heads = client.heads()
        for partition in published.homes:
            last = -1
            for batch in client.scan(partition, 0, heads.get(partition, -1) + 1):
                for record in records_of(batch):
                    number = int(record.headers[0].value or b"")
                    proof.found += 1
                    proof.duplicated += seen[number]
                    proof.disordered += number <= last
                    seen[number] = 1
                    last = number
                advance(batch.count)
    proof.lost = published.rows - sum(seen)
    return proof


def one_record_everywhere(topology: Topology, published: Published) -> dict[str, Record]:
    """The first record that this run published on the first cluster, as each cluster has it."""
    home = topology.clusters[0].name
    partition = next(part for part, cluster in published.homes.items() if cluster == home)
    found: dict[str, Record] = {}
    for cluster in topology.clusters:
        with ClusterClient(Cluster.declared(cluster), READ_TIMEOUT_MS) as stores:
            batches = stores.store().read(partition, 0)
            found[cluster.name] = _first(batches, partition, cluster.name)
    return found


def _first(batches: Iterable[object], partition: Partition, cluster: str) -> Record:
    for batch in batches:
        for record in records_of(batch):  # type: ignore[arg-type]
            return record
    raise QueryError(f"{cluster} has no record of {partition}")
