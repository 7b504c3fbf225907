"""Ctrl-C ends a program that iterates over records, in threads and in coroutines."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.small_cluster import send

pytestmark = [pytest.mark.net, pytest.mark.slow]

THREADS = """
from dafka import Consumer
with Consumer(TOWER, "orders") as consumer:
    print("begun", flush=True)
    for record in consumer:
        print(record.value, flush=True)
"""

NOT_CLOSED = """
from dafka import Consumer
consumer = Consumer(TOWER, "orders")
print("begun", flush=True)
for record in consumer:
    print(record.value, flush=True)
"""

OF_A_GROUP = """
from dafka import Cluster, Consumer
with Consumer(Cluster(TOWER, stores=QUERY), "orders", group="billing") as consumer:
    print("begun", flush=True)
    for record in consumer:
        print(record.value, flush=True)
"""

COROUTINES = """
import asyncio
from dafka import AsyncConsumer

async def main():
    async with AsyncConsumer(TOWER, "orders") as consumer:
        print("begun", flush=True)
        async for record in consumer:
            print(record.value, flush=True)

asyncio.run(main())
"""

PROGRAMS = {"threads": THREADS, "not closed": NOT_CLOSED, "coroutines": COROUTINES}
NOBODY = "tcp://127.0.0.1:9"


def interrupted(program, tower, query, lines):
    """Run a program, and interrupt it once it has printed these lines."""
    code = program.replace("TOWER", repr(tower)).replace("QUERY", repr(query))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as running:
        try:
            for line in lines:
                assert running.stdout.readline() == line
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == -signal.SIGINT
    assert said.splitlines()[-1] == "KeyboardInterrupt"
    assert said.count("Traceback") <= 2, said
    assert "in thread" not in said


@pytest.mark.parametrize("name", [*PROGRAMS, "of a group"])
def test_ctrl_c_ends_an_iteration(cluster, name):
    cluster.start_tower()
    cluster.store()
    send(cluster.producer(), 1)
    program = (PROGRAMS | {"of a group": OF_A_GROUP})[name]
    interrupted(program, cluster.endpoint, cluster.query, ["begun\n", "b'1'\n"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_also_where_nobody_is_heard(name):
    interrupted(PROGRAMS[name], NOBODY, "", ["begun\n"])
