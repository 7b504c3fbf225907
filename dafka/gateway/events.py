"""What the machine of a ledger is told, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dafka.model import Value
from dafka.protocol.events import Woke

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class LineKind(Enum):
    """What a line of a ledger's log says."""

    BEGIN = "begin"
    """An owner begins to write the list anew, from an offset on."""
    ENTRY = "entry"
    """Records have the next offsets."""
    OPEN = "open"
    """The list is whole: what follows is new. Its address is the owner's own."""
    TRIM = "trim"
    """Offsets below this one name nothing any more."""
    SKIP = "skip"
    """Records of an address below a sequence get no offset any more: they had theirs, and are
    trimmed; or, all that are to come, of a gateway that does not own the partition any more."""
    PRODUCED = "produced"
    """A Kafka producer's batch has had its offsets: so much is known of what it may send again."""
    SETTLED = "settled"
    """As many stores as block a majority have the last beginning: what is older may go."""


class Produced(NamedTuple):
    """How a Kafka producer names a batch, so that it is not stored twice when it is sent again."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int


class LedgerLine(NamedTuple):
    """A record of the ledger's log.

    Attributes:
        epoch: Its writer's.
        number: Of the line among those of its epoch, from 0.
        kind: What it says.
        offset: Where the list, the entry or the rest begins.
        address: Of an entry.
        first: Sequence of its first record; of what trims or opens, the last deletion of the topic.
        records: How many it has.
        produced: Of an entry that is one batch of a Kafka producer.
    """

    epoch: int
    number: int
    kind: LineKind
    offset: int
    address: str = ""
    first: int = 0
    records: int = 0
    produced: Produced | None = None


@dataclass(slots=True)
class Lease:
    """How long a gateway owns what it owns: one for all of its partitions, which look at it.

    Attributes:
        until_ms: Later and later, while it is renewed.
    """

    until_ms: int


class Owned(Value, frozen=True):
    """The partition is this gateway's, under an epoch higher than all before, while it has a lease.

    Attributes:
        epoch: The generation of the gateways.
        lease: Looked at whenever it matters, so that nobody need be told that it was renewed.
        address: Under which it publishes what it takes in, as long as it owns the partition.
    """

    epoch: int
    lease: Lease
    address: str


class Disowned(Value, frozen=True):
    """The partition is another's, or the lease is over."""


class StoreRead(Value, frozen=True):
    """What a store has: answers `ReadStores`.

    Attributes:
        token: Of the question.
        store: Which.
        lines: Of the partition's ledger, of each epoch, as the store has them, in order.
        kept: Of each address in the partition's slots, the sequences that it has.
        new: Whether its disk is, and may lack what the one before had.
    """

    token: int
    store: str
    lines: Mapping[int, Sequence[LedgerLine]]
    kept: Mapping[str, range]
    new: bool = False


class LinesStored(Value, frozen=True):
    """As many stores as block a majority have the lines of this epoch below a number."""

    epoch: int
    end: int


class RecordsSent(Value, frozen=True):
    """This gateway publishes records; they follow what it published there before.

    Attributes:
        address: Where.
        first: Sequence of the first.
        count: How many, in one batch.
        produced: If a Kafka producer has named it.
    """

    address: str
    first: int
    count: int
    produced: Produced | None = None


class RecordsStored(Value, frozen=True):
    """As many stores as block a majority have the records of an address below a sequence.

    Attributes:
        address: Which.
        end: The sequence.
        start: Where it begins there, if none of it has an offset: it may be one that stores had
            forgotten, and has had some.
    """

    address: str
    end: int
    start: int = 0


class RecordsGone(Value, frozen=True):
    """As many stores as block a majority keep the records of an address only from a sequence on."""

    address: str
    start: int


class RecordsForgotten(Value, frozen=True):
    """No store says anything of these addresses any more: nothing was kept of them for long."""

    addresses: Collection[str]


class Restate(Value, frozen=True):
    """Write the whole list anew in the same chain, which is long.

    Attributes:
        produced: The last batches of each Kafka producer, in their order, and their offsets.
    """

    produced: Sequence[tuple[Produced, int]]


class RecordsDeleted(Value, frozen=True):
    """A client wants offsets to begin here, at what was offered at most; the records are kept."""

    start: int


class TopicDeleted(Value, frozen=True):
    """The topic is deleted: what has an offset by now is to have none; the records are kept.

    Attributes:
        change: The number of the deletion, which is remembered: it empties a partition once.
    """

    change: int


class ReadStores(Value, frozen=True):
    """Ask every store what it has, again and again until it answers."""

    token: int


class WriteLines(Value, frozen=True):
    """Publish these, behind all before, until they are stored."""

    lines: tuple[LedgerLine, ...]


class TakeoverLate(Value, frozen=True):
    """It has not come to serving for long: what it waits for, for people."""

    waits_for: str


class Offered(Value, frozen=True):
    """Clients may be told of the offsets from `start` to below `end`, and of nothing else."""

    start: int
    end: int


class LedgerEmptied(Value, frozen=True):
    """What the partition had when a deletion was heard of names nothing any more, and never will.

    Attributes:
        change: The number of the last deletion.
    """

    change: int


LedgerEvent = (
    Owned
    | Disowned
    | StoreRead
    | LinesStored
    | RecordsSent
    | RecordsStored
    | RecordsGone
    | RecordsForgotten
    | Restate
    | RecordsDeleted
    | TopicDeleted
    | Woke
)
LedgerEffect = ReadStores | WriteLines | TakeoverLate | Offered | LedgerEmptied
