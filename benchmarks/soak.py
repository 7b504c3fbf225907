"""`python -m benchmarks.soak`: hours at half rate; memory must stay where it is."""

from __future__ import annotations

import argparse
import statistics
import time

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.harness import Worker
from benchmarks.publisher import publish_steady
from benchmarks.system import FOUR, system

SAMPLE_S = 5.0
MIB = 1024 * 1024

KEEP = "retention: [{topics: '*', bytes: 200000000}]"
"""Bytes of a topic that stores keep: minutes of traffic would fill the disk."""


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long")
    parser.add_argument("--rate", type=int, default=100_000, help="records of 100 B a second")
    arguments = parser.parse_args()
    seconds = arguments.minutes * 60
    samples: dict[str, list[int]] = {}
    with system(FOUR, KEEP) as four:
        names = [cluster.name for cluster in four.topology.clusters]
        producers = [
            Worker(publish_steady, four.tower(name), arguments.rate // len(names), seconds)
            for name in names
        ]
        with Progress(console=Console(stderr=True), transient=True) as bar:
            for _ in bar.track(range(int(seconds / SAMPLE_S)), description="soaking"):
                time.sleep(SAMPLE_S)
                for name, size in four.own_bytes().items():
                    samples.setdefault(name, []).append(size)
        for producer in producers:
            producer.end()
        records = four.records()
    Console().print(report(samples))
    Console().print(f"records at each cluster: {', '.join(f'{count:,}' for count in records)}")


def report(samples: dict[str, list[int]]) -> Table:
    """Memory in the second quarter and in the last, in MiB."""
    table = Table("process", title="resident memory without mapped files, MiB")
    for column in ("second quarter", "last quarter", "change"):
        table.add_column(column, justify="right")
    for name, sizes in samples.items():
        quarter = max(1, len(sizes) // 4)
        early = statistics.median(sizes[quarter : 2 * quarter] or sizes)
        late = statistics.median(sizes[-quarter:])
        table.add_row(
            name, f"{early / MIB:.1f}", f"{late / MIB:.1f}", f"{(late - early) / early:+.1%}"
        )
    return table


if __name__ == "__main__":
    main()
