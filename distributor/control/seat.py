"""Who of a cluster's controllers is in charge: a member of their group, in a thread of its own.

The oldest member of a settled generation is, from when everybody has given up what came before; the
generation is its epoch. It is not any more as soon as it has no lease, or an older one is there.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING

from dafka.errors import DafkaError
from dafka.groups.commit import CONTROLLERS
from dafka.groups.events import Answered, Ask, Assigned, Barred, Expelled, Rebalanced, Released
from dafka.groups.member import MemberMachine
from dafka.groups.membership import Member
from dafka.node.group_client import StoreLines
from dafka.process.clock import now_ms
from dafka.process.threads import wait_for_end
from dafka.protocol.events import Woke
from dafka.transport.poller import Poller
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dafka.cluster import Cluster
    from dafka.groups.events import MemberEffect, MemberEvent, OffsetsAnswered

log = logging.getLogger(__name__)

SESSION_MS = 3_000
"""So long after the last word of the controller in charge another one is."""

LOOK_MS = 100
"""How often to see whether to end."""


class SeatFailedError(DafkaError):
    """A seat's thread has ended by something that must not be; its cause is `__cause__`."""


def eldest(members: Iterable[str]) -> str:
    """Return the oldest of some members: their addresses end with when they began."""
    return min(members, key=lambda one: (one.rpartition("@")[2].partition(".")[0], one))


class Office:
    """A member's claim to be in charge.

    Args:
        member: See there.
        appointed: Called with its epoch when it is in charge.
        deposed: Called when it is not any more.
    """

    def __init__(
        self,
        member: MemberMachine,
        appointed: Callable[[int], None],
        deposed: Callable[[], None],
    ) -> None:
        self._member = member
        self._appointed, self._deposed = appointed, deposed
        self._first = False
        """Whether it is the oldest of the generation that is being settled."""
        self.in_charge = False

    def handle(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Take office, or leave it, as the members agree; returns what is for the stores."""
        left: list[MemberEffect] = []
        for effect in self._member.handle(event, now_ms):
            match effect:
                case Assigned():
                    self._first = eldest(effect.members) == effect.member
                    if not self._first:
                        self.stand_down()
                    left += self.handle(Released(effect.generation), now_ms)
                case Rebalanced():
                    if self._first and not self.in_charge:
                        self.in_charge = True
                        self._appointed(effect.generation)
                case Expelled():
                    self.stand_down()
                case _:
                    left.append(effect)
        return left

    def wakeup_ms(self) -> int | None:
        """When the member is due."""
        return self._member.wakeup_ms()

    def stand_down(self) -> None:
        """Be in charge no more."""
        if self.in_charge:
            self.in_charge = False
            self._deposed()


class Seat:
    """A controller's part in the group, running.

    Args:
        cluster: Whose controllers these are, with all of its stores.
        name: What its ids begin with: nobody else's do, and `eldest` finds out when it began.
        appointed: Called with its epoch when it is in charge, in the seat's thread.
        deposed: Called when it is not any more, in the same.

    Raises:
        MisuseError: An endpoint cannot be used.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        appointed: Callable[[int], None],
        deposed: Callable[[], None],
    ) -> None:
        about = Member((octets_of(CONTROLLERS),), SESSION_MS)
        member = MemberMachine(CONTROLLERS, name, about, len(cluster.stores))
        self._office = Office(member, appointed, deposed)
        self._lines = StoreLines(CONTROLLERS, cluster)
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="dafka-seat", daemon=True)
        self._thread.start()

    @property
    def in_charge(self) -> bool:
        """Whether it is."""
        return self._office.in_charge

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        self._thread.join(timeout)
        if self._failure is not None:
            raise SeatFailedError(f"controller has failed: {self._failure}") from self._failure
        return not self._thread.is_alive()

    def close(self) -> None:
        """Leave; the others notice by its silence."""
        self._stopping.set()
        wait_for_end(self._thread, "what controllers agree on")

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._failure = error
            log.critical("controller failed", exc_info=True)
        finally:
            self._office.stand_down()
            self._lines.close()

    def _run(self) -> None:
        with Poller() as poller:
            for socket, receive in self._lines.pollable().items():
                poller.add(socket, partial(self._take, receive))
            while not self._stopping.is_set():
                self._handle(Woke())
                due_ms = self._office.wakeup_ms()
                wait_ms = LOOK_MS if due_ms is None else due_ms - now_ms()
                poller.turn(max(0, min(wait_ms, LOOK_MS)))

    def _take(
        self, receive: Callable[[], Iterable[tuple[None, Answered | OffsetsAnswered]]]
    ) -> None:
        for _, event in receive():
            assert isinstance(event, Answered)  # nothing else was asked
            self._handle(event)

    def _handle(self, event: MemberEvent) -> None:
        for effect in self._office.handle(event, now_ms()):
            match effect:
                case Ask():
                    self._lines.ask(effect)
                case Barred():
                    log.error("group %s %s", CONTROLLERS, effect.complaint)
                case _:
                    raise AssertionError(effect)
