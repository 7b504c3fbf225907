"""A consumer's part in a group: its shell in the node's thread, and what the application asks."""

from __future__ import annotations

import logging
import queue
import threading
from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dafka.errors import BufferFullError, MisuseError, NotStoredError, RebalancedError
from dafka.groups.commit import TOPIC, Commit, CommitKey, checked_consumers, encode
from dafka.groups.consumer import GroupMachine, GroupSettings
from dafka.groups.events import (
    Ask,
    AskOffsets,
    Barred,
    Closing,
    Collect,
    Collected,
    CommitDone,
    CommitFailed,
    Committed,
    CommitWanted,
    Expelled,
    GroupEvent,
    Handed,
    Left,
    Overdue,
    PartitionAssigned,
    PublishCommits,
    Rebalanced,
    Revoke,
    Sought,
    WallTime,
)
from dafka.groups.member import MemberMachine
from dafka.groups.membership import SESSION_MS_MAX, SESSION_MS_MIN, Member, blocking_of
from dafka.limits import GROUP_TOPICS_MAX
from dafka.node.group_client import StoreLines
from dafka.node.producer import Producer
from dafka.node.progress import Hand
from dafka.process import metrics
from dafka.process.clock import CLOCK
from dafka.protocol.consumer import Start
from dafka.protocol.events import Consumed, Event, TurnEnded
from dafka.query.cluster_client import ClusterClient
from dafka.transport.binding import Binding
from dafka.transport.request import QueryClient
from dafka.wire.fields import SEQUENCE_MAX
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import ExitStack

    from dafka.cluster import Cluster
    from dafka.model import Partition, Record
    from dafka.node.delivery import Delivery
    from dafka.process.clock import Clock
    from dafka.protocol.consumer import ConsumerMachine
    from dafka.query.client import StoreClient
    from dafka.transport.request import ConnectLine
    from dafka.transport.sockets import Pollable


class GroupOptions(NamedTuple):
    """What a consumer in a group is given; see `dafka.node.consumer.Consumer`."""

    group: str
    stores: tuple[str, ...]
    auto_commit_ms: int | None
    session_timeout_ms: int
    max_hold_ms: int

    def checked(
        self, topics: Sequence[str], positions: Mapping[Partition, int] | None = None
    ) -> GroupOptions:
        """Return them if they can be used, for these topics and without positions.

        Raises:
            MisuseError: They cannot.
        """
        if positions:
            raise MisuseError("a group has positions of its own: use seek instead")
        checked_consumers(self.group)
        if not self.stores:
            raise MisuseError("a consumer in a group needs the query ports of the stores: stores")
        if len(set(self.stores)) < len(self.stores):
            raise MisuseError(f"a store is given twice: {', '.join(self.stores)}")
        if not SESSION_MS_MIN <= self.session_timeout_ms <= SESSION_MS_MAX:
            raise MisuseError(
                f"session_timeout_ms must be {SESSION_MS_MIN} to {SESSION_MS_MAX}: "
                f"{self.session_timeout_ms}"
            )
        if self.max_hold_ms < 1 or (self.auto_commit_ms is not None and self.auto_commit_ms < 1):
            raise MisuseError("max_hold_ms and auto_commit_ms must be positive")
        if len(topics) > GROUP_TOPICS_MAX:
            raise MisuseError(f"a member of a group takes at most {GROUP_TOPICS_MAX} topics")
        return self


log = logging.getLogger(__name__)

RENEWAL_S = 0.01
"""How often it is looked whether a lease has been renewed."""

_LAG_INTERVAL_MS = 1_000
"""Between two times that the lag is added up."""

_WALL_INTERVAL_MS = 60_000
"""Between two times that the machine is told what time it is."""


def joined(
    opened: ExitStack,
    options: GroupOptions,
    consumer: ConsumerMachine,
    start: Start,
    cluster: Cluster,
) -> GroupRole:
    """Return the role of a consumer in a group, with a producer for its commits.

    Args:
        opened: Closes both, unless somebody else is to do that.
        options: Checked.
        consumer: Its machine, with `Start.ASSIGNED`.
        start: Where to begin what has no commit.
        cluster: Where.

    Raises:
        MisuseError: Something of it cannot be used.
    """
    # A port, and what is advertised, is the consumer's own.
    beside = str(Binding.parse(cluster.host)._replace(port=0))
    min_acks = blocking_of(len(cluster.stores))
    producer = Producer(cluster.bound_at(beside), linger_ms=1, content="batches", min_acks=min_acks)
    opened.callback(producer.close, 0)
    role = GroupRole(options, consumer, start, producer, cluster)
    opened.callback(role.close)
    return role


