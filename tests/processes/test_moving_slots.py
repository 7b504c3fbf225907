"""Slots of two stores are shared with two new ones under load, by `distributor apply`; kill -9."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress

import pytest

from dafka.errors import QueryError
from dafka.model import Slots, slot_of
from dafka.query.client import StoreClient
from dafka.query.slot_steps import part_of
from distributor.operations.slots import moving_slots
from distributor.survey import survey
from distributor.verify.compare import verify
from tests.processes.conftest import run_distributor
from topology import load

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture
def topology_file(declared_shares):
    return declared_shares("topology", "0-2047", "2048-4095")


def keeps_some(store):
    """Whether a store keeps slots by now."""
    with StoreClient(store.query) as client, suppress(QueryError):
        return client.health().slots != part_of(Slots(0))
    return False


def test_kill_9_while_slots_move_loses_nothing_and_what_is_begun_again_ends(
    up, topology_file, declared_shares, tmp_path, wait_until, traffic_at
):
    wanted = declared_shares("four", "0-1023", "2048-3071", "1024-2047", "3072-4095")
    before, after = load(topology_file), load(wanted)
    shared = after.clusters[0]
    wait_until(lambda: all(one.store for one in survey(before, 300)), "all stores answer")
    traffic = [traffic_at(shared.towers[0]) for _ in range(12)]
    wait_until(lambda: min(one.sent for one in traffic) > 100, "there is something to move")
    words = ["apply", str(wanted), "--logs", str(tmp_path / "logs")]
    first = subprocess.Popen([sys.executable, "-m", "distributor", *words])
    wait_until(lambda: any("c1-3 " in command for command in up.children()), "new stores start")
    first.kill()
    first.wait()
    for name in ("c1-2 ", "c1-0 "):
        up.kill_one("dafka store", name)
    wait_until(lambda: moving_slots(shared), "it is seen that slots move")

    second = subprocess.Popen([sys.executable, "-m", "distributor", *words])
    wait_until(lambda: keeps_some(shared.stores[3]), "it keeps what it has joined")
    for name in ("c1-1 ", "c1-3 "):
        up.kill_one("dafka store", name)
    second.kill()
    second.wait()
    code, told, complaint = run_distributor(*words, "--json")
    assert code == 0, complaint
    assert json.loads(told)["applied"]
    assert moving_slots(shared) == []

    for thread in traffic:
        thread.finish()
    sent = {thread.address: thread.sent - 1 for thread in traffic}

    def heads():
        return [
            {one.address: head for one, head in held.heads.items() if one.topic == "orders"}
            for held in survey(after)
        ]

    wait_until(
        lambda: heads() == [sent, sent],
        "all is on both clusters",
        evidence=lambda: up.log("c1-level-1"),
    )
    verdict = verify(after, deep=True, settle_s=30)
    assert verdict.equal, verdict
    for store in shared.stores:
        slots = Slots.of(store.slots)
        with StoreClient(store.query) as client:
            client.part = client.health().slots
            own = {one.address for one in client.partitions("orders")}
        assert own == {address for address in sent if slots.has(slot_of(address))}
    assert up.stop() == 0
