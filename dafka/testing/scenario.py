"""One seed, one run: one cluster, random traffic, faults, healing, and the checker.

python -m dafka.testing.scenario --seed 17
"""

from __future__ import annotations

import random
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dafka.model import ALL_SLOTS, SLOTS, Partition, Slots
from dafka.node.loop import NodeFailedError
from dafka.node.store_settings import StoreSettings
from dafka.protocol.consumer import ConsumerSettings, Start
from dafka.protocol.idle import IDLE_AFTER_MS
from dafka.storage.forgetting import FORGET_AFTER_MS
from dafka.storage.memory import MemoryLog
from dafka.storage.retention import Retention
from dafka.testing.checker import Anomaly, Name, check, condensed, vacuous
from dafka.testing.history import Fault, Polled, Positioned
from dafka.testing.lmdb_store import LmdbStore
from dafka.testing.nodes import SimConsumer, SimProducer, SimStore, read_stores
from dafka.testing.seeds import run_seeds
from dafka.testing.strangers import SimBareTwin, SimLiar
from dafka.testing.timing import dropped_young, starved
from dafka.testing.world import Faults, SimMesh, World

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPICS = ("flights", "flights-late")
"""One begins as the other does, and that is where it ends: nobody gets what he did not ask for."""

AGED = "readings"
"""A topic of which retention takes what is old."""

TWINS = Partition("twins", "TWIN")
"""What two producers publish that have one address."""

BARE_TWINS = Partition("copies", "BARE")
"""The same of another make: nothing but their values tells them apart."""

SETTLING_MS_MAX = 180_000
"""Bound on settling: HEADs come ever more rarely, up to every 32 s, each may start a round."""

BACK_MS_MAX = 1_500
"""How long a crashed node stays away."""

NEW_DISK_MS = 300
"""So long at least one that comes back with a new disk: by then its end is known to all."""

LMDB_EVERY = 16
"""Of so many seeds one has a store on a real log."""

SHARING_EVERY = 7
"""Of so many seeds one has stores that share the slots; and half of those with guests have."""

SHARES = tuple(Slots.of([one]) for one in (range(2_048), range(2_048, SLOTS)) for _ in range(2))
"""What each of these keeps."""

SMALL_BYTES = 1_000
"""The buffer of consumers in some runs: a few batches."""

SENT_MS = 2_000
"""By then a record is stored where nothing goes wrong, and what is dropped is off the disk."""

HESITATING_EVERY = 6
"""Of so many seeds one ends with a store that is suspended when it is needed."""

HESITATION_MS = 4_000
"""So long a store is suspended that a consumer has to wait for."""

ORPHANS = 10
"""Batches of a producer that no store has: more than that buffer takes."""

FORGETTING_EVERY = 3
"""Of so many seeds one has retention of everything, and stores that forget what it has emptied."""

FORGETTING_MS = 200
"""How soon."""

GUESTS_EVERY = 7
GUESTS = {5: ("P0", "P1", "C0", "C1", "C2"), 6: ("P1", "C0", "C2")}
"""Who is a guest where a seed leaves such a remainder: all, or some beside nodes that are none."""

SUSPENDED_MS_MAX = 10_000
"""How long a machine is suspended at most."""

QUIET_MS = 35_000
"""So long hardly anything happens in some runs: then consumers know what there was before."""

REST_MS = 30_000
"""Time that consumers have for the last records."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        anomalies: None is a pass.
        records: How many the stores ended up with, all in all.
        crashes: How many times something was killed, suspended or cut off.
        fingerprint: Equal for equal runs.
    """

    anomalies: tuple[Anomaly, ...]
    records: int
    crashes: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Traits:
    """What is particular about a run, beside its faults.

    Attributes:
        min_acks: How many stores the producers wait for.
        buffer_bytes_max: Of each consumer.
        age_ms: How long stores keep what is in `AGED`.
        twins: Whether two producers have one address.
        eager: How much a peer lies; 0 for none that does.
        wrong_ms: By how much the clock of one machine is wrong.
        lasting: Whether it goes on for some time, and then one more producer comes.
        forgetting: Whether retention takes all topics, stores forget what it has emptied, and
            consumers what stands still.
        sharing: Whether there are four stores, of which two and two share the slots.
        losing: Whether one of the stores loses its disk, again and again. What producers wait for
            two stores for, the other has then.
        guests: Who is connected to stores only.
    """

    min_acks: int = 1
    buffer_bytes_max: int = 1 << 25
    age_ms: int = 20_000
    twins: bool = False
    eager: float = 0.0
    wrong_ms: int = 0
    lasting: bool = False
    forgetting: bool = False
    losing: bool = False
    sharing: bool = False
    guests: tuple[str, ...] = ()


