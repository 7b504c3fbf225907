"""Links in shares, a process each: one is killed, their number changes, a second one comes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dafka.model import range_of, slot_of
from dafka.records.batch import is_compressed
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.survey import survey
from distributor.verify.compare import verify
from tests.processes.conftest import run_distributor
from tests.support.topologies import changed
from topology import load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.net, pytest.mark.slow]

HALVES = {"shares": 2}
QUARTERS = {"shares": 4, "compression": "zstd"}


@pytest.fixture
def pair(topology_file, request, wait_until):
    """The file of two clusters, up, whose links are in two shares."""
    changed(topology_file, 2, links=HALVES)
    up = request.getfixturevalue("up")
    topology = load(topology_file)
    wait_until(lambda: all(one.store for one in survey(topology, 500)), "all stores answer")
    return topology_file, up


def links_of(file: Path) -> tuple[dict[str, str], list[str]]:
    """What each link says, by its source; and what is not as it should be."""
    _, told, _ = run_distributor("links", file, "--json")
    found = json.loads(told)
    return {row["source"]: row["state"] for row in found["links"]}, found["unreachable"]


def in_each_quarter(traffic_at, tower: str) -> list:
    """Traffic of producers of which each of four shares has one."""
    loads, quarters = [], set()
    while len(quarters) < 4:
        loads.append(traffic_at(tower))
        quarters.add(range_of(slot_of(loads[-1].address), 4))
    return loads


def there(topology, count: int) -> bool:
    """Whether the second cluster has so many."""
    return next(one.records for one in survey(topology, 500) if one.cluster == "c2") >= count


def test_shares_die_and_become_more_and_nothing_is_lost_or_twice(
    pair, tmp_path, wait_until, traffic_at
):
    file, up = pair
    topology = load(file)
    loads = in_each_quarter(traffic_at, topology.clusters[0].towers[0])

    def flows(what: str) -> None:
        """All that was sent by now comes."""
        sent = sum(one.sent for one in loads)
        wait_until(lambda: there(topology, sent), what)

    flows("both halves copy")
    wait_until(lambda: links_of(file) == ({"c1": "serving", "c2": "serving"}, []), "links serve")
    up.kill_one("distributor run", "--cluster c1", "--share 1/2")
    flows("the killed one is back")

    quarters = tmp_path / "quarters.yaml"
    quarters.write_text(file.read_text())
    changed(quarters, 2, links=QUARTERS)
    code, told, complaint = run_distributor(
        "apply", quarters, "--logs", tmp_path / "logs", "--json"
    )
    assert code == 0, complaint
    assert json.loads(told)["applied"]
    wait_until(
        lambda: sum("--share" in one and "/4" in one for one in up.children()) == 8, "quarters run"
    )
    assert not [command for command in up.children() if "/2" in command and "--share" in command]
    flows("quarters copy")
    up.kill_one("distributor run", "--cluster c1", "--share 3/4")
    flows("the killed quarter is back")
    wait_until(lambda: links_of(file) == ({"c1": "serving", "c2": "serving"}, []), "links serve")
    for load_ in loads:
        load_.finish()
    sent = sum(one.sent for one in loads)
    wait_until(lambda: there(topology, sent), "all of it is there")
    found = verify(topology, deep=True)
    assert found.equal, found.problems
    assert set(found.clusters.values()) == {sent}
    assert up.stop() == 0
    assert compressed(tmp_path / "c2")
    assert not compressed(tmp_path / "c1")


def compressed(data: Path) -> bool:
    """Whether a store's log has compressed batches."""
    log = LmdbLog(data, durability=Durability.OS)
    batches = [
        batch for one, head in log.heads().items() for batch in log.read(one, 0, head + 1, 1 << 30)
    ]
    log.close()
    return any(is_compressed(batch.content) for batch in batches)


def test_a_second_process_of_a_share_takes_its_place_until_it_ends(pair, tmp_path, wait_until):
    file, _ = pair
    wait_until(lambda: links_of(file) == ({"c1": "serving", "c2": "serving"}, []), "links serve")
    mine = ("--cluster", "c1", "--level", "1", "--share", "0/2")
    code, _, complaint = run_distributor("run", "--topology", file, *mine)
    assert code == 2
    assert "cannot open control socket" in complaint, "on this machine it is refused"
    # On another machine it would have sockets of its own.
    elsewhere = tmp_path / "b"  # short: a socket's path has at most 107 bytes
    elsewhere.mkdir()
    stray = elsewhere / "topology.yaml"
    stray.write_text(file.read_text())
    command = [sys.executable, "-m", "distributor", "run", "--topology", stray, *mine]
    said = tmp_path / "said.txt"
    with said.open("wb") as output, subprocess.Popen(command, stderr=output) as second:
        wait_until(
            lambda: links_of(file)[0]["c1"] == "superseded",
            "the first one makes way",
            evidence=said.read_text,
        )
        assert links_of(stray)[0]["c1"] == "unwritten", "of the other share it knows nothing"
        _, told, _ = run_distributor("doctor", file)
        assert "the end of another process that was started later" in " ".join(told.split())
        second.send_signal(signal.SIGKILL)
    wait_until(lambda: links_of(file)[0]["c1"] == "serving", "the first one writes again")
