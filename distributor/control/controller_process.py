"""A controller: in charge, or ready to be, of the replicas of one cluster.

Its seat says when it is; then it reads what was wanted before, and goes on from there. What it
decides (`grants.py`) the stores keep before it is said. All of it is in one thread with one loop;
what waits for stores is done in another.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never

from dafka.errors import BufferFullError, MisuseError, NotStoredError, QueryError
from dafka.process.clock import now_ms, wall_ms
from dafka.process.threads import wait_for_end
from dafka.protocol.events import Woke
from distributor.control.controller import ControllerMachine, ControllerState
from distributor.control.demand_desk import DemandDesk
from distributor.control.demands import objection
from distributor.control.events import PeekAnswered, SessionSettings
from distributor.control.grants import (
    NO_WISHES,
    BeginReplica,
    DemandAsked,
    DemandKept,
    DemandsFound,
    GrantMachine,
    GrantSettings,
    KeepWishes,
    ReplicaFound,
    ReplicaLost,
    TellReplica,
    WishesKept,
    moved,
)
from distributor.control.messages import AllowCompaction, CreateFlow
from distributor.control.meter import ControllerMeter
from distributor.control.overview import flow_rows, replica_row
from distributor.control.questions import KnownFlows
from distributor.control.replica_client import ReplicaClient
from distributor.control.seat import Seat
from distributor.control.wait_desk import WaitDesk
from distributor.control.wish_log import WishLog
from distributor.errors import CommandError, RefusedCommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dafka.cluster import Cluster
    from distributor.control.certificates import Certificates
    from distributor.control.demands import Demand
    from distributor.control.events import Superseded
    from distributor.control.grants import GrantEffect, Wishes
    from distributor.control.hold_keeper import HoldKeeper
    from distributor.control.holds import HeldForRow
    from distributor.control.messages import CreateInstance, Flow, StateCommand
    from distributor.control.operator_server import Operators
    from distributor.control.overview import ControlledFlowRow

log = logging.getLogger(__name__)

LOOK_S = 0.1
"""How often to see what is due."""

TELL_MS = 1_000
"""How often metrics are told: they look at every flow."""

PAGE_S = 2.0
"""How long a page may take."""

HOLD_S = 5.0
"""How often all clusters are asked what they have of what is held for them."""

AGAIN_S = 1.0
"""When stores are asked again that did not answer, or have not stored."""

T = TypeVar("T")


class RunningController:
    """One controller of a cluster.

    Args:
        cluster: Whose, with all of its stores.
        instance: The same for replicas.
        flows: What is wanted.
        replicas: Where each is reached, `HOST:PORT`, by its name.
        certificates: For TLS with replicas; None for none.
        grants: When grants move.
        keeper: Tells stores what to hold; closed with this. None where nothing is held.
        operators: What serves operators; None for nobody.

    Raises:
        MisuseError: The cluster cannot be joined like this.
    """

    def __init__(
        self,
        cluster: Cluster,
        instance: CreateInstance,
        flows: Sequence[Flow],
        replicas: Mapping[str, str],
        certificates: Certificates | None = None,
        grants: GrantSettings | None = None,
        keeper: HoldKeeper | None = None,
        operators: Operators | None = None,
    ) -> None:
        self._instance, self._flows, self._replicas = instance, flows, replicas
        self._certificates = certificates
        self._sessions, self._grants = SessionSettings(), grants or GrantSettings()
        self._place = "" if operators is None else operators.place
        self._serve_operators = operators
        self.epoch = 0
        """In which it is in charge; 0: it is not."""
        self.waits = WaitDesk(self._want)
        self._clients: dict[str, ReplicaClient] = {}
        self._active: set[str] = set()
        """Replicas whose sessions go on."""
        self._missed: set[str] = set()
        """Those that are known not to be there."""
        self._happened: deque[ReplicaFound | ReplicaLost | DemandAsked] = deque()
        self._demands = DemandDesk(lambda asked: self._happened.append(asked))
        self._kept = NO_WISHES
        """What the stores keep, while it is in charge."""
        self._term: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._name = f"{cluster.new_address()}@{wall_ms():015}"
        """As replicas and other controllers know it."""
        self._meter = ControllerMeter(instance.cluster)
        self._tell_due_ms = 0
        self._keeper = keeper
        self._held_for: list[HeldForRow] = []
        """What other clusters lacked when they were asked last."""
        self._log = WishLog(cluster)
        self._asking = ThreadPoolExecutor(1, "dafka-ask")
        self._keeping = ThreadPoolExecutor(1, "dafka-hold")
        """Apart: clusters that are down take long to ask, and grants do not wait for that."""
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._main, name="dafka-controller", daemon=True)
        self._thread.start()
        self._seat = Seat(
            cluster,
            self._name,
            partial(self._post, self._take_office),
            partial(self._post, self._leave_office),
        )

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure
        self._seat.join(0)
        return not self._thread.is_alive()

    def unwell(self) -> str:
        """See `LongRunning`."""
        return "" if self._failure is None else str(self._failure)

    def unready(self) -> str:
        """See `LongRunning`: to be ready to take over is to be ready."""
        lost = sorted(self._replicas.keys() - self._active) if self.epoch else []
        return f"no session with {', '.join(lost)}" if lost else ""

    def page(self, _asked: Mapping[str, str]) -> dict[str, object]:
        """What it knows, for people and scripts: a page of its `Health`.

        Raises:
            TimeoutError: Its loop does not answer.
        """
        return asyncio.run_coroutine_threadsafe(self._overview(), self._loop).result(PAGE_S)

    async def _overview(self) -> dict[str, object]:
        rows = [
            replica_row(name, client.machine, client.last_end.value)
            for name, client in sorted(self._clients.items())
        ]
        return {
            "in_charge": bool(self.epoch),
            "epoch": self.epoch,
            "flows": [asdict(row) for row in self._flow_rows()],
            "replicas": [asdict(row) for row in rows],
            "held_for": [asdict(row) for row in self._held_for],
        }

    def known(self) -> KnownFlows | None:
        """See `AskedController`."""
        machines = {name: client.machine for name, client in self._clients.items()}
        return KnownFlows(self._kept, machines) if self._kept.epoch else None

    async def who(self) -> str:
        """See `AskedController`."""
        try:
            kept = await self._loop.run_in_executor(self._asking, self._log.read)
        except QueryError:
            return ""
        return kept.place if kept.place != self._place else ""

    def close(self) -> None:
        """Be in charge no more; replicas go on without."""
        self._seat.close()
        self._post(self._stopping.set)
        wait_for_end(self._thread, "sessions with replicas")
        self._asking.shutdown(wait=False)
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self._keeping.submit(keeper.close)
        self._keeping.shutdown(wait=False)
        self._log.close()

    def _post(self, what: Callable[..., None], *given: int) -> None:
        """Let something be done in the loop."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(what, *given)

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = None if self._serve_operators is None else self._serve_operators.server(self)
        try:
            if server is not None:
                await server.start()
            await self._stopping.wait()
        except MisuseError as error:
            self._fail(error)
        self._leave_office()
        if self._term is not None:
            await asyncio.wait({self._term})
        if server is not None:
            await server.stop()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._stopping.set()

    def _take_office(self, epoch: int) -> None:
        log.info("this controller is in charge", extra={"epoch": epoch})
        before = self._term
        self._term = self._loop.create_task(self._govern(epoch, before))
        self._term.add_done_callback(self._ended)

    def _leave_office(self) -> None:
        if self._term is not None:
            self._term.cancel()

    def _ended(self, term: asyncio.Task[None]) -> None:
        if not term.cancelled() and (error := term.exception()) is not None:
            self._fail(error)

    async def _govern(self, epoch: int, before: asyncio.Task[None] | None) -> None:
        """Be in charge until it is cancelled."""
        if before is not None:
            await asyncio.wait({before})
        kept = await self._answered(self._log.read)
        if kept.epoch >= epoch:
            raise CommandError(
                f"the stores keep what a controller of epoch {kept.epoch} wants, and agree on "
                f"epoch {epoch}: their disks are not those that they had"
            )
        keeping = await self._hold_first(epoch)
        names = sorted(self._replicas)
        machine = GrantMachine(
            epoch, self._instance, self._flows, names, kept, self._grants, now_ms(), self._place
        )
        self.epoch = epoch
        try:
            await self._perform(machine, machine.begin())
            await self._look_again(machine, kept)
            while True:
                await asyncio.sleep(LOOK_S)
                events, self._happened = [*self._happened, Woke()], deque()
                for event in events:
                    await self._perform(machine, machine.handle(event, now_ms()))
                self.waits.look()
                self._tell()
        finally:
            if keeping is not None:
                keeping.cancel()
            self.epoch, self._kept = 0, NO_WISHES
            self._meter.leave()
            await self._hang_up()
            log.info("this controller is in charge no more", extra={"epoch": epoch})

    async def _hold_first(self, epoch: int) -> asyncio.Task[None] | None:
        """Let stores hold for whoever is to have what they have, then see to it meanwhile."""
        if self._keeper is None:
            return None
        await self._answered(partial(self._keeper.place, epoch), self._keeping)
        keeping = self._loop.create_task(self._keep_holds(self._keeper))
        keeping.add_done_callback(self._ended)
        return keeping

    async def _keep_holds(self, keeper: HoldKeeper) -> None:
        try:
            while True:
                self._held_for = await self._loop.run_in_executor(self._keeping, keeper.round)
                self._meter.tell_holds(self._held_for)
                await asyncio.sleep(HOLD_S)
        finally:
            self._held_for = []

    async def _look_again(self, machine: GrantMachine, known: Wishes) -> None:
        """Take over what a controller before has had kept after this one has read what there was.

        Either that one has seen, before it said that it is kept, that this one is in charge; or it
        was kept before what this one has had kept since, and is read now.
        """
        found = await self._answered(partial(self._log.read, machine.wishes.epoch))
        if (found.epoch, found.version) > (known.epoch, known.version):
            await self._perform(machine, machine.handle(DemandsFound(found.demands), now_ms()))

    async def demand(self, demand: Demand) -> None:
        """See `AskedController`."""
        if (complaint := objection(self._flows, self._kept.demands, demand)) is not None:
            raise RefusedCommandError(complaint)
        await self._demands.demand(demand)

    async def _say_kept(self, epoch: int, number: int) -> None:
        """Tell an operator that what he wants is kept, if nobody else is in charge by now."""
        latest = await self._answered(self._log.read)
        if latest.epoch > epoch:
            self._demands.leave()
        else:
            self._demands.kept(number)

    def _tell(self) -> None:
        """Let metrics say how it is, when that is due."""
        if now_ms() < self._tell_due_ms:
            return
        self._tell_due_ms = now_ms() + TELL_MS
        there = len(self._active)
        self._meter.tell(self._flow_rows(), there, len(self._replicas) - there)

    def _flow_rows(self) -> list[ControlledFlowRow]:
        machines = {name: client.machine for name, client in self._clients.items()}
        return [*flow_rows(self._kept, machines)]

    async def _perform(self, machine: GrantMachine, effects: Sequence[GrantEffect]) -> None:
        due, changed = deque(effects), set[str]()
        while due:
            match effect := due.popleft():
                case KeepWishes():
                    await self._answered(partial(self._log.write, effect.wishes))
                    _tell_moved(machine.kept, effect.wishes)
                    due += machine.handle(WishesKept(), now_ms())
                    self._kept = effect.wishes
                case BeginReplica():
                    await self._begin(effect, machine.wishes)
                case TellReplica():
                    self._clients[effect.replica].want(effect.command)
                    if isinstance(effect.command, CreateFlow | AllowCompaction):
                        changed.add(effect.replica)
                case DemandKept():
                    self._tell_waits(changed)
                    await self._say_kept(machine.wishes.epoch, effect.number)
                case _:
                    assert_never(effect)
        self._tell_waits(changed)

    def _tell_waits(self, changed: set[str]) -> None:
        """Who waits has to know which flows replicas have: told at once, as they may be many."""
        while changed:
            if (client := self._clients.get(name := changed.pop())) is not None:
                self.waits.changed(name, client.machine.history.live())

    async def _begin(self, effect: BeginReplica, wishes: Wishes) -> None:
        before = self._clients.pop(effect.replica, None)
        if before is not None:
            await before.close()
            self._notice(effect.replica, before, gone=True)
        machine = ControllerMachine(self._name, wishes.epoch, effect.replica, self._sessions)
        client = ReplicaClient(
            machine,
            self._replicas[effect.replica],
            partial(self._told, effect.replica),
            lambda: self._notice(effect.replica, client),
            self._certificates,
        )
        self._clients[effect.replica] = client
        client.want(*effect.window)
        self.waits.begun(effect.replica, machine.history.live())

    def _want(self, replica: str, command: StateCommand) -> None:
        # One towards which all is being begun anew is asked again once that is done.
        if (client := self._clients.get(replica)) is not None:
            client.want(command)

    def _told(self, replica: str, effect: PeekAnswered | Superseded) -> None:
        if isinstance(effect, PeekAnswered):
            self.waits.answered(replica, effect)
        else:
            self._fail(CommandError(f"a controller of epoch {effect.epoch} is in charge"))

    def _notice(self, replica: str, client: ReplicaClient, *, gone: bool = False) -> None:
        """Remember whether a session has begun or ended."""
        if client.failure is not None:
            self._fail(client.failure)
        machine = client.machine
        if machine.state is ControllerState.ACTIVE and not gone:
            if replica not in self._active:
                self._active.add(replica)
                self._missed.discard(replica)
                self._happened.append(ReplicaFound(replica))
            return
        in_vain = machine.state is ControllerState.WAITING and machine.history.complete
        if replica in self._active or (in_vain and replica not in self._missed):
            self._active.discard(replica)
            self._missed.add(replica)
            self._happened.append(ReplicaLost(replica, client.last_end))

    async def _hang_up(self) -> None:
        self.waits.leave()
        self._demands.leave()
        clients, self._clients = self._clients, {}
        self._active.clear()
        self._missed.clear()
        self._happened.clear()
        for client in clients.values():
            client.hang_up()  # all at once: what waits below may be cancelled
        for client in clients.values():
            await client.close()

    async def _answered(self, ask: Callable[[], T], asking: ThreadPoolExecutor | None = None) -> T:
        """What the stores answer, however long that takes."""
        while True:
            try:
                return await self._loop.run_in_executor(asking or self._asking, ask)
            except (QueryError, NotStoredError, BufferFullError) as error:
                log.warning("stores do not answer a controller: %s", error)
                await asyncio.sleep(AGAIN_S)


def _tell_moved(before: Wishes, after: Wishes) -> None:
    """Say in the log which replicas write now what others did: a line for each two of them."""
    for (old, new), flows in moved(before, after).items():
        facts = {"flows": flows, "writer": new, "before": old or "nobody"}
        log.info("flows have another writer", extra=facts)
