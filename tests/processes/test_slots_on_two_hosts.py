"""Slots move from a store on one host to a new one on another, `apply` on both; under load.

Hosts are two directories and two addresses of loopback; their processes no `up` runs.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dafka.model import Slots, slot_of
from dafka.query.client import StoreClient
from distributor.operations.slots import moving_slots
from distributor.survey import survey
from topology import load, plan
from topology.model import host_and_port
from topology.processes import ProcessKind, processes_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.net, pytest.mark.slow]

HERE, THERE = "127.0.0.1", "127.0.0.2"

FILE = """
version: 1
name: hosts
clusters:
  - name: c1
    id: 1
    towers: ["tcp://127.0.0.1:{port}"]
    stores:
{stores}
tree: c1
"""

STORE = '      - {{query: "tcp://{host}:{query}", data: "store-{number}", slots: "{slots}"}}'


@pytest.fixture
def declared(tmp_path, first_port):
    """A function that writes a file with stores, each given by its host and slots."""

    def declared(name, *stores):
        entries = "\n".join(
            STORE.format(host=host, query=first_port + 2 + number, number=number, slots=slots)
            for number, (host, slots) in enumerate(stores)
        )
        file = tmp_path / f"{name}.yaml"
        file.write_text(FILE.format(port=first_port, stores=entries))
        return file

    return declared


class Hosts:
    """Processes of two hosts, each in the directory of its own."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def directory(self, host: str) -> Path:
        """Where a host's processes run."""
        found = self._place / host
        found.mkdir(exist_ok=True)
        return found

    def start(self, file: Path, host: str) -> None:
        """Start anew what a file has on a host, and end what it has there no more."""
        self.stop(host)
        for process in processes_of(plan(load(file)), file):
            words = process.command
            own = "--host" in words and words[words.index("--host") + 1]
            if (own or HERE) == host and process.kind in (ProcessKind.TOWER, ProcessKind.STORE):
                with (self._place / f"{process.name}.log").open("ab") as output:
                    self._running[f"{host} {process.name}"] = subprocess.Popen(
                        [sys.executable, "-m", *words], cwd=self.directory(host), stderr=output
                    )

    def stop(self, host: str = "") -> None:
        """End what runs on a host, or on all."""
        ended = {name: one for name, one in self._running.items() if name.startswith(host)}
        for name, one in ended.items():
            one.terminate()
            assert one.wait(120) in (0, -15), name
            del self._running[name]


class Applying:
    """`distributor apply` on a host."""

    def __init__(self, hosts: Hosts, host: str, running: Path, file: Path) -> None:
        words = ["apply", str(file), "--host", host, "--running", str(running)]
        self._told = hosts.directory(host) / "apply.log"
        with self._told.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "distributor", *words, "--patience-s", "300"],
                cwd=hosts.directory(host),
                stdout=output,
                stderr=output,
            )

    def told(self) -> str:
        """What it has said."""
        return self._told.read_text()

    def wait(self) -> int:
        """Its exit code."""
        return self._process.wait(400)

    def end(self) -> None:
        """Whatever it does."""
        self._process.kill()
        self._process.wait(10)


@pytest.fixture
def hosts(tmp_path):
    running = Hosts(tmp_path)
    yield running
    running.stop()


def own_addresses(store):
    with StoreClient(store.query) as client:
        client.part = client.health().slots
        return {one.address for one in client.partitions("orders")}


def test_apply_on_each_host_moves_slots_to_the_other_and_says_whom_it_waits_for(
    hosts, declared, wait_until, traffic_at
):
    running = declared("running", (HERE, "0-4095"))
    wanted = declared("wanted", (HERE, "0-2047"), (THERE, "2048-4095"))
    before, after = load(running), load(wanted)
    (old, new), shared = after.clusters[0].stores, after.clusters[0]
    assert host_and_port(new.query)[0] == THERE
    hosts.start(running, HERE)
    wait_until(lambda: survey(before, 300)[0].store, "the store answers")
    traffic = [traffic_at(shared.towers[0]) for _ in range(8)]
    wait_until(lambda: min(one.sent for one in traffic) > 50, "there is something to move")

    first = Applying(hosts, HERE, running, wanted)
    try:
        wait_until(lambda: f"on {THERE} run" in first.told(), "it says for whom it waits")
        assert f"{old.query} to be started with slots 0-2047 (start it here as" in first.told()
        assert "s of 300)" in first.told()
        hosts.start(wanted, HERE)  # in any order: it goes on keeping all
        second = Applying(hosts, THERE, running, wanted)
        try:
            marked = hosts.directory(THERE) / "store-1" / "data.mdb"
            wait_until(marked.exists, "the new disk is told to join")
            wait_until(lambda: f"{new.query}" in second.told(), "it says what to start here")
            hosts.start(wanted, THERE)
            assert (first.wait(), second.wait()) == (0, 0), first.told() + second.told()
        finally:
            second.end()
    finally:
        first.end()
    assert moving_slots(shared) == []

    for thread in traffic:
        thread.finish()
    sent = {thread.address: thread.sent - 1 for thread in traffic}

    def heads():
        (held,) = survey(after)
        return {one.address: head for one, head in held.heads.items()}

    wait_until(lambda: heads() == sent, "all is there")
    for store in shared.stores:
        slots = Slots.of(store.slots)
        assert own_addresses(store) == {one for one in sent if slots.has(slot_of(one))}
