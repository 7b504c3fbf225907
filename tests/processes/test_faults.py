"""Each kind of process of a target, broken in each way: what happens, and what the tools say of it.

c1 copies to c2, which relays to c3; the other way round where c1's link has left c2.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
import yaml

from dafka.process.clock import wall_ms
from distributor.demo.job import wait_until_ready
from distributor.local.processes import processes_of
from distributor.local.supervisor import Supervisor
from distributor.operations.doctor import examine
from distributor.operations.status import status_of
from distributor.survey import survey
from distributor.verify.compare import verify
from topology import load, plan

pytestmark = [pytest.mark.net, pytest.mark.slow]

TOWER, STORE, RELAY = "c2-tower-1", "c2-store-1", "c2-level-1"

FAULTS = [
    *((process, kind) for process in (TOWER, STORE, RELAY) for kind in ("killed", "frozen")),
    (STORE, "full"),
]

SHORT = {
    False: [(STORE, "killed"), (STORE, "full"), (RELAY, "frozen")],
    True: [(TOWER, "frozen"), (STORE, "frozen"), (RELAY, "killed")],
}
"""What is broken unless `--every-fault` is given."""


class Tree:
    """Three clusters, running, and records that keep coming at c1."""

    def __init__(self, file, logs):
        self.file = file
        self.topology = load(file)
        self.plan = plan(self.topology)
        self.processes = processes_of(self.plan, file)
        self.supervisor = Supervisor(self.processes, logs)
        self.supervisor.start()

    def child(self, name):
        (child,) = [one for one in self.supervisor.children if one.process.name == name]
        return child

    def until(self, condition, what, seconds=60.0):
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < seconds, f"{what}: not within {seconds} s: {self}"
            self.supervisor.watch()
            time.sleep(0.1)
        return time.monotonic() - began

    def __str__(self):
        """What the tools say of it, where a test fails."""
        told = [f"{one.about}: {one.what}" for one in self.findings()]
        return "\n".join([*told, *(str(link) for link in self.status().links)])

    def records(self, cluster):
        found = {one.cluster: one.records for one in survey(self.topology, 500)}
        return found[cluster] or 0

    def status(self):
        return status_of(self.plan, wall_ms())

    def findings(self):
        return examine(self.plan, self.processes, wall_ms())

    def target(self):
        (link,) = [one for one in self.status().links if (one.source, one.level) == ("c1", 2)]
        return link.target

    def aim_at_c2(self):
        words = ("retarget", str(self.file), "--cluster", "c1", "--level", "2", "--to", "c2")
        told = [sys.executable, "-m", "distributor", *words]
        subprocess.run(told, check=True, capture_output=True, timeout=90)

    @contextmanager
    def broken(self, name, kind):
        child = self.child(name)
        running = child.running
        if kind == "killed":
            child.held = True
            running.kill()
            running.wait()
            child.running = None
        elif kind == "frozen":
            os.kill(running.pid, signal.SIGSTOP)
        else:
            before = resource.prlimit(running.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (0, before[1]))
        yield
        if kind == "killed":
            child.held, child.due_s = False, 0.0
        elif kind == "frozen":
            os.kill(running.pid, signal.SIGCONT)
        else:
            resource.prlimit(running.pid, resource.RLIMIT_FSIZE, before)


@pytest.fixture
def tree(topology_file, tmp_path):
    declared = yaml.safe_load(topology_file.read_text())
    declared["clusters"] = declared["clusters"][:3]
    declared["tree"] = {"level": 2, "children": ["c1", {"level": 1, "children": ["c2", "c3"]}]}
    declared["links"] = {"failover_after_ms": 3_000, "repair_after_ms": 4_000}
    topology_file.write_text(yaml.safe_dump(declared))
    tree = Tree(topology_file, tmp_path / "logs")
    yield tree
    tree.supervisor.stop()


def accused(findings):
    """What the doctor names: processes, clusters, the ends of links."""
    return {word.strip(",") for one in findings for word in one.about.split() if "c" in word}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("restarted", [False, True], ids=["link as it was", "link begun anew"])
def test_a_targets_fault_is_got_round_and_told_as_it_is(tree, restarted, request, traffic_at):
    wait_until_ready(tree.topology, tree.supervisor)
    traffic = traffic_at(tree.topology.clusters[0].towers[0])
    tree.until(lambda: tree.records("c3") > 0, "records come to c3")
    every = request.config.getoption("--every-fault")
    for process, kind in FAULTS if every else SHORT[restarted]:
        broken(tree, traffic, process, kind, restarted=restarted)
    traffic.finish()
    everything = dict.fromkeys(("c1", "c2", "c3"), traffic.sent)
    tree.until(lambda: verify(tree.topology, settle_s=0).clusters == everything, "all have all")
    assert verify(tree.topology, deep=True).equal


def broken(tree, traffic, process, kind, *, restarted):
    """Break one process; see that others go on, that it is named, and that it is well again."""
    fault = f"{process} {kind}"
    tree.aim_at_c2()
    with tree.broken(process, kind):
        if restarted:
            tree.child("c1-level-2").running.kill()
        before = traffic.sent
        tree.until(lambda: tree.records("c3") > before + 50, f"{fault}: c3 goes on")
        tree.until(lambda: process in accused(tree.findings()), f"{fault}: it is named")
        assert not accused(tree.findings()) & {"c1-tower-1", "c1-store-1", "c3-store-1"}
        if process != TOWER:
            tree.until(lambda: not tree.status().well, f"{fault}: status says so")
    tree.until(lambda: not tree.findings() and tree.status().well, f"{fault}: all is well", 90)
