"""Who waits for what is at the targets: a question each, put to replicas as peeks.

Every replica is asked about every flow, as all have all of them, and the first answer counts: so it
makes no difference who writes, or which of them is lost meanwhile. Each question has exactly one
answer: all is there, time is up, or there will be none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from dafka.model import Value
from dafka.protocol.events import Woke
from dafka.protocol.machine import earliest
from distributor.control.messages import CancelPeek, Peek, PeekError, Positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from distributor.control.frontiers import Frontier
    from distributor.control.messages import PeekAnswer


class WaitSettings(Value, frozen=True):
    """Bounds of what is waited for at a time.

    Attributes:
        asker_max: Questions of one client.
        waits_max: Questions in all.
        flows_max: Flows that these are about: as many peeks wait at each replica at most.
    """

    asker_max: int = 8
    waits_max: int = 32
    flows_max: int = 10_000


class WaitAsked(Value, frozen=True):
    """Event: somebody waits.

    Attributes:
        wait: Names the question; it does not come again.
        asker: Who.
        due: How far the target of each flow is to be.
        until_ms: Until when.
    """

    wait: int
    asker: str
    due: Mapping[int, Frontier]
    until_ms: int


class WaitLeft(Value, frozen=True):
    """Event: whoever asked has gone, and needs no answer."""

    wait: int


class ReplicaBegun(Value, frozen=True):
    """Event: towards a replica all begins anew, and what was asked of it is forgotten.

    Attributes:
        replica: Which.
        flows: Those that it has.
    """

    replica: str
    flows: frozenset[int]


class FlowsChanged(Value, frozen=True):
    """Event: a replica has these flows now; what was asked of it about others goes on.

    Attributes:
        replica: Which.
        flows: Those that it has.
    """

    replica: str
    flows: frozenset[int]


class PeekCame(Value, frozen=True):
    """Event: a replica's answer to a peek."""

    replica: str
    peek: int
    answer: PeekAnswer


class OfficeLeft(Value, frozen=True):
    """Event: this controller is in charge no more, and drives nobody."""


WaitEvent = WaitAsked | WaitLeft | ReplicaBegun | FlowsChanged | PeekCame | OfficeLeft | Woke


class AskReplica(Value, frozen=True):
    """Effect: want this of a replica."""

    replica: str
    command: Peek | CancelPeek


class WaitOver(Value, frozen=True):
    """Effect: the one answer to a question.

    Attributes:
        wait: Which.
        left: Flows whose targets were not seen that far; none if all were.
    """

    wait: int
    left: tuple[int, ...]


class WaitFailed(Value, frozen=True):
    """Effect: the one answer to a question, if there is none.

    Attributes:
        wait: Which.
        why: For people.
        busy: Whether it is because too much is waited for.
    """

    wait: int
    why: str
    busy: bool = False


WaitEffect = AskReplica | WaitOver | WaitFailed


@dataclass(slots=True)
class _Wait:
    """A question that is open.

    Attributes:
        asker: Whose.
        due: Flows that have not been answered, and how far their targets are to be.
        until_ms: Until when it is.
        peeks: What replicas were asked for it: replica, number of the peek, and flow.
    """

    asker: str
    due: dict[int, Frontier]
    until_ms: int
    peeks: dict[tuple[str, int], int] = field(default_factory=dict)