class Committing:
    """A commit that has begun.

    Args:
        group: The group's name.
        positions: What is committed.
        lost: Partitions of which something was handed over that are others' already.
    """

    def __init__(
        self, group: str, positions: Mapping[Partition, int], lost: frozenset[Partition]
    ) -> None:
        self._group, self._positions, self._lost = group, positions, lost
        self.done: Future[frozenset[Partition]] = Future()
        """Done when stores have it, with those partitions that are others' by then."""

    def check(self, timeout: float) -> None:
        """Complain if it has not come to a good end.

        Args:
            timeout: For how many seconds it was waited, for people.

        Raises:
            NotStoredError: No store has it; it may come to be stored all the same.
            RebalancedError: Something was handed over that is another member's by now.
        """
        if not self.done.done():
            raise NotStoredError(
                f"no store has acknowledged the positions of group {self._group!r} "
                f"within {timeout} s",
                [(place, 1) for place in self._positions],
            )
        lost = self._lost | self.done.result()
        if lost:
            raise RebalancedError(
                f"group {self._group!r} has given {len(lost)} partitions to other members, "
                "who get again what was not committed",
                lost,
            )


class CommitPort(Protocol):
    """What publishes commits: a `Producer`."""

    def send(self, topic: str, value: bytes | None, *, key: bytes) -> Future[Delivery]:
        """Publish a record; the future is done when a store has it."""

    def close(self, timeout: float) -> None:
        """Flush, then end."""


