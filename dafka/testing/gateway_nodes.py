"""Gateways in the simulator, and Kafka producers that use them: see `dafka.testing.gateways`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from dafka.cluster import Cluster
from dafka.gateway.broker import ErrorCode, KafkaPartition, Offsets, Placed, Topic
from dafka.gateway.catalog import TopicState
from dafka.gateway.effects import (
    Answer,
    AppendBatch,
    CatalogRead,
    HearAgain,
    LookSoon,
    OffsetsShown,
    ReadLedger,
    Shared,
)
from dafka.gateway.machine import GatewayMachine
from dafka.gateway.sharing import gateway_of, node_number, share_of
from dafka.groups.commit import GATEWAYS
from dafka.node.gateway_role import GatewayRole
from dafka.node.group_client import StoreLines
from dafka.node.store_watch import AGAIN_S, LOOK_S, StoreWatch
from dafka.records.batch import BatchBuilder, Run
from dafka.testing.queries import SimQueryClient, SimQueryLine
from dafka.testing.world import SimNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dafka.gateway.ledger import LedgerEntry
    from dafka.testing.nodes import SimStore
    from dafka.testing.world import SimMesh, World
    from dafka.transport.keys import Credentials

IN_FLIGHT_MAX = 5
"""Batches of a producer, from the first that is not acknowledged on: a gateway knows the last five,
and would not know that others are there when they are sent again."""

PENDING_MAX = 20

BACKOFF_MS = 100
"""Before a producer sends again what was refused."""

REQUEST_MS = 4_000
"""How long a producer waits for an answer. Clients wait for longer; here time is short."""

METADATA_MS = 1_000
"""A producer asks as often who owns its partition, if nothing makes it ask sooner."""


class ShownOffsets:
    """What clients were told of the offsets of a partition, by whichever gateway."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self.names: dict[int, tuple[str, int]] = {}

    def take(self, offsets: Offsets, entries: Sequence[LedgerEntry]) -> None:
        """Compare it with all before."""
        assert offsets.start >= self.start, f"L5: log start {offsets.start} after {self.start}"
        assert offsets.end >= self.end, f"L5: watermark {offsets.end} after {self.end}"
        self.start, self.end = offsets.start, offsets.end
        for entry in entries:
            for place in range(min(entry.end, offsets.end) - entry.offset):
                name = entry.address, entry.first + place
                known = self.names.setdefault(entry.offset + place, name)
                assert known == name, f"L2: offset {entry.offset + place} was {known}, is {name}"


