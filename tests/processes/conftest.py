"""Real processes on loopback: topologies on free ports, and a supervised system to break."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distributor.survey import survey
from tests.conftest import DEADLINE_S
from tests.support.gateway_processes import KafkaCluster
from tests.support.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.model import Partition
    from topology.model import Topology

PORTS_PER_TOPOLOGY = 100

TEMPLATE = """
version: 1
name: test
metrics: {{host: 127.0.0.1, first_port: {metrics}}}
control: {{directory: control}}
links: {{failover_after_ms: 5000, repair_after_ms: 5000}}
clusters:
{clusters}
tree:
  level: 3
  children:
    - {{level: 1, children: [c1, c2]}}
    - {{level: 1, children: [c3, c4]}}
"""

CLUSTER = """
  - name: c{number}
    id: {number}
    towers: [tcp://127.0.0.1:{tower}]
    stores: [{{query: "tcp://127.0.0.1:{query}", data: "{data}"}}]
"""


SHARED = """
version: 1
name: shared
metrics: {{host: 127.0.0.1, first_port: {metrics}}}
control: {{directory: control}}
links: {{failover_after_ms: 5000, repair_after_ms: 5000}}
clusters:
  - name: c1
    id: 1
    copies: {copies}
    towers: ["tcp://127.0.0.1:{port}"]
    stores:
{stores}
  - name: c2
    id: 2
    towers: ["tcp://127.0.0.1:{tower}"]
    stores: [{{query: "tcp://127.0.0.1:{query}", data: "{data}/c2"}}]
tree: {{level: 1, children: [c1, c2]}}
"""

SHARING_STORE = (
    '      - {{query: "tcp://127.0.0.1:{query}", data: "{data}/c1-{number}", slots: "{slots}"}}'
)


def run_distributor(*words: object) -> tuple[int, str, str]:
    """Run a command: its exit code, what it said, and what it complained of."""
    done = subprocess.run(
        [sys.executable, "-m", "distributor", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def first_port(free_ports: Callable[[int], int]) -> int:
    """The first of a hundred ports for one topology."""
    return free_ports(PORTS_PER_TOPOLOGY)


@pytest.fixture
def topology_file(tmp_path: Path, first_port: int) -> Path:
    """Four clusters, levels 3 and 1, on free ports, data under the test's own directory."""
    first = first_port
    clusters = "".join(
        CLUSTER.format(
            number=number,
            tower=first + 10 * number,
            query=first + 10 * number + 2,
            data=tmp_path / f"c{number}",
        )
        for number in range(1, 5)
    )
    file = tmp_path / "topology.yaml"
    file.write_text(TEMPLATE.format(metrics=first + 60, clusters=clusters))
    return file


@pytest.fixture
def declared_shares(tmp_path: Path, first_port: int):
    """A function that writes a file of two clusters; stores of the first keep some slots each."""

    def declared(name: str, *shares: str, copies: int = 1) -> Path:
        stores = "\n".join(
            SHARING_STORE.format(
                query=first_port + 2 + number, data=tmp_path, number=number, slots=slots
            )
            for number, slots in enumerate(shares)
        )
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            SHARED.format(
                metrics=first_port + 60,
                copies=copies,
                port=first_port,
                stores=stores,
                tower=first_port + 10,
                query=first_port + 12,
                data=tmp_path,
            )
        )
        return file

    return declared


def shipped_controlled(tmp_path: Path, first_port: int) -> Path:
    """A copy of `config/controlled.yaml` with ports from that one on, data under that directory."""
    text = re.sub(
        r"127\.0\.0\.1:173(\d\d)",
        lambda found: f"127.0.0.1:{first_port + int(found[1])}",
        (Path(__file__).parents[2] / "config" / "controlled.yaml").read_text(),
    )
    text = text.replace("first_port: 17960", f"first_port: {first_port + 60}")
    file = tmp_path / "controlled.yaml"
    file.write_text(text.replace("data: data/", f"data: {tmp_path}/"))
    return file


def orders_at(topology: Topology, name: str) -> dict[Partition, int]:
    """How many records of the topic `orders` a cluster has, by partition."""
    (holding,) = [one for one in survey(topology) if one.cluster == name]
    heads = holding.heads.items()
    return {partition: head + 1 for partition, head in heads if partition.topic == "orders"}


class Up:
    """A running `distributor up`."""

    def __init__(self, file: Path, logs: Path) -> None:
        self._logs = logs
        self._said = logs.parent / "up.txt"
        with self._said.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "distributor", "up", str(file), "--logs", str(logs)],
                stderr=output,
            )

    def is_up(self) -> bool:
        """Whether it has begun all its processes."""
        return " processes are up" in self._said.read_text()

    def children(self) -> dict[str, int]:
        """Process ids by the words of their command line.

        One that has only just begun has those of its parent: it is waited for.
        """
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = self._children()
            if not any("distributor up " in command for command in found):
                return found
            assert time.monotonic() < deadline, f"one has not become itself: {found}"
            time.sleep(0.01)

    def _children(self) -> dict[str, int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        found = {}
        for pid in listed.split():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                found[b" ".join(words).decode()] = int(pid)
        return found

    def pid_of(self, *words: str) -> int:
        """The first child whose command line has all these words."""
        for command, pid in self.children().items():
            if all(word in command for word in words):
                return pid
        raise AssertionError(f"no child with {words} among {list(self.children())}")

    def kill_one(self, *words: str) -> None:
        """kill -9 it."""
        os.kill(self.pid_of(*words), signal.SIGKILL)

    def log(self, name: str) -> str:
        """The end of what a child has logged."""
        return "\n".join((self._logs / f"{name}.log").read_text().splitlines()[-60:])

    def stop(self) -> int:
        """Ctrl-C; returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(120)


@pytest.fixture
def up(topology_file: Path, tmp_path: Path):
    """The topology, up; what is left of it is ended whatever happens."""
    logs = tmp_path / "logs"
    logs.mkdir()
    running = Up(topology_file, logs)
    yield running
    if running.process.poll() is None:
        running.process.terminate()
        running.process.wait(120)


def wait_until(condition, what: str, seconds: float = DEADLINE_S, evidence=str) -> None:
    """Poll for a condition that other processes bring about; `evidence` is shown if it fails."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s: {evidence()}"
        time.sleep(0.1)


@pytest.fixture
def traffic_at():
    """A function that begins to send on a cluster.

    What is left when a test fails is ended: it would reach into the next one's cluster, which has
    the same ports.
    """
    begun = []

    def begin(tower: str) -> Traffic:
        begun.append(Traffic(tower))
        begun[-1].start()
        return begun[-1]

    yield begin
    for traffic in begun:
        traffic.abandon()


@pytest.fixture
def make_cluster(tmp_path, free_ports, reopened, until):
    """A function that starts a cluster in this process, at which gateways may be started."""
    made = []

    def make(stores=1):
        cluster = KafkaCluster(tmp_path, free_ports, reopened, until=until, stores=stores)
        made.append(cluster)
        cluster.start_tower()
        for number in range(stores):
            cluster.store(number)
        return cluster

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture(name="wait_until")
def wait_until_fixture():
    return wait_until