class GroupRole:
    """A `GroupMachine` in its node, and its counterpart for the application.

    Args:
        options: Checked.
        consumer: Its machine, with `Start.ASSIGNED`.
        start: Where to begin what has no commit.
        producer: Publishes the commits; closed by `leave`.
        cluster: Whose stores keep the group.
        connect: Makes a line to a store.
        clock: Its clock.

    Raises:
        MisuseError: A store's endpoint cannot be used.
    """

    name = "consumer"

    def __init__(
        self,
        options: GroupOptions,
        consumer: ConsumerMachine,
        start: Start,
        producer: CommitPort,
        cluster: Cluster,
        connect: ConnectLine = QueryClient,
        clock: Clock = CLOCK,
    ) -> None:
        self.delivered: queue.SimpleQueue[Handed] = queue.SimpleQueue()
        self.hand = Hand(self._posted)
        self.told: Callable[[], None] = lambda: None
        """Called when something was delivered, or nothing more will be."""
        self.failure: Exception | None = None
        """Why the application gets no more records."""
        self._options = options
        self._address = consumer.address
        self._cluster = cluster
        self._producer = producer
        self._post: Callable[[None, Event | GroupEvent], None] | None = None
        about = Member(tuple(map(octets_of, consumer.topics)), options.session_timeout_ms)
        member = MemberMachine(options.group, consumer.address, about, len(options.stores))
        settings = GroupSettings(
            stores=len(options.stores),
            latest=start is Start.LATEST,
            auto_commit_ms=options.auto_commit_ms,
            hold_ms_max=options.max_hold_ms,
        )
        self.machine = GroupMachine(consumer, member, settings)
        self._commit_ms = 0
        self._wanted: dict[int, Future[frozenset[Partition]]] = {}
        self._numbers = count(1)
        self.left = threading.Event()
        """Set once it is out of the group, or has ended."""
        self._lines = StoreLines(options.group, cluster, connect, clock)
        self._clock = clock
        self._lease_ms: int | None = None
        """Until when records may be handed over; set by the node, read by the application."""
        self.group = options.group
        """Its name."""
        self.commits_by_itself = options.auto_commit_ms is not None
        """Whether it commits what is processed without being told."""
        self.lag = 0
        """Records that are there and not taken yet, of this member's partitions; of lately."""
        self._lag = metrics.GROUP_LAG.labels(options.group, consumer.address)
        self._lag_due_ms = self._wall_due_ms = 0

    def attach(self, post: Callable[[None, Event | GroupEvent], None]) -> None:
        """Events are handed to its node so; to be called before that starts."""
        self._post = post

    def handle(
        self, side: None, event: Event | GroupEvent, now_ms: int
    ) -> Iterable[tuple[None, object]]:
        """Pass an event to the machine."""
        if isinstance(event, TurnEnded):
            # Not when it is asked for: that is another thread, and partitions come and go here.
            if now_ms >= self._lag_due_ms:
                self._lag_due_ms = now_ms + _LAG_INTERVAL_MS
                self.lag = self.machine.lag
                self._lag.set(self.lag)
            if now_ms < self._wall_due_ms:
                return ()
            self._wall_due_ms = now_ms + _WALL_INTERVAL_MS
            event = WallTime(self._clock.wall_ms())
        effects = self.machine.handle(event, now_ms)
        self._lease_ms = self.machine.lease_ms
        return [(side, effect) for effect in effects]

    def wakeup_ms(self) -> int | None:
        """When the machine wants to be woken."""
        return self.machine.wakeup_ms()

    def perform(self, _side: None, effect: object) -> GroupEvent | None:
        """Do what is not the network's."""
        match effect:
            case Handed():
                self.delivered.put(effect)
                self.told()
            case Ask() | AskOffsets():
                self._lines.ask(effect)
            case PartitionAssigned():
                self.hand.begin(effect)
            case Revoke():
                return self.hand.revoke(effect)
            case Collect():
                return Collected(self.hand.processed())
            case PublishCommits():
                self._publish(effect)
            case CommitDone():
                self._wanted.pop(effect.number).set_result(effect.lost)
                self.told()
            case _:
                self._report(effect)
        return None

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, GroupEvent]]]]:
        """The connections to the stores."""
        return self._lines.pollable()

    def close(self) -> None:
        """Release the connections."""
        self._lines.close()
        self.left.set()
        self.told()
        metrics.GROUP_LAG.remove(self._options.group, self._address)

    def watched(self, records: Iterator[Record]) -> Iterator[Record]:
        """The records of the batch that is held, as long as they may be handed over."""
        hand = self.hand
        for record in records:
            self._await_lease()
            if hand.stopped or self.left.is_set():
                return
            hand.record = record
            yield record

    def next(self, timeout: float, *, whole: bool) -> Handed | None:
        """The next batch that may be handed over; None if there is none in time.

        Raises:
            RebalancedError: The application was away for too long.
            MisuseError: The group has other stores.
        """
        self.hand.put()
        deadline_ms = self._clock.now_ms() + 1_000 * timeout
        while True:
            self._check()
            try:
                left_s = (deadline_ms - self._clock.now_ms()) / 1_000
                handed = self.delivered.get(timeout=max(0.0, left_s))
            except queue.Empty:
                self._check()
                return None
            self._await_lease()
            if self.hand.take(handed, whole=whole):
                return handed
            self._posted(Consumed(len(handed.batch.content)))

    def _await_lease(self) -> None:
        """Wait while this member has overslept.

        As after the process was stopped for a while: which of its threads goes on first, nobody
        knows. A moment later the lease is renewed, or the member out of the group.
        """
        while self.overslept:
            self._clock.sleep(RENEWAL_S)

    @property
    def overslept(self) -> bool:
        """Whether others may have taken over and this member's thread has not found out yet."""
        lease_ms = self._lease_ms
        if lease_ms is None or self._clock.now_ms() < lease_ms:
            return False
        return not (self.hand.stopped or self.left.is_set())

    def begin_commit(self) -> Committing:
        """Begin to commit what was handed over."""
        self._check()
        positions, lost = self.hand.vouch()
        number = next(self._numbers)
        committing = Committing(self._options.group, positions, lost)
        self._wanted[number] = committing.done
        self._posted(CommitWanted(number, positions))
        return committing

    def seek(self, partition: Partition, position: int) -> None:
        """Go on at `position`.

        Raises:
            MisuseError: The partition is not this consumer's at present.
        """
        if not 0 <= position <= SEQUENCE_MAX + 1:
            raise MisuseError(f"position of {partition} is 0 to {SEQUENCE_MAX + 1}: {position}")
        if not self.hand.seek(partition, position):
            raise MisuseError(
                f"partition {partition.topic}/{partition.address} cannot be sought: "
                "it is not this consumer's at present"
            )
        self._posted(Sought(partition, position))

    def seek_to(self, place: Callable[[StoreClient, range, Partition], int]) -> None:
        """Go on in every partition where `place` says.

        Args:
            place: Given a store, what it keeps of a partition, and the partition.

        Raises:
            QueryError: No store answers.
        """
        partitions = self.hand.positions()

        def places(store: StoreClient) -> dict[Partition, int]:
            kept = store.ranges()
            return {one: place(store, kept[one], one) for one in partitions if one in kept}

        found = self._first_answer(places)
        for partition, position in found.items():
            if self.hand.seek(partition, position):
                self._posted(Sought(partition, position))

    def leave(self, timeout: float, *, failed: bool) -> None:
        """Commit what is processed, if that is done by itself, and leave the group.

        Args:
            timeout: Seconds that the stores have for it.
            failed: Whether the application has not processed what it was handed last.

        Raises:
            NotStoredError: The last positions were not acknowledged in time.
        """
        self.say_goodbye(failed=failed)
        left = self.left.wait(timeout)
        try:
            self._producer.close(timeout if left else 0)
        finally:
            self.hand.expel()
        if not left:
            log.warning("left the group without goodbye", extra={"group": self._options.group})

    def say_goodbye(self, *, failed: bool) -> None:
        """Begin to leave, as `leave` does; `left` tells of the end."""
        positions: Mapping[Partition, int] = {}
        if self._options.auto_commit_ms is not None:
            positions = self.hand.processed() if failed else self.hand.vouch()[0]
        self._posted(Closing(positions))

    def _first_answer(
        self, ask: Callable[[StoreClient], dict[Partition, int]]
    ) -> dict[Partition, int]:
        with ClusterClient(self._cluster) as stores:
            return stores.first(ask)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _posted(self, event: Event | GroupEvent) -> None:
        assert self._post is not None
        self._post(None, event)

    def _publish(self, effect: PublishCommits) -> None:
        # A clock that was set back must not make a later commit the older one.
        self._commit_ms = max(self._commit_ms + 1, self._clock.wall_ms())
        last = None
        for partition, position in effect.positions.items():
            key, value = encode(
                CommitKey(self._options.group, partition),
                Commit(
                    position,
                    effect.epoch,
                    self._commit_ms,
                    processed=effect.processed.get(partition),
                ),
            )
            try:
                last = self._producer.send(TOPIC, value, key=key)
            except MisuseError:
                return  # it has been closed
            except (BufferFullError, NotStoredError) as error:
                log.warning("cannot commit, it is tried again: %s", error)
                self._posted(CommitFailed(effect))
                return
        if last is not None:
            last.add_done_callback(lambda done: self._stored(effect, done))

    def _stored(self, effect: PublishCommits, done: Future[Delivery]) -> None:
        if done.exception() is not None:
            self._posted(CommitFailed(effect))
            return
        metrics.GROUP_COMMITS.labels(self._options.group).inc(len(effect.positions))
        self._posted(Committed(effect.token))

    def _report(self, effect: object) -> None:
        group = self._options.group
        match effect:
            case Rebalanced():
                metrics.REBALANCES.labels(group).inc()
                facts = {"group": group, "generation": effect.generation}
                log.info("group is rebalanced", extra=facts)
            case Expelled():
                self.hand.expel()
                log.warning(
                    "too few stores heard this member: it joins anew", extra={"group": group}
                )
            case Overdue():
                self.failure = RebalancedError(
                    f"group {group!r} has given this consumer's partitions to others: it held "
                    f"records for more than {self._options.max_hold_ms} ms; make a new one",
                    (),
                )
                self.hand.expel()
                self.told()
            case Barred(complaint):
                self.failure = MisuseError(f"group {group!r} {complaint}")
                self.told()
            case Left():
                self.left.set()
            case _:
                raise AssertionError(effect)
