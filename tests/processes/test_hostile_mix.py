"""What a mix of hostile peers costs a tower and a store in memory, and others in time.

By option alone, as floods take the machine from all tests beside them. Below a minute it is judged
what memory it costs, and that no honest connection ends; `make hostile` judges latency, too.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from dafka.cluster import Cluster
from dafka.model import TowerEndpoints
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.query.client import StoreClient
from dafka.transport.keys import load_credentials
from tests.support import flood
from tests.support.honest_peers import KINDS, Honest

pytestmark = [pytest.mark.net, pytest.mark.slow]

MIB = 1 << 20
GROWTH_MIB_MAX = 95
"""Of each process: 100 MB."""

SHORT_GROWTH_MIB_MAX = 150
"""The same beside other tests, where a process may be looked at late."""

CALM_S_MIN = 3.0
CALM_PART = 10
"""Such a part of the time nobody attacks, before."""

SUNK_PART = 2
"""For such a part of it, then, the same peers attack a sink that does nothing: what they cost a
machine by their own work is none of ours."""

LATENCY_FACTOR_MAX = 2
JUDGED_FROM_S = 60
TOPICS = [f"honest.topic.{number:045}" for number in range(10_000)]
BULK = 120
FLOOD_S = 6
RECORDS = 24


def resident_mib(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


class Processes:
    """A tower and a store, each in its process, with keys or without."""

    def __init__(self, directory, first, *, secured):
        self.tower, self.port = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
        self.publisher = f"tcp://127.0.0.1:{first + 3}"
        self._directory, self.running = directory, {}
        self.ports = range(first, first + 4)
        if secured:
            for name, *rules in (
                ("cluster",),
                ("honest", "--read", "*", "--write", "*"),
                ("hostile", "--read", "flights*", "--write", "flights*"),
            ):
                subprocess.run(self._words("keys", name, *rules), cwd=directory, check=True)
        self._secured = secured
        self.cluster = Cluster(self.tower)
        if secured:
            keys = directory / "keys"
            credentials = load_credentials(keys / "access.toml", keys / "honest.secret")
            self.cluster = Cluster(self.tower, credentials=credentials)
        tower = ("tower", "--endpoint", self.tower, *self.own("cluster"))
        store = ("store", "--data", "data", "--tower", self.tower, "--query", self.port)
        store += ("--host", self.publisher.removeprefix("tcp://"))
        for name, words in (("tower", tower), ("store", (*store, *self.own("cluster")))):
            with (directory / f"{name}.log").open("w") as log:
                self.running[name] = subprocess.Popen(
                    self._words(*words), cwd=directory, stderr=log
                )

    def own(self, name):
        """Options by which a key is shown."""
        if not self._secured:
            return ()
        return "--access", "keys/access.toml", "--key", f"keys/{name}.secret"

    def attack(self, place, seconds, seed, doors=None):
        tower, port = doors or (self.tower, self.port)
        words = [sys.executable, "-m", "tests.support.hostile_mix", "--tower", tower]
        words += ["--port", port, "--topic", place.topic, "--address", place.address]
        words += ["--seconds", str(seconds), "--seed", str(seed), *self.own("hostile")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with (self._directory / "hostile.log").open("w") as log:
            return subprocess.Popen(words, cwd=self._directory, stderr=log, env=environment)

    @contextmanager
    def sink(self, first):
        """What can be attacked in place of these processes, with the same doors and no work."""
        kinds = ("XSUB", "XPUB", "ROUTER", "XPUB")
        doors = [f"{port}={kind}" for port, kind in enumerate(kinds, first)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        words = [sys.executable, "-m", "tests.support.sink", *doors]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)
        yield f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
        process.communicate(timeout=60)

    def said(self, name):
        return (self._directory / f"{name}.log").read_text()

    def evidence(self):
        return {name: self.said(name)[-500:] for name in self.running}

    def close(self):
        for process in self.running.values():
            process.terminate()
            process.wait(120)

    def _words(self, *words):
        return [sys.executable, "-m", "dafka", *words]


@pytest.fixture
def opened_as(tmp_path, free_ports):
    """A function that starts the processes, with keys or without."""
    made = []

    def start(kind):
        made.append(Processes(tmp_path, free_ports(4), secured=kind == "keys"))
        return made[0]

    yield start
    for one in made:
        one.close()


def connections(ports):
    """This process's established connections to some ports, by their ends' ports."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            own.add(str(descriptor.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            here, there = (int(end.rpartition(":")[2], 16) for end in words[1:3])
            if there in ports and words[3] == "01" and f"socket:[{words[9]}]" in own:
                found.add((here, there))
    return found


def test_honest_peers_are_not_cut(opened_as, caplog):
    processes = opened_as("open")
    with Producer(processes.cluster) as producer:
        for number in range(BULK):
            producer.send("bulk", bytes([number]) * MIB)
        producer.flush(60)
        # It catches up as fast as it can, and what it listens for grows the store by itself.
        topics = ["bulk", *TOPICS[:-1]]
        with Consumer(processes.cluster, topics=topics, start="earliest") as consumer:
            for number in range(BULK):
                assert consumer.poll(60).value[:1] == bytes([number])
            producer.send(TOPICS[0], b"live")
            assert consumer.poll(60).value == b"live"
    assert [vars(one) for one in caplog.records if "connection cut" in one.message] == []
    assert all("connection cut" not in processes.said(name) for name in processes.running)