class SimGatewayNode(SimNode[None, Any]):
    """A gateway: its role, and what follows each store, without threads and Kafka's protocol.

    Args:
        world: Where it lives.
        name: Its name.
        mesh: Its cluster.
        stores: All of them.
        topic: That clients use; how it came to be is not simulated.
        shown: Of each partition, what clients were told.
        addresses: That nobody has.
    """

    def __init__(
        self,
        world: World,
        name: str,
        mesh: SimMesh,
        stores: Sequence[SimStore],
        topic: Topic,
        shown: Mapping[KafkaPartition, ShownOffsets],
        addresses: count[int],
    ) -> None:
        super().__init__(world, name, {None: mesh})
        self._stores = {store.name: store for store in stores}
        self._cluster = Cluster(stores=tuple(self._stores))
        self._topic = topic
        self._shown = shown
        self._addresses = addresses
        self._address = ""
        self._shared = Shared(0, {}, {})
        self._answers: dict[int, Callable[[Placed], None]] = {}
        self.machine: GatewayMachine | None = None

    @property
    def address(self) -> str:
        """Its present identity."""
        return self._address

    @property
    def node(self) -> int:
        """By which clients know it."""
        return node_number(self._address)

    def build(self) -> tuple[GatewayRole, GatewayMachine]:
        """A gateway under a new address."""
        self._address = f"{next(self._addresses):032X}"
        self._shared = Shared(0, {}, {})
        self._answers.clear()
        lines = StoreLines(GATEWAYS, self._cluster, self._line, self.clock)
        self.machine = machine = GatewayMachine(
            self._address, f"{self.name}:9092", len(self._stores), self._draw
        )
        watches = [
            StoreWatch(
                store,
                self._cluster,
                lambda: {self._topic.name: self._topic},
                partial(self.post, None),
                connect=self._ask,
                clock=self.clock,
            )
            for store in self._stores
        ]
        self._watches = watches
        return GatewayRole(machine, lines, self._perform), machine

    def boot(self) -> None:
        """Start, and follow the stores."""
        super().boot()
        self.post(None, CatalogRead((TopicState(self._topic),)))
        for watch in self._watches:
            self._follow(watch)

    def owner(self, partition: KafkaPartition) -> int | None:
        """Which gateway it says to own a partition."""
        member = self._shared.owner(share_of(partition))
        if member is None or member in self._shared.unheard:
            return None
        there = gateway_of(member)
        return None if there is None else there.node

    def append(self, wanted: AppendBatch, answered: Callable[[Placed], None]) -> None:
        """A client's request has come."""
        self._answers[wanted.token] = answered
        self.post(None, wanted)

    def served(self, partition: KafkaPartition) -> tuple[LedgerEntry, ...] | None:
        """All that it shows of a partition; None if it is not its own."""
        shown = self._shown[partition]
        assert self.machine is not None
        epoch, entries = self.machine.ordered(partition, shown.start, shown.end)
        return entries if epoch else None

    def _draw(self) -> str:
        return f"{next(self._addresses):016X}{0:016X}"

    def _perform(self, effect: object) -> None:
        match effect:
            case ReadLedger() | HearAgain() | LookSoon():
                for watch in self._watches:
                    watch.ask(effect)
                    self.later(self.world.delay_ms(), partial(self._step, watch))
            case Shared():
                self._shared = effect
            case OffsetsShown(partition, Offsets() as offsets) if partition in self._shown:
                assert self.machine is not None
                _, entries = self.machine.ordered(partition, 0, offsets.end)
                self._shown[partition].take(offsets, entries)
            case Answer(token, placed):
                answered = self._answers.pop(token)
                self.leave(partial(answered, placed))
            case _:
                pass

    def _follow(self, watch: StoreWatch) -> None:
        self._step(watch)
        self.later(int(LOOK_S * 1_000), partial(self._follow, watch))

    def _step(self, watch: StoreWatch) -> None:
        with watch.client() as client:
            if watch.step(client) < LOOK_S:
                self.later(int(AGAIN_S * 1_000), partial(self._step, watch))

    def _line(self, endpoint: str, _credentials: Credentials | None) -> SimQueryLine:
        return SimQueryLine(self, self._stores[endpoint], lambda: self._cut(endpoint))

    def _ask(self, endpoint: str, _credentials: Credentials | None) -> SimQueryClient:
        chance = self.world.random

        def lost() -> bool:
            return self._cut(endpoint) or chance.random() < self.world.faults.loss

        return SimQueryClient(self._stores[endpoint], lost)

    def _cut(self, endpoint: str) -> bool:
        return self.world.parted(self.name, endpoint)


@dataclass(slots=True, eq=False)
class _Batch:
    """What a producer has sent, or is going to."""

    number: int
    first: int
    values: tuple[bytes, ...]
    octets: bytes
    """The same each time that it is sent."""
    flies: _Connection | None = None
    """On which it is under way."""
    due_ms: int = 0
    """When it may be sent again."""


class _Connection:
    """Between a client and one life of a gateway: what is sent arrives in its order, or never."""

    def __init__(self, world: World, gateway: SimGatewayNode) -> None:
        self._world = world
        self.gateway = gateway
        self._life = gateway.incarnation
        self._there_ms = self._back_ms = 0

    @property
    def is_up(self) -> bool:
        """Whether the gateway lives."""
        return self.gateway.alive and self.gateway.incarnation == self._life

    def request(self, wanted: AppendBatch, answered: Callable[[Placed], None]) -> None:
        """Ask; the answer comes behind those to all that was asked before."""
        self._there_ms = self._then(self._there_ms, partial(self._arrive, wanted, answered))

    def _arrive(self, wanted: AppendBatch, answered: Callable[[Placed], None]) -> None:
        if self.is_up:
            self.gateway.append(wanted, partial(self._leave, answered))

    def _leave(self, answered: Callable[[Placed], None], placed: Placed) -> None:
        self._back_ms = self._then(self._back_ms, partial(answered, placed))

    def _then(self, after_ms: int, action: Callable[[], None]) -> int:
        due_ms = max(after_ms, self._world.now_ms + self._world.delay_ms())
        self._world.after(due_ms - self._world.now_ms, action)
        return due_ms


