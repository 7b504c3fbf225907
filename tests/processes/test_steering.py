"""Links of real processes that are aimed elsewhere: by the operator, and by a target's silence."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from distributor.survey import survey
from distributor.verify.compare import verify
from topology import load

pytestmark = [pytest.mark.net, pytest.mark.slow]


def distributor(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "distributor", *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def links(file) -> dict[tuple[str, int], dict[str, object]]:
    found = distributor("links", str(file), "--json")
    return {(row["source"], row["level"]): row for row in json.loads(found.stdout)["links"]}


def targets(file) -> dict[tuple[str, int], object]:
    return {link: row["target"] for link, row in links(file).items()}


def test_a_target_that_takes_nothing_is_left_though_its_stores_answer(
    up, topology_file, wait_until, traffic_at
):
    topology = load(topology_file)
    wait_until(lambda: all(h.store for h in survey(topology, 500)), "all stores answer")
    traffic = traffic_at(topology.clusters[0].towers[0])
    wait_until(lambda: all(h.records for h in survey(topology)), "records are everywhere")
    assert targets(topology_file)["c1", 3] == "c3"

    store = up.pid_of("dafka store", topology.clusters[2].stores[0].query)
    _, hard = resource.prlimit(store, resource.RLIMIT_FSIZE)
    resource.prlimit(store, resource.RLIMIT_FSIZE, (0, hard))  # as a full disk refuses
    try:
        wait_until(lambda: targets(topology_file)["c1", 3] == "c4", "c3 is left")
        before = traffic.sent
        wait_until(
            lambda: next(h.records for h in survey(topology) if h.cluster == "c4") > before,
            "c4 gets what is sent meanwhile",
        )
    finally:
        resource.prlimit(store, resource.RLIMIT_FSIZE, (hard, hard))

    # A distributor that is started anew aims at c3 first, of which it finds no node.
    tower = up.pid_of("dafka tower", topology.clusters[2].towers[0])
    os.kill(tower, signal.SIGSTOP)
    try:
        os.kill(up.pid_of("distributor", "--cluster c1", "--level 3"), signal.SIGKILL)

        def has_left() -> bool:
            row = links(topology_file).get(("c1", 3), {})
            return (row.get("target"), row.get("switches")) == ("c4", 1)

        wait_until(
            has_left,
            "c3 is left again",
            evidence=lambda: (
                distributor("status", str(topology_file)).stdout + up.log("c1-level-3")
            ),
        )
    finally:
        os.kill(tower, signal.SIGCONT)
    traffic.finish()
    everything = {f"c{number}": traffic.sent for number in range(1, 5)}
    wait_until(lambda: verify(topology, settle_s=0).clusters == everything, "all have all")
    assert verify(topology, deep=True).equal
    assert up.stop() == 0


def test_links_are_aimed_elsewhere_under_load_and_nothing_is_lost_or_repeated(
    up, topology_file, wait_until, traffic_at
):
    topology = load(topology_file)
    wait_until(lambda: all(h.store for h in survey(topology, 500)), "all stores answer")
    traffic = traffic_at(topology.clusters[0].towers[0])
    wait_until(lambda: all(h.records for h in survey(topology)), "records are everywhere")
    flowing = verify(topology, deep=True)
    assert flowing.equal, flowing.problems

    told = distributor(
        "retarget", str(topology_file), *("--cluster", "c1", "--level", "3", "--to", "c4", "--json")
    )
    assert told.returncode == 0, told.stderr
    row = json.loads(told.stdout)
    assert (row["target"], row["switches"]) == ("c4", 1)
    assert row["stall_ms"] >= 0
    assert targets(topology_file)["c1", 3] == "c4"

    # Frozen, the store of the new target gives no sign of life, and comes back with its log.
    (frozen,) = [
        pid
        for command, pid in up.children().items()
        if "store" in command and topology.clusters[3].stores[0].query in command
    ]
    os.kill(frozen, signal.SIGSTOP)
    try:
        wait_until(lambda: targets(topology_file)["c1", 3] == "c3", "c4 is left")
        lost = distributor("lost", str(topology_file), "--cluster", "c4", "--json")
        assert lost.returncode == 0, lost.stderr
        found = json.loads(lost.stdout)
        assert (found["told"], found["untold"]) == (6, [])
        assert found["age_s"] is not None
        assert found["gone"] == [], "c4 had nothing that only it had"
    finally:
        os.kill(frozen, signal.SIGCONT)
    traffic.finish()
    everything = {f"c{number}": traffic.sent for number in range(1, 5)}
    wait_until(lambda: verify(topology, settle_s=0).clusters == everything, "all have all")
    assert verify(topology, deep=True).equal
    assert up.stop() == 0
