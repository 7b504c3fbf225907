"""Registries in the simulator: the real service and its real log, over simulated lines and meshes.

See `dafka.testing.registry`; stores are those of all simulations.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from dafka.cluster import Cluster
from dafka.errors import NotStoredError, QueryError, RegistryError
from dafka.model import Partition
from dafka.node.delivery import not_stored
from dafka.process.clock import Clock
from dafka.schemas import rulings
from dafka.schemas.entries import TOPIC, Primary, PrimaryKey, Schema, SchemaEntry, Stamp
from dafka.schemas.schema_log import SchemaLog
from dafka.schemas.service import Service
from dafka.schemas.state import State, promotion_epoch
from dafka.testing.group_nodes import CommitProducer
from dafka.testing.queries import SimQueryLine
from dafka.testing.sim_thread import SimThread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.protocol.effects import Stored
    from dafka.schemas.registry import Registry
    from dafka.testing.nodes import SimStore
    from dafka.testing.world import SimMesh, World
    from dafka.transport.keys import Credentials

AGAIN_MS = 1_000
"""After so long a registry that could not find out who the primary is is started again."""

judge = lru_cache(maxsize=None)(rulings.judge)
"""A ruling follows from its case alone, so all runs share them."""


class RequestKind(Enum):
    """What a client asks for."""

    REGISTER = "register"
    DELETE = "delete"
    DELETE_FOR_GOOD = "delete for good"
    SET_LEVEL = "set level"
    SET_MODE = "set mode"
    READ = "read"
    PROMOTE = "promote"


class ClientRequest(NamedTuple):
    """A request of a client.

    Attributes:
        action: What it asks for.
        subject: Of what.
        word: Text of the schema, level, mode, number of the version, or name of the cluster.
    """

    action: RequestKind
    subject: str
    word: str = ""


class ToldVersion(NamedTuple):
    """A version, as a registry tells it."""

    id: int
    text: str
    live: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a registry tells of a subject."""

    versions: Mapping[int, ToldVersion]
    level: str
    mode: str


@dataclass(slots=True, eq=False)
class Call:
    """A request, and what came of it: until it has ended, anything may.

    Attributes:
        ask: What was asked for.
        cluster: Whose registry was asked.
        life: Which of its lives.
        began_ms: When.
        ended_ms: When the client had an answer; None if it never got one.
        code: With which it was refused; 0 if it was not.
        id: That the schema has been given.
        reading: What that registry told of the subject right afterwards, if it could.
    """

    ask: ClientRequest
    cluster: str
    life: str
    began_ms: int
    ended_ms: int | None = None
    code: int = 0
    id: int = 0
    reading: Reading | None = None

    @property
    def done(self) -> bool:
        """Whether it was acknowledged."""
        return self.ended_ms is not None and not self.code

    @property
    def refused(self) -> bool:
        """Whether it certainly was not done: an error of the registry does not say so."""
        return self.ended_ms is not None and self.code > 0 and not status_of(self.code) >= 500


def status_of(code: int) -> int:
    """The HTTP status of a code of the registry's."""
    return RegistryError(code, "").status


class WaitingClient:
    """The port `QueryClientPort`: asks a store through the mesh of events, and waits."""

    def __init__(self, registry: SimRegistry, store: SimStore) -> None:
        self.world = registry.world
        self._thread = registry.thread
        # Of a dozen questions for one request each loss would cost seconds; TCP loses none.
        self._line = SimQueryLine(
            self, store, lambda: store.name in registry.unreachable, lossy=False
        )

    def come_to_it(self) -> None:
        """There is an answer."""
        self._thread.wake()

    def ask(self, question: bytes, timeout_ms: int) -> bytes:
        """Return the answer.

        Raises:
            QueryError: There is none in time.
        """
        end_ms = self.world.now_ms + timeout_ms
        number = self._line.send(question)
        while self._thread.wait_for(lambda: self._line.readable, end_ms - self.world.now_ms):
            answered = self._line.receive()
            if answered is not None and answered[0] == number:
                return answered[1]
        raise QueryError("no answer in time")

    def close(self) -> None:
        """Nobody waits any more."""
        self._line.close()


class EntryWriter(CommitProducer):
    """The port `EntryProducer`: what could not be stored in time stays, and lands later."""

    def __init__(self, registry: SimRegistry, name: str, mesh: SimMesh, min_acks: int) -> None:
        super().__init__(registry.world, name, mesh, min_acks)
        self._thread = registry.thread

    def flush(self, timeout: float) -> None:
        """Wait until all is stored; see `Producer.flush`."""
        if not self._thread.wait_for(lambda: not self._awaited, int(timeout * 1_000)):
            unstored = {Partition(TOPIC, self.address): len(self._awaited)}
            raise not_stored(unstored, timeout, self._min_acks)

    def stored(self, effect: Stored) -> None:
        """Enough stores have these."""
        super().stored(effect)
        self._thread.wake()


