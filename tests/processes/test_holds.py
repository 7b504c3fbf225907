"""Two clusters whose stores hold what the other one lacks, as `distributor up` runs them."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from urllib.request import urlopen

import pytest

from dafka import Producer
from dafka.cluster import Cluster
from dafka.query.client import StoreClient
from dafka.transport.keys import load_credentials
from distributor.loading import load
from distributor.local.processes import processes_of
from distributor.operations.status import ask_links
from topology import plan

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.net, pytest.mark.slow]

HOLD_S = 30
"""Up to which age what the other cluster lacks is kept; what it has is kept for 3 s."""

STORE = "cluster-1-store-1"

CLUSTER = """
  - name: cluster-{n}
    id: {n}
{security}    towers: [tcp://127.0.0.1:{p0}]
    stores: [{{query: "tcp://127.0.0.1:{p2}", data: {data}}}]
    controllers: [{{metrics: "127.0.0.1:{p3}"}}]
    replicas: [{{listen: "127.0.0.1:{p4}", metrics: "127.0.0.1:{p5}"}}]
"""


SECURITY = """\
    security: {access: keys/access.toml, cluster_key: keys/cluster.secret, key: keys/link.secret}
"""

RIGHTS = ("--read", "*", "--write", "*", "--mirror", "*")


@pytest.fixture(params=[False, True], ids=["without keys", "with keys"])
def keys(request, tmp_path):
    """Where the clusters' keys are; None if they have none."""
    if not request.param:
        return None
    for words in (["cluster"], ["link", *RIGHTS]):
        words += ["--dir", str(tmp_path / "keys")]
        subprocess.run([sys.executable, "-m", "dafka", "keys", *words], check=True, timeout=60)
    return tmp_path / "keys"


@pytest.fixture
def topology_file(tmp_path, first_port, keys):
    clusters = "".join(
        CLUSTER.format(
            n=n,
            data=tmp_path / f"c{n}",
            security=SECURITY if keys else "",
            **{f"p{at}": first_port + 10 * n + at for at in range(6)},
        )
        for n in (1, 2)
    )
    file = tmp_path / "held.yaml"
    file.write_text(
        f"version: 1\nname: held\nmetrics: {{host: 127.0.0.1, first_port: {first_port + 40}}}\n"
        f"clusters:{clusters}"
        "tree: {level: 1, children: [cluster-1, cluster-2]}\n"
        "heartbeat_ms: 500\n"
        f'retention: [{{topics: "orders", age_s: 3, hold_age_s: {HOLD_S}}}]\n'
    )
    return file


class Ends:
    """What is kept of the topic at both clusters."""

    def __init__(self, topology, stack, credentials):
        queries = [one.stores[0].query for one in topology.clusters]
        self._clients = [StoreClient(one, 2_000, credentials) for one in queries]
        for client in self._clients:
            stack.callback(client.close)

    def kept(self, cluster):
        """From where on, and up to where."""
        spans = self._clients[cluster - 1].ranges("orders").values()
        return sum(one.start for one in spans), sum(one.stop for one in spans)


def test_what_a_cluster_lacks_is_kept_until_it_has_it_or_a_bound_is_reached(
    up, topology_file, wait_until, keys
):
    topology = load(topology_file)
    credentials = keys and load_credentials(keys / "access.toml", keys / "link.secret")
    metrics = topology.clusters[0].controllers[0].metrics
    with ExitStack() as stack:
        ends = Ends(topology, stack, credentials)
        wait_until(
            lambda: len(ask_links(plan(topology)).rows) == 2,
            "both links are written",
            evidence=lambda: [up.log(f"cluster-1-{one}") for one in ("controller-1", "replica-1")],
        )
        producer = stack.enter_context(Producer(Cluster.declared(topology.clusters[0])))

        def sends(count):
            for number in range(count):
                producer.send("orders", b"%d" % number)
            producer.flush(10)

        sends(50)
        wait_until(lambda: ends.kept(2)[1] == 50, "all is there")
        wait_until(lambda: ends.kept(1) == (50, 50), "what all have is dropped", 60)

        store, controller = (
            up.pid_of("dafka store", "c2"),
            up.pid_of("distributor controller", "--cluster cluster-1 "),
        )
        frozen = (store, controller)
        stack.callback(lambda: [os.kill(one, signal.SIGCONT) for one in frozen])
        for one in frozen:
            os.kill(one, signal.SIGSTOP)
        sends(50)
        time.sleep(15)  # three looks for what is old
        assert ends.kept(1) == (50, 100)
        for one in frozen:
            os.kill(one, signal.SIGCONT)
        wait_until(lambda: ends.kept(2)[1] == 100, "nothing was lost")
        wait_until(lambda: ends.kept(1) == (100, 100), "it is not held any more", 60)

        os.kill(store, signal.SIGSTOP)
        sends(50)
        sent_s = time.monotonic()
        wait_until(lambda: ends.kept(1) == (150, 150), "the bound is reached", 2 * HOLD_S)
        log.info("let go after %.1f s", time.monotonic() - sent_s)
        assert time.monotonic() - sent_s >= HOLD_S - 1
        wait_until(lambda: "their hold has reached its bound" in up.log(STORE), "said")
        assert released(topology_file) == 50
        wait_until(lambda: held(metrics) == (1, 50), "the controller tells it")
        os.kill(store, signal.SIGCONT)
    assert up.stop() == 0


def released(file):
    """What the stores of the first cluster have let go, as they tell Prometheus."""
    (store,) = [one for one in processes_of(plan(load(file)), file) if one.name == STORE]
    with urlopen(f"http://{store.metrics}/metrics", timeout=60) as page:
        lines = page.read().decode().splitlines()
    found = [one for one in lines if one.startswith("dafka_store_released_records_total")]
    return sum(float(one.rpartition(" ")[2]) for one in found)


def held(metrics):
    """The exit code of the command, and how much is gone."""
    done = subprocess.run(
        [sys.executable, "-m", "distributor", "controller", "held", metrics, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    rows = [json.loads(one) for one in done.stdout.splitlines()]
    return done.returncode, sum(one["gone"] for one in rows)