class WaitMachine:
    """All that is waited for at one controller.

    Args:
        settings: Bounds.
    """

    def __init__(self, settings: WaitSettings) -> None:
        self._settings = settings
        self._replicas: dict[str, frozenset[int]] = {}
        """Those that are driven, and the flows that they have."""
        self._waits: dict[int, _Wait] = {}
        self._peeks: dict[tuple[str, int], int] = {}
        """For which question each open peek is."""
        self._newest = 0
        """The last number of a peek: they rise over all replicas, so also at each."""

    def handle(self, event: WaitEvent, now_ms: int) -> list[WaitEffect]:
        """Take one event in; see `Machine`."""
        match event:
            case WaitAsked():
                effects = self._ask(event)
            case WaitLeft():
                effects = self._end(event.wait) if event.wait in self._waits else []
            case ReplicaBegun():
                effects = self._begin(event)
            case FlowsChanged():
                self._replicas[event.replica] = event.flows
                effects = self._give_up_dropped(event.flows)
            case PeekCame():
                effects = self._hear(event)
            case OfficeLeft():
                effects = self._leave()
            case Woke():
                effects = []
            case _:
                assert_never(event)
        return effects + self._give_up(now_ms)

    def wakeup_ms(self) -> int | None:
        """When the next question's time is up."""
        return earliest(*(one.until_ms for one in self._waits.values()))

    def check(self) -> None:
        """Assert that all that is open is bounded, and that each open flow is asked about."""
        settings = self._settings
        assert len(self._waits) <= settings.waits_max
        assert all(n <= settings.asker_max for n in self._askers().values())
        assert self._flows() <= settings.flows_max
        assert len(self._peeks) <= self._flows() * len(self._replicas)
        for number, wait in self._waits.items():
            assert wait.due
            assert {*wait.peeks} == {one for one, of in self._peeks.items() if of == number}
            asked = {(replica, flow) for (replica, _), flow in wait.peeks.items()}
            assert asked == {(name, flow) for name in self._replicas for flow in wait.due}

    def _askers(self) -> Counter[str]:
        return Counter(one.asker for one in self._waits.values())

    def _flows(self) -> int:
        return sum(len(one.due) for one in self._waits.values())

    def _ask(self, asked: WaitAsked) -> list[WaitEffect]:
        if not asked.due:
            return [WaitOver(asked.wait, ())]
        settings = self._settings
        full = len(self._waits) >= settings.waits_max
        if full or self._askers()[asked.asker] >= settings.asker_max:
            why = f"{len(self._waits)} already wait, {self._askers()[asked.asker]} of them as you"
            return [WaitFailed(asked.wait, why, busy=True)]
        if self._flows() + len(asked.due) > settings.flows_max:
            why = f"{self._flows()} flows are waited for already"
            return [WaitFailed(asked.wait, why, busy=True)]
        strange = [one for flows in self._replicas.values() for one in asked.due.keys() - flows]
        if strange:
            return [WaitFailed(asked.wait, _gone(min(strange)))]
        self._waits[asked.wait] = _Wait(asked.asker, dict(asked.due), asked.until_ms)
        return [one for name in self._replicas for one in self._peek(asked.wait, name)]

    def _peek(self, number: int, replica: str) -> list[WaitEffect]:
        """Ask one replica about all that is open of a question."""
        wait = self._waits[number]
        effects: list[WaitEffect] = []
        for flow, at_least in wait.due.items():
            self._newest += 1
            wait.peeks[replica, self._newest] = flow
            self._peeks[replica, self._newest] = number
            effects.append(AskReplica(replica, Peek(self._newest, flow, at_least)))
        return effects

    def _begin(self, begun: ReplicaBegun) -> list[WaitEffect]:
        self._replicas[begun.replica] = begun.flows
        for key in [one for one in self._peeks if one[0] == begun.replica]:
            del self._waits[self._peeks.pop(key)].peeks[key]
        effects = self._give_up_dropped(begun.flows)
        for number in self._waits:
            effects += self._peek(number, begun.replica)
        return effects

    def _give_up_dropped(self, flows: frozenset[int]) -> list[WaitEffect]:
        """Give up waiting for flows that are none of these."""
        effects: list[WaitEffect] = []
        for number in [*self._waits]:
            strange = self._waits[number].due.keys() - flows
            if strange:
                effects += [*self._end(number), WaitFailed(number, _gone(min(strange)))]
        return effects

    def _hear(self, came: PeekCame) -> list[WaitEffect]:
        number = self._peeks.pop((came.replica, came.peek), None)
        if number is None:
            return []  # another one was first, or nobody waits any more
        wait = self._waits[number]
        flow = wait.peeks.pop((came.replica, came.peek))
        match came.answer:
            case Positions():
                del wait.due[flow]
                others = [one for one, about in wait.peeks.items() if about == flow]
                effects = self._cancel(wait, others)
                return effects if wait.due else [*effects, *self._end(number), _there(number)]
            case PeekError():
                return [*self._end(number), WaitFailed(number, came.answer.detail)]
            case _:
                raise AssertionError(came)  # it was not cancelled

    def _leave(self) -> list[WaitEffect]:
        """Forget all replicas; nothing has to be taken back, as they are hung up on."""
        failed = [WaitFailed(one, "this controller is in charge no more") for one in self._waits]
        self._waits.clear()
        self._peeks.clear()
        self._replicas.clear()
        return [*failed]

    def _give_up(self, now_ms: int) -> list[WaitEffect]:
        effects: list[WaitEffect] = []
        for number in [one for one, wait in self._waits.items() if now_ms >= wait.until_ms]:
            left = (*self._waits[number].due,)
            effects += [*self._end(number), WaitOver(number, left)]
        return effects

    def _end(self, number: int) -> list[WaitEffect]:
        """Forget a question, and what replicas were asked for it."""
        wait = self._waits.pop(number)
        return self._cancel(wait, [*wait.peeks])

    def _cancel(self, wait: _Wait, keys: Iterable[tuple[str, int]]) -> list[WaitEffect]:
        effects: list[WaitEffect] = []
        for key in keys:
            del wait.peeks[key], self._peeks[key]
            replica, peek = key
            effects.append(AskReplica(replica, CancelPeek(peek)))
        return effects


def _there(number: int) -> WaitOver:
    return WaitOver(number, ())


def _gone(flow: int) -> str:
    return f"flow {flow} is not wanted any more: what is copied has changed, ask again"
