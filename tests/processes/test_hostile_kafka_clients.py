"""What a Kafka client can make a gateway's process hold that does not want to use it."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from dafka.gateway.wire import Api
from tests.support.gateway_processes import WAIT_S, create
from tests.support.kafka_messages import request
from tests.support.kafka_server import RawClient

pytestmark = [pytest.mark.net, pytest.mark.slow]

MIB = 1 << 20
GROWTH_MIB_MAX = 200
"""Requests of some MiB that are read take less; answers to each name took gigabytes."""

PARTITIONS = 60
CONNECTIONS = 30
WAITING = 150
PLACES = 19_000

SILENCE_S_MAX = 3.0
"""Reading one such fetch takes a tenth of a second; all of them together took eleven."""


def resident_mib(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def sample(pid, seconds, bound_mib):
    """The largest that a process is meanwhile; the wait ends early where others need the memory."""
    largest_mib, until_s = resident_mib(pid), time.monotonic() + seconds
    while time.monotonic() < until_s and largest_mib < bound_mib:
        largest_mib = max(largest_mib, resident_mib(pid))
        time.sleep(0.05)
    return largest_mib


class Asking(threading.Thread):
    """Somebody who asks for versions again and again, and for how long it was not answered."""

    def __init__(self, port):
        super().__init__(name="asking")
        self.seconds = []
        self._client = RawClient(port)
        self._stopping = threading.Event()

    def run(self):
        with self._client as client:
            while not self._stopping.wait(0.01):
                began_s = time.monotonic()
                client.ask(Api.API_VERSIONS, 0)
                self.seconds.append(time.monotonic() - began_s)

    def stop(self):
        self._stopping.set()
        self.join(WAIT_S)
        return max(self.seconds)


def large_fetch():
    places = [
        {"partition": number % PARTITIONS, "fetch_offset": 0, "partition_max_bytes": MIB}
        for number in range(PLACES)
    ]
    topics = [{"topic": "orders", "partitions": places}]
    asked = {"max_wait_ms": 600_000, "min_bytes": 1 << 30, "max_bytes": 1 << 30}
    return request(Api.FETCH, 4, **asked, topics=topics)


def large_join():
    member = {"group_id": "readers", "member_id": "a", "protocol_type": "consumer"}
    times = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 600_000}
    protocols = [{"name": "range", "metadata": b""}]
    reason = "r" * (15 * MIB)
    return request(Api.JOIN_GROUP, 9, **member, **times, protocols=protocols, reason=reason)


@pytest.mark.parametrize(
    ("made", "connections"), [(large_fetch, WAITING), (large_join, CONNECTIONS)]
)
def test_large_requests_that_would_wait_leave_memory_and_others_their_turn(
    make_cluster, free_ports, made, connections
):
    cluster = make_cluster()
    port = free_ports(1)
    endpoint = cluster.gateway(port)
    create(endpoint, "orders", PARTITIONS)
    pid = cluster.pid(endpoint)
    frame = made()
    frame = struct.pack(">i", len(frame)) + frame
    before_mib = resident_mib(pid)
    asking = Asking(port)
    asking.start()
    with ExitStack() as stack:
        for _ in range(connections):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
            with suppress(ConnectionError):  # it is disconnected as soon as it is understood
                client.sendall(frame)
        largest_mib = sample(pid, 15, before_mib + 4 * GROWTH_MIB_MAX)
    assert largest_mib - before_mib < GROWTH_MIB_MAX
    assert asking.stop() < SILENCE_S_MAX


def test_who_names_a_topic_again_and_again_keeps_nobody_from_a_gateway(make_cluster, free_ports):
    cluster = make_cluster()
    port = free_ports(1)
    endpoint = cluster.gateway(port)
    create(endpoint, "orders", PARTITIONS)
    pid = cluster.pid(endpoint)
    frame = request(Api.METADATA, 9, topics=[{"name": "orders"}] * 19_000)
    before_mib = resident_mib(pid)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
            client.sendall(struct.pack(">i", len(frame)) + frame)
        largest_mib = sample(pid, 8, before_mib + 4 * GROWTH_MIB_MAX)
        assert largest_mib - before_mib < GROWTH_MIB_MAX
        told = AdminClient({"bootstrap.servers": endpoint}).list_topics("orders", timeout=WAIT_S)
        assert len(told.topics["orders"].partitions) == PARTITIONS
