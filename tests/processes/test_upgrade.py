"""The last release and this one beside each other, and from one to the other under load."""

from __future__ import annotations

import subprocess
import sys

import pytest

from distributor.loading import load
from tests.processes.conftest import orders_at, run_distributor, wait_until
from tests.processes.test_backup import TOPOLOGY
from tests.support.last_release import last_release
from tests.support.topology_processes import TODAY, TopologyProcesses

pytestmark = [pytest.mark.net, pytest.mark.slow]

ORDER = ("store-1", "level-1", "tower-1")
"""Of a cluster: stores before what asks them."""


class ReleasePair:
    """Two clusters, and producers and a consumer of the last release at the first."""

    def __init__(self, tmp_path, places, old):
        self.file, self._places, self.old = tmp_path / "topology.yaml", places, old
        self.processes = TopologyProcesses(self.file, tmp_path / "logs")
        self._topology = load(self.file)
        self.written = 0
        self.read = tmp_path / "read.txt"
        self.read_by_group = tmp_path / "group.txt"
        self._clients = []

    def client(self, *words, **streams):
        running = subprocess.Popen(
            [sys.executable, "-m", "dafka", *words, "--tower", self._places["c1"]],
            env=TopologyProcesses.within(self.old),
            cwd=self.file.parent,
            **streams,
        )
        self._clients.append(running)
        return running

    def close(self):
        self.processes.__exit__()
        for running in self._clients:
            running.kill()
            running.wait(60)
            if running.stdin is not None:
                running.stdin.close()

    def counts(self):
        return [sum(orders_at(self._topology, name).values()) for name in ("c1", "c2")]

    def flows(self, traffic, producer):
        """Wait until what both producers send from now on is on both clusters."""
        for _ in range(50):
            producer.stdin.write(f"old-{self.written}\n".encode())
            self.written += 1
        producer.stdin.flush()
        wanted = self.written + traffic.sent
        wait_until(
            lambda: min(self.counts()) >= wanted,
            f"{wanted:,} records on both clusters",
            evidence=lambda: f"{self.counts()}\n{self.logs()}",
        )

    def logs(self):
        return "\n".join(self.processes.log(name)[-800:] for name in self.processes.names())

    def replace(self, name, release):
        """Stop a process, and run it in another release, on the same directory, until it is up."""
        assert self.processes.stop(name) == 0, self.processes.log(name)
        before = self.processes.log(name).count(" is up")
        self.processes.start(name, release=release)
        up = lambda: self.processes.log(name).count(" is up") > before  # noqa: E731
        wait_until(up, f"{name} to be up", evidence=self.logs)


@pytest.fixture
def places(tmp_path, first_port):
    names = {"c1": 0, "q1": 2, "c2": 3, "q2": 5}
    found = {name: f"tcp://127.0.0.1:{first_port + port}" for name, port in names.items()}
    (tmp_path / "topology.yaml").write_text(TOPOLOGY.format(**found, directory=tmp_path))
    return found


@pytest.fixture
def pair(tmp_path, places):
    pair = ReleasePair(tmp_path, places, last_release(tmp_path))
    yield pair
    pair.close()


def test_a_topology_is_upgraded_process_by_process_under_load(pair, places, traffic_at):
    pair.processes.start(*pair.processes.names(pair.old), release=pair.old)
    traffic = traffic_at(places["c2"])
    producer = pair.client("produce", "orders", stdin=subprocess.PIPE)
    with pair.read.open("wb") as output:
        pair.client("consume", "orders", "--from-beginning", stdout=output)
    with pair.read_by_group.open("wb") as output:
        words = ("--from-beginning", "--group", "billing", "--store", places["q1"])
        pair.client("consume", "orders", *words, stdout=output)
    pair.flows(traffic, producer)
    for cluster in ("c2", "c1"):
        for role in ORDER:
            pair.replace(f"{cluster}-{role}", TODAY)
            pair.flows(traffic, producer)
    # The way back, but for stores: links and towers keep nothing.
    for role in ("level-1", "tower-1"):
        pair.replace(f"c1-{role}", pair.old)
        pair.flows(traffic, producer)

    producer.stdin.close()
    assert producer.wait(60) == 0
    traffic.finish()
    wanted = pair.written + traffic.sent
    wait_until(lambda: pair.counts() == [wanted] * 2, "all on both", evidence=pair.logs)
    code, said, complained = run_distributor("verify", pair.file, "--deep")
    assert code == 0, said + complained
    for file, once_each in ((pair.read, list), (pair.read_by_group, dict.fromkeys)):
        # A member that no store answers for ten seconds loses what it holds, and reads again what
        # it had not committed.
        wait_until(
            lambda file=file, once_each=once_each: len(once_each(lines_of(file))) >= wanted,
            f"all in {file}",
        )
        read = list(once_each(lines_of(file)))
        assert [one for one in read if "old" in one] == [f"old-{n}" for n in range(pair.written)]
        assert [one for one in read if "old" not in one] == [str(n) for n in range(traffic.sent)]


def lines_of(file):
    return file.read_text().split()


def test_a_store_of_before_leaves_alone_what_this_one_has_opened(pair):
    pair.processes.start("c1-tower-1", "c1-store-1", release=pair.old)
    pair.client("produce", "orders", stdin=subprocess.PIPE).communicate(b"one\ntwo\n", 60)
    pair.replace("c1-store-1", TODAY)
    name = "c1-store-1"
    wait_until(lambda: pair.processes.log(name).count("store is up") == 2, "both were up")
    assert pair.processes.stop(name) == 0
    pair.processes.start(name, release=pair.old)
    assert pair.processes.ended(name) > 0
    assert "its format is" in pair.processes.log(name)
    pair.processes.start(name)
    wait_until(lambda: sum(orders_at(load(pair.file), "c1").values()) == 2, "both records")
