"""What `topology deploy` starts, started here: each process at an address of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request

import pytest

from dafka import Producer
from distributor.loading import load
from tests.processes.conftest import orders_at, wait_until
from topology.deployment import CONFIG, placed
from topology.kubernetes import METRICS_PORT, at_pod
from topology.processes import ProcessKind

pytestmark = [pytest.mark.net, pytest.mark.slow]

CLUSTER = """
  - name: c{number}
    id: {number}
    host: 127.0.{number}.1
    towers: ["tcp://127.0.{number}.2:{port}"]
    stores: [{{query: "tcp://127.0.{number}.3:{port}", data: "{directory}/c{number}/store"}}]
"""


def test_pods_find_each_other_and_copy(tmp_path, first_port):
    clusters = "".join(
        CLUSTER.format(number=number, port=first_port, directory=tmp_path) for number in (1, 2)
    )
    file = tmp_path / "topology.yaml"
    tree = "{level: 1, children: [c1, c2]}"
    file.write_text(f"version: 1\nname: pods\nclusters:{clusters}\ntree: {tree}\n")
    topology = load(file)
    found = placed(topology, lambda *_: f"0.0.0.0:{METRICS_PORT}")
    assert len(found) == 6
    running, pages = [], []
    try:
        for number, one in enumerate(found):
            listens = one.kind is not ProcessKind.DISTRIBUTOR
            address = one.host if listens else f"127.0.{number}.4"
            pages.append(f"http://{address}:{METRICS_PORT}/ready")
            words = [
                word.replace("$(POD_IP)", address)
                .replace(CONFIG, str(tmp_path))
                .replace("0.0.0.0:", f"{address}:")
                for word in at_pod(one)
            ]
            with (tmp_path / f"{one.name}.log").open("wb") as output:
                running.append(
                    subprocess.Popen(
                        [sys.executable, "-m", *words],
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        cwd=tmp_path,
                        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                    )
                )
        with Producer(f"tcp://127.0.1.2:{first_port}") as producer:
            producer.send_many("orders", [b"x"] * 500)
            producer.flush(60)
        wait_until(lambda: sum(orders_at(topology, "c2").values()) == 500, "all on c2")
        wait_until(lambda: all(map(is_ready, pages)), "all are ready")
    finally:
        # Who asks ends before who answers: a link that waits for a store is cut short after 5 s.
        links_first = sorted(
            zip(found, running, strict=False),
            key=lambda one: one[0].kind is not ProcessKind.DISTRIBUTOR,
        )
        codes = []
        for _, process in links_first:
            process.terminate()
            codes.append(process.wait(60))
    assert codes == [0] * 6


def is_ready(page):
    try:
        with urllib.request.urlopen(page, timeout=60) as answer:
            return answer.status == 200
    except OSError:
        return False
