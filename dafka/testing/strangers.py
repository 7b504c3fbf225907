"""Peers that are not ours: one that lies about where logs begin, producers of bare values."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Never, cast

from dafka.model import Partition
from dafka.protocol.effects import Listen, Publish
from dafka.protocol.events import Received, Woke
from dafka.testing.world import SimNode
from dafka.wire import messages
from dafka.wire.fields import SEQUENCE_MAX
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.node.turn import Role
    from dafka.protocol.events import Event
    from dafka.protocol.machine import Machine
    from dafka.testing.world import SimMesh, World
    from dafka.transport.sockets import Pollable

HEAD_MS = 500
"""How often a producer of bare values says its heads; as seldom as it likes, but for ever."""


class _Stranger:
    """What roles of these have in common: they talk when they are talked to."""

    name = "stranger"

    def wakeup_ms(self) -> int | None:
        """Never."""
        return None

    def perform(self, _side: None, effect: object) -> None:
        """There is none."""
        raise AssertionError(effect)

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, Event]]]]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """Nothing is held."""

    def check(self) -> None:
        """Nobody knows how it ought to be."""


class LiarRole(_Stranger):
    """It says that what somebody lacks is not kept any more, and heads that were long ago.

    Never more than there is: by that, and a log start to match, whoever comes into a cluster
    without keys can bring a partition to a stand.
    """

    def __init__(self, liar: SimLiar) -> None:
        self._liar = liar

    def handle(
        self, _side: None, event: Event, _now_ms: int
    ) -> Iterable[tuple[None, Listen | Publish]]:
        """Answer what was asked of others."""
        match event:
            case Woke():
                yield None, Listen(MessageId.FETCH, "")
            case Received(messages.Fetch() as fetch):
                chance = self._liar.world.random
                place = fetch.topic, fetch.address
                if fetch.sequence == SEQUENCE_MAX:
                    return  # only a DIRECT-HEAD is asked for
                if chance.random() < self._liar.eager:
                    begin = fetch.sequence + chance.randint(1, fetch.count)
                    lie = messages.LogStart(fetch.requester, *place, begin, self._liar.name)
                    yield None, Publish(lie)
                if fetch.sequence and chance.random() < 0.2:
                    yield (
                        None,
                        Publish(messages.Head(*place, chance.randint(0, fetch.sequence - 1))),
                    )
            case _:
                pass


class SimLiar(SimNode[None, Never]):
    """A peer that lies.

    Args:
        world: Where it lives.
        name: Its name.
        mesh: Its cluster.
        eager: How many FETCHes of a hundred it answers, over a hundred.
    """

    def __init__(self, world: World, name: str, mesh: SimMesh, eager: float) -> None:
        super().__init__(world, name, {None: mesh})
        self.eager = eager

    def build(self) -> tuple[Role[None, Never], Machine[Any, Any]]:
        """As ever."""
        role = LiarRole(self)
        return role, cast("Machine[Any, Any]", role)


class BareRole(_Stranger):
    """It publishes values without an envelope one by one, as the C implementation does."""

    def __init__(self, producer: SimBareProducer) -> None:
        self._producer = producer
        self._head_due_ms = 0

    def handle(
        self, _side: None, event: Event, now_ms: int
    ) -> Iterable[tuple[None, Listen | Publish]]:
        """Send what there is to be sent, and again what is asked for."""
        producer = self._producer
        match event:
            case Woke():
                if not self._head_due_ms:
                    yield None, Listen(MessageId.ACK, producer.name)
                    yield None, Listen(MessageId.FETCH, producer.name)
                for topic, sequence, value in producer.unsent():
                    told = messages.RecordMessage(topic, producer.name, sequence, value)
                    yield None, Publish(told)
                if now_ms >= self._head_due_ms:
                    self._head_due_ms = now_ms + HEAD_MS
                    for topic, values in producer.values.items():
                        yield None, Publish(messages.Head(topic, producer.name, len(values) - 1))
            case Received(messages.Ack() as ack):
                producer.acknowledged(ack.topic, ack.sequence + 1)
            case Received(messages.Fetch() as fetch):
                values = producer.values.get(fetch.topic, [])
                for sequence in range(
                    fetch.sequence, min(fetch.sequence + fetch.count, len(values))
                ):
                    place = fetch.topic, producer.name, sequence
                    answer = messages.DirectRecord(fetch.requester, *place, values[sequence])
                    yield None, Publish(answer)
            case _:
                pass

    def wakeup_ms(self) -> int:
        """When heads are due."""
        return self._head_due_ms


class SimBareProducer(SimNode[None, Never]):
    """A producer that knows neither batches nor envelopes, and its application.

    It keeps all that it has sent, and never dies: there is nobody to say more than its values.

    Args:
        world: Where it lives.
        name: Its name and address.
        mesh: Its cluster.
    """

    def __init__(self, world: World, name: str, mesh: SimMesh) -> None:
        super().__init__(world, name, {None: mesh})
        self.partitions: set[Partition] = set()
        """All it has ever sent to."""
        self.values: dict[str, list[bytes]] = {}
        """By topic, all it has sent."""
        self._unsent: deque[tuple[str, int]] = deque()
        self._awaited: dict[str, deque[tuple[int, int]]] = {}
        """By topic, the number and the sequence of each send that is not stored yet."""

    @property
    def waiting(self) -> bool:
        """Whether something it has sent is not stored yet."""
        return any(self._awaited.values())

    def build(self) -> tuple[Role[None, Never], Machine[Any, Any]]:
        """As ever."""
        role = BareRole(self)
        return role, cast("Machine[Any, Any]", role)

    def send(self, topic: str, count: int) -> None:
        """Send unique values, one by one."""
        held = self.values.setdefault(topic, [])
        self.partitions.add(Partition(topic, self.name))
        for _ in range(count):
            sequence = len(held)
            held.append(f"{self.name}-{topic}-{sequence}".encode())
            op = self.world.history.sent(self.name, topic, held[-1:], self.world.now_ms)
            self._awaited.setdefault(topic, deque()).append((op, sequence))
            self._unsent.append((topic, sequence))
        self.wake()

    def unsent(self) -> Iterable[tuple[str, int, bytes]]:
        """Take out what is to be sent."""
        while self._unsent:
            topic, sequence = self._unsent.popleft()
            yield topic, sequence, self.values[topic][sequence]

    def acknowledged(self, topic: str, end: int) -> None:
        """A store has everything below `end`."""
        awaited = self._awaited.get(topic, deque())
        while awaited and awaited[0][1] < end:
            op, sequence = awaited.popleft()
            self.world.history.acknowledged(op, self.name, sequence, self.world.now_ms)


class BareTwinRole(_Stranger):
    """It says the one record that it has again and again."""

    def __init__(self, told: messages.RecordMessage) -> None:
        self._told = told
        self._due_ms = 0

    def handle(self, _side: None, _event: Event, now_ms: int) -> Iterable[tuple[None, Publish]]:
        """Say it, if that is due."""
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + HEAD_MS
            yield None, Publish(self._told)

    def wakeup_ms(self) -> int:
        """When it is due."""
        return self._due_ms


class SimBareTwin(SimNode[None, Never]):
    """One of several producers of bare values under one address; it never dies.

    Args:
        world: Where it lives.
        name: Its name, and what its record says.
        mesh: Its cluster.
        partition: Whose only record each of them says is its own.
    """

    def __init__(self, world: World, name: str, mesh: SimMesh, partition: Partition) -> None:
        super().__init__(world, name, {None: mesh})
        self._told = messages.RecordMessage(*partition, 0, name.encode())
        world.history.sent(name, partition.topic, [name.encode()], world.now_ms)

    def build(self) -> tuple[Role[None, Never], Machine[Any, Any]]:
        """As ever."""
        role = BareTwinRole(self._told)
        return role, cast("Machine[Any, Any]", role)
