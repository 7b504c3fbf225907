"""Makes the picture of the dashboard that stands in the README: `make screenshot`.

Four clusters run under load, on ports of their own, until the page has something to show.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.node.producer import Producer
from distributor.dashboard.server import Dashboard
from distributor.loading import load
from distributor.local.processes import processes_of
from distributor.local.supervisor import Supervisor
from distributor.testing.browser import PATIENCE_MS, browser
from topology import plan

if TYPE_CHECKING:
    from topology import Plan, Topology

WARM_UP_MS = 45_000
"""So that the curves have a shape; the page keeps two minutes of them."""

RATES = (200, 500, 300, 800)
"""Records a second on each cluster in turn: the picture shall not look all the same."""


def take(file: Path, picture: Path, warm_up_ms: int = WARM_UP_MS) -> None:
    """Run the topology in `file` under load and save a picture of its dashboard."""
    the_plan = plan(load(file))
    processes = processes_of(the_plan, file.resolve())
    with TemporaryDirectory() as logs:
        supervisor = Supervisor(processes, Path(logs))
        supervisor.start()
        try:
            with Dashboard(the_plan, processes, "127.0.0.1:0") as dashboard:
                _under_load(the_plan, dashboard.url, picture, warm_up_ms)
        finally:
            supervisor.stop()


def _under_load(the_plan: Plan, url: str, picture: Path, warm_up_ms: int) -> None:
    done = Event()
    load_thread = Thread(target=_publish, args=(the_plan.topology, done), daemon=True)
    load_thread.start()
    try:
        with browser() as opened:
            view = opened.new_page(
                viewport={"width": 1_120, "height": 800}, reduced_motion="reduce"
            )
            view.set_default_timeout(PATIENCE_MS)
            view.goto(url)
            view.wait_for_selector("#summary[data-state=ok]")
            view.get_by_role("button", name="Compare all clusters").click()
            view.wait_for_timeout(warm_up_ms)
            view.locator(".cluster").first.click()
            view.wait_for_selector(".hop", state="attached")
            view.screenshot(path=picture, full_page=True)
    finally:
        done.set()
        load_thread.join()


def _publish(topology: Topology, done: Event) -> None:
    producers = [Producer(Cluster.declared(cluster)) for cluster in topology.clusters]
    turn = 0
    while not done.wait(0.1):
        turn += 1
        for number, producer in enumerate(producers):
            records = RATES[number % len(RATES)] * (10 + turn % 40) // 200
            for record in range(records):
                producer.send(("flights", "weather")[record % 2], b"%d" % record, key=b"key")
    for producer in producers:
        producer.close()


def main() -> None:
    """Run from the command line."""
    parser = ArgumentParser(description="Take a picture of the dashboard of a topology.")
    parser.add_argument("file", type=Path)
    parser.add_argument("picture", type=Path)
    words = parser.parse_args(sys.argv[1:])
    take(words.file, words.picture)


if __name__ == "__main__":
    main()
