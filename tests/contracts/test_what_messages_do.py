"""What each message can bring each role to do, at most: the table of docs/security.md is measured.

Each machine is told one message in every way that matters, again and again while time goes on, and
what it does then is compared with what it does without. It is the message alone: rights are looked
at before (`tests/test_docs_security.py`), and what several bring about together is fuzzed
(`test_hostile_peers.py`).
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from dafka.model import Partition
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings
from dafka.protocol.effects import (
    Append,
    Compare,
    Deliver,
    Disputed,
    Forget,
    HoleFound,
    Lost,
    Publish,
    ReadRange,
    Stored,
)
from dafka.protocol.events import (
    Appended,
    Compared,
    Mirrored,
    PeerListened,
    RangeRead,
    Received,
    Submitted,
    TurnEnded,
    Woke,
)
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.protocol.store import StoreMachine
from dafka.records.batch import BatchBuilder, Run
from dafka.storage.log import goes_on
from dafka.storage.memory import MemoryLog
from dafka.wire import messages
from dafka.wire.messages import MessageId
from tests.support.batches import make_batch

pytestmark = pytest.mark.sim

P = Partition("flights", "AA")
FAR = 1 << 62
SEQUENCES = 0, 2, 3, 10, FAR
"""The first and last of what there is, what comes next, what lies behind a gap, and beyond all."""

RUNS = None, 7, 8
VALUES = b"0", b"other"
STORES = None, "S1"
TURNS = 40
"""A role is told again whenever it wakes: minutes go by."""

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
SECTION = DOCUMENT.read_text().split("\n## What a message can do\n")[1].split("\n## ")[0]
ROLES = "store", "consumer", "producer", "mirror"


def content(sequence, value):
    return make_batch([value], sequence, P).content


def written():
    """What the document says, by message and role."""
    for line in filter(lambda one: one.startswith("|"), SECTION.splitlines()):
        name, _, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if name in told_to(""):
            for role, cell in zip(ROLES, cells, strict=False):
                yield name, role, set(cell.replace("-", "").replace(",", "").split())


def batches():
    for sequence, value in product(SEQUENCES, VALUES):
        yield sequence, content(sequence, value)


def told_to(us):
    """Every message, in every way, by the names in the document."""
    topic, address = P
    return {
        "RECORD": [messages.RecordMessage(*P, *one) for one in batches()],
        "RECORDS": [messages.Records(*P, first, 1, octets) for first, octets in batches()],
        "SLOT_RECORDS": [messages.SlotRecords(*P, at, 1, octets) for at, octets in batches()],
        "HEAD": [
            messages.Head(*P, last, stored) for last, stored in product(SEQUENCES, (False, True))
        ],
        "DIRECT_RECORD": [messages.DirectRecord(us, *P, *one) for one in batches()],
        "DIRECT_RECORDS": [
            messages.DirectRecords(us, *P, first, 1, octets) for first, octets in batches()
        ],
        "DIRECT_HEAD": [messages.DirectHead(us, *P, last) for last in SEQUENCES],
        "DIRECT_HEAD of a store": [
            messages.DirectHead(us, *P, last, "S1", run) for last, run in product(SEQUENCES, RUNS)
        ],
        "LOG_START": [messages.LogStart(us, *P, first, "S1") for first in SEQUENCES],
        "ACK": [
            messages.Ack(topic, address, "S1", last, run) for last, run in product(SEQUENCES, RUNS)
        ],
        "STORE_HELLO": [messages.StoreHello(us, "S1")],
        "FETCH": [
            messages.Fetch(*P, "YOU", first, 1, store)
            for first, store in product(SEQUENCES, (None, "*", us, "S1"))
        ],
        "FETCH of a store": [
            messages.Fetch(*P, "YOU", first, 1, store, by_store=True)
            for first, store in product(SEQUENCES, (None, "*", us, "S1"))
        ],
        "GET_HEADS": [messages.GetHeads(one, "YOU") for one in ("", topic)],
        "CONSUMER_HELLO": [messages.ConsumerHello(us, "YOU", (topic,))],
    }


DOES = {
    Append: "take",
    Deliver: "take",
    Lost: "skip",
    Stored: "forget",
    Forget: "forget",
    Disputed: "stop",
    HoleFound: "stop",
}
SAYS = {
    messages.Fetch: "fetch",
    messages.Ack: "acknowledge",
    messages.ConsumerHello: "greet",
    messages.GetHeads: "by the clock",
    messages.Head: "by the clock",
}


class Bench:
    """A role that has three records of a partition, in a world that does what it asks for."""

    def __init__(self):
        self.now_ms = 0
        self.does = set()

    def give(self, *events):
        pending = [*events]
        while pending:
            for effect in self.machine.handle(pending.pop(0), self.now_ms):
                self.does |= self.seen(effect)
                pending += self.performed(effect)
            self.machine.check()

    def performed(self, effect):
        return ()

    def seen(self, effect):
        for kind, does in DOES.items():
            if isinstance(effect, kind):
                return {does}
        if isinstance(effect, Publish):
            return {SAYS.get(type(effect.message), "answer")} - {"by the clock"}
        return set()

    def live(self, message=None):
        """Some minutes, in which a message comes again and again."""
        for _ in range(TURNS):
            if message is not None:
                self.give(Received(message))
            self.give(*self.ends)
            due_ms = self.machine.wakeup_ms()
            self.now_ms = max(self.now_ms + 1_000, due_ms or 0)
            self.give(Woke())
        return self.does

    ends = ()


class AStore(Bench):
    us = "ME"
    ends = (TurnEnded(),)

    def __init__(self, lacks):
        super().__init__()
        self.log = MemoryLog(self.us)
        self.log.append([make_batch([b"0"] * 3, 0, P)])
        self.machine = StoreMachine(self.us, self.log.heads())
        self.give(Woke())
        if lacks:
            self.give(Received(messages.Head(*P, 20)))
            self.give(Received(messages.DirectHead(self.us, *P, 20, "S2")))

    def performed(self, effect):
        match effect:
            case Append():
                self.log.append(effect.batches, skips=dict(effect.skips))
                return [Appended(effect.token)]
            case Compare(batch=batch):
                held = self.log.read(P, max(0, batch.sequence - 1), batch.count + 1, 1 << 20)
                return [Compared(batch, tuple(held))]
            case ReadRange():
                held = self.log.read(P, effect.sequence, effect.count_max, effect.bytes_max)
                skipped_to = goes_on(self.log.extents()[P], effect.sequence, held)
                return [RangeRead(effect.requester, P, tuple(held), skipped_to, effect.alone_end)]
        return []

    def seen(self, effect):
        if isinstance(effect, ReadRange):
            return {"answer"} if effect.requester != self.us else set()
        if isinstance(effect, Append) and not effect.batches:
            return set()  # it has skipped something, and told so
        return super().seen(effect)


class AConsumer(Bench):
    us = "ME"

    def __init__(self, lacks, committed):
        super().__init__()
        settings = ConsumerSettings(topics=("flights",), committed=committed, positions={P: 3})
        self.machine = ConsumerMachine(self.us, settings)
        self.give(Woke())
        if lacks:
            self.give(Received(messages.Head(*P, 20)))
            self.give(Received(messages.DirectHead(self.us, *P, 20, "S2")))


class AProducer(Bench):
    us = "AA"

    def __init__(self, lacks):
        super().__init__()
        self.machine = ProducerMachine(self.us, ProducerSettings())
        self.give(Woke(), PeerListened(MessageId.CONSUMER_HELLO, "YOU"))
        for place in range(3):
            builder = BatchBuilder(1 << 16, Run(7, place))
            builder.append(5, None, b"0", ())
            self.give(Submitted("flights", 1, builder.build()))
        if lacks:
            self.give(Received(messages.Ack(*P, "S2", 1, 7)))
            self.does.clear()


class AMirror(Bench):
    us = "ME"

    def __init__(self, lacks):
        super().__init__()
        self.machine = MirrorMachine(MirrorSettings())
        self.give(Woke())
        for sequence in range(3):
            batch = make_batch([b"0"], sequence, P)
            self.give(Mirrored(batch))
        if lacks:
            self.give(Received(messages.Ack(*P, "S2", 1)))
            self.does.clear()


def benches(role):
    """A role that has all there is, and one that lacks something or has given something away."""
    for lacks in (False, True):
        match role:
            case "store":
                yield lambda lacks=lacks: AStore(lacks)
            case "consumer":
                for committed in (False, True):
                    yield lambda lacks=lacks, committed=committed: AConsumer(lacks, committed)
            case "producer":
                yield lambda lacks=lacks: AProducer(lacks)
            case "mirror":
                yield lambda lacks=lacks: AMirror(lacks)


def brings_about(name, role):
    """What a role does because of a message that it does not do by itself."""
    found = set()
    for make in benches(role):
        by_itself = make().live()
        for message in told_to(make().us)[name]:
            found |= make().live(message) - by_itself
    return found


@pytest.mark.parametrize("name", told_to(""))
@pytest.mark.parametrize("role", ROLES)
def test_a_message_brings_about_what_the_document_says(name, role):
    assert [brings_about(name, role)] == [
        does for other, whose, does in written() if (other, whose) == (name, role)
    ]


def test_no_message_makes_a_store_forget():
    stores = [does for _, role, does in written() if role == "store"]
    assert len(stores) == len(told_to(""))
    assert not any("forget" in does for does in stores)