class ScenarioCluster:
    """Two producers, one with a spool, two stores of each slot, three consumers.

    One of these is given what is stored only.

    Args:
        seed: Everything random comes from it.
        faults: What goes wrong until they are healed.
        traits: What is particular about it.
        directory: Where the second store has a real log, if it has one.
        shares: What of the ring each store keeps, if not as the traits say.
    """

    def __init__(
        self,
        seed: int,
        faults: Faults,
        traits: Traits = Traits(),
        directory: Path | None = None,
        shares: Sequence[Slots] = (),
    ) -> None:
        self.world = World(seed, faults)
        shares = shares or (SHARES if traits.sharing else (ALL_SLOTS,) * 2)
        self.mesh = mesh = SimMesh(self.world)
        self.traits = traits
        self.producers = [
            SimProducer(
                self.world, f"P{number}", mesh, spooled=number == 1, min_acks=traits.min_acks
            )
            for number in range(2)
        ]
        for producer in self.producers:
            producer.guest = producer.name in traits.guests
        self.stores = [self.new_store(number, slots) for number, slots in enumerate(shares)]
        if directory is not None:
            self.stores[1] = LmdbStore(
                self.world, "S1", mesh, MemoryLog("S1"), directory, self.forget_after_ms, self.kept
            )
        all_topics = (*TOPICS, AGED)
        stored_topics = (*all_topics, TWINS.topic) if traits.twins else all_topics
        room = traits.buffer_bytes_max
        self.consumers = [
            SimConsumer(
                self.world,
                name,
                mesh,
                ConsumerSettings(
                    topics=topics,
                    start=start,
                    committed=committed,
                    guest=name in traits.guests,
                    buffer_bytes_max=room,
                    idle_after_ms=FORGETTING_MS if traits.forgetting else IDLE_AFTER_MS,
                ),
            )
            for name, topics, start, committed in (
                ("C0", all_topics, Start.EARLIEST, False),
                ("C1", TOPICS[:1], Start.LATEST, False),
                ("C2", stored_topics, Start.EARLIEST, True),
            )
        ]
        self.twins = [
            SimProducer(self.world, f"T{number}", mesh, min_acks=2, address=TWINS.address)
            for number in range(2 if traits.twins else 0)
        ]
        self.wrong = self.world.random.choice([*self.stores, *self.producers])
        """Whose clock is the one that is wrong, if any is."""
        self.late_ms: dict[str, int] = {}
        """By how much clocks were behind, of whom they were."""
        self.set_clock()
        for node in [*self.nodes, *self.twins, *self._strangers()]:
            node.boot()

    def new_store(self, number: int, slots: Slots, *, joins: bool = False) -> SimStore:
        """A store on an empty disk, to be started."""
        name = f"S{number}"
        settings = StoreSettings(forget_after_ms=self.forget_after_ms, slots=slots, joins=joins)
        return SimStore(self.world, name, self.mesh, MemoryLog(name), settings, self.kept)

    @property
    def forget_after_ms(self) -> int:
        """How long stores remember what retention has emptied."""
        return FORGETTING_MS if self.traits.forgetting else FORGET_AFTER_MS

    @property
    def kept(self) -> tuple[Retention, ...]:
        """What stores need not keep."""
        return (Retention(topics=AGED, age_ms=self.traits.age_ms),)

    def _strangers(self) -> list[SimLiar | SimBareTwin]:
        strangers: list[SimLiar | SimBareTwin] = []
        if self.traits.twins:
            strangers += [
                SimBareTwin(self.world, f"B{number}", self.mesh, BARE_TWINS) for number in range(2)
            ]
        if self.traits.eager:
            strangers.append(SimLiar(self.world, "L", self.mesh, self.traits.eager))
        return strangers

    @property
    def nodes(self) -> list[SimProducer | SimStore | SimConsumer]:
        """Everything that can crash."""
        return [*self.producers, *self.stores, *self.consumers]

    def settled(self) -> bool:
        """Whether all live, and nothing is waiting for stores that take it."""
        return all(node.awake for node in self.nodes) and not any(
            producer.waiting for producer in self.producers
        )

    def set_clock(self) -> None:
        """Set the one clock that is wrong, forward or back."""
        wrong_ms = self.world.random.choice((-self.traits.wrong_ms, 0, self.traits.wrong_ms))
        self.wrong.machine_clock.ahead_ms = wrong_ms
        behind_ms = max(self.late_ms.get(self.wrong.name, 0), -wrong_ms)
        self.late_ms[self.wrong.name] = behind_ms

    def send_somewhere(self) -> None:
        """Let a random living producer send a batch."""
        chance = self.world.random
        awake = [producer for producer in self.producers if producer.awake]
        if awake:
            chance.choice(awake).send(chance.choice((*TOPICS, AGED)), chance.randint(1, 5))
        for twin in self.twins:
            if chance.random() < 0.3:
                twin.send(TWINS.topic, chance.randint(1, 3))

    def retain(self) -> None:
        """Let retention take some or all of a partition from the stores that live."""
        chance = self.world.random
        ends = {
            partition: extent.head + 1
            for store in self.stores
            for partition, extent in store.log.extents().items()
        }
        if ends:
            partition = chance.choice(sorted(ends))
            start = chance.choice((ends[partition], chance.randint(0, ends[partition])))
            for store in self.stores:
                if store.alive and partition in store.log.extents():
                    store.trim(partition, start)

    def empty(self) -> None:
        """Let retention take everything."""
        for store in self.stores:
            for partition, extent in [*store.log.extents().items()]:
                store.trim(partition, extent.head + 1)

    def break_something(self) -> None:
        """Kill or suspend a random living node for a while, cut two off, or set a clock."""
        chance = self.world.random
        what = chance.choice(("crash", "crash", "crash", "suspend", "cut", "clock"))
        if self.traits.eager and what in ("suspend", "cut"):
            return  # who hears for long nobody but a liar has nobody else to believe
        awake = [node for node in self.nodes if node.awake]
        if what == "clock":
            self.set_clock()
        elif what == "cut":
            # Whoever begins at the latest record has to hear of stores to know what was there.
            names = [node.name for node in self.nodes if node is not self.consumers[1]]
            self.world.cut(*chance.sample(names, 2), both=chance.random() < 0.5)
        elif awake and what == "suspend":
            chance.choice(awake).suspend(chance.randint(1, SUSPENDED_MS_MAX))
        elif awake:
            node = chance.choice(awake)
            back_ms = chance.randint(1, BACK_MS_MAX)
            if self.traits.losing and node is self.stores[0]:
                self.stores[0].lose_disk()
                back_ms = max(back_ms, NEW_DISK_MS)
            else:
                node.crash()
            self.world.after(back_ms, node.boot)

    def orphan(self) -> None:
        """Let a producer die when consumers have what it has sent, and no store does."""
        producer = self.producers[0]
        if not producer.awake:
            return
        for store in self.stores:
            if store.alive:
                store.crash()
                self.world.after(BACK_MS_MAX, store.boot)
        for _ in range(ORPHANS):
            producer.send(TOPICS[0], 5)
        self.world.run_until(self.world.now_ms + 2 * self.world.faults.delay_ms_max)
        if producer.alive:
            producer.crash()
            self.world.after(BACK_MS_MAX, producer.boot)

    def hesitates(self) -> list[Anomaly]:
        """A consumer lacks what one store has dropped, and the other, which is suspended, has.

        Returns:
            That it has gone on without, which it may only do when nobody answers for longer.
        """
        producer, consumer = self.producers[0], self.consumers[0]
        world, began_ms = self.world, self.world.now_ms
        world.cut(producer.name, consumer.name, both=False)
        producer.send(TOPICS[0], 3)
        world.run_until(began_ms + SENT_MS)
        partition = Partition(TOPICS[0], producer.address)
        self.stores[0].trim(partition, self.stores[0].log.ends()[partition])
        world.run_until(began_ms + 2 * SENT_MS)
        self.stores[1].suspend(HESITATION_MS)
        world.cuts.clear()
        producer.send(TOPICS[0], 1)
        world.run_until(world.now_ms + 3 * HESITATION_MS)
        return [
            Anomaly(Name.SKIP, f"{consumer.name} did not wait for {self.stores[1].name}: {event}")
            for event in world.history
            if isinstance(event, Positioned)
            and (event.process, event.partition) == (consumer.name, partition)
            and event.at_ms >= began_ms
        ]

    def outlives(self) -> list[Anomaly]:
        """Each store dies in turn, when nothing else goes wrong.

        Returns:
            Which guests have not heard from another what was stored meanwhile.
        """
        world, producer = self.world, self.producers[0]
        partition, found = Partition(TOPICS[0], producer.address), []
        for store in self.stores:
            store.crash()
            world.run_until(world.now_ms + SENT_MS)
            sent_ms = world.now_ms
            producer.send(TOPICS[0], 1)
            world.run_until(sent_ms + SENT_MS)
            served = {
                event.process
                for event in world.history
                if isinstance(event, Polled)
                and (event.partition, event.at_ms >= sent_ms) == (partition, True)
            }
            found += [
                Anomaly(Name.STARVED, f"{consumer.name} does not do without {store.name}")
                for consumer in self.consumers
                if consumer.guest and consumer.name not in served
            ]
            store.boot()
            world.run_until(world.now_ms + 2 * SENT_MS)
        return found

    def untold(self) -> list[Anomaly]:
        """Of which twins nobody says that there are two."""
        told = any(TWINS in store.disputed for store in self.stores)
        waiting = [
            f"{twin.name} waits, and nobody says why"
            for twin in self.twins
            if twin.waiting and not told and TWINS not in twin.disputed
        ]
        taken_for_one = [
            f"{store.name} is told two records for one place, and says nothing"
            for store in self.stores
            if self.traits.twins
            and store.slots.keeps(*BARE_TWINS)
            and BARE_TWINS not in store.disputed
        ]
        return [Anomaly(Name.NOT_FENCED, text) for text in (*waiting, *taken_for_one)]

    def one_more_producer(self) -> None:
        """Start a producer that nobody has heard of."""
        name = f"P{len(self.producers)}"
        late = SimProducer(self.world, name, self.mesh, min_acks=self.traits.min_acks)
        self.producers.append(late)
        late.boot()
        late.send(TOPICS[0], 1)


