"""A door for operators in this process, with a desk that answers what it is told."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

from distributor.control.operator_server import OperatorServer
from distributor.control.protocol import PassedOver
from distributor.control.questions import AimedLinkRow, LeftFlowRow, RouteRow, Waited

LEFT = LeftFlowRow(7, "south", 1, "0/1", 3, "writing")
AIMED = AimedLinkRow("south", 1, "")
ROUTE = RouteRow(
    topic="orders",
    partitions=2,
    flow=7,
    target="south",
    level=1,
    share="0/1",
    writer="r1",
    state="writing",
    carried=True,
    lacks=3,
    why="on its way",
)


class FakeDesk:
    """Answers everything; what it raises, or waits for, is for tests to say."""

    def __init__(self):
        self.failure = None
        self.waited_for = Waited((), 1, 2)
        self.stands = None
        """An event until which it does not answer; set by a test, in the server's loop."""
        self.asked = []
        self.gone = threading.Event()
        """Whether who asked has gone away before the answer."""
        self.closed = False

    async def waited(self, asker, timeout_ms):
        return await self._answer(self.waited_for, asker, timeout_ms)

    async def routes(self, question):
        return await self._answer([ROUTE], question)

    async def demanded(self, demand):
        return await self._answer([AIMED], demand)

    async def resumed(self, asked):
        return await self._answer(PassedOver(2, 70), asked)

    async def _answer(self, answer, *asked):
        self.asked.append(asked)
        if self.failure is not None:
            raise self.failure
        try:
            if self.stands is not None:
                await self.stands.wait()
        except asyncio.CancelledError:
            self.gone.set()
            raise
        return answer

    def close(self):
        self.closed = True


@contextmanager
def served(desk, certificates=None, listen="127.0.0.1:0"):
    """A server, running in a loop of its own; where it listens."""
    loop = asyncio.new_event_loop()
    server = OperatorServer(listen, desk, certificates)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def done(what):
        return asyncio.run_coroutine_threadsafe(what, loop).result(120)

    try:
        done(server.start())
        yield f"127.0.0.1:{server.port}"
    finally:
        done(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
