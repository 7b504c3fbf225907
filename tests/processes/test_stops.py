"""What links of real processes must not copy: told by status, doctor, metrics and log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dafka.errors import QueryError
from dafka.model import Batch, Partition
from dafka.query.client import StoreClient
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import FRESH, Envelope
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.local.processes import processes_of
from tests.support.json_outputs import rows_of
from topology import load, plan

pytestmark = [pytest.mark.net, pytest.mark.slow]

OVERTAKEN, DIVERGED, SHORTENED, GOOD = (Partition("orders", letter * 32) for letter in "ABCD")
COPIED = Envelope(origin=1, copy_flags=0b1)


def written(partition, first, value=b"v", envelope=FRESH):
    builder = BatchBuilder(1 << 16)
    for number in range(first, first + 10):
        builder.append(number, None, value, ())
    return Batch(partition, first, 10, enclosed(builder.build(), first, envelope))


def write(topology, number, batches, trims=()):
    log = LmdbLog(topology.clusters[number - 1].stores[0].data, durability=Durability.OS)
    log.append(batches)
    log.append([], trims=dict(trims))
    log.close()


def distributor(*words):
    done = subprocess.run(
        [sys.executable, "-m", "distributor", *map(str, words), "--json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout, done.stderr
    (told,) = rows_of(done.stdout)
    return done.returncode, told


def gauges(endpoint):
    try:
        with urlopen(f"http://{endpoint}/metrics", timeout=60) as page:
            text = page.read().decode()
    except URLError:
        return {}
    return {
        sample.name.removeprefix("distributor_").removesuffix("_partitions"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("source") == "c1" and sample.labels.get("target") == "c2"
    }


def test_each_of_them_stops_alone_is_told_everywhere_and_goes_on_when_mended(
    topology_file, tmp_path, wait_until, request
):
    topology = load(topology_file)
    write(
        topology,
        1,
        [
            *(written(place, first) for place in (OVERTAKEN, SHORTENED) for first in (0, 10, 20)),
            *(written(place, first) for place in (DIVERGED, GOOD) for first in (0, 10)),
        ],
        {OVERTAKEN: 20, SHORTENED: 20},
    )
    write(
        topology,
        2,
        [written(OVERTAKEN, 0, envelope=COPIED), written(DIVERGED, 0, b"other", COPIED)],
    )
    up = request.getfixturevalue("up")
    c2 = topology.clusters[1].stores[0].query

    def heads():
        try:
            with StoreClient(c2, timeout_ms=1_000) as client:
                return client.heads()
        except QueryError:
            return {}

    wait_until(lambda: heads().get(GOOD) == 19 and heads().get(SHORTENED) == 29, "others go on")

    (link_process,) = [
        one for one in processes_of(plan(topology), topology_file) if one.name == "c1-level-1"
    ]
    told = {"overtaken": 1, "diverged": 1, "shortened": 1}
    wait_until(lambda: told.items() <= gauges(link_process.metrics).items(), "metrics tell")

    code, status = distributor("status", topology_file)
    assert code == 1
    (link,) = [one for one in status["links"] if (one["source"], one["target"]) == ("c1", "c2")]
    stopped = [(one["address"][0], one["reason"], one["first"]) for one in link["stopped"]]
    assert sorted(stopped) == [("A", "overtaken", 10), ("B", "diverged", 9)]
    assert link["shortened"] == 1
    code, findings = distributor("doctor", topology_file)
    assert code == 1
    assert any("that answers keeps what c2 lacks" in one["what"] for one in findings["findings"])
    log = (tmp_path / "logs" / "c1-level-1.log").read_text()
    assert "partition has diverged, same name, other record: it is not copied" in log
    assert "partition is overtaken, the source keeps no more what follows: it is not copied" in log
    assert (heads()[OVERTAKEN], heads()[DIVERGED]) == (9, 9)

    where = ("resume", topology_file, "--cluster", "c1", "--level", "1", "--topic", "orders")
    assert distributor(*where) == (0, {"partitions": 1, "records": 10})
    wait_until(lambda: heads()[OVERTAKEN] == 29, "it goes on behind the hole")
    assert heads()[DIVERGED] == 9
    with StoreClient(c2, timeout_ms=1_000) as client:
        assert client.ranges()[OVERTAKEN] == range(30)

    # c2 is given an empty disk: it is filled with what there is, and links go on by themselves.
    data = Path(topology.clusters[1].stores[0].data)
    data.rename(data.with_name("moved-away"))
    up.kill_one("store", c2)
    whole = {OVERTAKEN: 29, DIVERGED: 19, SHORTENED: 29, GOOD: 19}
    wait_until(lambda: heads() == whole, "it is filled again")
    told = {"overtaken": 0, "diverged": 0, "shortened": 2}
    wait_until(lambda: told.items() <= gauges(link_process.metrics).items(), "metrics tell")
    assert distributor("verify", topology_file, "--deep")[0] == 0
    assert up.stop() == 0