def run(seed: int) -> Outcome:
    """Run one seed; a quarter of them without any faults."""
    chance = random.Random(seed)
    healthy = chance.random() < 0.25
    faults = Faults() if healthy else _random_faults(chance)
    traits = _random_traits(chance, faults)
    if seed % FORGETTING_EVERY == 0:
        traits = Traits(traits.min_acks, traits.buffer_bytes_max, forgetting=True)
    guests = GUESTS.get(seed % GUESTS_EVERY, ())
    sharing = seed % SHARING_EVERY == 4 or bool(guests and seed % 2)
    traits = replace(traits, sharing=sharing, guests=guests)
    real = seed % LMDB_EVERY == 1 and not sharing
    with TemporaryDirectory() if real else nullcontext() as directory:
        cluster = ScenarioCluster(
            seed, faults, traits, None if directory is None else Path(directory)
        )
        return _outcome(cluster, seed, chance, healthy=healthy)


def _outcome(
    cluster: ScenarioCluster, seed: int, chance: random.Random, *, healthy: bool
) -> Outcome:
    world, traits = cluster.world, cluster.traits
    anomalies = []
    try:
        if not _lives(cluster, chance, healthy=healthy):
            anomalies = [Anomaly(Name.UNSEEN, "not settled")]
    except NodeFailedError as error:
        anomalies = [Anomaly(Name.FAILED, str(error))]
    read_stores(world, cluster.stores)
    anomalies += check(world.history, contested={TWINS, BARE_TWINS})
    anomalies += vacuous(world.history)
    if not traits.forgetting:
        anomalies += dropped_young(world.history, {AGED: traits.age_ms}, cluster.late_ms)
    anomalies += starved(world.history, cluster.world.healed_ms)
    anomalies += cluster.untold()
    hesitating = seed % HESITATING_EVERY == 1 and not traits.eager and not traits.sharing
    if hesitating and not anomalies:
        anomalies += cluster.hesitates()
    roomy = traits.buffer_bytes_max > SMALL_BYTES
    if traits.guests and roomy and not traits.forgetting and not anomalies:
        anomalies += cluster.outlives()
    if isinstance(cluster.stores[1], LmdbStore):
        cluster.stores[1].crash()
        cluster.stores[1].boot()  # so that it is compared
        cluster.stores[1].crash()
    crashes = sum(isinstance(event, Fault) for event in world.history)
    records = sum(end for store in cluster.stores for end in store.log.ends().values())
    return Outcome(tuple(anomalies), records, crashes, world.fingerprint)


