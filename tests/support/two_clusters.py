"""Two clusters in real processes, what is written at one, and what arrives at the other.

Nothing here imports the product: it is run by its commands.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

LOADED = 4
"""So many times as long as on a machine with nothing else to do anything may take."""

TOPOLOGY = """
version: 1
name: two
clusters:
  - name: north
    id: 7
    towers: [tcp://127.0.0.1:{0}]
{security}    stores: [{{query: "tcp://127.0.0.1:{2}", data: "{directory}/north"}}]
  - name: south
    id: 8
    towers: [tcp://127.0.0.1:{3}]
{security}    stores: [{{query: "tcp://127.0.0.1:{5}", data: "{directory}/south"}}]
tree: {{level: 1, children: [north, south]}}
"""


SECURITY = """\
    security: {access: keys/access.toml, cluster_key: keys/cluster.secret, key: keys/link.secret}
"""


class Traffic:
    """Numbers written at the source, by one producer, and what a consumer at the target reads."""

    def __init__(self, stack, world, directory):
        self._read = directory / "read.txt"
        north, south = ([*world.key("link"), "--tower", world.tower(one)] for one in (0, 3))
        with self._read.open("wb") as output:
            consumer = dafka("consume", "orders", "--from-beginning", *south, stdout=output)
        stack.callback(end, consumer)
        self._producer = dafka("produce", "orders", *north, stdin=subprocess.PIPE)
        stack.callback(end, self._producer)
        self.sent = 0
        self._going = threading.Event()
        self._stopping = threading.Event()
        stack.callback(self._stopping.set)
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self):
        while not self._stopping.is_set():
            if self._going.wait(0.1):
                self._producer.stdin.write(f"{self.sent}\n".encode())
                self._producer.stdin.flush()
                self.sent += 1
                time.sleep(0.002)

    def go(self):
        self._going.set()

    def pause(self):
        self._going.clear()
        time.sleep(0.2)

    @property
    def read(self):
        return self._read.read_text().split()

    def check(self, until):
        """All that was written is there, once, in order."""
        self.pause()
        until(lambda: len(self.read) >= self.sent, 60)
        time.sleep(0.5)
        assert self.read == [str(number) for number in range(self.sent)]

    def gap_s(self, event, over, timeout_s=60):
        """The longest time in which nothing is read, from an event until something is after it.

        Args:
            event: Called first.
            over: Whether somebody else is at work now.
            timeout_s: When to give up.
        """
        began_s = since_s = time.monotonic()
        known, longest_s, others = self._size(), 0.0, False
        event()
        while time.monotonic() < began_s + timeout_s:
            others = others or over()
            size, now_s = self._size(), time.monotonic()
            longest_s = max(longest_s, now_s - since_s)
            if size > known:
                if others:
                    return longest_s
                known, since_s = size, now_s
            time.sleep(0.01)
        raise AssertionError(f"nobody has taken over within {timeout_s} s")

    def _size(self):
        return self._read.stat().st_size


def dafka(*words, **streams):
    return subprocess.Popen([sys.executable, "-m", "dafka", *words], **streams)


def end(process):
    process.kill()
    process.communicate(timeout=60)


RIGHTS = "--read", "--write", "--mirror"


class World:
    """Two clusters, running, and replicas of the first as they are asked for."""

    def __init__(self, stack, ports, directory, *, keys=False, links=""):
        self._stack, self.ports, self._keys = stack, ports, directory / "keys" if keys else None
        self.started = {}
        """What each process of the first cluster's links is, by its id."""
        self.file = directory / "topology.yaml"
        security = SECURITY if keys else ""
        text = TOPOLOGY.format(*ports, directory=directory, security=security)
        self.file.write_text(f"{text}links: {{{links}}}\n")
        if keys:
            for words in (["cluster"], ["link", *(w for r in RIGHTS for w in (r, "*"))]):
                made = dafka("keys", *words, "--dir", str(self._keys))
                assert made.wait(60) == 0
        for name, first in (("north", 0), ("south", 3)):
            tower, key = self.tower(first), self.key("cluster")
            query = f"tcp://127.0.0.1:{ports[first + 2]}"
            data = str(directory / name)
            stack.callback(end, dafka("tower", "--endpoint", tower, *key))
            number = {"north": "7", "south": "8"}[name]
            words = ["--data", data, "--query", query, "--tower", tower, "--number", number]
            stack.callback(end, dafka("store", *words, *key))

    def tower(self, first):
        """Where the tower is whose port is this one of ours."""
        return f"tcp://127.0.0.1:{self.ports[first]}"

    def key(self, name):
        """What a command is told of keys."""
        if self._keys is None:
            return []
        return [
            "--access",
            str(self._keys / "access.toml"),
            "--key",
            str(self._keys / f"{name}.secret"),
        ]

    def replica(self, port):
        """Start one; returns its process and where it listens."""
        listen = f"127.0.0.1:{port}"
        return self.distributor("replica", "--listen", listen), listen

    def distributor(self, *words):
        """Start a process of the first cluster; returns it."""
        about = ["--topology", str(self.file), "--cluster", "north"]
        process = subprocess.Popen([sys.executable, "-m", "distributor", *words, *about])
        self.started[process.pid] = words[0]
        self._stack.callback(end, process)
        return process
