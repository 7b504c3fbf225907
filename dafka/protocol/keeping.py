"""What a store does with which slots of the ring: all it keeps, but while slots move (ADR 60)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.model import ALL_SLOTS, SYSTEM, Partition, Slots, slot_of
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from dafka.wire.messages import Message

NO_SLOTS = Slots(0)

_TAKEN = (
    messages.Records,
    messages.RecordMessage,
    messages.DirectRecords,
    messages.DirectRecord,
    messages.Head,
    messages.DirectHead,
    messages.LogStart,
)


class Keeping(NamedTuple):
    """What a store does with slots; of those that are none of these it has no opinion.

    What a cluster says of itself every store keeps.

    Attributes:
        kept: It answers for them, and says of them what is durable.
        joining: It takes them in and says nothing of them, as it may lack what there was before.
        stopped: Of those that are kept, what others are to have before it gives them up: it answers
            for them, takes nothing in and acknowledges nothing.
        asked: The stores of the cluster, by whoever has seen all, and what each keeps: of what
            joins it passes over only what each of them lacks. One that is away for a while may be
            the only one that has it.
    """

    kept: Slots = ALL_SLOTS
    joining: Slots = NO_SLOTS
    stopped: Slots = NO_SLOTS
    asked: tuple[tuple[str, Slots], ...] = ()

    @property
    def held(self) -> Slots:
        """Those of which it may have something on its disk."""
        return self.kept.joined(self.joining)

    def holds(self, partition: Partition) -> bool:
        """Whether it may have something of a partition."""
        return self.kept.keeps(*partition) or self.joining.keeps(*partition)

    def answers(self, partition: Partition) -> bool:
        """Whether it says what there is of a partition."""
        return self.kept.keeps(*partition)

    def takes(self, partition: Partition) -> bool:
        """Whether it takes in what is new of a partition."""
        return self.holds(partition) and not self._has_stopped(partition)

    def acknowledges(self, partition: Partition) -> bool:
        """Whether it says what is durable of a partition."""
        return self.kept.keeps(*partition) and not self._has_stopped(partition)

    def asked_of(self, partition: Partition) -> set[str] | None:
        """The stores each of which has to lack what is passed over; None: all that are known.

        There are none if nobody has said which there are: then nothing is passed over.
        """
        if self.answers(partition):
            return None
        return {store for store, slots in self.asked if slots.keeps(*partition)}

    def heeds(self, message: Message) -> bool:
        """Whether a message is of a partition that is taken in or asked for, or of none."""
        if isinstance(message, messages.Fetch):
            return self.kept.keeps(message.topic, message.address)
        if not isinstance(message, _TAKEN):
            return True
        return self.takes(Partition(message.topic, message.address))

    def heard_live(self) -> list[tuple[MessageId, str]]:
        """What is to be listened for of what is published in batches."""
        if self.held == ALL_SLOTS:
            return [(MessageId.RECORDS, "")]
        slots = ((MessageId.SLOT_RECORDS, one) for one in self.held.prefixes())
        return [(MessageId.RECORDS, SYSTEM), *slots]

    def _has_stopped(self, partition: Partition) -> bool:
        if not self.stopped or partition.topic.startswith(SYSTEM):
            return False
        return self.stopped.has(slot_of(partition.address))


KEEPS_ALL = Keeping()
"""That of a store that was told nothing else."""
