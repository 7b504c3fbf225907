"""A gateway in its node, and the broker that it is to what speaks Kafka (ADR 28).

The machine lives in the node's thread. The front lives in an asyncio loop: what it asks goes to the
node as an event with a number, and the answer comes back as an effect with the same. What does not
change anything it reads from values that the node replaces. Stores are followed by a thread each,
and what is not at hand is read by a few others.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import uuid4

from dafka.errors import MisuseError, QueryError, RecordError
from dafka.gateway.broker import (
    EARLIEST_MS,
    LATEST_MS,
    NOBODY,
    Entrance,
    ErrorCode,
    Fetched,
    Found,
    Gateway,
    KafkaCommit,
    KafkaPartition,
    Leader,
    Offsets,
    Placed,
    Topic,
)
from dafka.gateway.catalog import CONTROLLED, ORDERED
from dafka.gateway.coordination import coordinated_in
from dafka.gateway.effects import (
    Answer,
    AppendBatch,
    Catalogued,
    Close,
    Coordinating,
    DeleteRecords,
    GenerationOutranked,
    HearAgain,
    Locate,
    Located,
    Looked,
    LookSoon,
    OffsetsShown,
    PartitionLate,
    ReadLedger,
    Shared,
    Told,
    TopicMade,
)
from dafka.gateway.machine import GatewayMachine
from dafka.gateway.meter import PartitionMeter
from dafka.gateway.owned_partitions import LateTakeovers
from dafka.gateway.served import served
from dafka.gateway.sharing import gateway_of, node_number, share_of, share_of_groups
from dafka.gateway.topic_changes import AlterTopic, DeleteTopic, MakeTopic
from dafka.groups.commit import GATEWAYS
from dafka.groups.events import Answered, Barred, Left
from dafka.groups.membership import majority_of
from dafka.node.gateway_role import GatewayRole
from dafka.node.group_client import StoreLines
from dafka.node.kafka_groups import KafkaGroups
from dafka.node.ledger_search import LedgerSearch
from dafka.node.loop import Node
from dafka.node.record_reader import RecordReader
from dafka.node.store_watch import StoreWatch
from dafka.node.topic_order import TopicOrder
from dafka.process.clock import now_ms
from dafka.protocol.effects import Stored, Wanted
from dafka.transport.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Self

    from dafka.cluster import Cluster
    from dafka.gateway.effects import ClientEvent, GatewayEvent
    from dafka.model import Partition
    from dafka.protocol.events import Event

    NodeEvent = Event | GatewayEvent | Answered | Looked

T = TypeVar("T")

log = logging.getLogger(__name__)

READERS = 4
"""Threads that read from stores for clients; what is looked up by time has one of its own."""

ALTER_TIMEOUT_S = 30.0
"""How long a topic may take to be altered: until the cluster has a controller again."""

LOOK_WAIT_S = 0.5
"""How long stores may take to say what is new, before a topic is said not to be there."""

LEAVE_TIMEOUT_S = 2.0
"""How long it may take to say goodbye; without it others take over once a session is over."""


class GatewayNode:
    """The node of one gateway: a `Broker`.

    Args:
        cluster: Which; with all its stores.
        host: Where Kafka clients reach it.
        port: Likewise.

    Raises:
        MisuseError: The cluster names no stores, or cannot be entered as given.
    """

    def __init__(self, cluster: Cluster, host: str, port: int) -> None:
        if not cluster.stores:
            raise MisuseError("a gateway needs the query ports of all stores of its cluster")
        self.address = cluster.new_address()
        self.cluster_id = cluster.name or "dafka"
        self.node = node_number(self.address)
        self._cluster = cluster
        self.entrance = Entrance(
            cluster.stores,
            cluster.towers,
            cluster.credentials is not None,
            cluster.insecure,
            cluster.wire,
        )
        self._self = Gateway(self.node, host, port)
        self._topics: Mapping[str, Topic] = {}
        self._listed: Sequence[Topic] = ()
        self._known: Mapping[str, Topic] = {}
        self._shared = Shared(0, {}, {})
        self._coordinating = Coordinating({})
        self._groups = KafkaGroups(self)
        self.meter = PartitionMeter(self.cluster_id)
        self._shown: dict[KafkaPartition, Offsets] = {}
        self._late = LateTakeovers()
        self._left = threading.Event()
        self._barred = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where the front lives."""
        self._tokens = count(1)
        self._asked: dict[int, asyncio.Future[object]] = {}
        """Touched in that loop only, like what follows."""
        self._arrivals: dict[KafkaPartition, set[asyncio.Future[None]]] = {}
        self._told: deque[Told] = deque()
        """What the loop has to be told."""
        self._telling = False
        self._local = threading.local()
        self._readers: list[RecordReader] = []
        with ExitStack() as opened:
            mesh = Mesh(cluster, self.address)
            opened.callback(mesh.close, 0)
            lines = StoreLines(GATEWAYS, cluster)
            opened.callback(lines.close)
            self._machine = GatewayMachine(
                self.address,
                f"{host}:{port}",
                len(cluster.stores),
                cluster.new_address,
                foreign=mesh.foreign,
            )
            role = GatewayRole(self._machine, lines, self._perform)
            self._node: Node[None, GatewayEvent | Answered | Looked] = Node(
                role, self.address, {None: mesh}
            )
            opened.pop_all()
        self._order = TopicOrder(self._machine.ordered, self._reader, self.post)
        self._watches = [
            StoreWatch(store, cluster, lambda: self._known, self.post) for store in cluster.stores
        ]
        self._pool = ThreadPoolExecutor(READERS, "dafka-read")
        self._finding = ThreadPoolExecutor(1, "dafka-find")
        self.search = LedgerSearch(self.ask, partial(self._read_in, self._finding), now_ms)
        """For what is looked up in ledgers."""
        self._node.start()
        for watch in self._watches:
            watch.start()

    def gateways(self) -> Sequence[Gateway]:
        """See `Broker`."""
        there = {self.node: self._self}
        for member in self._shared.members:
            gateway = gateway_of(member)
            if gateway is not None:
                there[gateway.node] = gateway
        return tuple(there.values())

    def controller(self) -> int:
        """See `Broker`."""
        leader = self.leader(CONTROLLED).node
        return self.node if leader == NOBODY else leader

    def topic(self, name: str) -> Topic | None:
        """See `Broker`."""
        return self._topics.get(name)

    def topics(self) -> Sequence[Topic]:
        """See `Broker`."""
        return self._listed

    async def look(self) -> None:
        """See `Broker`."""
        there = [watch for watch in self._watches if not watch.away]
        looks = [self._expect() for _ in there]
        for watch, (token, _) in zip(there, looks, strict=True):
            watch.ask(LookSoon(token))
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_WAIT_S):
                await asyncio.gather(*(looked for _, looked in looks))

    def leader(self, partition: KafkaPartition) -> Leader:
        """See `Broker`. Its epoch is the generation of all gateways, so that all say the same."""
        shared = self._shared
        gateway = _heard_owner(shared, share_of(partition))
        return Leader(NOBODY if gateway is None else gateway.node, shared.generation)

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str], timeout_s: float
    ) -> ErrorCode:
        """See `Broker`."""
        topic = Topic(name, partitions, uuid4(), dict(configs))
        return await self._want(lambda token: MakeTopic(token, topic), timeout_s)

    async def delete(self, name: str, timeout_s: float) -> ErrorCode:
        """See `Broker`."""
        topic = self._topics.get(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return await self._want(lambda token: DeleteTopic(token, name, topic.id), timeout_s)

    async def alter(
        self, name: str, configs: Mapping[str, str | None], *, whole: bool
    ) -> ErrorCode:
        """See `Broker`."""
        return await self._want(
            lambda token: AlterTopic(token, name, configs, whole), ALTER_TIMEOUT_S
        )

    async def _want(self, make: Callable[[int], ClientEvent], timeout_s: float) -> ErrorCode:
        """Let a topic become something else."""
        try:
            async with asyncio.timeout(timeout_s):
                made = await self.ask(make)
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT
        assert isinstance(made, TopicMade)
        return made.error

    def append(
        self, partition: KafkaPartition, batch: bytes, acks: int, timeout_s: float
    ) -> Awaitable[Placed]:
        """See `Broker`."""
        placed = self._asking(lambda token: AppendBatch(token, partition, batch, acks))
        late = Placed(ErrorCode.REQUEST_TIMED_OUT)
        timer = placed.get_loop().call_later(timeout_s, _settle, placed, late)

        def note(done: asyncio.Future[object]) -> None:
            timer.cancel()
            if not done.cancelled() and cast("Placed", done.result()).error is ErrorCode.NONE:
                self.meter.produced(partition, batch)

        placed.add_done_callback(note)
        return cast("Awaitable[Placed]", placed)

    async def fetch(self, partition: KafkaPartition, offset: int, bytes_max: int) -> Fetched:
        """See `Broker`."""
        located = await self.ask(lambda token: Locate(token, partition, offset, bytes_max))
        assert isinstance(located, Located)
        if located.error is not ErrorCode.NONE or not located.entries:
            return Fetched(located.error, located.offsets)
        try:
            if located.found:
                batches = [served(batch, entry) for entry, batch in located.found]
            else:
                batches = await self.in_pool(
                    lambda reader: reader.fetch(partition.topic, located.entries, offset, bytes_max)
                )
        except (QueryError, RecordError) as error:
            log.warning("cannot read records: %s", error, extra={"topic": partition.topic})
            return Fetched(ErrorCode.KAFKA_STORAGE_ERROR, located.offsets)
        self.meter.fetched(partition, batches)
        return Fetched(ErrorCode.NONE, located.offsets, batches)

    def offsets(self, partition: KafkaPartition) -> Offsets | ErrorCode:
        """See `Broker`."""
        topic = self._topics.get(partition.topic)
        if topic is None or not 0 <= partition.number < topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        shown = self._shown.get(partition)
        if shown is None or now_ms() >= self._machine.lease_ms:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return shown

    async def arrival(self, ends: Mapping[KafkaPartition, int], timeout_s: float) -> None:
        """See `Broker`."""
        loop = self._loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()
        for partition in ends:
            self._arrivals.setdefault(partition, set()).add(arrived)
        try:
            shown = {partition: self._shown.get(partition) for partition in ends}
            if any(there is None or there.end > ends[one] for one, there in shown.items()):
                return
            async with asyncio.timeout(timeout_s):
                await arrived
        except TimeoutError:
            return
        finally:
            for partition in ends:
                waiting = self._arrivals[partition]
                waiting.discard(arrived)
                if not waiting:
                    del self._arrivals[partition]

    async def find(self, partition: KafkaPartition, timestamp_ms: int) -> Found:
        """See `Broker`."""
        if timestamp_ms in (EARLIEST_MS, LATEST_MS):
            shown = self.offsets(partition)
            if isinstance(shown, ErrorCode):
                return Found(shown)
            return Found(ErrorCode.NONE, shown.start if timestamp_ms == EARLIEST_MS else shown.end)
        return await self.search.find(partition, timestamp_ms)

    async def delete_records(
        self, partition: KafkaPartition, start: int, timeout_s: float
    ) -> Offsets | ErrorCode:
        """See `Broker`."""
        try:
            async with asyncio.timeout(timeout_s):
                begun = await self.ask(lambda token: DeleteRecords(token, partition, start))
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT
        assert isinstance(begun, Located)
        return begun.offsets if begun.error is ErrorCode.NONE else begun.error

    async def producer_id(self) -> tuple[int, int] | ErrorCode:
        """See `Broker`. Drawn: of so many bits that nobody draws one twice."""
        return uuid4().int >> 66, 0

    def coordinator(self, group: str) -> Leader:
        """See `Broker`. Of another gateway's ownership the epoch is not known, but another one."""
        number, shared = coordinated_in(group), self._shared
        gateway = _heard_owner(shared, share_of_groups(number))
        if gateway is None or gateway.node != self.node:
            return Leader(NOBODY if gateway is None else gateway.node, shared.generation)
        epoch = self._coordinating.held.get(number)
        if epoch is None or now_ms() >= self._machine.lease_ms:
            return Leader(NOBODY, shared.generation)
        return Leader(self.node, epoch)

    async def commit(
        self, group: str, epoch: int, offsets: Mapping[KafkaPartition, KafkaCommit | None]
    ) -> ErrorCode:
        """See `Broker`."""
        return await self._groups.commit(group, epoch, offsets)

    async def committed(self, group: str) -> Mapping[KafkaPartition, KafkaCommit] | ErrorCode:
        """See `Broker`."""
        return await self._groups.committed(group)

    async def groups(self) -> Sequence[str] | ErrorCode:
        """See `Broker`."""
        return await self._groups.groups()

    async def forget_group(self, group: str) -> ErrorCode:
        """See `Broker`."""
        return await self._groups.forget_group(group)

    @property
    def division(self) -> tuple[Shared, Mapping[str, Topic]]:
        """What follows who owns what: two values that are replaced when they change."""
        return self._shared, self._topics

    @property
    def shown(self) -> Mapping[KafkaPartition, Offsets]:
        """What clients may be told of what is served, at this moment."""
        return dict(self._shown)

    @property
    def joined(self) -> bool:
        """Whether clients can be told what topics there are, and who owns what."""
        told = sum(watch.told for watch in self._watches)
        return self._machine.joined and told >= majority_of(len(self._watches))

    @property
    def stores_away(self) -> int:
        """How many stores do not answer."""
        return sum(watch.away for watch in self._watches)

    @property
    def stores_new(self) -> int:
        """How many have a new disk, as far as is known."""
        return sum(watch.new for watch in self._watches)

    def numbers(self, topic: str) -> int:
        """See `GroupsPort`."""
        there = self._topics.get(topic)
        return 0 if there is None else there.partitions

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        ended = self._node.join(timeout)
        self._node.check()
        return ended

    def unwell(self) -> str:
        """See `LongRunning`."""
        if self._barred:
            return self._barred
        told = self._node.unwell(), self._order.unwell(), *(one.unwell() for one in self._watches)
        return next(filter(None, told), "")

    def unready(self) -> str:
        """See `LongRunning`."""
        if now_ms() >= self._machine.lease_ms:
            return "no lease yet: it owns nothing until more than half of the stores answer"
        return self._late.complaint()

    def close(self) -> None:
        """Give back what it owns, and leave; clients that wait are told to ask another gateway."""
        self.post(Close())
        self._left.wait(LEAVE_TIMEOUT_S)
        self._node.stop()
        for watch in self._watches:
            watch.close()
        self._order.close()
        self._pool.shutdown()
        self._finding.shutdown()
        for reader in self._readers:
            reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def post(self, event: GatewayEvent | Looked) -> None:
        """See `GroupsPort`."""
        self._node.post(None, event)

    async def ask(self, make: Callable[[int], ClientEvent]) -> object:
        """See `GroupsPort`."""
        return await self._asking(make)

    def _asking(self, make: Callable[[int], ClientEvent]) -> asyncio.Future[object]:
        """Let the node do something; its answer, once it comes."""
        token, answered = self._expect()
        self.post(make(token))
        return answered

    def _expect(self) -> tuple[int, asyncio.Future[object]]:
        """A token, and what is told under it."""
        loop = self._loop = asyncio.get_running_loop()
        token = next(self._tokens)
        answered: asyncio.Future[object] = loop.create_future()
        self._asked[token] = answered
        answered.add_done_callback(lambda _: self._asked.pop(token))
        return token, answered

    async def in_pool(self, work: Callable[[RecordReader], T]) -> T:
        """See `GroupsPort`."""
        return await self._read_in(self._pool, work)

    async def _read_in(self, pool: ThreadPoolExecutor, work: Callable[[RecordReader], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(pool, lambda: work(self._reader()))

    def _reader(self) -> RecordReader:
        """This thread's."""
        reader: RecordReader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = RecordReader(self._cluster)
            self._readers.append(reader)
        return reader

    def _perform(self, effect: object) -> None:
        """In the node's thread."""
        match effect:
            case OffsetsShown() | PartitionLate() | GenerationOutranked():
                self._show(effect)
            case _ if isinstance(effect, Told):
                self._tell(effect)
            case ReadLedger() | HearAgain() | LookSoon():
                for watch in self._watches:
                    watch.ask(effect)
            case Catalogued(topics, known):
                self._known, self._topics = known, topics
                self._listed = tuple(topics.values())
            case Shared():
                self._shared = effect
            case Coordinating():
                self._coordinating = effect
            case Left():
                self._left.set()
            case Barred(complaint):
                self._barred = f"this gateway {complaint}"
                log.error("gateway cannot belong to its cluster's: %s", complaint)
            case _:
                # Who wants what is not held any more gets it from a store.
                assert isinstance(effect, (Stored, Wanted)), effect

    def _show(self, shown: OffsetsShown | PartitionLate | GenerationOutranked) -> None:
        if isinstance(shown, GenerationOutranked):
            about = {"generation": shown.generation, "epoch": shown.epoch}
            log.error(shown.complaint(), extra=about)
            return
        if isinstance(shown, PartitionLate):
            if self._late.note(shown.partition, shown.waits_for):
                log.warning("takeover takes long: %s", self._late.complaint())
            return
        self._late.over(shown.partition)
        if shown.offsets is None:
            self._shown.pop(shown.partition, None)
        else:
            self._shown[shown.partition] = shown.offsets
            if shown.partition in ORDERED:
                self._order.grown(shown.partition, shown.offsets.end)
        self._tell(shown)

    def _tell(self, effect: Told) -> None:
        """Let the loop know; what it has not been told yet goes together."""
        loop = self._loop
        if loop is None:
            return
        self._told.append(effect)
        if not self._telling:
            self._telling = True
            try:
                loop.call_soon_threadsafe(self._hear)
            except RuntimeError:
                self._told.clear()  # the front has ended

    def _hear(self) -> None:
        """In the loop."""
        self._telling = False
        while self._told:
            effect = self._told.popleft()
            if isinstance(effect, OffsetsShown):
                for arrived in self._arrivals.get(effect.partition, ()):
                    _settle(arrived, None)
            else:
                answer = effect.placed if isinstance(effect, Answer) else effect
                _settle(self._asked.get(effect.token), answer)


def _heard_owner(shared: Shared, share: Partition) -> Gateway | None:
    """Whose a share is; None while that one may be dead: clients ask again until somebody is."""
    member = shared.owner(share)
    return None if member is None or member in shared.unheard else gateway_of(member)


def _settle(future: asyncio.Future[T] | None, result: T) -> None:
    """Give who waits what it waits for, if it still does."""
    if future is not None and not future.done():
        future.set_result(result)
