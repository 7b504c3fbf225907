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
    for record in consumer:
        print(record.value, flush=True)
"""

COROUTINES = """
import asyncio
from dafka import AsyncConsumer

async def main():
    async with AsyncConsumer(TOWER, "orders") as consumer:
        async for record in consumer:
            print(record.value, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("program", [THREADS, COROUTINES], ids=["threads", "coroutines"])
def test_ctrl_c_ends_an_iteration(cluster, program):
    cluster.start_tower()
    cluster.store()
    send(cluster.producer(), 1)
    code = program.replace("TOWER", repr(cluster.endpoint))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as running:
        assert running.stdout.readline() == "b'1'\n"
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGINT
    assert said.splitlines()[-1] == "KeyboardInterrupt"
    assert said.count("Traceback") <= 2, said
