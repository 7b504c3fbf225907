"""A cluster of the simulator for Kafka groups: stores, and gateways that own and coordinate.

The machines are those of `dafka.gateway.coordination` and `translation`. Who owns the one partition
and who coordinates the one group is drawn as agreement allows it (ADR 13): one at a time, the next
after the lease of the one before, however slow that was. What clients were shown of the ledger
stays; the rest may be another order with the next owner (ADR 28).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dafka.gateway.broker import KafkaPartition, Offsets
from dafka.gateway.commits import merged
from dafka.gateway.coordination import Coordination, coordinated_in
from dafka.gateway.effects import CommitOffsets, OffsetsCommitted
from dafka.gateway.ledger import Ledger
from dafka.gateway.translation import OffsetTranslation, OwnedLedger
from dafka.groups.commit import CommitKey, decode
from dafka.groups.membership import blocking_of, majority_of
from dafka.records.batch import raw_records

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from dafka.groups.commit import Commit
    from dafka.model import Partition
    from dafka.testing.world import World

GROUP = "billing"
ORDERS = KafkaPartition("orders", 0)
TICK_MS = 20
SHOWN = 0.05
"""How often clients are shown more."""

Rows = dict[CommitKey, "Commit"]


def numbers(topic: str) -> int:
    """How many partitions a topic has."""
    return int(topic == ORDERS.topic)


class CommitShelf:
    """A store, as far as commits are concerned: prefixes of logs, and what they add up to."""

    def __init__(self) -> None:
        self.up = True
        self.logs: dict[str, list[tuple[CommitKey, Commit]]] = {}
        self.held: Rows = {}

    def take(self, name: str, commits: Sequence[tuple[CommitKey, Commit]]) -> None:
        """A log arrives from its beginning on; what comes next of it is taken."""
        there = self.logs.setdefault(name, [])
        for key, commit in commits[len(there) :]:
            there.append((key, commit))
            known = self.held.get(key)
            if known is None or commit.rank() > known.rank():
                self.held[key] = commit

    def copy(self, other: CommitShelf) -> None:
        """Take over what another one has and this one lacks."""
        for name, commits in [*other.logs.items()]:
            self.take(name, commits)


@dataclass(slots=True)
class Tenure:
    """Who has a role at a cluster, and until when at least."""

    holder: GroupGateway | None = None
    life: int = 0
    lease_ms: int = 0


class GroupGateway:
    """A gateway: its machines, its log of commits, and who waits for it."""

    def __init__(self, site: GroupSite, name: str, skew_ms: int) -> None:
        self.site, self.name = site, name
        self.alive = self.frozen = False
        self.life = 0
        self._skew_ms = skew_ms
        self._inbox: list[Callable[[], None]] = []

    def boot(self) -> None:
        """Start."""
        self.life += 1
        self.alive, self.frozen = True, False
        self.coordination = Coordination(f"{self.name}-{self.life}")
        self.translation = OffsetTranslation(numbers)
        self.ledger: Ledger | None = None
        self.shown = 0
        self.epoch = 0
        """Since when it coordinates; 0: it does not."""
        self.lease_ms = 0
        self._log: list[tuple[CommitKey, Commit]] = []
        self._ends: dict[int, int] = {}
        self._stored = 0
        """What enough stores have, which is not published again: they have it from each other."""
        self._waiting: dict[int, Callable[[OffsetsCommitted], None]] = {}
        self._inbox.clear()
        self._tick(self.life)

    def tell(self, action: Callable[[], None]) -> None:
        """Something has happened; it is heard of now, or when it wakes up."""
        if not self.alive:
            return
        if self.frozen:
            self._inbox.append(action)
        else:
            action()

    def thaw(self) -> None:
        """Go on with what has come in the meantime, at the time that it is now."""
        self.frozen = False
        inbox, self._inbox = self._inbox, []
        for action in inbox:
            action()

    def coordinates(self) -> bool:
        """Whether it believes so."""
        return bool(self.epoch) and self.site.world.now_ms < self.lease_ms

    def coordinate(self, epoch: int, lease_ms: int) -> None:
        """The group is this gateway's from now on."""
        self.epoch, self.lease_ms = epoch, lease_ms
        self.coordination.hold([coordinated_in(GROUP)], epoch)

    def own(self, ledger: Ledger, shown: int) -> None:
        """The partition is this gateway's from now on."""
        self.ledger, self.shown = ledger, shown

    def release(self, role: str) -> None:
        """A role is another's."""
        if role == "owner":
            self.ledger = None
        else:
            self.epoch = 0
            self.coordination.keep(())

    def commit(
        self,
        token: int,
        rows: dict[Partition, tuple[int | None, str]],
        tried: Callable[[Commit], None],
        done: Callable[[OffsetsCommitted], None],
        known: int | None = None,
    ) -> None:
        """A client commits."""
        if not self.coordinates():
            return
        wall_ms = max(0, self.site.world.now_ms + self._skew_ms)
        wanted = CommitOffsets(token, GROUP, self.epoch, rows, wall_ms, known)
        heard = self.translation.epoch_of(GROUP)
        published = self.coordination.commit(wanted, heard)
        if not isinstance(published, OffsetsCommitted):
            self.translation.take(published)
            self._waiting[token] = done
            tried(published[0][1])
        elif known is None:

            def go_on(rows_there: dict[Partition, Commit]) -> None:
                known = max((one.epoch for one in rows_there.values()), default=0)
                self.commit(token, rows, tried, done, known)

            self.site.read(self, go_on)

    def follow(self, rows: Rows) -> None:
        """A store says what it has."""
        self.translation.take(rows.items())

    def _tick(self, life: int) -> None:
        if life == self.life and self.alive:
            self.tell(self._work)
            self.site.world.after(TICK_MS, partial(self._tick, life))

    def _work(self) -> None:
        """Publish again what may have got lost, and hear how far stores are."""
        if self.ledger is not None:
            owned = {ORDERS: OwnedLedger(self.ledger, Offsets(0, self.shown))}
            self.coordination.publish(self.translation.work(owned))
        for batch in self.coordination.flush():
            for record in raw_records(batch.content):
                self._log.append(decode(record.key, record.value))
        name, log = self.coordination.log.address, tuple(self._log)
        for number, shelf in enumerate(self.site.shelves):
            if self._stored < len(log):
                self.site.send(shelf, partial(shelf.take, name, log))
            self.site.ask(self, shelf, partial(self._look, number, shelf))

    def _look(self, number: int, shelf: CommitShelf) -> Callable[[], None]:
        """What a store says when it is asked; what becomes of that when it has arrived."""
        end, rows = len(shelf.logs.get(self.coordination.log.address, ())), dict(shelf.held)

        def hear() -> None:
            self.follow(rows)
            self._ends[number] = max(end, self._ends.get(number, 0))
            enough = blocking_of(len(self.site.shelves))
            ends = sorted(self._ends.values(), reverse=True)
            if len(ends) >= enough:
                self._stored = ends[enough - 1]
                leased = self.site.world.now_ms < self.lease_ms
                for answer in self.coordination.stored(self._stored, leased=leased):
                    self._waiting.pop(answer.token)(answer)

        return hear


