"""A link that replicas run, and that retention has overtaken: it goes on behind the hole, for good.

Whoever dies meanwhile: what an operator was told is what the stores keep.
"""

from __future__ import annotations

import json

import pytest

from dafka.errors import QueryError
from dafka.model import Batch, Partition
from dafka.query.client import StoreClient
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import FRESH, Envelope
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.operations.status import ask_links
from tests.processes.conftest import run_distributor
from tests.support.json_outputs import rows_of
from topology import load, plan

pytestmark = [pytest.mark.net, pytest.mark.slow]

OVERTAKEN, GOOD = (Partition("orders", letter * 32) for letter in "AB")
COPIED = Envelope(origin=1, copy_flags=0b1)

CLUSTER = """
  - name: cluster-{n}
    id: {n}
    towers: [tcp://127.0.0.1:{p0}]
    stores: [{{query: "tcp://127.0.0.1:{p2}", data: {data}}}]
    controllers:
      - {{metrics: "127.0.0.1:{p3}", listen: "127.0.0.1:{p4}"}}
      - {{metrics: "127.0.0.1:{p5}", listen: "127.0.0.1:{p6}"}}
    replicas:
      - {{listen: "127.0.0.1:{p7}", metrics: "127.0.0.1:{p8}"}}
      - {{listen: "127.0.0.1:{p9}", metrics: "127.0.0.1:{p10}"}}
"""


def written(partition, first, envelope=FRESH):
    builder = BatchBuilder(1 << 16)
    for number in range(first, first + 10):
        builder.append(number, None, b"v", ())
    return Batch(partition, first, 10, enclosed(builder.build(), first, envelope))


def write(topology, number, batches, trims=()):
    log = LmdbLog(topology.clusters[number - 1].stores[0].data, durability=Durability.OS)
    log.append(batches)
    log.append([], trims=dict(trims))
    log.close()


@pytest.fixture
def topology_file(tmp_path, first_port):
    """Two clusters, of which the second lacks what the first keeps no more."""
    clusters = "".join(
        CLUSTER.format(
            n=n, data=tmp_path / f"c{n}", **{f"p{at}": first_port + 20 * n + at for at in range(11)}
        )
        for n in (1, 2)
    )
    file = tmp_path / "overtaken.yaml"
    file.write_text(
        f"version: 1\nname: overtaken\nclusters:{clusters}"
        "tree: {level: 1, children: [cluster-1, cluster-2]}\n"
    )
    topology = load(file)
    batches = [written(OVERTAKEN, at) for at in (0, 10, 20)] + [written(GOOD, 0)]
    write(topology, 1, batches, {OVERTAKEN: 20})
    write(topology, 2, [written(OVERTAKEN, 0, COPIED)])
    return file


def test_it_goes_on_behind_the_hole_and_whoever_comes_later_passes_it_over_too(
    up, topology_file, wait_until
):
    topology = load(topology_file)
    the_plan = plan(topology)
    c2 = topology.clusters[1].stores[0].query

    def kept():
        try:
            with StoreClient(c2, timeout_ms=1_000) as client:
                return client.ranges("orders")
        except QueryError:
            return {}

    def overtaken():
        return sum(row.overtaken for row in ask_links(the_plan).rows.values())

    def told():
        return [up.log(f"cluster-1-{one}") for one in ("controller-1", "replica-1", "replica-2")]

    wait_until(lambda: kept().get(GOOD) == range(10), "others go on", evidence=told)
    wait_until(lambda: overtaken() == 1, "it stands still", evidence=told)
    where = ("resume", topology_file, "--cluster", "cluster-1", "--level", "1", "--topic")
    assert run_distributor(*where, "invoices")[0] == 2
    code, said, complaint = run_distributor(*where, "orders", "--json")
    assert (code, complaint) == (0, "")
    assert rows_of(said) == [{"partitions": 1, "records": 10}]
    # What was answered is kept, whoever heard it.
    for role in ("controller run", "controller run", "replica", "replica"):
        up.kill_one(f"distributor {role}", "--cluster cluster-1 ")
    wait_until(lambda: kept()[OVERTAKEN] == range(30), "it goes on", evidence=told)
    wait_until(lambda: len(ask_links(the_plan).rows) == 2, "both links are written", evidence=told)
    wait_until(lambda: overtaken() == 0, "nothing stands still", evidence=told)

    place = topology.clusters[0].controllers[0].listen
    code, said, _ = run_distributor("controller", "explain", place, OVERTAKEN.address, "--json")
    assert code == 0
    assert json.loads(said)["why"].endswith("passes over 10 records that were not kept")
    code, _, complaint = run_distributor(*where, "orders")
    assert code == 2
    assert "no partition of topic 'orders' is overtaken at level 1" in complaint
    assert up.stop() == 0