def _lives(cluster: ScenarioCluster, chance: random.Random, *, healthy: bool) -> bool:
    """Let things go wrong, then heal them; whether all has settled in time."""
    world = cluster.world
    _traffic(cluster, chance.randint(10, 50), 100, harm=not healthy)
    small = cluster.traits.buffer_bytes_max == SMALL_BYTES
    if small and not healthy and not cluster.traits.eager:
        cluster.orphan()
    if cluster.traits.lasting:
        _traffic(cluster, 7, 2 * QUIET_MS // 7, harm=False)
        cluster.one_more_producer()
        _traffic(cluster, chance.randint(3, 10), 100, harm=not healthy)
    world.heal()
    world.run_until(world.now_ms + max(BACK_MS_MAX, SUSPENDED_MS_MAX))
    settled = _settles(cluster)
    if cluster.traits.forgetting:
        cluster.empty()
        world.run_until(world.now_ms + 2 * FORGETTING_MS)
        settled = _settles(cluster)
    world.run_until(world.now_ms + REST_MS)
    return settled


def _settles(cluster: ScenarioCluster) -> bool:
    """Let producers go on, and all settle; whether it has in time."""
    world = cluster.world
    for producer in cluster.producers:
        producer.send(TOPICS[0], 1)  # so that no run proves nothing
    if cluster.traits.buffer_bytes_max == SMALL_BYTES:
        _traffic(cluster, 25, 2_000, harm=False)  # some wait for room, and must not wait for ever
    healed_ms = world.now_ms
    while not cluster.settled() and world.now_ms < healed_ms + SETTLING_MS_MAX:
        world.run_until(world.now_ms + 250)
    return cluster.settled()


def _traffic(cluster: ScenarioCluster, sends: int, pause_ms_max: int, *, harm: bool) -> None:
    world = cluster.world
    for _ in range(sends):
        world.run_until(world.now_ms + world.random.randint(0, pause_ms_max))
        cluster.send_somewhere()
        if harm and world.random.random() < 0.3:
            cluster.break_something()
        if cluster.traits.forgetting and world.random.random() < 0.3:
            cluster.retain()


def _random_traits(chance: random.Random, faults: Faults) -> Traits:
    # Where answers get lost or are in vain, so are those that would give the lie to a liar.
    sound = not (faults.loss or faults.corruption or faults.refusal)
    min_acks = chance.randint(1, 2)
    twins = chance.random() < 0.25
    return Traits(
        min_acks=min_acks,
        buffer_bytes_max=chance.choice((SMALL_BYTES, 1 << 25, 1 << 25)),
        age_ms=chance.choice((5_000, 20_000, 40_000)),
        twins=twins,
        eager=chance.choice((0.0, 0.5, 1.0)) if sound else 0.0,
        wrong_ms=chance.choice((0, 60_000, 3_600_000)),
        lasting=chance.random() < 0.3,
        # Of two producers under one address a store on a new disk may believe the other one.
        losing=chance.random() < 0.5 and min_acks == 2 and not twins,
    )


def _random_faults(chance: random.Random) -> Faults:
    return Faults(
        loss=chance.choice((0.0, 0.05, 0.3)),
        duplication=chance.choice((0.0, 0.1, 0.5)),
        delay_ms_max=chance.choice((2, 20, 200)),
        disk_ms_max=chance.choice((1, 20, 200)),
        corruption=chance.choice((0.0, 0.0, 0.05)),
        refusal=chance.choice((0.0, 0.0, 0.2)),
    )


def main() -> int:
    """Run seeds from the command line; 0 if all pass."""
    return run_seeds("dafka.testing.scenario", "Run one cluster in the simulator.", _judged)


def _judged(seed: int) -> tuple[str, list[str]]:
    return judged(run(seed))


def judged(outcome: Outcome) -> tuple[str, list[str]]:
    """What to print of a run, and what went wrong in it."""
    summary = f"{outcome.records} records, {outcome.crashes} crashes"
    return f"{summary}, fingerprint {outcome.fingerprint}", condensed(outcome.anomalies)


if __name__ == "__main__":
    sys.exit(main())
