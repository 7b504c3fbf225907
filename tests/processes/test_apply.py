"""A topology of real processes that changes under load: clusters and stores come and go."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from distributor.survey import survey
from distributor.verify.compare import verify
from topology import load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.net, pytest.mark.slow]

RIGHT = "    - {level: 1, children: [c3, c4]}\n"
GROWN = "    - {level: 2, children: [{level: 1, children: [c3, c4]}, c5]}\n"
SHRUNK = "    - {level: 2, children: [c4, c5]}\n"


@pytest.fixture
def topology_file(topology_file):
    """Without metrics: another cluster would need more ports than there are."""
    lines = topology_file.read_text().splitlines(keepends=True)
    topology_file.write_text("".join(line for line in lines if not line.startswith("metrics:")))
    return topology_file


def apply(file: Path, logs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "distributor", "apply", str(file), "--logs", str(logs), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired as late:
        said = (late.stderr or b"").decode().splitlines()
        raise AssertionError("\n".join(said[-20:])) from late


def with_fifth(text: str, tmp_path: Path, port: int) -> str:
    cluster = f"""  - name: c5
    id: 5
    towers: [tcp://127.0.0.1:{port}]
    stores: [{{query: "tcp://127.0.0.1:{port + 2}", data: "{tmp_path / "c5"}"}}]
"""
    return text.replace("tree:\n", cluster + "tree:\n").replace(RIGHT, GROWN)


def with_another_store(text: str, tmp_path: Path, port: int) -> str:
    first = f'data: "{tmp_path / "c1"}"}}'
    assert first in text
    other = f'{{query: "tcp://127.0.0.1:{port}", data: "{tmp_path / "c1-new"}"}}'
    return text.replace(first, f"{first}, {other}")


def without_first_store(text: str, tmp_path: Path) -> str:
    begin = text.index("[{", text.index("id: 1\n")) + 1
    end = text.index("}, ", begin) + len("}, ")
    assert f'"{tmp_path / "c1"}"' in text[begin:end]
    return text[:begin] + text[end:]


def without_third(text: str) -> str:
    begin, end = text.index("  - name: c3\n"), text.index("  - name: c4\n")
    return (text[:begin] + text[end:]).replace(GROWN, SHRUNK)


def test_clusters_and_stores_with_history_come_and_go_while_records_flow(
    up, topology_file, tmp_path, wait_until, traffic_at
):
    topology, logs = load(topology_file), tmp_path / "logs"
    wait_until(lambda: all(h.store for h in survey(topology, 500)), "all stores answer")
    loads = [traffic_at(topology.clusters[index].towers[0]) for index in (0, 3)]
    wait_until(lambda: all(h.records for h in survey(topology)), "records are everywhere")

    grown = tmp_path / "grown.yaml"
    port = int(topology.clusters[3].towers[0].rpartition(":")[2]) + 10
    fifth = with_fifth(topology_file.read_text(), tmp_path, port)
    grown.write_text(with_another_store(fifth, tmp_path, port + 3))
    told = apply(grown, logs, "--json")
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert (answer["applied"], [step["action"] for step in answer["steps"]]) == (
        True,
        ["switch", "fill"],
    )
    assert topology_file.read_text() == grown.read_text()
    assert json.loads(apply(grown, logs, "--json").stdout)["steps"] == []

    relabelled = tmp_path / "relabelled.yaml"
    relabelled.write_text(grown.read_text().replace("  level: 3", "  level: 4"))
    refused = apply(relabelled, logs)
    assert refused.returncode == 1
    assert "relabel: the branch over" in refused.stderr

    shrunk = tmp_path / "shrunk.yaml"
    shrunk.write_text(without_first_store(without_third(grown.read_text()), tmp_path))
    told = apply(shrunk, logs, "--json")
    assert told.returncode == 0, told.stderr
    actions = [step["action"] for step in json.loads(told.stdout)["steps"]]
    assert actions == ["retarget", "retarget", "retarget", "silence", "drain", "switch", "move"]
    for traffic in loads:
        traffic.finish()
    left = load(topology_file)
    assert [cluster.name for cluster in left.clusters] == ["c1", "c2", "c4", "c5"]
    sent = sum(traffic.sent for traffic in loads)
    wait_until(lambda: set(verify(left, settle_s=1).clusters.values()) == {sent}, "all have all")
    assert verify(left, deep=True).equal
    words = {word for command in up.children() for word in command.split()}
    assert str(tmp_path / "c1-new") in words
    for gone in ("c1", "c3"):
        assert (tmp_path / gone).is_dir(), "nothing is deleted"
        assert str(tmp_path / gone) not in words
    assert up.stop() == 0
