"""Two sinks and a link on a cluster of Spark, broken at random under load, by seed.

python -m distributor.testing.spark_faults --seed 17 --rounds 50

A round breaks one or two things, each at a moment of its own: an executor, a worker, the driver
with its Python, a store of either cluster is killed with signal 9; an executor is stopped until it
has been given up, and then goes on. What was started for good is started again. Speculation is on.
Then every topic has to have, within a bound, what was published up to then, on both clusters. At
the end every record is read back from every store: each once, and those of a key in order where
the sink keeps it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from dafka.cluster import Cluster
from dafka.errors import NotStoredError
from dafka.node.producer import Producer
from dafka.process.logs import set_up_logs
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from distributor.demo import job
from distributor.errors import ProcessError
from distributor.local.processes import is_taken, processes_of
from distributor.local.supervisor import Supervisor, die_with_parent
from distributor.survey import survey
from distributor.testing.spark_driver import ORDERED, READ, SHUFFLED
from distributor.testing.standalone import FRUGAL, WORKERS, Standalone, family, signal_all
from distributor.verify.compare import verify
from topology import load, plan
from topology.output import Columns, column, number, open_console, table
from topology.processes import ProcessKind
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.model import Topology

RATE = 200
"""Records a second."""

KEYS = 16
PRODUCERS = 2

STORES = {"c1": 3, "c2": 2}
"""Of the cluster that is read and written, and of the one that the link copies to."""

HEARTBEAT_S, GIVEN_UP_S = 2, 12
"""How often an executor tells that it lives, and when one that does not is given up."""

HEAL_S_MAX = 240.0
"""Within this every topic has what was published: a driver and its executors start, tasks are tried
again, and a micro-batch of what has come meanwhile is read and committed."""

UP_S_MAX = 900.0
"""How long the first micro-batches may take."""

_TICK_S = 0.1
_PORTS = 30

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": FRUGAL,
    "spark.executor.extraJavaOptions": FRUGAL,
    "spark.executor.memory": "600m",
    "spark.sql.shuffle.partitions": "4",
    "spark.executor.heartbeatInterval": f"{HEARTBEAT_S}s",
    "spark.network.timeout": f"{GIVEN_UP_S}s",
    "spark.network.timeoutInterval": f"{HEARTBEAT_S}s",
    "spark.speculation": "true",
    "spark.speculation.interval": "500ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}


class SparkFaultKind(Enum):
    """What is done to whom."""

    EXECUTOR = "executor killed"
    FROZEN = "executor frozen"
    WORKER = "worker killed"
    DRIVER = "driver killed"
    READ_STORE = "store of the source killed"
    WRITTEN_STORE = "store of the link's target killed"


_EXTENT = {
    SparkFaultKind.EXECUTOR: (WORKERS, 1.0, 5.0),
    SparkFaultKind.FROZEN: (WORKERS, GIVEN_UP_S + 3.0, GIVEN_UP_S + 12.0),
    SparkFaultKind.WORKER: (WORKERS, 1.0, 5.0),
    SparkFaultKind.DRIVER: (0, 0.5, 3.0),
    SparkFaultKind.READ_STORE: (STORES["c1"], 1.0, 8.0),
    SparkFaultKind.WRITTEN_STORE: (STORES["c2"], 1.0, 8.0),
}
"""How many there are to choose from, and how long it lasts."""


@dataclass(frozen=True, slots=True)
class SparkFault:
    """One of a round.

    Attributes:
        kind: What.
        place: Which worker, or store of the cluster, counted from 1; 0 for the driver.
        after_s: When it begins, in the round.
        seconds: How long until it is mended.
    """

    kind: SparkFaultKind
    place: int
    after_s: float
    seconds: float

    def __str__(self) -> str:
        which = f" {self.place}" * bool(self.place)
        return f"{self.kind.value}{which} at {self.after_s:.1f} s for {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class SparkRound:
    """What came of a round.

    Attributes:
        place: Which, counted from 0.
        faults: What was done.
        healed_s: How long it took; None if it did not heal in time.
        drivers: How many drivers have been started since the first one.
    """

    place: int
    faults: tuple[SparkFault, ...]
    healed_s: float | None
    drivers: int


@dataclass(frozen=True, slots=True)
class TopicProof:
    """What reading a topic back from a cluster has shown.

    Attributes:
        topic: Which.
        cluster: Where.
        records: How many were published.
        lost: How many of these are not there.
        twice: What is there beside each of these once.
        disordered: What stands behind a later one of its key.
    """

    topic: str
    cluster: str
    records: int
    lost: int
    twice: int
    disordered: int

    @property
    def flawless(self) -> bool:
        """Everything once, and where it is kept in order."""
        return not (self.lost or self.twice or self.disordered)


def drawn(chance: random.Random) -> tuple[SparkFault, ...]:
    """Draw the faults of a round: one, or two of other kinds."""
    kinds = chance.sample(list(SparkFaultKind), chance.choice((1, 1, 2)))
    return tuple(_drawn_of(kind, chance) for kind in kinds)


def _drawn_of(kind: SparkFaultKind, chance: random.Random) -> SparkFault:
    after_s = round(chance.uniform(0.0, 4.0), 1)
    places, least_s, most_s = _EXTENT[kind]
    place = chance.randint(1, places) if places else 0
    return SparkFault(kind, place, after_s, round(chance.uniform(least_s, most_s), 1))


def grown(directory: Path, first_port: int) -> dict[str, Any]:
    """Return the topology as its file says it: two clusters, with stores as `STORES` has them."""
    clusters, port = [], first_port
    for place, (name, stores) in enumerate(STORES.items(), 1):
        clusters.append(
            {
                "name": name,
                "id": place,
                "towers": [f"tcp://127.0.0.1:{port}"],
                "stores": [
                    {
                        "query": f"tcp://127.0.0.1:{port + 2 + store}",
                        "data": str(directory / f"{name}-{store + 1}"),
                    }
                    for store in range(stores)
                ],
            }
        )
        port += _PORTS // 3
    tree = {"level": 1, "children": list(STORES)}
    return {"version": 1, "name": "faults", "clusters": clusters, "tree": tree}


class Numbers:
    """Numbers that are published at a steady rate on the first cluster, those of a key in order."""

    def __init__(self, topology: Topology) -> None:
        cluster = Cluster.declared(topology.clusters[0])
        self._producers = [Producer(cluster) for _ in range(PRODUCERS)]
        self.published = 0
        self._done = Event()
        self._thread = Thread(target=self._send, name="numbers", daemon=True)
        self._thread.start()

    def finish(self) -> int:
        """Stop, wait until all is acknowledged, and return how many it were.

        Raises:
            NotStoredError: It is not within `job.STALLED_S`.
        """
        self._done.set()
        self._thread.join()
        for producer in self._producers:
            producer.flush(job.STALLED_S)
        return self.published

    def close(self) -> None:
        """Stop at once; what is not acknowledged is lost."""
        self._done.set()
        self._thread.join()
        for producer in self._producers:
            with suppress(NotStoredError):
                producer.close(0)

    def _send(self) -> None:
        while not self._done.wait(_TICK_S):
            for _ in range(round(RATE * _TICK_S)):
                key = self.published % KEYS
                producer = self._producers[key % PRODUCERS]
                producer.send(READ, str(self.published).encode(), key=str(key).encode())
                self.published += 1


class SparkCampaign:
    """The processes of one campaign.

    Args:
        seed: Of the faults.
        directory: For files, logs and disks.
        first_port: Of a block that is free.
    """

    def __init__(self, seed: int, directory: Path, first_port: int) -> None:
        self._chance = random.Random(seed)
        self._directory = directory
        file = directory / "topology.yaml"
        file.write_text(json.dumps(grown(directory, first_port)))
        self._file = file
        self._topology = load(file)
        kinds = (ProcessKind.TOWER, ProcessKind.STORE)
        processes = [one for one in processes_of(plan(self._topology), file) if one.kind in kinds]
        self._supervisor = Supervisor(processes, directory / "logs")
        (directory / "spark").mkdir()
        self._spark = Standalone(directory / "spark", first_port + _PORTS - 1)
        self._driver: subprocess.Popen[bytes] | None = None
        self._drivers = 0
        self._driver_held = False

    def run(self, rounds: int) -> Iterator[SparkRound | TopicProof | str]:
        """Yield what came of each round; then what is proved of each topic, and what is wrong."""
        with ExitStack() as opened:
            opened.callback(self._supervisor.stop)
            self._supervisor.start()
            job.wait_until_ready(self._topology, self._supervisor)
            opened.enter_context(self._spark)
            opened.callback(self._kill_driver)
            numbers = Numbers(self._topology)
            opened.callback(numbers.close)
            if self._until_all_have(1, UP_S_MAX) is None:
                raise ProcessError(
                    f"nothing is written after {UP_S_MAX:.0f} s: see {self._directory / 'logs'}"
                )
            for place in range(rounds):
                faults = drawn(self._chance)
                self._break(faults)
                healed_s = self._until_all_have(numbers.published, HEAL_S_MAX)
                yield SparkRound(place, faults, healed_s, self._drivers - 1)
            published = numbers.finish()
            if self._until_all_have(published, HEAL_S_MAX) is None:
                yield f"not all of {published} records is everywhere: {self._held()}"
            yield from self._proved(published)

    def _break(self, faults: tuple[SparkFault, ...]) -> None:
        """Let faults begin and end, each when it is due."""
        began = time.monotonic()
        due = [(fault.after_s, fault) for fault in faults]
        with ExitStack() as mended:
            mending: list[tuple[float, ExitStack]] = []
            while due or mending:
                now_s = time.monotonic() - began
                for entry in [one for one in due if one[0] <= now_s]:
                    due.remove(entry)
                    end = mended.enter_context(ExitStack())
                    self._begin(entry[1], end)
                    mending.append((now_s + entry[1].seconds, end))
                for over in [one for one in mending if one[0] <= now_s]:
                    mending.remove(over)
                    over[1].close()
                self._look_after()
                time.sleep(_TICK_S)

    def _begin(self, fault: SparkFault, mended: ExitStack) -> None:
        match fault.kind:
            case SparkFaultKind.EXECUTOR:
                signal_all(self._executors(fault.place), signal.SIGKILL)
            case SparkFaultKind.FROZEN:
                frozen = self._executors(fault.place)
                signal_all(frozen, signal.SIGSTOP)
                mended.callback(signal_all, frozen, signal.SIGCONT)
            case SparkFaultKind.WORKER:
                self._spark.kill(fault.place)
                mended.callback(self._spark.start, fault.place)
            case SparkFaultKind.DRIVER:
                self._driver_held = True
                self._kill_driver()
                mended.callback(setattr, self, "_driver_held", False)
            case SparkFaultKind.READ_STORE:
                self._take_down(f"c1-store-{fault.place}", mended)
            case SparkFaultKind.WRITTEN_STORE:
                self._take_down(f"c2-store-{fault.place}", mended)

    def _executors(self, worker: int) -> list[int]:
        """A worker's executors, and the Python that works for them."""
        return [pid for one in self._spark.executors(worker) for pid in family(one)]

    def _take_down(self, store: str, mended: ExitStack) -> None:
        (child,) = (one for one in self._supervisor.children if one.process.name == store)
        child.held = True
        self._supervisor.kill(store)

        def bring_back() -> None:
            child.held, child.due_s = False, 0.0

        mended.callback(bring_back)

    def _look_after(self) -> None:
        """Start again what has ended."""
        self._supervisor.watch()
        if self._driver_held or (self._driver is not None and self._driver.poll() is None):
            return
        self._kill_driver()
        given = {
            "file": str(self._file),
            "master": self._spark.master,
            "checkpoints": (self._directory / "checkpoints").as_uri(),
            "conf": SETTINGS | {"spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path)},
        }
        with (self._directory / "logs" / "driver.log").open("ab") as log:
            self._driver = subprocess.Popen(  # noqa: S603 (our own module)
                [sys.executable, "-m", "distributor.testing.spark_driver", json.dumps(given)],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._drivers += 1

    def _kill_driver(self) -> None:
        """Kill the driver's Python, its Java, and what plans for it; nothing of it is told."""
        if self._driver is not None:
            signal_all(list(family(self._driver.pid)), signal.SIGKILL)
            self._driver.wait()

    def _held(self) -> Counter[tuple[str, str]]:
        """How many records each cluster has of each topic."""
        held: Counter[tuple[str, str]] = Counter()
        for holding in survey(self._topology, timeout_ms=500):
            for partition, head in holding.heads.items():
                held[holding.cluster, partition.topic] += head + 1
        return held

    def _until_all_have(self, records: int, seconds: float) -> float | None:
        """Wait until every topic has so many on both clusters; how long it took, or None."""
        began = time.monotonic()
        while True:
            self._look_after()
            held = self._held()
            passed_s = time.monotonic() - began
            topics = (READ, ORDERED, SHUFFLED)
            if all(held[name, topic] >= records for name in STORES for topic in topics):
                return passed_s
            if passed_s > seconds:
                return None
            time.sleep(_TICK_S)

    def _proved(self, published: int) -> Iterator[TopicProof | str]:
        for cluster in self._topology.clusters:
            with ClusterClient(Cluster.declared(cluster), job.READ_TIMEOUT_MS) as stores:
                client = stores.store()
                for topic in (READ, ORDERED, SHUFFLED):
                    logs = [
                        [
                            (record.key, int(record.value or b"-1"))
                            for batch in client.scan(partition, 0, head + 1)
                            for record in records_of(batch)
                        ]
                        for partition, head in client.heads(topic).items()
                    ]
                    yield proved(topic, cluster.name, logs, published)
        # What was read of one store the others have, too.
        yield from verify(self._topology, deep=True).problems


def proved(
    topic: str, cluster: str, logs: list[list[tuple[bytes | None, int]]], published: int
) -> TopicProof:
    """Judge a topic: each log is a partition's keys and numbers, in order.

    Rows that have crossed an exchange are in no order.
    """
    found = Counter(row for log in logs for _, row in log)
    disordered = 0
    last: dict[bytes | None, int] = {}
    for key, row in (entry for log in logs for entry in log):
        disordered += topic != SHUFFLED and row <= last.get(key, -1)
        last[key] = row
    there = len(found.keys() & set(range(published)))
    return TopicProof(
        topic=topic,
        cluster=cluster,
        records=published,
        lost=published - there,
        twice=found.total() - there,
        disordered=disordered,
    )


def free_block(first: int) -> int:
    """The first port from here on of a block in which nobody listens."""
    while any(is_taken("127.0.0.1", port) for port in range(first, first + _PORTS)):
        first += _PORTS
    return first


def run(
    seed: int, rounds: int, directory: Path, first_port: int
) -> tuple[list[SparkRound], list[TopicProof], list[str]]:
    """Run one campaign; returns what came of each round, what is proved, and what is wrong."""
    done: list[SparkRound] = []
    proofs: list[TopicProof] = []
    problems: list[str] = []
    for outcome in SparkCampaign(seed, directory, first_port).run(rounds):
        match outcome:
            case SparkRound():
                done.append(outcome)
                if outcome.healed_s is None:
                    problems.append(f"round {outcome.place}: not healed in {HEAL_S_MAX:.0f} s")
                say(
                    f"  round {outcome.place}: {_faults(outcome)}: {_healed(outcome)}",
                    file=sys.stderr,
                )
            case TopicProof():
                proofs.append(outcome)
                if not outcome.flawless:
                    problems.append(f"{outcome.topic} on {outcome.cluster} is not exact: {outcome}")
            case str():
                problems.append(outcome)
    return done, proofs, problems


def _faults(one: SparkRound) -> str:
    return ", ".join(map(str, one.faults))


def _healed(one: SparkRound) -> str:
    return "NOT healed" if one.healed_s is None else f"{one.healed_s:.1f} s"


ROUNDS_SHOWN: Columns[SparkRound] = (
    number("round", lambda one: one.place),
    column("faults", _faults),
    column("healed after", _healed),
    number("drivers", lambda one: one.drivers),
)

PROOFS_SHOWN: Columns[TopicProof] = (
    column("topic"),
    column("cluster"),
    number("records"),
    number("lost"),
    number("twice"),
    number("out of order", lambda one: one.disordered),
)


def main() -> int:
    """Run a campaign from the command line; 0 if all healed and every topic is exact."""
    parser = argparse.ArgumentParser(description="Break a cluster of Spark at random.")
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--rounds", type=int, default=50, help="how often it is broken")
    arguments = parser.parse_args()
    set_up_logs("error")  # that nodes do not find each other for a while is meant
    with tempfile.TemporaryDirectory(prefix="dafka-spark-") as directory:
        done, proofs, problems = run(
            arguments.seed, arguments.rounds, Path(directory), free_block(24_000)
        )
    console = open_console()
    console.print(table(ROUNDS_SHOWN, done, "rounds"))
    console.print(table(PROOFS_SHOWN, proofs, "every record, looked for by number"))
    for problem in problems:
        say(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