class SimRegistry:
    """A registry process: it does one thing after the other, as its lock makes it.

    Args:
        world: Where it lives.
        name: Its name.
        mesh: Its cluster's mesh.
        stores: Its cluster's stores.
        cluster: The name of the cluster that it registers for.
        number: And its number.
        first: Whether it makes that cluster the primary if there is none.
    """

    def __init__(
        self,
        world: World,
        name: str,
        mesh: SimMesh,
        stores: Sequence[SimStore],
        cluster: str,
        number: int,
        *,
        first: bool,
    ) -> None:
        self.world = world
        self.name = name
        self.cluster = cluster
        self.incarnation = 0
        self.alive = False
        self.unreachable: set[str] = set()
        """Stores that it cannot ask at present, though it may hear them in the mesh."""
        self._mesh = mesh
        self._stores = {store.name: store for store in stores}
        self._number = number
        self._first = first
        self._calls: deque[Call] = deque()
        self._answering = False
        self._writers: list[EntryWriter] = []

    @property
    def life(self) -> str:
        """Which of its lives it is in."""
        return f"{self.name}.{self.incarnation}"

    @property
    def busy(self) -> bool:
        """Whether it has requests that it has not answered."""
        return self._answering or bool(self._calls)

    def boot(self) -> None:
        """Start: it knows nothing but what the log says."""
        self.alive = True
        self.incarnation += 1
        self.world.note("boot", self.name)
        self.thread = SimThread(self.world, self.life, self._serve)
        self.thread.start()

    def crash(self) -> None:
        """Die: whoever waits for an answer gets none, and what is not stored is gone."""
        self.world.note("crash", self.name)
        self.alive = False
        self._calls.clear()
        self._answering = False
        self.thread.kill()
        for writer in self._writers:
            writer.crash()
        self._writers.clear()

    def stall(self, milliseconds: int) -> None:
        """Let what it writes wait for so long: others may take over meanwhile."""
        for writer in self._writers:
            writer.busy(milliseconds)

    def put(self, call: Call) -> None:
        """A request arrives."""
        if self.alive and call.life == self.life:
            self._calls.append(call)
            self.thread.wake()

    def _serve(self) -> None:
        service = Service(self._log(), self.cluster, self._number, judge)
        while self._first:
            with suppress(RegistryError):
                service.become_first_primary()
                break
            self.thread.wait_for(lambda: False, AGAIN_MS)
        while self.thread.wait_for(lambda: bool(self._calls)):
            call = self._calls.popleft()
            self._answering = True
            code = id_ = 0
            reading = None
            try:
                if call.ask.action is RequestKind.PROMOTE:
                    _promote(self._log(), call.ask.word, self._number)
                else:
                    id_ = _done(service, call.ask)
            except RegistryError as error:
                code = error.code
            if call.ask.action is not RequestKind.PROMOTE:
                try:
                    reading = service.ask(partial(reading_of, subject=call.ask.subject))
                except RegistryError as error:
                    if call.ask.action is RequestKind.READ:
                        code = error.code
            self.world.note(self.life, call.ask, code, id_)
            self._answer(call, code, id_, reading)
            self._answering = False

    def _answer(self, call: Call, code: int, id_: int, reading: Reading | None) -> None:
        """It leaves; on the way it may get lost."""
        world = self.world
        if world.random.random() < world.faults.loss:
            return

        def arrive() -> None:
            call.ended_ms = world.now_ms
            call.code, call.id, call.reading = code, id_, reading

        world.after(world.delay_ms(), arrive)

    def _log(self) -> SchemaLog:
        clock = Clock(now_ms=lambda: self.world.now_ms)
        return SchemaLog(Cluster(stores=tuple(self._stores)), self._connect, self._produce, clock)

    def _connect(self, endpoint: str, _credentials: Credentials | None) -> WaitingClient:
        return WaitingClient(self, self._stores[endpoint])

    def _produce(self, _cluster: Cluster, min_acks: int) -> EntryWriter:
        # Each is a producer of its own: an operator joins anew for every promotion.
        name = f"{self.life}-log{len(self._writers)}"
        writer = EntryWriter(self, name, self._mesh, min_acks)
        self._writers.append(writer)
        writer.boot()
        return writer


def _done(service: Service, ask: ClientRequest) -> int:
    """Carry a request out; returns the id, if it is given one."""
    action, subject, word = ask
    match action:
        case RequestKind.REGISTER:
            schema = Schema("AVRO", word)
            answer = service.decide(lambda registry, id_: registry.register(subject, schema, id_))
            assert isinstance(answer, dict)
            return int(answer["id"])
        case RequestKind.DELETE | RequestKind.DELETE_FOR_GOOD:
            permanent = action is RequestKind.DELETE_FOR_GOOD
            service.decide(
                lambda registry, _: registry.delete_version(subject, word, permanent=permanent)
            )
        case RequestKind.SET_LEVEL:
            service.decide(lambda registry, _: registry.set_level(subject, word))
        case RequestKind.SET_MODE:
            service.decide(lambda registry, _: registry.set_mode(subject, word))
        case _:
            pass  # a question: what it tells is read in any case
    return 0


def _promote(log: SchemaLog, cluster: str, number: int) -> None:
    """Make a cluster the primary, as an operator's command does it in each log."""
    state = State()
    try:
        log.read_into(state, log.majority)
        epoch = promotion_epoch(max(state.epoch, state.last.epoch), number)
        claim = Primary(cluster, log.address)
        log.write([SchemaEntry(PrimaryKey(), Stamp(epoch, 0), claim)])
        log.read_into(state, log.majority)
    except (QueryError, NotStoredError) as error:
        raise RegistryError(50001, str(error)) from error
    if state.primary != claim:
        raise RegistryError(50003, "another claim is later")


def reading_of(registry: Registry, subject: str) -> Reading:
    """All that a registry tells of a subject."""
    held = registry.schemas(deleted=True, prefix=subject)
    return Reading(
        {
            one.number: ToldVersion(one.version.id, one.schema.text, not one.version.deleted)
            for one in held
        },
        registry.level(subject),
        registry.mode(subject),
    )
