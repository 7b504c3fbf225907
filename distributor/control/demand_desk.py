"""Operators who wait for what they want to be kept: a future each. To be used in one loop."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

from distributor.control.grants import DemandAsked
from distributor.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributor.control.demands import Demand


class DemandLostError(CommandError):
    """Whether what an operator wants is kept is not known: who heard it is in charge no more."""


class DemandDesk:
    """Commands to one controller.

    Args:
        take: Takes one in, for its machine.
    """

    def __init__(self, take: Callable[[DemandAsked], None]) -> None:
        self._take = take
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._numbers = count(1)

    async def demand(self, demand: Demand) -> None:
        """Have something wanted, and wait until it is kept.

        Raises:
            DemandLostError: That is not known.
        """
        number = next(self._numbers)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures[number] = future
        try:
            self._take(DemandAsked(number, demand))
            await future
        finally:
            del self._futures[number]

    def kept(self, number: int) -> None:
        """It is kept; whoever asked may have gone meanwhile."""
        future = self._futures.get(number)
        if future is not None and not future.done():
            future.set_result(None)

    def leave(self) -> None:
        """This controller is in charge no more."""
        for future in self._futures.values():
            if not future.done():
                future.set_exception(
                    DemandLostError(
                        "this controller is in charge no more, and does not know whether that is "
                        "kept: ask again"
                    )
                )
