"""Gateways before stores, and Kafka producers, while everything fails: nothing is lost or twice.

The roles of gateways and stores as they run, what follows stores, and their agreement on who owns
what (ADR 13, 28). The network loses, repeats and reorders, gateways and stores die and come back,
machines are suspended, gateways and stores are cut off from each other. Clients are as idempotent
ones are: they do not know what became of a batch, and send it again. At the end each record has one
offset, where its client was told, in its client's order; and no offset ever named something else.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

from dafka.gateway.broker import KafkaPartition, Topic
from dafka.records.batch import values_of
from dafka.storage.memory import MemoryLog
from dafka.storage.new_disk import catch_up
from dafka.testing.gateway_nodes import ShownOffsets, SimGatewayNode, SimKafkaProducer
from dafka.testing.nodes import SimStore, kept
from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults, SimMesh, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.gateway.ledger import LedgerEntry

ORDERS = Topic("orders", 2, UUID(int=7), {})
FAULTY_MS = 30_000
HEALED_MS_MAX = 60_000
STEP_MS = 500


class GatewayRun:
    """One seed.

    Args:
        seed: Everything random comes from it.
    """

    def __init__(self, seed: int) -> None:
        chance = random.Random(f"gateways {seed}")
        faults = Faults(
            loss=chance.choice([0.0, 0.02, 0.1]),
            duplication=chance.choice([0.0, 0.05]),
            delay_ms_max=chance.choice([2, 20, 100]),
            disk_ms_max=chance.choice([2, 20, 100]),
        )
        self.chance = chance
        self.world = World(seed, faults)
        self.partitions = [KafkaPartition(ORDERS.name, one) for one in range(ORDERS.partitions)]
        self.shown = {partition: ShownOffsets() for partition in self.partitions}
        mesh = SimMesh(self.world)
        self.stores = [self._store(mesh, number) for number in range(chance.choice([1, 3, 3]))]
        addresses = count(1)
        self.gateways = [
            SimGatewayNode(
                self.world, f"G{number}", mesh, self.stores, ORDERS, self.shown, addresses
            )
            for number in range(chance.choice([2, 3]))
        ]
        for node in (*self.stores, *self.gateways):
            node.boot()
        self.producers = [
            SimKafkaProducer(
                self.world,
                1_000 + number,
                self.partitions[number % len(self.partitions)],
                self.gateways,
                implicit=number < len(self.partitions),
            )
            for number in range(2 * len(self.partitions))
        ]

    def _store(self, mesh: SimMesh, number: int) -> SimStore:
        log = MemoryLog(f"S{number}")
        catch_up(log)
        return SimStore(self.world, f"S{number}", mesh, log)

    def run(self) -> None:
        """Let it go wrong, then heal and come to rest."""
        while self.world.now_ms < FAULTY_MS:
            self.world.run_until(self.world.now_ms + self.chance.randint(200, 4_000))
            self._happen()
        self.world.heal()
        for node in (*self.stores, *self.gateways):
            if not node.alive:
                node.boot()
        for producer in self.producers:
            producer.stopped = True
        self._wait_until(self._all_acknowledged, "records are not acknowledged")
        self.world.run_until(self.world.now_ms + 5_000)
        self._wait_until(self._all_owned, "not each partition is served by one gateway")

    def _wait_until(self, is_so: Callable[[], bool], otherwise: str) -> None:
        until_ms = self.world.now_ms + HEALED_MS_MAX
        while not is_so():
            assert self.world.now_ms < until_ms, otherwise
            self.world.run_until(self.world.now_ms + STEP_MS)

    def _all_acknowledged(self) -> bool:
        return not any(producer.waiting for producer in self.producers)

    def _all_owned(self) -> bool:
        return all(len(self._served(partition)) == 1 for partition in self.partitions)

    def _served(self, partition: KafkaPartition) -> list[tuple[LedgerEntry, ...]]:
        """What each gateway has that serves a partition."""
        served = [gateway.served(partition) for gateway in self.gateways]
        return [entries for entries in served if entries is not None]

    def _happen(self) -> None:
        """Something goes wrong, or is over."""
        node = self.chance.choice([*self.stores, *self.gateways, *self.gateways])
        what = self.chance.choice(["die", "die", "sleep", "cut", "mend"])
        down = sum(not store.awake for store in self.stores)
        if not node.alive:
            node.boot()
        elif what == "die" and (node not in self.stores or 2 * (down + 1) <= len(self.stores) + 1):
            node.crash()
        elif what == "sleep" and node.awake:
            node.suspend(self.chance.randint(10, 8_000))
        elif what == "cut":
            other = self.chance.choice(self.stores)
            if other is not node:
                self.world.cut(node.name, other.name, both=self.chance.random() < 0.5)
        elif what == "mend":
            self.world.cuts.clear()

    def problems(self) -> list[str]:
        """What is wrong at the end."""
        found: list[str] = []
        for partition in self.partitions:
            found += self._problems_of(partition)
        return found

    def _problems_of(self, partition: KafkaPartition) -> list[str]:
        (entries,) = self._served(partition)
        values = self._values()
        there: dict[int, bytes] = {}
        for entry in entries:
            for place in range(entry.records):
                value = values.get((entry.address, entry.first + place))
                if value is None:
                    return [f"offset {entry.offset + place} names what no store has: {entry}"]
                there[entry.offset + place] = value
        found = [
            f"{value.decode()} is there {times} times"
            for value, times in Counter(there.values()).items()
            if times > 1
        ]
        offsets = {value: offset for offset, value in there.items()}
        for producer in self.producers:
            if producer.partition == partition:
                found += _of_producer(producer, offsets)
        return found

    def _values(self) -> dict[tuple[str, int], bytes]:
        """All records of the topic that stores have."""
        found: dict[tuple[str, int], bytes] = {}
        for store in self.stores:
            for place in store.log.extents():
                if place.topic == ORDERS.name:
                    for batch in kept(store.log, place):
                        for number, value in enumerate(values_of(batch)):
                            found[place.address, batch.sequence + number] = value or b""
        return found


def _of_producer(producer: SimKafkaProducer, offsets: dict[bytes, int]) -> list[str]:
    found: list[str] = []
    last = -1
    for value, told in sorted(producer.placed.items(), key=lambda one: int(one[0].split(b"-")[1])):
        offset = offsets.get(value)
        if offset is None:
            found.append(f"{value.decode()} was acknowledged, and is lost")
            continue
        if told not in (None, offset):
            found.append(f"{value.decode()} is at {offset}, its client was told {told}")
        if offset <= last:
            found.append(f"{value.decode()} is at {offset}, behind what comes after it")
        last = offset
    return found


def run(seed: int) -> GatewayRun:
    """Run a seed."""
    ran = GatewayRun(seed)
    ran.run()
    return ran


def judged(seed: int) -> tuple[str, list[str]]:
    """Run a seed; what came of it, and what was found wrong."""
    ran = run(seed)
    records = sum(len(producer.placed) for producer in ran.producers)
    summary = f"{records} records, {len(ran.stores)} stores, fingerprint {ran.world.fingerprint}"
    return summary, ran.problems()


def main() -> int:
    """The command line."""
    return run_seeds("dafka.testing.gateways", "Kafka producers at gateways that fail.", judged)


if __name__ == "__main__":
    sys.exit(main())
