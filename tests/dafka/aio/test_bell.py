"""What wakes a coroutine that waits for a thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dafka.aio.bell import Bell
from dafka.errors import UnreachableError


def test_what_is_there_is_found_at_once():
    assert asyncio.run(Bell().until(lambda: 7, 0)) == 7


def test_nothing_is_found_when_the_time_is_over():
    looks = []

    def looked():
        looks.append(None)

    assert asyncio.run(Bell().until(looked, 0.05)) is None
    assert len(looks) == 2  # at once, and at the end


def test_a_thread_wakes_all_who_wait():
    rung, found = Bell(), []

    async def scenario():
        waiting = [asyncio.create_task(rung.until(lambda: found or None, 60)) for _ in range(3)]
        await asyncio.sleep(0)
        thread = threading.Thread(target=lambda: (found.append("x"), rung.ring()))
        thread.start()
        assert await asyncio.gather(*waiting) == [["x"]] * 3
        thread.join()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_what_comes_between_the_look_and_the_wait_is_not_missed():
    rung, looks = Bell(), []

    def looked():
        looks.append(None)
        if len(looks) == 1:
            rung.ring()  # as if a thread had put something here a moment after the look
            return None
        return len(looks)

    assert asyncio.run(asyncio.wait_for(rung.until(looked, None), 30)) == 2


def test_a_node_that_ends_without_a_word_is_found_out():
    looks = []

    def looked():
        looks.append(None)
        return len(looks) if len(looks) == 3 else None

    assert asyncio.run(asyncio.wait_for(Bell().until(looked, None), 30)) == 3


def test_who_is_cancelled_waits_no_more():
    rung = Bell()

    async def scenario():
        waiting = asyncio.create_task(rung.until(lambda: None, None))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())
    assert rung._waiting == {}


def test_a_loop_that_has_been_closed_is_not_rung():
    rung = Bell()
    loop = asyncio.new_event_loop()
    rung._waiting[loop.create_future()] = loop
    loop.close()
    rung.ring()


def test_a_failed_look_is_the_callers():
    def failing():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(Bell().until(failing, 1))


def test_who_waits_for_what_needs_a_cluster_hears_that_there_is_none():
    asked = []

    class NothingFound:
        found = False

        def check(self):
            asked.append(True)
            if len(asked) == 3:
                raise UnreachableError("nobody is there")

    with pytest.raises(UnreachableError):
        asyncio.run(Bell().until(lambda: None, None, NothingFound()))
