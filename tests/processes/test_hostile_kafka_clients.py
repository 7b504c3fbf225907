"""What a Kafka client can make a gateway's process hold that does not want to use it."""

from __future__ import annotations

import os
import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from dafka.gateway.wire import Api
from tests.support.gateway_processes import WAIT_S, create
from tests.support.kafka_messages import request

pytestmark = [pytest.mark.net, pytest.mark.slow]

MIB = 1 << 20
GROWTH_MIB_MAX = 200
"""Requests of some MiB that are read take less; answers to each name took gigabytes."""

PARTITIONS = 60
CONNECTIONS = 30


def resident_mib(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def test_who_names_a_topic_again_and_again_keeps_nobody_from_a_gateway(make_cluster, free_ports):
    cluster = make_cluster()
    port = free_ports(1)
    endpoint = cluster.gateway(port)
    create(endpoint, "orders", PARTITIONS)
    pid = cluster.pid(endpoint)
    frame = request(Api.METADATA, 9, topics=[{"name": "orders"}] * 19_000)
    before_mib = largest_mib = resident_mib(pid)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
            client.sendall(struct.pack(">i", len(frame)) + frame)
        until_s = time.monotonic() + 8
        while time.monotonic() < until_s:
            largest_mib = max(largest_mib, resident_mib(pid))
            if largest_mib > before_mib + 4 * GROWTH_MIB_MAX:
                break  # others need the memory
            time.sleep(0.05)
        assert largest_mib - before_mib < GROWTH_MIB_MAX
        told = AdminClient({"bootstrap.servers": endpoint}).list_topics("orders", timeout=WAIT_S)
        assert len(told.topics["orders"].partitions) == PARTITIONS
