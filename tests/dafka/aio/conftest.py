"""Scenarios of coroutines, which end if they do not come to their end."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture
def run():
    """A function that runs a scenario, for two minutes at most."""
    return lambda scenario: asyncio.run(asyncio.wait_for(scenario, 120))


@pytest.fixture
def cancelled():
    """A function that cancels what is begun after so many turns of the loop, or lets it end."""

    async def cancelled_after(turns, begun):
        task = asyncio.create_task(begun)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        return (await asyncio.gather(task, return_exceptions=True))[0]

    return cancelled_after