class SimKafkaProducer:
    """An idempotent producer of one partition, as clients are.

    It has several batches under way, and sends each again until it is acknowledged, the first of
    those that wait first.

    Args:
        world: Where it lives.
        number: That a gateway has given to it.
        partition: Where it writes.
        gateways: That it may ask who owns that.
        implicit: Whether it takes what lies before a stored batch for stored, as librdkafka does.
    """

    def __init__(
        self,
        world: World,
        number: int,
        partition: KafkaPartition,
        gateways: Sequence[SimGatewayNode],
        *,
        implicit: bool,
    ) -> None:
        self.world = world
        self.number = number
        self.partition = partition
        self.placed: dict[bytes, int | None] = {}
        """Of all that is acknowledged the offset, if it was told."""
        self.stopped = False
        self._gateways = gateways
        self._implicit = implicit
        self._pending: list[_Batch] = []
        self._next = self._made = 0
        self._tokens = count(number << 32)
        self._leader: _Connection | None = None
        self._connections: dict[tuple[str, int], _Connection] = {}
        self._asked_ms = 0
        self._tick()

    @property
    def waiting(self) -> bool:
        """Whether something is not acknowledged."""
        return bool(self._pending)

    def _tick(self) -> None:
        chance = self.world.random
        if not self.stopped and len(self._pending) < PENDING_MAX and chance.random() < 0.5:
            self._make(chance.randint(1, 4))
        for batch in self._pending:
            if batch.flies is not None and not batch.flies.is_up:
                self._failed(batch)
        if self._leader is None or self.world.now_ms >= self._asked_ms + METADATA_MS:
            self._ask()
        self._send()
        self.world.after(chance.randint(10, 150), self._tick)

    def _make(self, records: int) -> None:
        values = tuple(f"{self.number}-{self._next + one}".encode() for one in range(records))
        builder = BatchBuilder(1 << 16, Run(self.number, self._next))
        for value in values:
            builder.append(self.world.now_ms, None, value, ())
        self._pending.append(_Batch(self._made, self._next, values, bytes(builder.build())))
        self._made += 1
        self._next += records

    def _ask(self) -> None:
        """Who owns the partition: any gateway says."""
        there = [one for one in self._gateways if one.awake]
        owner = self.world.random.choice(there).owner(self.partition) if there else None
        self._asked_ms = self.world.now_ms
        self._leader = None
        for gateway in there:
            if gateway.node == owner:
                key = gateway.name, gateway.incarnation
                self._leader = self._connections.setdefault(key, _Connection(self.world, gateway))

    def _send(self) -> None:
        for batch in self._pending:
            ahead = batch.number - self._pending[0].number
            if self._leader is None or batch.due_ms > self.world.now_ms or ahead >= IN_FLIGHT_MAX:
                return
            if batch.flies is None:
                batch.flies = self._leader
                wanted = AppendBatch(next(self._tokens), self.partition, batch.octets, -1)
                self._leader.request(wanted, partial(self._answered, batch, self._leader))
                self.world.after(REQUEST_MS, partial(self._late, batch, self._leader))

    def _late(self, batch: _Batch, connection: _Connection) -> None:
        if batch.flies is connection:
            self._failed(batch)

    def _failed(self, batch: _Batch) -> None:
        batch.flies, batch.due_ms = None, self.world.now_ms + BACKOFF_MS
        self._leader = None

    def _answered(self, batch: _Batch, connection: _Connection, placed: Placed) -> None:
        if batch.flies is not connection or not connection.is_up or batch not in self._pending:
            return  # it was given up, or taken for stored
        place = self._pending.index(batch)
        if placed.error is not ErrorCode.NONE:
            # librdkafka begins anew then, under another epoch: what it does not know to be there
            # is there twice. kafka-python gives the records up.
            gap = placed.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert not gap, f"{self.number}: {batch.first} is said to be behind what is lost"
            self._failed(batch)
            return
        for number, value in enumerate(batch.values):
            self.placed[value] = placed.offset + number
        del self._pending[place]
        if self._implicit:
            for before in self._pending[:place]:
                self.placed.update(dict.fromkeys(before.values))
            del self._pending[:place]
