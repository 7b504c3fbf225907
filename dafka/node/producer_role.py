"""The producer's shell in the node's thread: timers, and the spool if it has one."""

from __future__ import annotations

import logging
from math import ceil
from typing import TYPE_CHECKING, Protocol

from dafka.errors import StorageError
from dafka.model import Partition
from dafka.node.batching import SealGap
from dafka.process import metrics
from dafka.process.clock import CLOCK, Pace
from dafka.protocol.effects import Append, Disputed, HoleFound, Publish, Stored
from dafka.protocol.events import Appended, AppendFailed, Woke
from dafka.protocol.machine import earliest
from dafka.wire.messages import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dafka.model import Batch
    from dafka.process.clock import Clock
    from dafka.protocol.events import Event
    from dafka.protocol.producer import ProducerMachine
    from dafka.storage.spool import Spool
    from dafka.transport.sockets import Pollable

log = logging.getLogger(__name__)


class Owner(Protocol):
    """What the shell tells the public producer, and asks of it; all in the node's thread."""

    def seal_older(self, opened_ms: int) -> None:
        """Hand over what was opened at or before a time."""

    def oldest_open_ms(self) -> int | None:
        """When the oldest open batch was opened."""

    def spooled(self, batches: Sequence[Batch]) -> None:
        """These are in the spool."""

    def stored(self, effect: Stored) -> None:
        """Enough stores have these."""

    def disputed(self, effect: Disputed) -> None:
        """Another producer publishes under this one's address."""

    def hole_found(self, effect: HoleFound) -> None:
        """A store waits in vain for what is kept no more."""

    def abandon(self) -> None:
        """The node has ended."""


class ProducerRole:
    """A producer's machine in its node.

    Args:
        owner: The public producer.
        machine: With `spooled` set if there is a spool.
        linger_ms: How long a record may wait for others to share its batch.
        spool: Closed with the role.
        clock: Its clock.
    """

    name = "producer"

    def __init__(
        self,
        owner: Owner,
        machine: ProducerMachine,
        linger_ms: int,
        spool: Spool | None,
        clock: Clock = CLOCK,
    ) -> None:
        self._owner = owner
        self.machine = machine
        self._linger_ms = linger_ms
        self._spool = spool
        self._now_ms, self._seconds = clock.now_ms, clock.seconds
        self._pace = Pace(clock)
        self._gap = SealGap()

    def handle(self, side: None, event: Event, now_ms: int) -> Iterable[tuple[None, object]]:
        """Pass an event to the machine."""
        if isinstance(event, Woke) and not self._gap.left_s(self._seconds()):
            waited_ms = self._pace.wait(self._gap.seconds)
            self._owner.seal_older(now_ms + waited_ms - self._linger_ms)
        effects = self.machine.handle(event, now_ms)
        for effect in effects:
            if isinstance(effect, Publish) and isinstance(effect.message, Records):
                message = effect.message
                partition = Partition(message.topic, message.address)
                end = message.sequence + message.count
                self._gap.published(partition, end, self._seconds())
        return [(side, effect) for effect in effects]

    def wakeup_ms(self) -> int | None:
        """When a batch has lingered long enough, or the machine wants to be woken."""
        due_ms = self._owner.oldest_open_ms()
        if due_ms is not None:
            due_ms += self._linger_ms
            left_s = self._gap.left_s(self._seconds())
            due_ms = max(due_ms, self._now_ms() + ceil(left_s * 1_000)) if left_s else due_ms
        return earliest(due_ms, self.machine.wakeup_ms())

    def perform(self, _side: None, effect: object) -> Event | None:
        """Write to the spool; report what is stored, and what never will be."""
        if isinstance(effect, Append):
            return self._append(effect)
        if isinstance(effect, Disputed):
            self._report(effect)
            return None
        if isinstance(effect, HoleFound):
            self._owner.hole_found(effect)
            return None
        assert isinstance(effect, Stored)
        self._gap.stored(effect.partition, effect.end, self._seconds())
        if self._spool is not None:
            self._spool.forget(effect.partition.topic, effect.end)
        self._owner.stored(effect)
        return None

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, Event]]]]:
        """No sockets of its own."""
        return {}

    def close(self) -> None:
        """Release the spool."""
        try:
            if self._spool is not None:
                self._spool.close()
        except StorageError:
            # What it was to forget is sent again by the next producer, and ignored by stores.
            log.exception("cannot tidy spool")
        finally:
            self._owner.abandon()

    def _report(self, disputed: Disputed) -> None:
        metrics.RIVALS.inc()
        log.error(
            "partition is disputed: another producer publishes there; nothing more is sent",
            extra={
                "topic": disputed.partition.topic,
                "address": disputed.partition.address,
                "sequence": disputed.sequence,
            },
        )
        self._owner.disputed(disputed)

    def _append(self, effect: Append) -> Event:
        assert self._spool is not None
        try:
            self._spool.append(effect.batches)
        except StorageError:
            # Tried again later; until then `send` fills the buffer, and then waits.
            log.exception("cannot spool", extra={"batches": len(effect.batches)})
            return AppendFailed(effect.token)
        self._owner.spooled(effect.batches)
        return Appended(effect.token)
