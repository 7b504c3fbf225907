"""Links of real processes: one beside a slow one, one with a bound, one with many partitions."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from dafka import Producer
from dafka.limits import REORDER_BYTES_MAX
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.survey import survey
from distributor.verify.compare import verify
from tests.support.topologies import changed
from topology import load

pytestmark = [pytest.mark.net, pytest.mark.slow]

VALUE = bytes(1_000)
BATCH_BYTES = 64 * 1024
LINK_BYTES_MAX = 32 * 1024 * 1024
"""What a link may have under way."""


def process_of(up, *words: str) -> int:
    (found,) = [pid for line, pid in up.children().items() if all(word in line for word in words)]
    return found


def own_bytes(pid: int) -> int:
    """Memory that is the process's own: not what it maps of files."""
    return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1_024


def publish(topology, count: int) -> None:
    with Producer(topology.clusters[0].towers[0], batch_bytes_max=BATCH_BYTES) as producer:
        producer.send_many("orders", [VALUE] * count)
        producer.flush(60)


def everywhere(topology, count: int) -> bool:
    found = records(topology)
    return len(found) == len(topology.clusters) and set(found.values()) == {count}


def records(topology) -> dict[str, int]:
    return {holding.cluster: holding.records for holding in survey(topology, 500) if holding.store}


def test_a_target_that_stands_still_delays_no_other_link_and_takes_bounded_memory(
    topology_file, request, wait_until
):
    changed(topology_file, 3)
    up = request.getfixturevalue("up")
    topology = load(topology_file)
    wait_until(lambda: len(records(topology)) == 3, "all stores answer")
    publish(topology, 100)
    wait_until(lambda: everywhere(topology, 100), "records are everywhere")
    # One process has both of its links.
    distributor = process_of(up, "distributor run", "--cluster c1")
    stopped = process_of(up, "dafka store", "/c3")
    before = own_bytes(distributor)
    os.kill(stopped, signal.SIGSTOP)
    try:
        publish(topology, 150_000)
        wait_until(lambda: records(topology).get("c2") == 150_100, "all of it is at the other")
        grown = own_bytes(distributor) - before
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert "c3" not in records(topology) or records(topology)["c3"] < 150_100
    # 150 MB were sent. Of what is under way a link has the original and the copy with its flags.
    assert grown < 2 * LINK_BYTES_MAX + 2 * REORDER_BYTES_MAX, grown
    wait_until(lambda: everywhere(topology, 150_100), "the slow one, too")
    found = verify(topology, deep=True)
    assert found.equal, found.problems


def test_a_link_with_a_bounded_rate_sends_no_faster(topology_file, request, wait_until):
    changed(topology_file, 2, links={"bytes_per_s": 262_144})
    request.getfixturevalue("up")
    topology = load(topology_file)
    wait_until(lambda: len(records(topology)) == 2, "all stores answer")
    publish(topology, 1)
    wait_until(lambda: everywhere(topology, 1), "the link works")
    began = time.monotonic()
    publish(topology, 1_200)
    wait_until(lambda: everywhere(topology, 1_201), "all of it is there")
    # At once it may send what it has room for, 256 KiB, and a burst of a quarter of a second.
    assert time.monotonic() - began > (1_200_000 - 262_144) / 262_144 - 0.5


def test_a_link_carries_a_thousand_topics_with_ten_partitions_each(
    topology_file, request, wait_until
):
    changed(topology_file, 2)
    topology = load(topology_file)
    builder = BatchBuilder(BATCH_BYTES)
    builder.append(1, None, b"value", ())
    content = enclosed(builder.build(), 0)
    log = LmdbLog(topology.clusters[0].stores[0].data, durability=Durability.OS)
    log.append(
        [
            Batch(Partition(f"topic-{topic}", f"{address:032X}"), 0, 1, content)
            for topic in range(1_000)
            for address in range(10)
        ]
    )
    log.close()
    request.getfixturevalue("up")
    wait_until(lambda: everywhere(topology, 10_000), "all partitions are there")
    found = verify(topology)
    assert (found.equal, found.partitions) == (True, 10_000), found.problems
