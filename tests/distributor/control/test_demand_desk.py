"""Operators who wait for what they want to be kept."""

from __future__ import annotations

import asyncio

import pytest

from distributor.control.aims import LinkTurn
from distributor.control.demand_desk import DemandDesk, DemandLostError

TURN = LinkTurn(3, "south")


def test_each_is_told_once_his_own_is_kept():
    async def scenario():
        taken = []
        desk = DemandDesk(taken.append)
        one, other = (asyncio.create_task(desk.demand(TURN)) for _ in range(2))
        await asyncio.sleep(0)
        assert [asked.demand for asked in taken] == [TURN, TURN]
        desk.kept(taken[1].number)
        await other
        assert not one.done()
        desk.kept(taken[0].number)
        await one
        desk.kept(taken[0].number)
        desk.leave()

    asyncio.run(scenario())


def test_who_is_in_charge_no_more_does_not_know():
    async def scenario():
        desk = DemandDesk(lambda _: None)
        gone, waits = (asyncio.create_task(desk.demand(TURN)) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        desk.leave()
        with pytest.raises(DemandLostError, match="ask again"):
            await waits
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(scenario())