@pytest.fixture
def hostile_s(request):
    """For how long hostile peers attack."""
    seconds = request.config.getoption("--hostile-s")
    if not seconds:
        pytest.skip("--hostile-s lets hostile peers attack")
    return seconds


@pytest.mark.usefixtures("hostile_s")
@pytest.mark.parametrize("reason", ["subscriptions", "endless message"])
def test_a_flood_is_cut_and_a_consumer_of_many_topics_goes_on(opened_as, wait_until, reason):
    processes = opened_as("open")

    def is_cut(name):
        return f"reason={reason}" in processes.said(name)

    with Producer(processes.cluster) as producer:
        producer.send("orders", b"first").result(60)
        flooding = [
            threading.Thread(target=flood.flood, args=(*door, time.monotonic() + FLOOD_S))
            for door in doors(processes, reason)
        ]
        for one in flooding:
            one.start()
        for name in processes.running:
            wait_until(partial(is_cut, name), f"{name} cuts it", evidence=processes.evidence)
        with Consumer(processes.cluster, ["orders", *TOPICS[:-1]], start="earliest") as late:
            assert late.poll(60).value == b"first"
            producer.send("orders", b"second")
            assert late.poll(60).value == b"second"
        for one in flooding:
            one.join()


def doors(processes, reason):
    """Where to flood the tower and the store, as what, and with what."""
    tower = TowerEndpoints.parse(processes.tower)
    if reason == "subscriptions":
        chunk = partial(flood.names, random.Random(7))
        short = partial(chunk, flood.TOWER_NAME)
        return (tower.outbound, b"SUB", short), (processes.publisher, b"SUB", chunk)
    endless = flood.frame(b"B", flood.MORE) + flood.parts(1_000)
    into = ((tower.inbound, b"PUB"), (processes.port, b"DEALER"))
    return [(*door, lambda: endless) for door in into]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["open", "keys"])
def test_hostile_peers_cost_little_memory_and_time(
    opened_as, free_ports, hostile_s, wait_until, kind
):
    processes, seconds = opened_as(kind), hostile_s
    with Producer(processes.cluster) as producer:
        for number in range(RECORDS):
            producer.send("flights", bytes([number]) * MIB)
        producer.flush(60)
        with StoreClient(
            processes.port, 10_000, credentials=processes.cluster.credentials
        ) as client:
            ((place, held),) = client.ranges("flights").items()
            assert sum(1 for _ in client.scan(place, 0, held.stop))
        honest = Honest(processes.cluster, processes.port)
        wait_until(lambda: len(honest.took["record"]) > 100, "records arrive")
        calm_s = time.monotonic()
        time.sleep(max(CALM_S_MIN, seconds / CALM_PART))
        calmed_s = time.monotonic()
        if kind == "open":  # a sink has no keys
            with processes.sink(free_ports(4)) as doors:
                sinking = processes.attack(place, seconds / SUNK_PART, 7, doors)
                assert sinking.wait(120 + seconds) == 0

        before = {name: resident_mib(one.pid) for name, one in processes.running.items()}
        peak = dict(before)
        connected = connections(processes.ports)
        assert connected
        begun_s = time.monotonic()
        hostile = processes.attack(place, seconds, seed=7)
        while hostile.poll() is None:
            for name, one in processes.running.items():
                assert one.poll() is None, processes.said(name)
                peak[name] = max(peak[name], resident_mib(one.pid))
            there = connections(processes.ports)
            connected |= there
            time.sleep(0.02)
        ended_s = time.monotonic()
        wrong = honest.stop()

    cut = connected - there
    growth = {name: round(peak[name] - before[name]) for name in peak}
    calm = {what: honest.percentiles(what, calm_s, calmed_s) for what in KINDS}
    spent_s = calmed_s if kind == "open" else calm_s
    sunk = {what: honest.percentiles(what, spent_s, begun_s) for what in KINDS}
    loud = {what: honest.percentiles(what, begun_s, ended_s) for what in KINDS}
    print(told(kind, seconds, growth, (calm, sunk, loud), len(cut), honest.unanswered))  # noqa: T201
    assert cut == set()
    assert hostile.returncode == 0, processes.said("hostile")
    assert wrong == []
    judged = seconds >= JUDGED_FROM_S
    assert max(growth.values()) <= (GROWTH_MIB_MAX if judged else SHORT_GROWTH_MIB_MAX)
    if judged:
        for what in ("acknowledgement", "query"):
            assert loud[what][0] <= LATENCY_FACTOR_MAX * sunk[what][0], what


def told(kind, seconds, growth, took, cut, unanswered):
    """What the mix has cost, for people."""
    lines = [f"{kind}: {seconds:.0f} s, grown by {growth} MiB, load {os.getloadavg()[0]:.1f}"]
    lines += [f"{cut} honest connections cut, {unanswered} questions unanswered"]
    for what in KINDS:
        halves, mosts = zip(*(one[what] for one in took), strict=True)
        shown = [" / ".join(f"{ms:.1f}" for ms in values) for values in (halves, mosts)]
        lines.append(f"{what}: p50 {shown[0]}, p99 {shown[1]} ms before / into a sink / in it")
    return "\n  ".join(lines)
