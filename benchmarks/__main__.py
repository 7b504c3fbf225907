"""`python -m benchmarks`: measure, print medians and ratios, write JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import bare_logs
from benchmarks.baseline import raw_messages
from benchmarks.chain import plain_files
from benchmarks.compression import codecs, link
from benchmarks.control import replay
from benchmarks.coroutines import consume, produce
from benchmarks.growth import listening, opening, partitions
from benchmarks.harness import PROGRESS, Results
from benchmarks.hop import hop, tree
from benchmarks.kafka import OURS, PARTITIONS, PEER, SIZES, case_of, kafka
from benchmarks.latency import latency, ways
from benchmarks.loads import BARE, BARE_SHAPED, LOADS, RATES, PacedLoad
from benchmarks.middle import relay, writer
from benchmarks.pipeline import Ends, pipeline
from benchmarks.positions import positions
from benchmarks.same_shape import Freight, same_shape
from benchmarks.shares import catching_up, live
from benchmarks.simulator import simulator
from benchmarks.spark import MADE_UP, READ, spark
from benchmarks.spark_growth import spark_growth
from benchmarks.steps import steps
from benchmarks.storage import SHAPES, storage
from benchmarks.store_counts import store_costs
from benchmarks.stores import each_alone, sharing
from dafka.records.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

SINGLE = "raw pyzmq, one record a message"
BULK = "raw pyzmq, 1,000 records a message"
RELAY = "bare pyzmq passes on to two, 100 B"
RELAY_KB = "bare pyzmq passes on to two, 1 KB"
WRITER = "bare pyzmq into a plain file, fdatasync, 100 B"
FEW_DIGITS = 100

FLOWS = 5_000
"""As many as a controller may have to say to one replica."""

SHARED = "one link in {} shares, a slice of a core for each, 100 B"
LIVE = "one link in {} shares, live, 100 B"
LIVE_RATE, LIVE_S = 200_000, 15

STORES, ALL_KEEP_ALL = "stores that share slots: {}, 100 B", "stores that keep all: 2, 100 B"
EACH_ITS_CORE = "{}: with a core for each store"
STORE_GOAL = 0.85
"""Of what so many stores would take if each took as much as one alone."""

BATCHES, ONE_BY_ONE = "send_many and batches, 100 B", "send and iterate, 100 B"
COROUTINES, BESIDE = "{}, as coroutines", "{}, beside coroutines"

STORAGE_GOAL = 0.85

BYTES = {100: "100 B", 1_000: "1 KB"}
"""Sizes of which it is told what a byte costs."""

BULK_OF, SHAPED, RAW = "send_many and batches, ", "bare, same shape, ", "bare, raw, "
BYTE_GOALS = {"producer": 1.5, "store": 1.3, "consumer": 1.5}
"""CPU, in times of bare."""

IN_ONE, A_HOP = "latency in one cluster", "a hop adds"

FEW, MANY = "10 partitions, one hop", "10,000 partitions, one hop"

GOALS = [
    (ONE_BY_ONE, SINGLE, 1.2),
    (BATCHES, SINGLE, 2.5),
    ("send and iterate, 100 B, late consumer", SINGLE, None),
    ("send_many and batches, 100 B, late consumer", SINGLE, 4.0),
    (BATCHES, BULK, None),
    *(
        (
            f"{name}, {shape}",
            f"{bare_logs.FILE}, {shape}",
            STORAGE_GOAL if name == bare_logs.OURS else None,
        )
        for shape in SHAPES
        for name in bare_logs.BARE_LOGS
        if name != bare_logs.FILE
    ),
    ("send_many and batches, 100 B: CPU store", WRITER, None),
    ("one hop, 100 B: CPU distributor", RELAY, None),
    ("one hop, 1 KB: CPU distributor", RELAY_KB, None),
    *(
        (f"{IN_ONE}, {load}, p50", f"{bare}{IN_ONE}, {load}, p50", 1.5)
        for load in LOADS
        for bare in (BARE, BARE_SHAPED)
    ),
    *(
        (f"{A_HOP}, {load}, p50", f"{bare}{A_HOP}, {load}, p50", 2.0)
        for load in map(PacedLoad, RATES)
        for bare in (BARE, BARE_SHAPED)
    ),
    *(
        (f"{BULK_OF}{size}: CPU {what}", f"{bare}{size}: CPU {what}", goal)
        for size in BYTES.values()
        for what, goal in BYTE_GOALS.items()
        for bare in (SHAPED, RAW)
    ),
    *(
        (f"one hop, {size}: CPU distributor", f"{bare}{size}: CPU distributor", 1 / 0.75)
        for size in BYTES.values()
        for bare in (SHAPED, RAW)
    ),
    (MANY, FEW, 0.8),
    (SHARED.format(2), SHARED.format(1), None),
    (SHARED.format(4), SHARED.format(1), None),
    *(
        (
            EACH_ITS_CORE.format(STORES.format(number)),
            EACH_ITS_CORE.format(STORES.format(1)),
            STORE_GOAL * number,
        )
        for number in (2, 4)
    ),
    (ALL_KEEP_ALL, STORES.format(2), None),
    (READ, MADE_UP, 0.5),
    (COROUTINES.format(BATCHES), BESIDE.format(BATCHES), 0.7),
    (COROUTINES.format(ONE_BY_ONE), BESIDE.format(ONE_BY_ONE), None),
    *(
        (
            f"{OURS}: {what} {case_of(size, partitions)}",
            f"{PEER}: {what} {case_of(size, partitions)}",
            1.0,
        )
        for size, _ in SIZES
        for partitions in PARTITIONS
        for what in ("produce", "consume")
    ),
]
"""Quantity, baseline, and the ratio aimed at, if there is one."""


def _pipelines(results: Results, records: int) -> None:
    """Baselines and ours in turn, so that they share the machine's mood."""
    raw_messages(results, SINGLE, records, 1, 100)
    pipeline(results, ONE_BY_ONE, records, 100, bulk=False)
    raw_messages(results, BULK, records * 4 // 1_000, 1_000, 100)
    pipeline(results, BATCHES, records * 4, 100, bulk=True)
    writer(results, WRITER, records * 4 // 1_000, 1_000, 100)
    pipeline(results, "send and iterate, 1 KB", records // 4, 1_000, bulk=False)
    pipeline(results, "send_many and batches, 1 KB", records // 2, 1_000, bulk=True)


def _coroutines(results: Results, records: int) -> None:
    ends = Ends(produce, consume)
    for name, count, bulk in ((BATCHES, records * 4, True), (ONE_BY_ONE, records, False)):
        pipeline(results, BESIDE.format(name), count, 100, bulk=bulk)
        pipeline(results, COROUTINES.format(name), count, 100, bulk=bulk, ends=ends)


def _hops(results: Results, records: int) -> None:
    hop(results, "one hop, 100 B", records * 4, 100)
    relay(results, RELAY, records * 4 // 1_000, 1_000, 100)
    hop(results, "one hop, 1 KB", records // 2, 1_000)
    relay(results, RELAY_KB, records // 2 // 100, 100, 1_000)
    tree(results, "four clusters, 100 B", records * 2, 100)


def _shares(results: Results, records: int) -> None:
    for of in (1, 2, 4):
        catching_up(results, SHARED.format(of), of, records * 4, 100)
        live(results, LIVE.format(of), of, LIVE_RATE, LIVE_S)


def _stores(results: Results, records: int) -> None:
    for number in (1, 2, 4):
        sharing(results, STORES.format(number), number, records * 4, all_keep_all=False)
        each_alone(results, EACH_ITS_CORE.format(STORES.format(number)), number)
    sharing(results, ALL_KEEP_ALL, 2, records * 4, all_keep_all=True)
    for name, counted in store_costs().items():
        for count, value in counted:
            results.add(f"{count} stores, simulated: {name}", "counted", value)


def _compression(results: Results, records: int) -> None:
    codecs(results)
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        link(results, codec, records // 2)


def _bytes(results: Results, records: int) -> None:
    """Ours, bare of the same shape, and bare, in turn."""
    for size, called in BYTES.items():
        count, a_message = records * 400 // size, 100_000 // size
        pipeline(results, f"{BULK_OF}{called}", count, size, bulk=True)
        same_shape(results, f"{SHAPED}{called}", Freight(count, size, raw=False))
        same_shape(results, f"{RAW}{called}", Freight(count, size, raw=True))
        hop(results, f"one hop, {called}", count, size)
        for name, shaped in ((SHAPED, True), (RAW, False)):
            hop_name = f"{name}{called}: CPU distributor"
            relay(results, hop_name, count // a_message, a_message, size, shaped=shaped)


def _control(results: Results, _records: int) -> None:
    replay(results, FLOWS)


def _latency(results: Results, _records: int) -> None:
    latency(results)


def _ways(results: Results, _records: int) -> None:
    ways(results)
    plain_files(results)


def _positions(results: Results, _records: int) -> None:
    positions(results)


def _growth(results: Results, records: int) -> None:
    partitions(results, records * 8)
    listening(results)
    opening(results, records * 40)


def _storage(results: Results, records: int) -> None:
    storage(results, records // 2_500)


def _simulator(results: Results, _records: int) -> None:
    simulator(results)


def _steps(results: Results, _records: int) -> None:
    steps(results)


def _spark(results: Results, records: int) -> None:
    spark(results, records * 8)


def _spark_growth(results: Results, records: int) -> None:
    """With `--records 2500000` up to 50 M rows."""
    spark_growth(results, records * 20)


def _kafka(results: Results, records: int) -> None:
    kafka(results, records * 2)


PARTS: dict[str, Callable[[Results, int], None]] = {
    "pipeline": _pipelines,
    "coroutines": _coroutines,
    "hop": _hops,
    "shares": _shares,
    "stores": _stores,
    "compression": _compression,
    "bytes": _bytes,
    "control": _control,
    "latency": _latency,
    "ways": _ways,
    "positions": _positions,
    "growth": _growth,
    "storage": _storage,
    "simulator": _simulator,
    "steps": _steps,
    "spark": _spark,
    "spark-growth": _spark_growth,
    "kafka": _kafka,
}


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of everything")
    parser.add_argument("--records", type=int, default=500_000, help="scale of a repetition")
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="one part of the whole; may be repeated"
    )
    parser.add_argument("--output", type=Path, help="write all figures here as JSON")
    arguments = parser.parse_args()
    if arguments.output is not None:  # half an hour later would be late to find that it cannot be
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.touch()
    results = Results()
    parts = [PARTS[name] for name in arguments.only or PARTS]
    try:
        with Progress(console=PROGRESS, transient=True) as bar:
            for index in bar.track(range(arguments.repeat * len(parts)), description="measuring"):
                parts[index % len(parts)](results, arguments.records)
    finally:  # what was measured before a part failed stays measured
        report(results, arguments.output)


def report(results: Results, output: Path | None) -> None:
    """Print figures and ratios, and write them as JSON."""
    console = Console()
    console.print(figures(results))
    console.print(ratios(results))
    if output is not None:
        facts = {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "results": [series.as_json() for series in results],
        }
        output.write_text(json.dumps(facts, indent=2))


def figures(results: Results) -> Table:
    """Median and range of everything."""
    table = Table("quantity", title="measured")
    for column in ("median", "min", "max"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    for series in results:
        numbers = (series.median, min(series.values), max(series.values))
        form = "{:,.2f}" if series.median < FEW_DIGITS else "{:,.0f}"
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
            table.add_row(name, baseline, f"{ratio:.2f}", f"{goal:.3g}" if goal else "")
    return table


if __name__ == "__main__":
    main()
