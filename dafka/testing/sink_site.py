"""Stores that agree on runs of Spark's sinks, and drivers that commit these, in the simulator.

What commits a run is the real thing (`dafka.spark.commit` and what it stands on), each driver in a
thread of its own. Simulated are the ways to the stores, the mirror, clocks and names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from dafka.errors import NotStoredError, QueryError
from dafka.groups.acceptor import Registers
from dafka.groups.membership import blocking_of
from dafka.model import ALL_SLOTS
from dafka.process.clock import Clock
from dafka.query.service import answer
from dafka.records.batch import records_of
from dafka.spark.commit import RunCommit, RunName
from dafka.spark.options import ClusterOptions, SinkOptions
from dafka.spark.placing import RepeatedError
from dafka.spark.publication import CommitPorts
from dafka.spark.staging import Attempt, Stage, leave
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.memory import MemoryLog
from dafka.testing.sim_thread import SimThread
from dafka.testing.sink_logs import Row, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dafka.groups.runs import StagedRows
    from dafka.model import Batch, Partition, Slots
    from dafka.testing.sink_logs import Logs, Run
    from dafka.testing.world import World
    from dafka.transport.keys import Credentials

TOPICS = ("a", "b", "c")
PARTITIONS = 2
TASKS = 2
KEYS = tuple(b"%d" % number for number in range(3))
"""Of the rows of each task, for each topic."""

LATE_MS_MAX = 20_000
"""How late what a driver has sent may arrive."""

_LOOK_MS = 50


class SinkStore:
    """A store, as far as sinks are concerned.

    Args:
        world: Where it lives.
        name: Its name.
        slots: Which it keeps.
    """

    def __init__(self, world: World, name: str, slots: Slots = ALL_SLOTS) -> None:
        self.name = name
        self.slots = slots
        self.log = MemoryLog(name)
        self._world = world
        self._registers: Registers | None = None
        self._kept_slots = KeptSlots(self.log, slots)
        self.boot()

    @property
    def alive(self) -> bool:
        """Whether it answers."""
        return self._registers is not None

    def boot(self) -> None:
        """Start, knowing what is on disk."""
        self._registers = Registers(self.log, self._world.now_ms)

    def crash(self) -> None:
        """Die."""
        self._registers = None

    def answered(self, question: bytes) -> bytes:
        """What it says."""
        assert self._registers is not None
        now_ms = self._world.now_ms
        registers, kept_slots = self._registers, self._kept_slots
        return answer(question, self.log, registers=registers, kept_slots=kept_slots, now_ms=now_ms)

    def end(self, partition: Partition) -> int:
        """The sequence that comes next."""
        extent = self.log.extents().get(partition)
        return 0 if extent is None else extent.head + 1

    def take(self, batch: Batch) -> None:
        """A batch has arrived: it is stored if it is kept here, and goes on with what is there.

        Raises:
            AssertionError: There is something else in its place.
        """
        end = self.end(batch.partition)
        if not self.alive or batch.sequence > end or not self.slots.keeps(*batch.partition):
            return
        if batch.sequence == end:
            self.log.append([batch])
            return
        there = self.log.read(batch.partition, batch.sequence, 1, 1)
        assert there[0] == batch, f"two batches are {batch.sequence} of {batch.partition}"

    def repair(self, other: SinkStore) -> None:
        """Take what another one has more of."""
        for partition in other.log.extents():
            end = other.end(partition) if self.slots.keeps(*partition) else 0
            while self.alive and other.alive and self.end(partition) < end:
                for batch in other.log.read(partition, self.end(partition), 1_000, 1 << 20):
                    self.take(batch)


class Driver:
    """One life of a driver, or of a task: a thread, and what is around it."""

    def __init__(self, site: SinkSite, name: str) -> None:
        self.name = name
        self._site = site
        self._world = site.world
        self.thread: SimThread | None = None
        self.done = False
        self.clock = Clock(
            now_ms=lambda: self._world.now_ms,
            wall_ms=lambda: self._world.now_ms,
            seconds=lambda: self._world.now_ms / 1_000,
            sleep=lambda seconds: self.pause(int(seconds * 1_000)),
        )
        self._mirrors: dict[int, SimMirror] = {}
        self.ports = CommitPorts(self._mirror, self._connected, self.clock, iter, site.drawn)

    def pause(self, milliseconds: int) -> None:
        """Let the world go on; here it may die."""
        assert self.thread is not None
        self.thread.wait_for(lambda: False, max(1, milliseconds))

    def parted(self, store: SinkStore) -> bool:
        """Whether nothing gets to a store at present."""
        return not store.alive or self._world.parted(self.name, store.name)

    def _mirror(self, options: SinkOptions) -> SimMirror:
        """One for each number of stores that must have a batch."""
        enough = options.min_acks
        return self._mirrors.setdefault(enough, SimMirror(self._site, self, enough))

    def _connected(self, endpoint: str, _credentials: Credentials | None) -> SinkLine:
        return SinkLine(self._world, self, self._site.stores[endpoint])


class SinkLine:
    """The port `QueryClientPort`: a driver's way to a store."""

    def __init__(self, world: World, driver: Driver, store: SinkStore) -> None:
        self._world, self._driver, self._store = world, driver, store

    def ask(self, question: bytes, timeout_ms: int) -> bytes:
        """Return the answer, after a while.

        Raises:
            QueryError: There is none; the store may have heard the question all the same.
        """
        self._driver.pause(self._world.delay_ms())
        if self._lost():
            self._none(timeout_ms)
        found = self._store.answered(question)
        self._driver.pause(self._world.delay_ms())
        if self._lost():
            self._none(timeout_ms)
        return found

    def close(self) -> None:
        """Nothing is held."""

    def _lost(self) -> bool:
        lost = self._world.random.random() < self._world.faults.loss
        return lost or self._driver.parted(self._store)

    def _none(self, timeout_ms: int) -> None:
        self._driver.pause(timeout_ms)
        raise QueryError(f"{self._store.name} does not answer")


