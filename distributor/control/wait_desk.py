"""Those who wait at a controller: their machine, and a future each. To be used in one loop."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, assert_never

from dafka.process.clock import now_ms
from dafka.protocol.events import Woke
from distributor.control.waits import (
    AskReplica,
    FlowsChanged,
    OfficeLeft,
    PeekCame,
    ReplicaBegun,
    WaitAsked,
    WaitFailed,
    WaitLeft,
    WaitMachine,
    WaitOver,
    WaitSettings,
)
from distributor.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from distributor.control.events import PeekAnswered
    from distributor.control.frontiers import Frontier
    from distributor.control.messages import CancelPeek, Peek
    from distributor.control.waits import WaitEvent


class WaitFailedError(CommandError):
    """There will be no answer to whoever waits: what is copied, or who is in charge, has changed.

    Attributes:
        busy: Whether it is because too much is waited for.
    """

    def __init__(self, why: str, *, busy: bool) -> None:
        super().__init__(why)
        self.busy = busy


class WaitDesk:
    """Where a controller's replicas are asked.

    Args:
        want: Wants something of a replica.
        settings: Bounds.
    """

    def __init__(
        self,
        want: Callable[[str, Peek | CancelPeek], None],
        settings: WaitSettings | None = None,
    ) -> None:
        self._want = want
        self._machine = WaitMachine(settings or WaitSettings())
        self._futures: dict[int, asyncio.Future[tuple[int, ...]]] = {}
        self._numbers = count(1)

    async def wait(
        self, asker: str, due: Mapping[int, Frontier], timeout_ms: int
    ) -> tuple[int, ...]:
        """Wait until targets are so far, or time is up; returns flows whose are not.

        To cancel it takes back what replicas were asked.

        Raises:
            WaitFailedError: There is no answer.
        """
        number = next(self._numbers)
        future: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self._futures[number] = future
        try:
            self._handle(WaitAsked(number, asker, due, now_ms() + timeout_ms))
            return await future
        finally:
            del self._futures[number]
            self._handle(WaitLeft(number))

    def begun(self, replica: str, flows: frozenset[int]) -> None:
        """Towards a replica all has begun anew, with these flows."""
        self._handle(ReplicaBegun(replica, flows))

    def changed(self, replica: str, flows: frozenset[int]) -> None:
        """A replica has other flows, maybe."""
        self._handle(FlowsChanged(replica, flows))

    def answered(self, replica: str, effect: PeekAnswered) -> None:
        """A replica has answered."""
        self._handle(PeekCame(replica, effect.peek, effect.answer))

    def look(self) -> None:
        """See whether time is up for somebody."""
        self._handle(Woke())

    def leave(self) -> None:
        """Nobody is driven any more."""
        self._handle(OfficeLeft())

    def _handle(self, event: WaitEvent) -> None:
        for effect in self._machine.handle(event, now_ms()):
            match effect:
                case AskReplica():
                    self._want(effect.replica, effect.command)
                case WaitOver():
                    if not (future := self._futures[effect.wait]).done():  # it may be cancelled
                        future.set_result(effect.left)
                case WaitFailed():
                    if not (future := self._futures[effect.wait]).done():
                        future.set_exception(WaitFailedError(effect.why, busy=effect.busy))
                case _:
                    assert_never(effect)
