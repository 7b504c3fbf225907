"""The process that moves slots between the stores of a cluster (ADR 60), and what it has to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.model import SLOTS, Slots
from dafka.query.client import StoreClient
from dafka.query.messages import decode_question
from dafka.query.slot_mover import SlotMover
from dafka.query.slot_steps import SlotsRequest, slots_in
from dafka.testing.checker import Anomaly, Name
from dafka.testing.queries import SimQueryLine
from dafka.testing.sim_thread import SimThread

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from dafka.model import Partition
    from dafka.testing.nodes import SimStore
    from dafka.testing.world import World
    from dafka.transport.keys import Credentials

QUARTERS = tuple(Slots.of([range(one * 1_024, (one + 1) * 1_024)]) for one in range(SLOTS // 1_024))
"""What each store keeps is some of these."""

LOOK_MS = 500
"""How often slots are looked after."""

ASKED_MS = 400
"""So long an answer is waited for."""


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """Who keeps what: before, and in the end.

    Attributes:
        copies: How many stores keep each slot.
        before: By store; those behind them are new.
        after: By store, also the new ones.
    """

    copies: int
    before: tuple[Slots, ...]
    after: tuple[Slots, ...]

    @classmethod
    def drawn(cls, chance: random.Random) -> SlotPlan:
        """Any."""
        copies, stores = chance.randint(1, 2), chance.randint(2, 4)
        new = chance.randint(0, 2)
        return cls(copies, _drawn(chance, copies, stores), _drawn(chance, copies, stores + new))

    @property
    def coming(self) -> tuple[Slots, ...]:
        """What the new ones are to keep."""
        return self.after[len(self.before) :]


def _drawn(chance: random.Random, copies: int, stores: int) -> tuple[Slots, ...]:
    kept = [Slots(0)] * stores
    for quarter in QUARTERS:
        for number in chance.sample(range(stores), copies):
            kept[number] = kept[number].joined(quarter)
    # Each keeps something.
    return tuple(one or chance.choice(QUARTERS) for one in kept)


def declare(store: SimStore, slots: Slots, back_ms: int) -> None:
    """Start a store anew, after a while if it runs, with what it is to keep from now on."""
    store.settings = replace(store.settings, slots=slots)
    if store.alive:
        store.crash()
        store.world.after(back_ms, store.boot)


class SimMover:
    """The process that moves slots.

    Args:
        world: Where it lives.
        stores: Those of one cluster: all that there are when it begins.
        copies: How many of them keep each slot.
        apart: Says, before a store drops, of whom nothing gets to whom for a while first.
    """

    name = "mover"

    def __init__(
        self,
        world: World,
        stores: Sequence[SimStore],
        copies: int,
        apart: Callable[[SimStore], set[tuple[str, str]]],
    ) -> None:
        self.world = world
        self.done = False
        """Whether nothing was left to be moved when it looked last."""
        self._stores, self._copies, self._apart = stores, copies, apart
        self._thread: SimThread | None = None
        self._begun = 0
        """How often, for a name that nobody has had."""
        self._before: list[tuple[str, Slots, dict[Partition, int]]] = []
        """What stores kept and had on their disks before they were looked at."""
        self._early: list[str] = []
        """What it told them to keep though they lacked some."""

    def boot(self) -> None:
        """Begin."""
        self._thread = SimThread(self.world, self.name, self._main)
        self._thread.start()

    def crash(self) -> None:
        """Die as by kill -9."""
        if self._thread is not None:
            self._thread.kill()
            self._thread = None

    def come_to_it(self) -> None:
        """There is an answer."""
        if self._thread is not None:
            self._thread.wake()

    def judge(self, store: SimStore, joined: Slots) -> None:
        """See that a store has what each had that keeps its slots, when they were looked at."""
        own = store.log.ends()
        for (name, kept, ends), keeper in zip(self._before, self._stores, strict=True):
            shared = Slots(0) if name == store.name else joined.shared(kept)
            for partition, end in ends.items():
                if partition in keeper.log.recall([partition]):
                    continue  # no list names it: its end is handed over before `stop`
                if shared and shared.keeps(*partition) and own.get(partition, 0) < end:
                    self._early.append(f"{store.name} is told to keep {partition} up to {end}")

    def delay(self, store: SimStore) -> None:
        """Let it be a while before a store drops, if somebody is cut off from others in it."""
        assert self._thread is not None
        if apart := self._apart(store):
            self.world.note("apart", store.name)
            self.world.cuts |= apart
            self._thread.wait_for(lambda: False, LOOK_MS)
            self.world.cuts -= apart

    def found(self, wanted: Sequence[Slots]) -> list[Anomaly]:
        """What it did too early, and stores that keep other slots in the end than they are to."""
        return [Anomaly(Name.GAP, text) for text in self._early] + [
            Anomaly(Name.REPLICAS_DIFFER, f"{store.name} keeps {store.slots}, is to keep {slots}")
            for store, slots in zip(self._stores, wanted, strict=False)
            if store.slots != slots
        ]

    def ask(self, line: SimQueryLine, question: bytes) -> bytes:
        """Wait for the answer; see `QueryClientPort`."""
        assert self._thread is not None
        number = line.send(question)
        while self._thread.wait_for(lambda: line.readable, ASKED_MS):
            received = line.receive()
            if received is not None and received[0] == number:
                return received[1]
        raise QueryError("no answer")

    def _main(self) -> None:
        assert self._thread is not None
        clients = [
            StoreClient(store.name, connect=_Connected(self, store)) for store in self._stores
        ]
        self._begun += 1
        mover = SlotMover(clients, self._copies, name=f"{self.name}-{self._begun}")
        while True:
            self._before = [(one.name, one.slots, one.log.ends()) for one in self._stores]
            waits_for = mover.look()
            self.world.note("moving", waits_for)
            self.done = not waits_for
            self._thread.wait_for(lambda: False, LOOK_MS)


class _Connected:
    """Connects who moves slots with a store."""

    def __init__(self, mover: SimMover, store: SimStore) -> None:
        self._mover = mover
        self._store = store
        world, name = mover.world, store.name
        self._line = SimQueryLine(mover, store, lambda: world.parted(mover.name, name))

    def __call__(self, _endpoint: str, _credentials: Credentials | None) -> _Connected:
        return self

    def ask(self, question: bytes, _timeout_ms: int) -> bytes:
        """Return the answer."""
        asked = decode_question(question)
        if isinstance(asked, SlotsRequest) and asked.step == "take":
            self._mover.judge(self._store, slots_in(asked.slots))
        if isinstance(asked, SlotsRequest) and asked.step == "drop":
            self._mover.delay(self._store)
        return self._mover.ask(self._line, question)

    def close(self) -> None:
        """Take no more answers."""
        self._line.close()