class SimMirror:
    """What a driver publishes through: what was sent arrives, also after its end."""

    def __init__(self, site: SinkSite, driver: Driver, min_acks: int) -> None:
        self._site, self._driver, self._min_acks = site, driver, min_acks
        self._sent: dict[Partition, list[Batch]] = {}

    def publish(self, batch: Batch, _silence_s: float) -> None:
        """Send a batch."""
        self._sent.setdefault(batch.partition, []).append(batch)
        self._send(batch)
        self._driver.pause(self._site.world.delay_ms())

    def flush(self, silence_s: float) -> None:
        """Return when enough stores have all.

        Raises:
            NotStoredError: They do not, for so long.
        """
        clock = self._driver.clock
        until_s, lacking = clock.seconds() + silence_s, self._lacking()
        while lacking:
            if clock.seconds() > until_s:
                raise NotStoredError("no store acknowledges", [])
            self._driver.pause(_LOOK_MS)
            for batch in lacking:
                self._send(batch)
            lacking = self._lacking()

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Go on anew."""
        for partition in partitions:
            self._sent.pop(partition, None)

    def _lacking(self) -> list[Batch]:
        stores = self._site.stores.values()
        return [
            batch
            for batches in self._sent.values()
            for batch in batches
            if sum(store.end(batch.partition) >= batch.end for store in stores) < self._min_acks
        ]

    def _send(self, batch: Batch) -> None:
        world = self._site.world
        for store in self._site.stores.values():
            if not world.parted(self._driver.name, store.name):
                world.send(partial(store.take, batch), LATE_MS_MAX, world.random)


def _rows(store: SinkStore, topic: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for partition in sorted(store.log.extents()):
        if partition.topic != topic:
            continue
        for batch in store.log.read(partition, 0, 1_000_000, 1 << 30):
            for record in records_of(batch):
                found.setdefault(partition.address, []).append(row_of(record.value or b""))
    return found


@dataclass(frozen=True, slots=True)
class SinkWork:
    """A run that somebody is to commit.

    Attributes:
        key: Of its query, or its own.
        number: Of the run.
        shared: Whether others may know the key.
        topics: For which it has rows.
    """

    key: str
    number: int
    shared: bool
    topics: tuple[str, ...]


class SinkSite:
    """One cluster, what is to be written to it, and what became of that.

    Args:
        world: Where it is.
        slots: What each of its stores keeps.
    """

    def __init__(self, world: World, slots: Sequence[Slots]) -> None:
        self.world = world
        self.stores = {
            f"tcp://127.0.0.1:{number}": SinkStore(world, f"S{number}", kept)
            for number, kept in enumerate(slots, 1)
        }
        self.drivers: list[Driver] = []
        self.written: set[Run] = set()
        """Runs whose drivers were told that they are."""
        self.topics: dict[int, tuple[str, ...]] = {}
        """Those of each attempt."""
        self.errors: dict[Run, str] = {}
        """Why those are not that were not, the last time."""
        self._drawn = 0
        cluster = ClusterOptions(tuple(self.stores), ("tcp://127.0.0.1:1",))
        self.options = SinkOptions(
            cluster=cluster,
            partitions=PARTITIONS,
            min_acks=blocking_of(len(slots)),
            batch_bytes=1,
            silence_s=10.0,
        )

    def drawn(self) -> str:
        """A name that nobody else has."""
        self._drawn += 1
        return f"{self._drawn:032x}"

    def start(self, work: SinkWork) -> Driver:
        """Let a driver stage the rows of a run, and commit it."""
        attempt = len(self.drivers)
        self.topics[attempt] = work.topics
        driver = Driver(self, f"D{attempt}")
        self.drivers.append(driver)
        body = partial(self._commit, driver, work, attempt)
        driver.thread = SimThread(self.world, driver.name, body)
        self.world.after(0, driver.thread.start)
        return driver

    def repair(self) -> None:
        """Let each store take what any other has."""
        for store in self.stores.values():
            for other in self.stores.values():
                store.repair(other)

    def _commit(self, driver: Driver, work: SinkWork, attempt: int) -> None:
        try:
            segments = [
                one for task in range(TASKS) for one in self._staged(driver, work, attempt, task)
            ]
            name = RunName(work.key, work.number, work.shared)
            RunCommit(self.options, name, segments, driver.ports).commit()
        except (QueryError, NotStoredError, RepeatedError) as error:
            self.errors[work.key, work.number] = f"{driver.name}: {error}"
            self.world.note(driver.name, type(error).__name__)
        else:
            self.written.add((work.key, work.number))
        finally:
            driver.done = True

    def _staged(
        self, driver: Driver, work: SinkWork, attempt: int, task: int
    ) -> Iterator[StagedRows]:
        """What a task of that run stages; another attempt has other rows."""
        mirror = driver.ports.mirror(self.options)
        mine = replace(self.options, cluster=replace(self.options.cluster, key=driver.name))
        for topic in work.topics:
            attempted = Attempt(work.key, work.number, task, driver.clock.wall_ms())
            stage = Stage(mirror, mine, attempted, topic, PARTITIONS)
            try:
                for number, key in enumerate(KEYS):
                    value = Row(work.key, work.number, attempt, task, number).encode()
                    stage.extend(number % PARTITIONS, [((key, value, []), None)])
                found = stage.finish()
            finally:
                leave(stage.place)
            mirror.flush(self.options.silence_s)
            yield found

    def logs(self) -> Logs:
        """What the stores have; all that keep a slot have the same of it."""
        logs: Logs = {topic: {} for topic in TOPICS}
        for topic, parts in logs.items():
            for store in self.stores.values():
                parts |= _rows(store, topic)
            for store in self.stores.values():
                kept = {one: rows for one, rows in parts.items() if store.slots.keeps(topic, one)}
                assert _rows(store, topic) == kept, "stores differ"
        return logs

    def kill(self, driver: Driver) -> None:
        """Let a driver die."""
        if driver.thread is not None and not driver.done:
            self.world.note("kill", driver.name)
            driver.thread.kill()