class GroupSite:
    """One cluster."""

    def __init__(self, world: World, chance: random.Random, number: int, session_ms: int) -> None:
        self.world, self.chance, self.number = world, chance, number
        self.session_ms = session_ms
        self.shelves = [CommitShelf() for _ in range(chance.choice((1, 2, 3, 3, 3)))]
        skew_ms = chance.choice((0, 500, 3_000))
        self.gateways = [
            GroupGateway(self, f"{number}-{one}", chance.randint(-skew_ms, skew_ms))
            for one in range(2)
        ]
        self.tenures = {"owner": Tenure(), "coordinator": Tenure()}
        self.generation = chance.choice((0, 0, 7))
        self.order: list[tuple[str, int]] = []
        """The records that are there, in the order of their offsets."""
        self.shown = 0
        self.read_max = majority_of(len(self.shelves))

    def coordinator(self) -> GroupGateway | None:
        """Who is the coordinator by lease, if it is awake."""
        there = self.tenures["coordinator"].holder
        return there if there is not None and there.alive and not there.frozen else None

    def send(self, shelf: CommitShelf, action: Callable[[], None]) -> None:
        """A message to a store; some take longer than a lease."""

        def arrive() -> None:
            if shelf.up:
                action()

        self.world.send(arrive, 3 * self.session_ms, self.chance)

    def ask(
        self, gateway: GroupGateway, shelf: CommitShelf, say: Callable[[], Callable[[], None]]
    ) -> None:
        """A question to a store, and its answer."""
        life = gateway.life

        def answer() -> None:
            heard = say()

            def arrive() -> None:
                if gateway.life == life:
                    gateway.tell(heard)

            if self.chance.random() >= self.world.faults.loss:
                self.world.after(self.world.delay_ms(), arrive)

        self.send(shelf, answer)

    def read(self, gateway: GroupGateway, use: Callable[[dict[Partition, Commit]], None]) -> None:
        """Read what a majority knows; if too few stores answer, nothing comes of it."""
        answers: list[dict[Partition, Commit]] = []

        def say(shelf: CommitShelf) -> Callable[[], None]:
            rows = {key.partition: commit for key, commit in shelf.held.items()}

            def hear() -> None:
                answers.append(rows)
                if len(answers) == self.read_max:
                    use(merged(answers))

            return hear

        for shelf in self.shelves:
            self.ask(gateway, shelf, partial(say, shelf))

    def tick(self) -> None:
        """Leases are renewed or pass on, stores repair each other, clients are shown more."""
        for role in self.tenures:
            self._renew(role)
        one, other = self.chance.choice(self.shelves), self.chance.choice(self.shelves)
        if one.up and other.up:
            one.copy(other)
        owner = self.tenures["owner"].holder
        if owner is not None and owner.alive and not owner.frozen and owner.ledger is not None:
            for address, sequence in self.order[owner.ledger.end :]:
                owner.ledger.append(address, sequence, 1)
            if self.chance.random() < SHOWN:
                self.shown = self.chance.randint(self.shown, owner.ledger.end)
            owner.shown = self.shown
        self.world.after(TICK_MS, self.tick)

    def pass_to(self, role: str, gateway: GroupGateway) -> None:
        """Nobody has a role any more: the next one."""
        tenure = self.tenures[role]
        tenure.holder, tenure.life = gateway, gateway.life
        tenure.lease_ms = self.world.now_ms + self.session_ms
        self.generation += 1
        if role == "coordinator":
            gateway.tell(partial(gateway.coordinate, self.generation, tenure.lease_ms))
            return
        self._shuffle()
        ledger = Ledger()
        for address, sequence in self.order:
            ledger.append(address, sequence, 1)
        gateway.tell(partial(gateway.own, ledger, self.shown))

    def hand_over(self, role: str, gateway: GroupGateway) -> None:
        """The holder of a role gives it back, and another takes it."""
        tenure = self.tenures[role]
        holder = tenure.holder
        awake = gateway.alive and not gateway.frozen
        if holder and awake and holder is not gateway and holder.alive and not holder.frozen:
            holder.release(role)
            self.pass_to(role, gateway)

    def settled_offset(self, positions: dict[str, int]) -> int:
        """The offset that positions amount to here."""
        ledger = Ledger()
        for address, sequence in self.order:
            ledger.append(address, sequence, 1)
        return ledger.reached(positions)

    def _renew(self, role: str) -> None:
        now_ms, tenure = self.world.now_ms, self.tenures[role]
        holder = tenure.holder
        lives = holder is not None and holder.alive and holder.life == tenure.life
        if holder is not None and lives and not holder.frozen and now_ms < tenure.lease_ms:
            tenure.lease_ms = now_ms + self.session_ms
            if role == "coordinator":
                holder.lease_ms = tenure.lease_ms
        elif now_ms > tenure.lease_ms:
            awake = [one for one in self.gateways if one.alive and not one.frozen]
            if awake:
                for one in awake:
                    one.release(role)
                self.pass_to(role, self.chance.choice(awake))

    def _shuffle(self) -> None:
        """What clients were not shown may get other offsets; of an address they ascend."""
        tail = self.order[self.shown :]
        names = [address for address, _ in tail]
        self.chance.shuffle(names)
        rest: dict[str, list[int]] = {}
        for address, sequence in tail:
            rest.setdefault(address, []).append(sequence)
        self.order[self.shown :] = [(address, rest[address].pop(0)) for address in names]
