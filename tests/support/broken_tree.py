"""Three clusters of real processes behind a proxy: one process is broken, or a whole cluster.

c1 copies to c2, which relays to c3; the other way round where c1's link has left c2.
"""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from functools import partial

import yaml

from dafka.cluster import Cluster
from distributor.demo.job import wait_until_ready
from distributor.local.processes import processes_of
from distributor.local.supervisor import Supervisor
from distributor.operations.doctor import examine
from distributor.operations.status import status_of
from distributor.survey import survey
from distributor.testing.proxy import (
    Proxy,
    behind_proxy,
    deaf,
    processes_running,
    slow,
    unheard,
)
from tests.support.topologies import is_about_room
from topology import load, plan

FRONTS = {f"127.0.1.{place}": f"127.0.0.{place}" for place in (11, 12, 13)}

SLOW_BYTES_PER_S = 500
"""A small part of what comes, however large the batches, and more than what processes say to show
that they are there."""


class BrokenTree:
    """Running, whole at first.

    Args:
        file: A topology of at least three clusters; it is changed.
        logs: Directory for what processes print.
        links: What the topology says of links.
    """

    def __init__(self, file, logs, links):
        _write(file, links)
        self.file = file
        self.topology = load(file)
        self.plan = plan(self.topology)
        self.processes = processes_of(self.plan, file)
        self.supervisor = Supervisor([behind_proxy(one, FRONTS) for one in self.processes], logs)
        self.proxy = Proxy(FRONTS, partial(processes_running, self.supervisor.children))
        try:
            self.supervisor.start()
            wait_until_ready(self.topology, self.supervisor)
        except BaseException:
            self.close()
            raise

    def close(self):
        self.supervisor.stop()
        self.proxy.close()

    def cluster(self, name):
        return Cluster.declared(self.topology.cluster(name))

    def child(self, name):
        (child,) = self.children(name)
        return child

    def children(self, name):
        """The process of that name, or all of the cluster."""
        return [
            one
            for one in self.supervisor.children
            if name in (one.process.name, one.process.cluster)
        ]

    def until(self, condition, what, seconds=120.0, pause_s=0.3):
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < seconds, f"{what}: not within {seconds} s: {self}"
            self.supervisor.watch()
            time.sleep(pause_s)
        return time.monotonic() - began

    def __str__(self):
        """What the tools say of it, where a test fails."""
        told = [f"{one.about}: {one.what}" for one in self.findings()]
        return "\n".join([*told, *(str(link) for link in self.status().links)])

    def records(self, cluster):
        found = {one.cluster: one.records for one in survey(self.topology, 500)}
        return found[cluster] or 0

    def status(self):
        return status_of(self.plan)

    def findings(self):
        found = examine(self.plan, self.processes)
        return [one for one in found if not is_about_room(one.what)]

    def accused(self):
        """What the doctor names, by finding: processes, clusters, both ends of links and ways."""
        return [
            {word.strip(",") for word in one.about.split() if "c" in word}
            for one in self.findings()
        ]

    def restarted(self, name):
        """Kill a process; returns how long it takes until it answers again, in seconds."""
        child = self.child(name)
        host, _, port = child.process.metrics.rpartition(":")
        child.running.kill()
        child.running.wait()
        return self.until(lambda: _listens(host, int(port)), f"{name} is back", pause_s=0.02)

    def aim_at_c2(self):
        words = ("retarget", str(self.file), "--cluster", "c1", "--level", "2", "--to", "c2")
        told = [sys.executable, "-m", "distributor", *words]
        subprocess.run(told, check=True, capture_output=True, timeout=90)

    @contextmanager
    def broken(self, name, kind):
        """Break a process or a cluster; mend it in the end."""
        children = self.children(name)
        whom = {child.process.name for child in children}
        home = {child.process.name for child in self.children(children[0].process.cluster)}
        with ExitStack() as mended:
            for child in children:
                if kind in ("killed", "frozen", "full"):
                    getattr(self, f"_{kind}")(child, mended)
            match kind:
                case "unheard":
                    mended.enter_context(self.proxy.hindered(unheard(whom, home)))
                case "deaf":
                    mended.enter_context(self.proxy.hindered(deaf(whom, home)))
                case "slow":
                    mended.enter_context(self.proxy.hindered(slow(whom, SLOW_BYTES_PER_S)))
            yield

    def _killed(self, child, mended):
        def start():
            child.held, child.due_s = False, 0.0

        child.held = True
        child.running.kill()
        child.running.wait()
        child.running = None
        mended.callback(start)

    def _frozen(self, child, mended):
        child.running.send_signal(signal.SIGSTOP)
        mended.callback(child.running.send_signal, signal.SIGCONT)

    def _full(self, child, mended):
        """Let its files grow no more."""
        limit = partial(resource.prlimit, child.running.pid, resource.RLIMIT_FSIZE)
        before = limit()
        limit((0, before[1]))
        mended.callback(limit, before)


def _listens(host, port):
    try:
        socket.create_connection((host, port)).close()
    except ConnectionRefusedError:
        return False
    return True


def _write(file, links):
    """Three of the clusters, each behind an address of the proxy, as a tree of two levels."""
    declared = yaml.safe_load(file.read_text())
    declared["clusters"] = declared["clusters"][:3]
    for cluster, (front, behind) in zip(declared["clusters"], FRONTS.items(), strict=True):
        cluster |= {"host": behind, "advertise": front}
        cluster["towers"] = [one.replace("127.0.0.1", front) for one in cluster["towers"]]
        for store in cluster["stores"]:
            store["query"] = store["query"].replace("127.0.0.1", front)
    declared["tree"] = {"level": 2, "children": ["c1", {"level": 1, "children": ["c2", "c3"]}]}
    declared["links"] = links
    file.write_text(yaml.safe_dump(declared))
