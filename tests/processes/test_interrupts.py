"""Programs that wait for records, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower

pytestmark = [pytest.mark.net, pytest.mark.slow]

LEFT = """
from dafka import Consumer

with Consumer({place}) as consumer:
    print("begun", flush=True)
    for record in consumer:
        print(record.value, flush=True)
"""
NOT_CLOSED = """
from dafka import Consumer

consumer = Consumer({place})
print("begun", flush=True)
for record in consumer:
    print(record.value, flush=True)
"""
OF_A_GROUP = """
from dafka import Cluster, Consumer

with Consumer({cluster}, "orders", group="billing", session_timeout_ms=2_000) as consumer:
    print("begun", flush=True)
    for record in consumer:
        print(record.value, flush=True)
"""
COROUTINES = """
import asyncio
from dafka import AsyncConsumer

async def main():
    async with AsyncConsumer({place}) as consumer:
        print("begun", flush=True)
        async for record in consumer:
            print(record.value, flush=True)

asyncio.run(main())
"""
ENDS_S = 30
"""By then it has ended on any machine; where nothing else runs it takes a tenth of a second."""


@pytest.fixture
def cluster(tmp_path, free_ports):
    """A cluster with a record; gives its tower and the query port of its store."""
    first = free_ports(3)
    tower, query = (f"tcp://127.0.0.1:{port}" for port in (first, first + 2))
    with Tower(tower), Store(tmp_path / "store", tower, query=query), Producer(tower) as producer:
        producer.send("orders", b"one").result(60)
        yield tower, query


PROGRAMS = {"left": LEFT, "not closed": NOT_CLOSED, "coroutines": COROUTINES}


def interrupted(program, lines, tower, query=""):
    """Run a program, interrupt it after so many lines, and return its errors."""
    cluster = f"Cluster({tower!r}, stores={query!r})"
    code = program.format(place=f'"{tower}", "orders"', cluster=cluster)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            for _ in range(lines):
                process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=ENDS_S)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    return errors


@pytest.mark.parametrize("name", [*PROGRAMS, "of a group"])
def test_the_interrupt_is_the_only_thing_that_is_told(cluster, name):
    errors = interrupted((PROGRAMS | {"of a group": OF_A_GROUP})[name], 2, *cluster)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "in thread" not in errors
    assert "Error" not in errors.replace("CancelledError", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_also_where_nobody_is_heard(name):
    errors = interrupted(PROGRAMS[name], 1, "tcp://127.0.0.1:9")
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "in thread" not in errors
