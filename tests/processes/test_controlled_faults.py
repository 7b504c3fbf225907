"""The shipped tree with controllers: each kind of process is killed and frozen under load."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from contextlib import closing

import pytest

from dafka import Consumer
from dafka.cluster import Cluster
from distributor.loading import load
from distributor.operations.status import ask_links, status_of
from distributor.verify.compare import verify
from tests.processes.conftest import orders_at, shipped_controlled
from tests.support.opened import written_at
from tests.support.two_clusters import LOADED
from topology import plan

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.net, pytest.mark.slow]

FROZEN_S = 6.0
"""How long a process that nobody takes the place of stays stopped."""

GAPS_S = {
    ("replica", signal.SIGKILL): 3.0,
    ("replica", signal.SIGSTOP): 5.0,
    ("tower", signal.SIGKILL): 1.0,
    ("tower", signal.SIGSTOP): 1.0,
    ("controller", signal.SIGKILL): 1.0,
    ("controller", signal.SIGSTOP): 1.0,
    ("store", signal.SIGKILL): 5.0,
    ("store", signal.SIGSTOP): FROZEN_S + 5.0,
}
"""For how long nothing of a cluster may arrive at the far end of the tree on a quiet machine. The
cluster has one store: what it does not store is not copied."""


class Arrivals(threading.Thread):
    """When records of one producer come to a cluster.

    Args:
        cluster: Where.
        address: Of whom.
    """

    def __init__(self, cluster, address):
        super().__init__(daemon=True)
        self._consumer = Consumer(Cluster.declared(cluster), "orders", start="latest")
        self._address = address
        self._stopping = threading.Event()
        self._longest_s, self._last_s = 0.0, time.monotonic()
        self.count = 0
        self.start()

    def run(self):
        with closing(self._consumer):
            while not self._stopping.is_set():
                record = self._consumer.poll(0.1)
                if record is None or record.address != self._address:
                    continue
                now_s = time.monotonic()
                self._longest_s = max(self._longest_s, now_s - self._last_s)
                self._last_s = now_s
                self.count += 1

    def begin(self):
        """Look at gaps from now on."""
        self._longest_s, self._last_s = 0.0, time.monotonic()

    def longest_s(self):
        """The longest of them."""
        return max(self._longest_s, time.monotonic() - self._last_s)

    def end(self):
        self._stopping.set()
        self.join(30)


@pytest.fixture
def topology_file(tmp_path, first_port):
    return shipped_controlled(tmp_path, first_port)


def words_of(kind, cluster):
    """What the command line of such a process of a cluster has; of replicas, of the writer."""
    match kind:
        case "tower":
            return "dafka tower", cluster.towers[0]
        case "store":
            return "dafka store", cluster.stores[0].query
        case "controller":
            return "distributor controller run", f"--cluster {cluster.name} "
        case _:
            return "distributor replica", writer_of(cluster).listen


def writer_of(cluster):
    """The replica that writes; none while not exactly one says so, or one is not up again."""
    try:
        found = [one for one in cluster.replicas if 3 in written_at(one.metrics)]
    except OSError:
        return None
    return found[0] if len(found) == 1 else None


def test_whoever_dies_or_freezes_all_records_are_everywhere_once_and_in_order(
    up, topology_file, wait_until, traffic_at
):
    topology = load(topology_file)
    the_plan = plan(topology)
    cluster, far = topology.clusters[0], topology.clusters[3]

    def well():
        linked = status_of(the_plan).well and len(ask_links(the_plan).rows) == 8
        return linked and writer_of(cluster) is not None

    wait_until(well, "all links are written")
    traffic = [traffic_at(one.towers[0]) for one in topology.clusters]
    arrivals = Arrivals(far, traffic[0].address)
    found = {}
    for kind, harm in GAPS_S:
        wait_until(well, f"all is well before {kind} {harm.name}")
        known = arrivals.count
        wait_until(lambda known=known: arrivals.count > known + 100, "records arrive")
        pid = up.pid_of(*words_of(kind, cluster))
        arrivals.begin()
        known, began_s = arrivals.count, time.monotonic()
        os.kill(pid, harm)
        if harm is signal.SIGSTOP:
            time.sleep(FROZEN_S)
            os.kill(pid, signal.SIGCONT)
        wait_until(
            lambda known=known, began_s=began_s: (
                arrivals.count > known + 100 and time.monotonic() > began_s + FROZEN_S
            ),
            "records arrive again",
        )
        found[kind, harm] = arrivals.longest_s()
        log.info("%s %s: %.2f s without a record", kind, harm.name, found[kind, harm])
    wait_until(well, "all is well")
    arrivals.end()
    for thread in traffic:
        thread.finish()
    sent = sum(thread.sent for thread in traffic)

    def orders():
        return [sum(orders_at(topology, one.name).values()) for one in topology.clusters]

    wait_until(lambda: orders() == [sent] * 4, f"{sent} everywhere", evidence=orders)
    assert verify(topology, deep=True).equal
    late = {one: s for one, s in found.items() if s > GAPS_S[one] * LOADED}
    assert not late
