"""A gateway's front over a broker in memory, and a client that sends what it is told to."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import contextmanager
from threading import Thread

from dafka.gateway.connection import ServerSettings
from dafka.gateway.coordinator import COORDINATOR_SETTINGS
from dafka.gateway.coordinators import Coordinators
from dafka.gateway.handlers import Handlers, TopicSettings
from dafka.gateway.server import GatewayServer
from dafka.process.clock import now_ms
from dafka.testing.broker import MemoryBroker
from tests.support.kafka_messages import answered, request

WAIT_S = 120


class ServedBroker:
    """What a test has of a server in its thread."""

    def __init__(self, loop, server, broker, port):
        self.loop, self.server, self.broker, self.port = loop, server, broker, port
        self.endpoint = f"127.0.0.1:{port}"

    def call(self, coroutine):
        """Run something where the server runs."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(WAIT_S)

    def create(self, topic, partitions=1, **configs):
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.call(self.broker.create(topic, partitions, named))

    def client(self):
        return RawClient(self.port)

    def stop(self):
        self.call(self.server.stop())


@contextmanager
def served(
    settings=None,
    topics=None,
    coordinated=COORDINATOR_SETTINGS,
    users=None,
    refused=lambda _api, _error: None,
    quotas=None,
    **broker_settings,
):
    """Serve a broker in memory for as long as it is used."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="gateway")
    thread.start()

    async def begin():
        broker = MemoryBroker(**broker_settings)
        made, groups = topics or TopicSettings(), Coordinators(broker, now_ms, coordinated)
        handlers = Handlers(broker, now_ms, made, groups, refused, quotas)
        server = GatewayServer(handlers, settings or ServerSettings(), users)
        port = await server.start("127.0.0.1", 0)
        await server.listen()
        broker.endpoint = ("127.0.0.1", port)
        return ServedBroker(loop, server, broker, port)

    try:
        there = asyncio.run_coroutine_threadsafe(begin(), loop).result(WAIT_S)
        try:
            yield there
        finally:
            there.stop()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class RawClient:
    """Bytes to a gateway and back."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, api, version, **values):
        self.send_frame(request(api, version, **values))

    def send_frame(self, frame):
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, api, version):
        """The next answer's fields."""
        head = self._exactly(4)
        return answered([head, self._exactly(*struct.unpack(">i", head))], api, version)[1]

    def ask(self, api, version, **values):
        self.send(api, version, **values)
        return self.receive(api, version)

    def is_closed(self):
        """Wait until the server has closed the connection; what it sends before is passed over."""
        try:
            while self.socket.recv(65_536):
                pass
        except ConnectionResetError:
            pass
        return True

    def _exactly(self, size):
        octets = b""
        while len(octets) < size:
            more = self.socket.recv(size - len(octets))
            assert more, "the server has closed the connection"
            octets += more
        return octets
