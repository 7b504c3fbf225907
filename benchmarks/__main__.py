"""`python -m benchmarks`: run everything, print medians and ratios, write JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.baseline import file_append, raw_messages
from benchmarks.harness import Results
from benchmarks.pipeline import pipeline
from benchmarks.simulator import simulator
from benchmarks.storage import storage

SINGLE = "raw pyzmq, one record a message"
BULK = "raw pyzmq, 1,000 records a message"
FILE = "plain file, fdatasync"

GOALS = [
    ("send and iterate, 100 B", SINGLE, 1.2),
    ("send_many and batches, 100 B", SINGLE, 2.5),
    ("send and iterate, 100 B, late consumer", SINGLE, None),
    ("send_many and batches, 100 B, late consumer", SINGLE, 4.0),
    ("LMDB append, fsync", FILE, 0.6),
]
"""Quantity, baseline, and the ratio aimed at, if there is one."""


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of everything")
    parser.add_argument("--records", type=int, default=500_000, help="records of a repetition")
    parser.add_argument("--output", type=Path, help="write all figures here as JSON")
    arguments = parser.parse_args()
    results = Results()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        for _ in bar.track(range(arguments.repeat), description="measuring"):
            once(results, arguments.records)
    console = Console()
    console.print(figures(results))
    console.print(ratios(results))
    if arguments.output is not None:
        facts = {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "results": [series.as_json() for series in results],
        }
        arguments.output.write_text(json.dumps(facts, indent=2))


def once(results: Results, records: int) -> None:
    """One repetition: baselines and ours in turn, so that they share the machine's mood."""
    raw_messages(results, SINGLE, records, 1, 100)
    pipeline(results, "send and iterate, 100 B", records, 100, bulk=False)
    raw_messages(results, BULK, records * 4 // 1_000, 1_000, 100)
    pipeline(results, "send_many and batches, 100 B", records * 2, 100, bulk=True)
    pipeline(results, "send and iterate, 1 KB", records // 4, 1_000, bulk=False)
    size = storage(results, 500, 100)
    file_append(results, FILE, 500, size)
    simulator(results)


def figures(results: Results) -> Table:
    """Median and range of everything."""
    table = Table("quantity", title="measured")
    for column in ("median", "min", "max"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    for series in results:
        numbers = (series.median, min(series.values), max(series.values))
        form = "{:,.2f}" if series.unit.startswith("us") else "{:,.0f}"
        table.add_row(series.name, *(form.format(number) for number in numbers), series.unit)
    return table


def ratios(results: Results) -> Table:
    """What may be compared between machines: medians of ratios within each repetition."""
    table = Table("quantity", "baseline", title="ratios, measured in the same run")
    table.add_column("ratio", justify="right")
    table.add_column("goal", justify="right")
    for name, baseline, goal in GOALS:
        ratio = results.ratio(name, baseline)
        if ratio is not None:
            table.add_row(name, baseline, f"{ratio:.2f}", f"{goal:.1f}" if goal else "")
    return table


if __name__ == "__main__":
    main()
