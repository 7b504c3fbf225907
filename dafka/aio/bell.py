"""How a node's thread wakes coroutines that wait for what it does."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from dafka.node.search import LOOK_S as SEARCH_LOOK_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.node.search import Search

T = TypeVar("T")

LOOK_S = 1.0
"""How often who waits looks without having been woken: a node may end without a word."""


class Bell:
    """Rung by any thread, heard by every coroutine that waits; costs next to nothing otherwise."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    def ring(self) -> None:
        """Let everybody who waits look again."""
        for waiter, loop in list(self._waiting.items()):
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_wake, waiter)

    async def until(
        self,
        found: Callable[[], T | None],
        timeout: float | None,
        search: Search | None = None,
    ) -> T | None:
        """Wait until there is something.

        Args:
            found: Looks for it; called at once, after each ring, and now and then.
            timeout: Seconds; None waits for as long as it takes.
            search: For a cluster without which it cannot come.

        Returns:
            What was found; None if the time was over first.

        Raises:
            UnreachableError: The cluster is not found within `connect_timeout`.
        """
        loop = asyncio.get_running_loop()
        end_s = None if timeout is None else loop.time() + timeout
        while True:
            # Known before it looks: what comes between the look and the wait rings, too.
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiting[waiter] = loop
            try:
                result = found()
                look_s = LOOK_S
                if result is None and search is not None and not search.found:
                    search.check()
                    look_s = SEARCH_LOOK_S
                left_s = look_s if end_s is None else min(look_s, end_s - loop.time())
                if result is not None or left_s <= 0:
                    return result
                await asyncio.wait((waiter,), timeout=left_s)
            finally:
                del self._waiting[waiter]


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
