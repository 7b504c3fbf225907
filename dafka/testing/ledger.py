"""Gateways that own a Kafka partition one after the other, and what their clients were shown.

The machine of `dafka.gateway.owner` among stores that crash, lose disks and drop what is old, and
gateways that crash, freeze and wake up late. Who owns the partition is drawn as agreement allows it
(ADR 13): one at a time, the next one after the lease of the one before, however slow that was.

python -m dafka.testing.ledger --seed 17 --count 100
"""

from __future__ import annotations

import itertools
import random
import sys
from functools import partial
from typing import TYPE_CHECKING

from dafka.gateway.events import (
    Disowned,
    Lease,
    LedgerEmptied,
    LineKind,
    LinesStored,
    Offered,
    Owned,
    Produced,
    ReadStores,
    RecordsDeleted,
    RecordsForgotten,
    RecordsGone,
    RecordsSent,
    RecordsStored,
    Restate,
    StoreRead,
    TakeoverLate,
    TopicDeleted,
    WriteLines,
)
from dafka.gateway.ledger import HOLE
from dafka.gateway.owner import LedgerMachine, OwnerState
from dafka.gateway.producers import Producers
from dafka.groups.membership import blocking_of
from dafka.protocol.events import Woke
from dafka.testing.ledger_shown import Shown
from dafka.testing.ledger_stores import Shelf
from dafka.testing.seeds import run_seeds
from dafka.testing.world import Faults, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.gateway.events import LedgerEffect, LedgerEvent, LedgerLine

POLL_MS = 20
SETTLING_MS_MAX = 60_000
DYING = 0.1
"""How often a gateway dies between the line that announces records and the records, or while it
writes its beginning."""

HAPPENINGS = (
    *("send",) * 6,
    *("native",) * 4,
    *("crash", "freeze", "thaw", "thaw", "boot", "boot", "pass", "turn", "turn", "up"),
    *("lose", "retain", "retain", "forget", "tidy", "tidy"),
)


