"""A gateway: what it owns of the cluster's Kafka partitions, and what it does for clients there.

Several machines in one: a mirror that publishes batches under many addresses, a member of the group
of the cluster's gateways, and for each partition that is this gateway's the owner of its ledger.
What only it decides is who of them hears of what.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.gateway.broker import ErrorCode, KafkaPartition, Placed
from dafka.gateway.catalog import (
    CATALOG,
    CHANGED,
    CHANGES,
    CONTROLLED,
    TOPICS,
    Catalog,
    EmptiedPartition,
    TopicStage,
    TopicState,
    decoded_state,
    encoded_emptied,
    encoded_state,
    is_public,
)
from dafka.gateway.coordination import COORDINATED, Coordination
from dafka.gateway.effects import (
    Answer,
    AppendBatch,
    CatalogRead,
    Catalogued,
    ChangesOrdered,
    Close,
    CommitOffsets,
    CommitsTold,
    DeleteRecords,
    GenerationOutranked,
    GroupsListed,
    HearAgain,
    LagsMeasured,
    LedgersRead,
    ListGroups,
    Locate,
    Located,
    MeasureLags,
    OffsetsCommitted,
    Shared,
    StoreTold,
    Survey,
    TopicMade,
    TopicsOrdered,
)
from dafka.gateway.events import Lease
from dafka.gateway.kafka_lags import KafkaLags
from dafka.gateway.lines import EPOCH_MAX, LEDGER
from dafka.gateway.owner import knows_all
from dafka.gateway.recent import RecentBatches
from dafka.gateway.refusals import Refusals
from dafka.gateway.share import UNTOLD, Share, batches_of
from dafka.gateway.sharing import share_of, share_of_groups
from dafka.gateway.topic_changes import AlterTopic, DeleteTopic, MakeTopic, TopicChanges
from dafka.gateway.translation import OffsetTranslation, OwnedLedger
from dafka.gateway.unstored import Unstored
from dafka.groups.commit import GATEWAYS, Commit, CommitKey
from dafka.groups.commit import TOPIC as COMMITS
from dafka.groups.events import (
    Answered,
    Assigned,
    Expelled,
    Leave,
    Rebalanced,
    Released,
)
from dafka.groups.member import MemberMachine, MemberState
from dafka.groups.membership import Member, blocking_of
from dafka.limits import STORES_MAX
from dafka.model import Batch, Partition, address_in, range_of, slot_of
from dafka.protocol.effects import Dropped, Listen, Stored
from dafka.protocol.events import Mirrored, PeerLeft, Received, ReceivedTogether, TurnEnded, Woke
from dafka.protocol.machine import earliest
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.records.batch import values_of
from dafka.wire import messages
from dafka.wire.messages import MessageId
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dafka.gateway.effects import GatewayEvent
    from dafka.gateway.ledger import LedgerEntry
    from dafka.groups.events import MemberEvent
    from dafka.protocol.events import Event
    from dafka.wire.messages import Message

SESSION_MS = 3_000
"""So long after the last word of a gateway others take over what it owned."""

RECENT_BYTES_MAX = 32 * 1024 * 1024

WANTED_MAX = 1_000
"""Topics that are being made, deleted or altered at a time."""


class GatewayMachine:
    """One gateway.

    Args:
        address: Its identity.
        listens: Where Kafka clients reach it, `HOST:PORT`.
        stores: How many the cluster has.
        draw: Draws an address to publish under.
        foreign: Whether nodes of another make may be in the cluster.
    """

    def __init__(
        self,
        address: str,
        listens: str,
        stores: int,
        draw: Callable[[], str],
        *,
        foreign: bool = False,
    ) -> None:
        self.address = address
        self._stores = stores
        self._draw = draw
        self._mirror = MirrorMachine(MirrorSettings(foreign=foreign, min_acks=blocking_of(stores)))
        about = Member((octets_of(GATEWAYS),), SESSION_MS)
        # A member's id is all that others know of it, so it says where it listens.
        self._member = MemberMachine(GATEWAYS, f"{address}@{listens}", about, stores)
        self._lease = Lease(0)
        """The member's, for all that it owns."""
        self._shared = Shared(0, {}, {})
        self.catalog = Catalog()
        self._shares: dict[KafkaPartition, Share] = {}
        self._chains: dict[str, Share] = {}
        self._unpublished: dict[KafkaPartition, Share] = {}
        """Those of them that have something to publish: a turn costs what happens in it."""
        self._recent = RecentBatches(RECENT_BYTES_MAX)
        self._refusals = Refusals()
        self._unstored = Unstored()
        self._retired: set[Partition] = set()
        """Logs of what is another's by now, which are not all stored yet."""
        self._said: dict[str, int] = {}
        """Of the topics that it publishes under its own address, the next sequence."""
        self._saying: list[Batch] = []
        self._wanted: dict[int, MakeTopic | DeleteTopic | AlterTopic] = {}
        """What clients want of topics, by token."""
        self._changes = 0, TopicChanges()
        """What changes make of topics, and in which epoch of their ledger that is read."""
        self._coordination = Coordination(address)
        self._translation = OffsetTranslation(self.catalog.numbers)
        self._late_ms: int | None = None
        """When a share may have waited for long."""
        self._lags = KafkaLags(lambda: self._translation.behind(self._owned()))
        self._followed: dict[str, bool] = {}
        """The stores whose commits have all been told, and whether their disk was new."""
        self._outranked = 0
        """The last epoch above which the gateways were to have a generation."""
        self._heard: set[str] = set()
        """The stores that have said something."""
        self._greeted = False
        self._share_partitions()

    def handle(self, event: Event | GatewayEvent | Answered, now_ms: int) -> list[object]:
        """Take one event in; see `Machine`."""
        match event:
            case (
                AppendBatch()
                | Locate()
                | Survey()
                | DeleteRecords()
                | CommitOffsets()
                | ListGroups()
            ):
                return self._serve(event, now_ms)
            case Received() | ReceivedTogether() | PeerLeft():
                return self._hear(event, now_ms)
            case TurnEnded():
                return self._flush(now_ms)
            case Woke():
                return self._wake(now_ms)
            case Answered():
                return self._agree(event, now_ms)
            case LedgersRead() | StoreTold() | CommitsTold() | CatalogRead() | MeasureLags():
                return self._told(event, now_ms)
            case MakeTopic() | DeleteTopic() | AlterTopic() | TopicsOrdered() | ChangesOrdered():
                return self._catalogue(event, now_ms)
            case Close():
                return self._disown_all() + self._agree(Leave(), now_ms)
            case _:
                return self._reflect(event, now_ms)

    def wakeup_ms(self) -> int | None:
        """When the mirror, the member or the owner of a partition is due."""
        return earliest(self._mirror.wakeup_ms(), self._member.wakeup_ms(), self._late_ms)

    def check(self) -> None:
        """Assert what has to be true of each part."""
        self._mirror.check()
        self._member.check()
        for share in self._shares.values():
            share.machine.check()

    @property
    def lease_ms(self) -> int:
        """Until when it may serve what it owns; 0: not at all."""
        return self._lease.until_ms

    @property
    def joined(self) -> bool:
        """Whether it is one of the gateways, and nobody else has what is its own."""
        return self._member.state is MemberState.STABLE

    def ordered(
        self, partition: KafkaPartition, start: int, end: int
    ) -> tuple[int, tuple[LedgerEntry, ...]]:
        """As owner: of which epoch, and where records are from one offset to below another."""
        share = self._shares.get(partition)
        if share is None:
            return 0, ()
        return share.epoch, tuple(share.entries(start, end, len(share.machine.ledger)))

    def _serve(
        self,
        wanted: AppendBatch | Locate | Survey | DeleteRecords | CommitOffsets | ListGroups,
        now_ms: int,
    ) -> list[object]:
        """What clients want of a partition or group, if it is certain that it is this gateway's."""
        if isinstance(wanted, (CommitOffsets, ListGroups)):
            return self._coordinate(wanted, now_ms)
        share = self._shares.get(wanted.partition) if now_ms < self.lease_ms else None
        offered = None if share is None else share.offered
        match wanted:
            case AppendBatch() if share is None or offered is None:
                return self._refuse(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
            case AppendBatch() if self._unstored.is_much:
                return self._refuse(wanted, ErrorCode.NOT_ENOUGH_REPLICAS, now_ms)
            case _ if share is None or offered is None:
                return [Located(wanted.token, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
            case DeleteRecords() if self._unstored.is_much:
                return [Located(wanted.token, ErrorCode.NOT_ENOUGH_REPLICAS)]
            case DeleteRecords():
                return [*share.delete(wanted, offered, now_ms)]
            case AppendBatch():
                return [*share.append(wanted, offered, now_ms)]
            case Locate():
                return [share.locate(wanted, offered, self._recent)]
            case Survey():
                return [share.survey(wanted, offered)]

    def _refuse(self, wanted: AppendBatch, error: ErrorCode, now_ms: int) -> list[object]:
        self._refusals.note(wanted.partition, wanted.batch, now_ms)
        return [Answer(wanted.token, Placed(error))]

    def _hear(self, event: Received | ReceivedTogether | PeerLeft, now_ms: int) -> list[object]:
        """Others have said something, or say nothing more."""
        match event:
            case Received():
                return self._receive(event.message, now_ms)
            case ReceivedTogether():
                return [told for one in event.messages for told in self._receive(one, now_ms)]
            case PeerLeft():
                return self._leave(event.address, now_ms) + self._reflect(event, now_ms)

    def _leave(self, peer: str, now_ms: int) -> list[object]:
        """What a peer has said counts no more, if it is a store; most are none."""
        if peer not in self._heard and len(self._heard) < STORES_MAX:
            return []
        self._heard.discard(peer)
        self._followed.pop(peer, None)
        told = [effect for share in self._shares.values() for effect in share.left(peer, now_ms)]
        return [*told, HearAgain(peer)]

    def _receive(self, message: Message, now_ms: int) -> list[object]:
        match message:
            case messages.Ack():
                place = Partition(message.topic, message.address)
                kept = range(UNTOLD, message.sequence + 1)
                told = self._stored(message.store or "", place, kept, now_ms)
                return told + self._reflect(Received(message), now_ms)
            case messages.Records() if message.topic == CATALOG:
                return self._overhear(message, now_ms)
            case _:
                return self._reflect(Received(message), now_ms)

    def _reflect(self, event: Event, now_ms: int) -> list[object]:
        """Let the mirror take an event in."""
        effects: list[object] = []
        for effect in self._mirror.handle(event, now_ms):
            effects.append(effect)
            if isinstance(effect, Stored):
                self._unstored.stored(effect.partition, effect.end, effect.size)
                if effect.partition in self._retired:
                    self._retire(effect.partition)
                if effect.partition == self._coordination.log:
                    leased = now_ms < self.lease_ms
                    effects += self._coordination.stored(effect.end, leased=leased)
        return effects

    def _told(
        self, event: LedgersRead | StoreTold | CommitsTold | CatalogRead | MeasureLags, now_ms: int
    ) -> list[object]:
        """What stores say, and what follows from that."""
        effects: list[object] = []
        match event:
            case CatalogRead():
                effects += self._add(event.states, now_ms)
            case MeasureLags():
                effects.append(LagsMeasured(event.token, self._lags.step()))
            case StoreTold():
                effects += self._list(event, now_ms)
                self._translate()
            case CommitsTold():
                self._translation.take(event.commits)
                if event.whole:
                    self._followed[event.store] = event.new
                    self._heard.add(event.store)
                self._translate()
            case LedgersRead():
                for (partition, epoch), read in event.found.items():
                    share = self._shares.get(partition)
                    if share is not None and share.epoch == epoch:
                        effects += share.take(read, now_ms)
                        effects += self._outrank(share, now_ms)
        return effects

    def _list(self, told: StoreTold, now_ms: int) -> list[object]:
        effects: list[object] = []
        for place, kept in told.kept.items():
            effects += self._stored(told.store, place, kept, now_ms)
        for place in told.unlisted:
            if (share := self._share_with(place)) is not None:
                effects += share.unlisted(told.store, place.address, now_ms)
        return effects

    def _outrank(self, share: Share, now_ms: int) -> list[object]:
        """Let the gateways have a generation above that of a ledger, unless this one is over."""
        epoch, mine = share.machine.newest, now_ms < self.lease_ms
        if not (mine and share.machine.outranked) or epoch <= self._outranked:
            return []
        self._outranked = epoch
        place = Partition(LEDGER, self.address)
        self._coordination.publish([(CommitKey(GATEWAYS, place), Commit(None, epoch, 0))])
        return [GenerationOutranked(share.partition, share.epoch, epoch)]

    def _coordinate(self, wanted: CommitOffsets | ListGroups, now_ms: int) -> list[object]:
        if isinstance(wanted, ListGroups):
            enough = knows_all(self._followed.values(), self._stores)
            return [GroupsListed(wanted.token, self._translation.groups() if enough else None)]
        if now_ms >= self.lease_ms:
            return [OffsetsCommitted(wanted.token, ErrorCode.NOT_COORDINATOR)]
        if self._unstored.is_much:
            return [OffsetsCommitted(wanted.token, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        heard = self._translation.epoch_of(wanted.group)
        published = self._coordination.commit(wanted, heard)
        if isinstance(published, OffsetsCommitted):
            return [published]
        self._translation.take(published)
        return []

    def _translate(self) -> None:
        """Add what follows from commits, as owner of partitions."""
        self._coordination.publish(self._translation.work(self._owned()))

    def _owned(self) -> dict[KafkaPartition, OwnedLedger]:
        """What it serves."""
        return {
            partition: OwnedLedger(share.machine.ledger, share.offered)
            for partition, share in self._shares.items()
            if share.offered is not None
        }

    def _stored(self, store: str, place: Partition, kept: range, now_ms: int) -> list[object]:
        """A store has something; whose it is."""
        if len(self._heard) < STORES_MAX:
            self._heard.add(store)
        if place.topic == LEDGER:
            share = self._chains.get(place.address)
            return [] if share is None else [*share.lines_stored(store, kept.stop, now_ms)]
        share = self._share_with(place)
        return [] if share is None else [*share.stored(store, place.address, kept, now_ms)]

    def _share_with(self, place: Partition) -> Share | None:
        topic, address = place
        number = range_of(slot_of(address), max(1, self.catalog.numbers(topic)))
        return self._shares.get(KafkaPartition(topic, number))

    def _flush(self, now_ms: int) -> list[object]:
        batches: list[Batch] = []
        for share in self._unpublished.values():
            if (deletion := share.newly_emptied()) is not None:
                self._say(CHANGES, encoded_emptied(EmptiedPartition(share.partition, deletion)))
            batches += share.flush()
        self._unpublished.clear()
        batches += self._saying + self._coordination.flush()
        self._saying = []
        effects: list[object] = []
        for batch in batches:
            self._unstored.add(batch)
            if batch.partition.topic not in (LEDGER, COMMITS):
                self._recent.add(batch)
            effects += self._reflect(Mirrored(batch), now_ms)
        return effects

    def _wake(self, now_ms: int) -> list[object]:
        effects: list[object] = []
        if not self._greeted:
            self._greeted = True
            effects.append(Listen(MessageId.RECORDS, CATALOG))
        if self._late_ms is not None and now_ms >= self._late_ms:
            for share in self._shares.values():
                effects += share.feed(Woke(), now_ms)
            self._late_ms = earliest(*(one.machine.wakeup_ms() for one in self._shares.values()))
        return effects + self._reflect(Woke(), now_ms) + self._agree(Woke(), now_ms)

    def _agree(self, event: MemberEvent, now_ms: int) -> list[object]:
        """Let the member take an event in."""
        effects: list[object] = []
        happened = self._member.handle(event, now_ms)
        self._lease.until_ms = self._member.lease_ms or 0
        for effect in happened:
            match effect:
                case Assigned():
                    effects += self._reassign(effect, now_ms)
                case Rebalanced():
                    effects += self._acquire(now_ms)
                case Expelled():
                    effects += self._disown_all()
                case _:
                    effects.append(effect)
        unheard = self._member.unheard()
        if unheard != self._shared.unheard:
            self._shared = replace(self._shared, unheard=unheard)
            effects.append(self._shared)
        return effects

    def _reassign(self, assigned: Assigned, now_ms: int) -> list[object]:
        self._shared = Shared(assigned.generation, assigned.members, assigned.moved)
        effects: list[object] = [self._shared]
        for partition, share in [*self._shares.items()]:
            if share.machine.outranked or not self._is_mine(share_of(partition)):
                effects += self._disown(partition)
        effects += self._coordination.keep(self._coordinated())
        return effects + self._agree(Released(assigned.generation), now_ms)

    def _is_mine(self, share: Partition) -> bool:
        return self._shared.owner(share) == self._member.id

    def _coordinated(self) -> list[int]:
        """The shares of groups that are this gateway's."""
        return [one for one in range(COORDINATED) if self._is_mine(share_of_groups(one))]

    def _acquire(self, now_ms: int) -> list[object]:
        """Begin with what is this gateway's, now that nobody else has any of it."""
        epoch, leased = self._member.generation, self._member.lease_ms is not None
        if self._member.state is not MemberState.STABLE or not leased or epoch > EPOCH_MAX:
            return []
        effects: list[object] = [*self._coordination.hold(self._coordinated(), epoch)]
        for partition in self.catalog.partitions():
            if partition not in self._shares and self._is_mine(share_of(partition)):
                numbers = self.catalog.numbers(partition.topic)
                address = address_in(self._draw(), partition.number, numbers)
                who = self.address, address, self._stores, self._unpublished, self._refusals
                share = Share(partition, epoch, *who)
                self._shares[partition] = self._chains[share.chain.address] = share
                effects += share.own(self._lease, now_ms)
                effects += self._empty(share, now_ms)
                self._late_ms = earliest(self._late_ms, share.machine.wakeup_ms())
        return effects

    def _disown_all(self) -> list[object]:
        disowned = [effect for partition in [*self._shares] for effect in self._disown(partition)]
        return [*disowned, *self._coordination.keep(())]

    def _disown(self, partition: KafkaPartition) -> list[object]:
        share = self._shares.pop(partition)
        del self._chains[share.chain.address]
        for log in (share.chain, share.records):
            self._retired.add(log)
            self._retire(log)
        return [*share.disown()]

    def _retire(self, log: Partition) -> None:
        """Forget a log once it is stored; what it has then comes to stores from each other."""
        if self._mirror.low(log) is None:
            self._retired.discard(log)
            self._mirror.leave(log)

    def _catalogue(
        self,
        event: MakeTopic | DeleteTopic | AlterTopic | TopicsOrdered | ChangesOrdered,
        now_ms: int,
    ) -> list[object]:
        if isinstance(event, (TopicsOrdered, ChangesOrdered)):
            return self._order(event, now_ms)
        return self._want(event)

    def _order(self, event: TopicsOrdered | ChangesOrdered, now_ms: int) -> list[object]:
        """What topics there are, as the one who says it."""
        share = self._shares.get(CHANGED if isinstance(event, ChangesOrdered) else CONTROLLED)
        if share is None or share.epoch != event.epoch:
            return []
        if isinstance(event, ChangesOrdered):
            said = self._changed(event)
        else:
            said = [TopicState(topic) for topic in event.topics]
        states = self.catalog.add(said)
        for state in states:
            self._say(CATALOG, encoded_state(state))
        return self._added(states, now_ms)

    def _changed(self, event: ChangesOrdered) -> list[TopicState]:
        epoch, changes = self._changes
        if epoch != event.epoch:
            # Stores were read for this ownership, so their catalogs have all that was said.
            changes = TopicChanges(self.catalog.states())
            self._changes = event.epoch, changes
        states = (changes.take(*one) for one in event.changes)
        return [state for state in states if state is not None]

    def _want(self, wanted: MakeTopic | DeleteTopic | AlterTopic) -> list[object]:
        if isinstance(wanted, MakeTopic) and not is_public(wanted.name):
            return [TopicMade(wanted.token, ErrorCode.INVALID_TOPIC)]
        made = {one.name for one in self._wanted.values() if isinstance(one, MakeTopic)}
        if isinstance(wanted, MakeTopic) and wanted.name in made:
            # Clients ask again; as in Kafka it is there for them, and is known a little later.
            return [TopicMade(wanted.token, ErrorCode.TOPIC_ALREADY_EXISTS)]
        if len(self._wanted) >= WANTED_MAX:
            return [TopicMade(wanted.token, ErrorCode.THROTTLING_QUOTA_EXCEEDED)]
        self._wanted[wanted.token] = wanted
        return self._step(wanted)

    def _step(self, wanted: MakeTopic | DeleteTopic | AlterTopic) -> list[object]:
        """Do the next thing that has to be done for what a client wants."""
        state = self.catalog.state(wanted.name)
        step = ErrorCode.INVALID_PARTITIONS if self._lacks_room(wanted) else wanted.step(state)
        if isinstance(step, ErrorCode):
            del self._wanted[wanted.token]
            return [TopicMade(wanted.token, step)]
        if step is not None:
            self._say(TOPICS if state is None else CHANGES, encoded_state(step))
        return []

    def _lacks_room(self, wanted: MakeTopic | DeleteTopic | AlterTopic) -> bool:
        """Whether it is a topic that is not there, and never will be: no controller takes it."""
        if not isinstance(wanted, MakeTopic) or self.catalog.state(wanted.name) is not None:
            return False
        return not self.catalog.has_room(wanted.topic)

    def _say(self, topic: str, value: bytes) -> None:
        sequence = self._said.get(topic, 0)
        batches = batches_of(Partition(topic, self.address), sequence, [value])
        self._said[topic] = batches[-1].end
        self._saying += batches

    def _overhear(self, message: messages.Records, now_ms: int) -> list[object]:
        """A controller says what there is; who misses it reads it a moment later in a store."""
        place = Partition(message.topic, message.address)
        batch = Batch(place, message.sequence, message.count, message.content)
        try:
            read = [decoded_state(value) for value in values_of(batch)]
        except RecordError as error:
            return [Dropped(error.reason)]
        return self._add([state for state in read if state is not None], now_ms)

    def _add(self, states: Iterable[TopicState], now_ms: int) -> list[object]:
        return self._added(self.catalog.add(states), now_ms)

    def _added(self, states: list[TopicState], now_ms: int) -> list[object]:
        """There is something new of these."""
        if not states:
            return []
        self._translation.catalogued()
        self._share_partitions()
        effects: list[object] = [Catalogued(self.catalog.topics, self.catalog.known)]
        names = {state.topic.name for state in states}
        for wanted in [*self._wanted.values()]:
            if wanted.name in names or self._lacks_room(wanted):
                effects += self._step(wanted)
        for share in self._shares.values():
            if share.partition.topic in names:
                effects += self._empty(share, now_ms)
        return effects + self._acquire(now_ms)

    def _empty(self, share: Share, now_ms: int) -> list[object]:
        """Let offsets name nothing any more if the topic is deleted."""
        state = self.catalog.state(share.partition.topic)
        if state is None or state.stage is not TopicStage.DELETED:
            return []
        return [*share.empty(state.change, now_ms)]

    def _share_partitions(self) -> None:
        partitions = [share_of(one) for one in self.catalog.partitions()]
        self._member.partitions = partitions + [share_of_groups(one) for one in range(COORDINATED)]
