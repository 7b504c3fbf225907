"""Those who wait in a loop: answered, given up, gone away, or told that there is no answer."""

from __future__ import annotations

import asyncio

import pytest

from distributor.control.events import PeekAnswered
from distributor.control.messages import Canceled, CancelPeek, Peek, Positions
from distributor.control.wait_desk import WaitDesk, WaitFailedError
from distributor.control.waits import WaitSettings
from tests.support.control_commands import A


class Replicas:
    """Remember what they are asked; what is cancelled is answered at once, as machines do."""

    def __init__(self, settings=None):
        self.desk = WaitDesk(self.want, settings)
        self.asked = []

    def want(self, replica, command):
        self.asked.append((replica, command))
        if isinstance(command, CancelPeek):
            self.desk.answered(replica, PeekAnswered(command.peek, Canceled()))

    def peeks(self):
        return [(name, one) for name, one in self.asked if isinstance(one, Peek)]

    def cancelled(self):
        return [(name, one.peek) for name, one in self.asked if isinstance(one, CancelPeek)]


async def begun(replicas, timeout_ms=60_000):
    """A wait that has been put to both replicas."""
    for name in ("r1", "r2"):
        replicas.desk.begun(name, frozenset({1}))
    task = asyncio.create_task(replicas.desk.wait("a", {1: {A: 3}}, timeout_ms))
    await asyncio.sleep(0)
    return task


def test_it_is_answered_by_the_first_who_answers():
    async def scenario():
        replicas = Replicas()
        task = await begun(replicas)
        (_, one), (_, other) = replicas.peeks()
        replicas.desk.answered("r2", PeekAnswered(other.number, Positions({A: 3})))
        assert await task == ()
        assert replicas.cancelled() == [("r1", one.number)]

    asyncio.run(scenario())


def test_time_is_up():
    async def scenario():
        replicas = Replicas()
        task = await begun(replicas, 0)
        replicas.desk.look()
        assert await task == (1,)
        assert len(replicas.cancelled()) == 2

    asyncio.run(scenario())


def test_who_goes_away_takes_back_what_replicas_were_asked():
    async def scenario():
        replicas = Replicas()
        task = await begun(replicas)
        task.cancel()
        # Before it has ended an answer comes.
        replicas.desk.leave()
        with pytest.raises(asyncio.CancelledError):
            await task
        task = await begun(replicas)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(replicas.cancelled()) == 2

    asyncio.run(scenario())


def test_there_may_be_no_answer():
    async def scenario():
        replicas = Replicas(WaitSettings(asker_max=1))
        task = await begun(replicas)
        with pytest.raises(WaitFailedError, match="as you") as caught:
            await replicas.desk.wait("a", {1: {A: 3}}, 1)
        assert caught.value.busy
        replicas.desk.leave()
        with pytest.raises(WaitFailedError, match="in charge no more") as caught:
            await task
        assert not caught.value.busy

    asyncio.run(scenario())