class SimGateway:
    """A gateway: one machine, its own records, and an application that believes it."""

    def __init__(self, run: LedgerRun, name: str) -> None:
        self._run = run
        self.name = name
        self.alive = False
        self.frozen = False
        self.frozen_ms = 0
        """Since when it is."""
        self._lease = Lease(0)
        self.incarnation = 0
        self.machine: LedgerMachine | None = None
        self._inbox: list[Callable[[], None]] = []
        self._lines: list[LedgerLine] = []
        self._sent: dict[str, int] = {}
        """How many records it has published, by the address of each ownership."""
        self._producers = Producers()
        self._poll_token = 0
        self._listed: set[str] = set()  # addresses of which any store has spoken last
        self.offered: Offered | None = None
        """What its clients were told last."""
        self._deleting: list[int] = []
        """Where clients want offsets to begin, and have not been told that they do."""
        self._waiting: list[tuple[int, int, int]] = []
        """Batches that are answered once they are offered: their offset, the one behind, which."""

    @property
    def address(self) -> str:
        """Under which it publishes what it takes in."""
        return f"{self.name}-{self.incarnation}-{self.epoch}"

    @property
    def epoch(self) -> int:
        """Of its last ownership."""
        return 0 if self.machine is None else self.machine.epoch

    def writes(self, address: str) -> bool:
        """Whether it may still publish something there."""
        return self.alive and address in self._sent

    def boot(self) -> None:
        """Start."""
        self.incarnation += 1
        self.alive, self.frozen = True, False
        run = self._run
        self.machine = LedgerMachine(len(run.shelves), run.lines_min, run.takeover_ms, 0)
        self._lines, self._sent = [], {}
        self._inbox.clear()
        self._waiting.clear()
        self.tick(self.incarnation)

    def crash(self) -> None:
        """Die."""
        self.alive, self.machine = False, None
        self._unanswered()

    def freeze(self) -> None:
        """Stand still."""
        self.frozen, self.frozen_ms = True, self._run.world.now_ms

    def thaw(self) -> None:
        """Go on with what has come in the meantime, at the time that it is now."""
        self.frozen = False
        inbox, self._inbox = self._inbox, []
        for action in inbox:
            action()

    def tell(self, event: LedgerEvent) -> None:
        """Something has happened; it is heard of now, or when it wakes up."""
        self._when_awake(partial(self._handle, event))

    def renew(self, until_ms: int) -> None:
        """Its lease holds until a later time; it hears so like anything else."""

        def renew() -> None:
            self._lease.until_ms = max(self._lease.until_ms, until_ms)

        self._when_awake(renew)

    def send(self, count: int) -> None:
        """A client produces, or sends again what was not answered."""
        if self.machine is None or self.frozen or self.machine.state is not OwnerState.SERVING:
            return
        run = self._run
        batch, count = run.again.popitem() if run.again else (next(run.numbers), count)
        produced = Produced(batch, 0, 0, count)
        known = self._producers.known(produced)
        if known is not None:
            run.shown.repeated += 1
            self._waiting.append((known.offset, known.offset + count, batch))
            return
        first, offset = self._sent.get(self.address, 0), self.machine.ledger.end
        self._producers.add(produced, offset)
        run.shown.batches[self.address, first] = batch
        self._sent[self.address] = first + count
        self._waiting.append((offset, offset + count, batch))
        run.counts[batch] = count
        self._handle(RecordsSent(self.address, first, count, produced))
        if run.dies():
            self.crash()
        elif run.chance.random() < 0.5:
            self._publish()  # else a moment later

    def delete(self) -> None:
        """A client lets offsets begin later."""
        serves = self.machine is not None and self.machine.state is OwnerState.SERVING
        if serves and not self.frozen and self.offered is not None:
            start = self._run.chance.randint(self.offered.start, self.offered.end)
            self._deleting.append(start)
            self._handle(RecordsDeleted(start))

    def _hear_of_deletion(self) -> None:
        """Its topic is deleted, or was: gateways hear so late, and more than once."""
        run, machine = self._run, self.machine
        if machine is None or machine.state is not OwnerState.SERVING or not run.deletion:
            return
        start, again = machine.ledger.start, run.emptied >= run.deletion
        self._handle(TopicDeleted(run.deletion))
        assert not again or machine.ledger.start == start, f"L9: {run.deletion} empties again"

    def tick(self, incarnation: int) -> None:
        """Publish again what may have got lost, and ask stores how far they are."""
        if incarnation != self.incarnation or not self.alive:
            return
        self._when_awake(self._poll)
        self._run.world.after(POLL_MS, partial(self.tick, incarnation))

    def _poll(self) -> None:
        if self.machine is None or self.machine.state is OwnerState.FOREIGN:
            return
        if self._run.world.now_ms >= self._lease.until_ms:
            self._handle(Disowned())  # nobody has to tell it
            return
        self._publish()
        for shelf in self._run.shelves:
            self._run.ask(self, shelf, partial(self._ends, shelf))
        self._handle(Woke())
        if self.machine.state is OwnerState.READING:
            self._read(self._poll_token)
        if self._run.deletions.random() < 0.2:
            self._hear_of_deletion()

    def _unanswered(self) -> None:
        """Clients that wait are told to ask the next owner, or find out by themselves."""
        for _, _, batch in self._waiting:
            self._run.again[batch] = self._run.counts[batch]
        self._waiting.clear()

    def _publish(self) -> None:
        self._publish_lines()
        for address, count in self._sent.items():
            for shelf in self._run.shelves:
                self._run.send(shelf, partial(shelf.take_records, address, range(count)))

    def _publish_lines(self) -> None:
        lines = tuple(self._lines)
        for shelf in self._run.shelves:
            if lines:
                arrive = self._run.chance.randint(len(lines) // 2, len(lines))
                self._run.send(shelf, partial(shelf.take_lines, lines[:arrive]))

    def _ends(self, shelf: Shelf) -> Callable[[], None]:
        """What a store says of its ends, taken when it says it."""
        self._run.ends[shelf.name] = (
            {epoch: chain.next for epoch, chain in shelf.chains.items()},
            dict(shelf.kept),
        )
        ends = {name: said for name, said in self._run.ends.items() if said is not None}
        need = blocking_of(len(self._run.shelves))
        events: list[LedgerEvent] = []
        for epoch in {one for lines, _ in ends.values() for one in lines}:
            by_store = sorted((lines.get(epoch, 0) for lines, _ in ends.values()), reverse=True)
            if len(by_store) >= need:
                events.append(LinesStored(epoch, by_store[need - 1]))
        before, self._listed = self._listed, {one for _, kept in ends.values() for one in kept}
        events.append(RecordsForgotten(before - self._listed))
        for address in sorted(self._listed):
            found = [kept.get(address, range(0)) for _, kept in ends.values()]
            if len(found) >= need:
                stops = sorted((one.stop for one in found), reverse=True)
                starts = sorted((one.start for one in found), reverse=True)
                events.append(RecordsStored(address, stops[need - 1], starts[0]))
                events.append(RecordsGone(address, starts[need - 1]))

        def heard() -> None:
            for event in events:
                if self.machine is not None:
                    self._handle(event)

        return heard

    def _read(self, token: int) -> None:
        for shelf in self._run.shelves:
            self._run.ask(self, shelf, partial(self._said, shelf, token))

    def _said(self, shelf: Shelf, token: int) -> Callable[[], None]:
        lines = {epoch: tuple(chain.lines) for epoch, chain in shelf.chains.items()}
        read = StoreRead(token, shelf.name, lines, dict(shelf.kept), new=shelf.new)
        return partial(self._handle, read)

    def _when_awake(self, action: Callable[[], None]) -> None:
        incarnation = self.incarnation

        def act() -> None:
            if incarnation == self.incarnation and self.alive:
                action()

        if self.frozen:
            self._inbox.append(act)
        else:
            act()

    def hear(self, incarnation: int, action: Callable[[], None]) -> None:
        """An answer arrives."""
        if incarnation == self.incarnation and self.alive:
            self._when_awake(action)

    def _handle(self, event: LedgerEvent) -> None:
        assert self.machine is not None
        if isinstance(event, Owned):
            self._lines, self._lease = [], event.lease
        if isinstance(event, (Owned, Disowned)):
            self._unanswered()
            self.offered = None
            self._deleting.clear()
        reading = self.machine.state is OwnerState.READING
        for effect in self.machine.handle(event, self._run.world.now_ms):
            if self.machine is not None:
                self._perform(effect)
        if self.machine is not None:
            self.machine.check()
            if self.machine.is_long:
                self._run.restated += 1
                self._handle(Restate(self._producers.taken()))
            elif reading and self.machine.state is OwnerState.BEGINNING:
                self._producers = Producers()
                for line in self.machine.produced:
                    assert line.produced is not None
                    self._producers.add(line.produced, line.offset)

    def _perform(self, effect: LedgerEffect) -> None:
        assert self.machine is not None
        match effect:
            case ReadStores():
                self._poll_token = effect.token
                self._read(effect.token)
            case WriteLines():
                self._lines += effect.lines
                self._publish_lines()
                begins = effect.lines[0].kind is LineKind.BEGIN
                if (begins or self.machine.state is OwnerState.BEGINNING) and self._run.dies():
                    self.crash()
            case TakeoverLate():
                self._run.late += 1
            case LedgerEmptied():
                self._run.emptied = max(self._run.emptied, effect.change)
            case Offered():
                self.offered = effect
                self._run.shown.offered(self.machine, effect, self._run.is_kept)
                self._run.shown.deleted += sum(one <= effect.start for one in self._deleting)
                self._deleting = [one for one in self._deleting if one > effect.start]
                for waiting in [one for one in self._waiting if one[1] <= effect.end]:
                    self._waiting.remove(waiting)
                    offset, _, batch = waiting
                    told = self._run.shown.placed.get(batch)
                    # Retention may take its first record before anybody is told of it.
                    gone = told is None and self.machine.ledger.start > offset
                    assert gone or told == offset, f"L6: batch {batch} at {told}, not {offset}"
                    self._run.shown.answered += 1


class LedgerRun:
    """One seed."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.chance = chance
        delay_ms = chance.choice((2, 20, 100))
        faults = Faults(loss=chance.choice((0.0, 0.1, 0.4)), delay_ms_max=delay_ms)
        self.world = World(seed, faults)
        self.shelves = [Shelf(f"S{number}") for number in range(chance.choice((1, 2, 3, 3, 5)))]
        self.ends: dict[str, tuple[dict[int, int], dict[str, range]] | None] = {}
        self.shown = Shown()
        self.deletes = seed % 4 == 3
        """Whether clients let offsets begin later, in place of retention."""
        self.deletions = random.Random(seed)
        """Their own, so that other seeds stay what they were."""
        self.deletes_topic = seed % 8 == 6
        """Whether the topic is deleted and made again, in place of retention."""
        self.deletion = self.emptied = 0
        """The number of the last, and of the last after which the topic was made again."""
        self.session_ms = chance.choice((200, 500))
        self.gateways = [SimGateway(self, f"G{number}") for number in range(chance.randint(2, 3))]
        self.natives = {f"P{number}": 0 for number in range(chance.randint(0, 3))}
        self.numbers = itertools.count()
        """Of clients' batches."""
        self.counts: dict[int, int] = {}
        """How many records each has."""
        self.again: dict[int, int] = {}
        """Those that were not answered, and the same: clients send them again."""
        self.owner: SimGateway | None = None
        self._life = 0
        """Which of the owner's it is."""
        self.lease_ms = 0
        self.epoch = 0
        self.owners = 0
        self.healed = False
        self.lines_min = chance.choice((2, 10, 1_000))
        """See `LedgerMachine`."""
        self.restated = 0
        """How often a long chain was begun anew."""
        self.late = 0
        """How often a takeover took long."""
        self.takeover_ms = chance.choice((300, 5_000))
        """See `LedgerMachine`."""

    def dies(self) -> bool:
        """Whether a gateway dies right here."""
        return not self.healed and self.chance.random() < DYING

    def send(self, shelf: Shelf, action: Callable[[], None]) -> None:
        """A message to a store; some take longer than a lease."""

        def arrive() -> None:
            if shelf.up:
                action()

        self.world.send(arrive, 3 * self.session_ms, self.chance)

    def ask(self, gateway: SimGateway, shelf: Shelf, say: Callable[[], Callable[[], None]]) -> None:
        """A question to a store, and its answer."""
        incarnation = gateway.incarnation

        def answer() -> None:
            heard = say()
            if self.chance.random() >= self.world.faults.loss:
                self.world.after(self.world.delay_ms(), partial(gateway.hear, incarnation, heard))

        self.send(shelf, answer)

    def tick(self) -> None:
        """The lease is renewed or passes on, stores repair each other, producers go on."""
        self._lease()
        for shelf in self.shelves:
            other = self.chance.choice(self.shelves)
            if shelf.up and other.up and other is not shelf:
                shelf.copy(other, self.chance.choice((0.5, 1.0)))
                if shelf.new:
                    shelf.compare(other, len(self.shelves))
        for address, count in self.natives.items():
            for shelf in self.shelves:
                if count:
                    self.send(shelf, partial(shelf.take_records, address, range(count)))
        self.world.after(POLL_MS, self.tick)

    def _lease(self) -> None:
        now_ms, owner = self.world.now_ms, self.owner
        lives = owner is not None and owner.alive and owner.incarnation == self._life
        if owner is not None and lives and not owner.frozen and now_ms < self.lease_ms:
            self.lease_ms = now_ms + self.session_ms
            owner.renew(self.lease_ms)
        elif now_ms > self.lease_ms:
            awake = [one for one in self.gateways if one.alive and not one.frozen]
            if awake:
                self.pass_to(self.chance.choice(awake))

    def pass_to(self, gateway: SimGateway) -> None:
        """Nobody has a lease any more: the next owner."""
        self.owner, self._life = gateway, gateway.incarnation
        self.epoch += 1
        self.owners += 1
        self.lease_ms = self.world.now_ms + self.session_ms
        address = f"{gateway.name}-{gateway.incarnation}-{self.epoch}"
        gateway.tell(Owned(self.epoch, Lease(self.lease_ms), address))

    def happen(self) -> None:
        """Let something happen."""
        gateway, shelf = self.chance.choice(self.gateways), self.chance.choice(self.shelves)
        what = self.chance.choice(HAPPENINGS)
        if what == "up":
            shelf.up = True
        elif what == "turn":
            swap = self.chance.random() < 0.5
            for one in self.shelves:
                one.up = not one.up if swap else self.chance.random() < 0.6
        elif what == "forget":
            self._forget()
        elif what == "tidy":
            shelf.tidy()
        elif what == "lose" and len(self.shelves) > 2:
            self._lose(shelf)
        elif what == "retain" and self.deletes and self.owner is not None:
            self.owner.delete()
        elif what == "retain" and self.deletes_topic:
            self.deletion += self.emptied == self.deletion
        elif what == "retain" and shelf.up and shelf.kept:
            self._retain(shelf)
        else:
            self._happen_to(gateway, what)

    def _happen_to(self, gateway: SimGateway, what: str) -> None:
        if what == "send" and self.owner is not None:
            self.owner.send(self.chance.randint(1, 5))
        elif what == "native" and self.natives:
            address = self.chance.choice(sorted(self.natives))
            self.natives[address] += self.chance.randint(1, 5)
        elif what == "crash" and gateway.alive:
            gateway.crash()
        elif what == "freeze" and gateway.alive:
            gateway.freeze()
        elif what == "thaw" and gateway.alive and gateway.frozen:
            gateway.thaw()
        elif what == "boot" and not gateway.alive:
            gateway.boot()
        elif what == "pass" and gateway.alive and not gateway.frozen:
            self._hand_over(gateway)

    def _hand_over(self, gateway: SimGateway) -> None:
        owner = self.owner
        if owner is not None and owner is not gateway and owner.alive and not owner.frozen:
            owner.tell(Disowned())
            self.pass_to(gateway)

    def _lose(self, shelf: Shelf) -> None:
        """A disk is lost while no other that took the place of one is new."""
        if not any(one.lost for one in self.shelves):
            shelf.lose()
            self.ends[shelf.name] = None

    def _retain(self, shelf: Shelf) -> None:
        """Retention takes what is old: nothing of what a store alone has."""
        address = self.chance.choice(sorted(shelf.kept))
        kept = shelf.kept[address]
        until = min(one.kept.get(address, range(0)).stop for one in self.shelves)
        if until > kept.start:
            start = self.chance.choice((until, self.chance.randint(kept.start, until)))
            shelf.kept[address] = range(start, kept.stop)

    def _forget(self) -> None:
        """Stores do not know any more that a partition was there of which nothing is left."""
        for address in {one for shelf in self.shelves for one in shelf.kept}:
            writes = any(one.writes(address) for one in self.gateways)
            gone = [shelf.kept.get(address, range(0)) for shelf in self.shelves]
            if not writes and not any(gone):
                end = max(one.stop for one in gone)  # who lacked something has heard of it
                for shelf in self.shelves:
                    shelf.kept.pop(address, None)
                    shelf.ended[address] = max(end, shelf.ended.get(address, 0))

    def is_kept(self, address: str, sequence: int) -> bool:
        """Whether any store has a record."""
        return any(sequence in shelf.kept.get(address, range(0)) for shelf in self.shelves)

    def settled(self) -> bool:
        """Whether everything that stores keep has an offset that clients were shown."""
        owner = self.owner
        if owner is None or owner.machine is None or owner.machine.state is not OwnerState.SERVING:
            return False
        names = self.shown.offsets.keys()
        gone: dict[str, int] = {}
        for shelf in self.shelves:
            for address, there in shelf.kept.items():
                gone[address] = max(there.start, gone.get(address, 0))
        kept = {
            (address, sequence)
            for shelf in self.shelves
            for address, there in shelf.kept.items()
            for sequence in there
            if sequence >= gone[address]
            # What an owner before has left behind without an offset gets none any more.
            if address in self.natives or address == owner.address
            # A topic may be deleted before clients were told of its last records.
            if not (self.deletes_topic and sequence < owner.machine.ledger.listed(address))
        }
        return kept <= names and self.shown.end == owner.machine.ledger.end


def run(seed: int) -> LedgerRun:
    """Run one seed.

    Raises:
        AssertionError: An invariant of ADR 28 does not hold, or nothing was offered in the end.
    """
    one = LedgerRun(seed)
    for gateway in one.gateways:
        gateway.boot()
    one.tick()
    for _ in range(one.chance.randint(20, 120)):
        pause_ms = one.chance.choice((5, 30, one.session_ms, 2 * one.session_ms))
        one.world.run_until(one.world.now_ms + one.chance.randint(0, pause_ms))
        one.happen()
    one.world.faults.heal()
    one.healed = True
    for shelf in one.shelves:
        shelf.up = True
    for gateway in one.gateways:
        if not gateway.alive:
            gateway.boot()
        elif gateway.frozen:
            gateway.thaw()
    healed_ms = one.world.now_ms
    while not one.settled():
        assert one.world.now_ms < healed_ms + SETTLING_MS_MAX, "L3: records without an offset"
        one.world.run_until(one.world.now_ms + POLL_MS)
    return one


def judged(seed: int) -> tuple[str, list[str]]:
    """Run a seed; what came of it, and what was found wrong."""
    one = run(seed)
    holes = sum(
        line.kind is LineKind.ENTRY and line.address == HOLE
        for shelf in one.shelves
        for chain in shelf.chains.values()
        for line in chain.lines
    )
    told = (
        f"{len(one.shown.names)} offsets, {one.owners} owners, {one.shown.answered} produces "
        f"answered, {one.shown.repeated} again, {holes} holes, log start {one.shown.start}, "
        f"{one.emptied} deletions, {one.restated} chains begun anew, "
        f"{sum(shelf.dropped for shelf in one.shelves)} lines dropped"
    )
    return told, []


def main() -> int:
    """Run the seeds that the command line asks for."""
    return run_seeds("dafka.testing.ledger", "Ledgers of Kafka offsets, by seed.", judged)


if __name__ == "__main__":
    sys.exit(main())
