"""`distributor up` on clusters with keys: made by the documented commands, records are copied."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zmq

from dafka.errors import NotStoredError, QueryError
from dafka.node.producer import Producer
from dafka.query.client import StoreClient
from dafka.transport.keys import load_credentials

pytestmark = [pytest.mark.net, pytest.mark.slow]

DOCUMENT = (Path(__file__).parent.parent.parent / "docs/security.md").read_text()
SECURITY = re.search(r"security: \{.*\}", DOCUMENT)[0]
"""What the document says to write into a topology."""


def dafka(directory, *words, given=b""):
    return subprocess.run(
        [sys.executable, "-m", "dafka", *words],
        cwd=directory,
        input=given,
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.fixture
def topology_file(topology_file, tmp_path):
    """The four clusters, with keys that they share."""
    assert zmq.has("curve")
    for name, *rules in (
        ("cluster",),
        ("distributor", "--read", "*", "--write", "*", "--mirror", "*"),
        ("shop", "--read", "orders*", "--write", "orders*"),
    ):
        made = dafka(tmp_path, "keys", name, *rules)
        assert made.returncode == 0, made.stderr
    text = topology_file.read_text()
    topology_file.write_text(re.sub(r"(\n    towers:)", f"\n    {SECURITY}\\1", text))
    return topology_file


def endpoints(file, cluster):
    found = re.findall(r"tcp://127\.0\.0\.1:\d+", file.read_text())
    tower, query = found[2 * cluster - 2 : 2 * cluster]
    return tower, query


def test_records_are_copied_between_clusters_with_keys(up, topology_file, tmp_path, wait_until):
    keys = tmp_path / "keys"
    shop = load_credentials(keys / "access.toml", keys / "shop.secret")
    (tower, query), others = endpoints(topology_file, 1), range(2, 5)
    own = ("--access", "keys/access.toml", "--key", "keys/shop.secret")
    produced = dafka(tmp_path, "produce", "orders", "--tower", tower, *own, given=b"1\n2\n3\n")
    assert produced.returncode == 0, produced.stderr

    def heads(endpoint):
        with StoreClient(endpoint, 1_000, shop) as client:
            try:
                return sorted(client.heads("orders").items())
            except QueryError:
                return []

    def everywhere():
        first = heads(query)
        return first and all(heads(endpoints(topology_file, other)[1]) == first for other in others)

    wait_until(everywhere, "three records on every cluster")
    tower_4, query_4 = endpoints(topology_file, 4)
    consumed = dafka(
        tmp_path, "consume", "orders", "--tower", tower_4, *own, "--from-beginning", "--max", "3"
    )
    assert consumed.stdout == b"1\n2\n3\n"
    peeked = dafka(tmp_path, "peek", "orders", "--store", query_4, *own, "--json")
    assert peeked.stdout.count(b"\n") == 3, peeked.stderr
    refused = dafka(tmp_path, "topics", "--store", query_4, *own)
    assert (refused.returncode, b"not permitted" in refused.stderr) == (1, True)
    status = subprocess.run(
        [sys.executable, "-m", "distributor", "verify", str(topology_file)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert status.returncode == 0, status.stdout + status.stderr

    stranger = Producer(tower)
    stranger.send("orders", b"4")
    with pytest.raises(NotStoredError):
        stranger.close(1.0)
    assert up.stop() == 0


def test_the_documents_commands_run_as_they_stand(tmp_path, free_ports):
    block = re.search(r"## In five commands\n\n```console\n(.*?)```", DOCUMENT, re.DOTALL)[1]
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    first = free_ports(3)
    options = f" --tower tcp://127.0.0.1:{first}"
    scripts = {
        "dafka tower": f" --endpoint tcp://127.0.0.1:{first}",
        "dafka store": options + f" --query tcp://127.0.0.1:{first + 2}",
        "seq 5": options,
    }
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dafka").write_text(f'#!/bin/sh\nexec {sys.executable} -m dafka "$@"\n')
    (tmp_path / "bin/dafka").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    servers = []
    try:
        for line in lines:
            command = line + next((to for word, to in scripts.items() if line.startswith(word)), "")
            settings = {"shell": True, "cwd": tmp_path, "env": environment}
            if line.startswith(("dafka tower", "dafka store")):
                servers.append(
                    subprocess.Popen(f"exec {command}", stderr=subprocess.PIPE, **settings)
                )
                assert b"is up" in servers[-1].stderr.readline()
            else:
                done = subprocess.run(
                    command, capture_output=True, check=False, timeout=60, **settings
                )
                assert done.returncode == 0, done.stderr
    finally:
        for server in servers[::-1]:
            server.terminate()
            server.communicate(timeout=120)
    assert len(servers) == 2
    assert done.stderr == b"5 records stored\n"
