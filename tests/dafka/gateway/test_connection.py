"""The room that connections share; what they do with their sockets is in test_server.py."""

from __future__ import annotations

import asyncio

from dafka.gateway.connection import Room


async def settle():
    for _ in range(3):
        await asyncio.sleep(0)


def taking(room, *sizes):
    return [asyncio.create_task(room.take(size)) for size in sizes]


def test_who_finds_room_does_not_wait():
    async def run():
        room = Room(10)
        await room.take(4)
        await room.take(6)
        assert room.left == 0

    asyncio.run(run())


def test_who_finds_none_waits_for_his_turn():
    async def run():
        room = Room(10)
        await room.take(10)
        large, small = taking(room, 8, 2)
        await settle()
        room.give(2)
        await settle()
        assert not small.done()  # else many small ones would keep the large one out
        room.give(8)
        await settle()
        assert large.done()
        assert small.done()
        assert room.left == 0

    asyncio.run(run())


def test_who_gives_up_keeps_nobody_waiting():
    async def run():
        room = Room(10)
        await room.take(8)
        large, small = taking(room, 8, 2)
        await settle()
        large.cancel()
        await settle()
        assert small.done()
        assert room.left == 0

    asyncio.run(run())


def test_who_gives_up_when_his_turn_has_come_gives_it_back():
    async def run():
        room = Room(10)
        await room.take(10)
        (late,) = taking(room, 5)
        await settle()
        room.give(10)
        late.cancel()
        await settle()
        assert late.cancelled()
        assert room.left == 10

    asyncio.run(run())
