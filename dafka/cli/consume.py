"""`dafka consume`: a terminal as a consumer, or a look at what stores have."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import typer

from dafka.cli.options import (
    Access,
    Advertise,
    AllStores,
    ClusterArguments,
    DeliveryWay,
    Host,
    Insecure,
    Json,
    Key,
    LogLevel,
    Towers,
    Wire,
    bounded_seconds,
    entered,
)
from dafka.cli.queries import ANSWER_S, stores_of
from dafka.cli.reading import LAST_MAX, Stretch, at_offset, is_pattern, positions, topics_like
from dafka.cli.record_format import LETTERS, record_format
from dafka.cli.records import to_json
from dafka.cli.times import moment_ms
from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.groups.reset import to_earliest, to_latest, to_time
from dafka.model import Partition, Record
from dafka.node.consumer import Consumer
from dafka.node.search import UNHEARD_S
from dafka.process.clock import wall_ms
from dafka.process.logs import set_up_logs
from dafka.process.signals import interrupt_when_told
from dafka.wire.dialect import DEFAULT_DIALECT
from topology.output import print_json
from topology.terminal import say

KNOWN_S = UNHEARD_S + 0.5
"""By then it is known of a tower whether it answers."""

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="What to print of each, in the letters of kcat: "
        + ", ".join(f"%{letter} {meaning}" for letter, (meaning, _) in LETTERS.items())
        + "; \\n ends a line.",
    ),
]
Isolation = Annotated[
    str, typer.Option(help="published: records as they come; stored: what a store has on disk.")
]
FromBeginning = Annotated[
    bool, typer.Option("--from-beginning", help="Every record there is, then new ones.")
]
Offset = Annotated[
    int | None,
    typer.Option(
        help="From this sequence on in every partition; from so many before its end if negative."
    ),
]
Since = Annotated[
    str | None,
    typer.Option(help="From records of this time on, 2026-11-23T08:00:00, or so long ago, 10m."),
]
Until = Annotated[
    str | None,
    typer.Option(help="End before the first record of this time, as --since; reads the stores."),
]
Last = Annotated[
    int | None,
    typer.Option(
        min=1, help=f"The latest so many records of all partitions, {LAST_MAX:,} at most; then end."
    ),
]
OnlyKey = Annotated[
    str | None, typer.Option("--record-key", help="Print only records with this key.")
]
MaxRecords = Annotated[
    int | None, typer.Option("--max", min=1, help="End after this many records.")
]
Quiet = Annotated[
    float | None,
    typer.Option(
        callback=bounded_seconds, help="End when no record has come for this many seconds."
    ),
]
ConnectTimeout = Annotated[
    float,
    typer.Option(
        callback=bounded_seconds, help="Seconds after which it fails if no tower has answered."
    ),
]
Group = Annotated[
    str | None,
    typer.Option(help="Share the partitions with all consumers of this group, and commit."),
]


@dataclass(frozen=True, slots=True)
class _Printing:
    """What to print of what comes, and when to end."""

    print_: Callable[[Record], None]
    key: bytes | None
    records_max: int | None
    quiet_s: float | None
    connect_s: float

    def wants(self, record: Record) -> bool:
        """Whether it is one of those to print."""
        return self.key is None or record.key == self.key


def consume(
    topic: Annotated[
        list[str], typer.Argument(help="Topics, or patterns as of a shell: 'orders.*'.")
    ],
    tower: Towers,
    store: AllStores,
    host: Host = "127.0.0.1",
    advertise: Advertise = None,
    isolation: Isolation = "published",
    from_beginning: FromBeginning = False,
    offset: Offset = None,
    since: Since = None,
    until: Until = None,
    last: Last = None,
    record_key: OnlyKey = None,
    json_lines: Json = False,
    format_: Format = None,
    max_records: MaxRecords = None,
    timeout: Quiet = None,
    connect_timeout: ConnectTimeout = 10.0,
    group: Group = None,
    access: Access = None,
    key: Key = None,
    insecure: Insecure = False,
    wire: Wire = DEFAULT_DIALECT,
    delivery: DeliveryWay = None,
    log_level: LogLevel = "warning",
) -> None:
    r"""Print the records of topics as they come, values only or as JSON.

    With --until or --last it prints what the stores have, and ends. A pattern stands for the
    topics that the stores have when it begins. Stores are asked for patterns, places, times and
    groups only.

    Ctrl-C, SIGTERM and SIGHUP end it in order: a member of a group commits, and leaves it.

    Example: dafka consume numbers --from-beginning --timeout 2

    Example: dafka consume 'orders.*' --since 10m --format '%t %k %v\n'
    """
    set_up_logs(log_level)
    interrupt_when_told()
    if json_lines and format_ is not None:
        raise MisuseError("--json and --format say two things of what to print: leave one out")
    wanted = _stretch(from_beginning, offset, since, until, last)
    if group is not None and wanted not in (None, Stretch()):
        raise MisuseError("a group goes on where it is: see `dafka groups reset`, or leave it out")
    known_key = None if record_key is None else record_key.encode(errors="surrogateescape")
    how = _Printing(
        _printing(json_lines, format_), known_key, max_records, timeout, connect_timeout
    )
    way = ClusterArguments(host=host, advertise=advertise, insecure=insecure, wire=wire)
    cluster = entered(tower, store, access=access, key=key, **way).delivered(delivery)
    try:
        if until is not None or last is not None:
            assert wanted is not None
            _print_stored(cluster, topic, wanted, how)
            return
        topics, places = _begun(cluster, topic, wanted)
        start = "latest" if wanted is None else "earliest"
        with Consumer(
            cluster, topics, start=start, positions=places, isolation=isolation, group=group
        ) as consumer:
            _print_records(consumer, how)
    except KeyboardInterrupt:
        return


def _stretch(
    from_beginning: bool,
    offset: int | None,
    since: str | None,
    until: str | None,
    last: int | None,
) -> Stretch | None:
    """What is to be read; None: only what comes from now on.

    Raises:
        MisuseError: It begins at two places, or a time is none.
    """
    begins = {
        "--from-beginning": to_earliest if from_beginning else None,
        "--offset": None if offset is None else at_offset(offset),
        "--since": None if since is None else to_time(moment_ms(since, wall_ms())),
        "--last": None if last is None else to_earliest,
    }
    chosen = {name: begin for name, begin in begins.items() if begin is not None}
    if len(chosen) > 1:
        raise MisuseError(f"{' and '.join(chosen)} say two places to begin at: leave one out")
    if last is not None and last > LAST_MAX:
        raise MisuseError(f"--last {last} is too many to hold: {LAST_MAX:,} at most")
    if not chosen and until is None:
        return None
    end = to_latest if until is None else to_time(moment_ms(until, wall_ms()))
    return Stretch(next(iter(chosen.values()), to_earliest), end, last)


def _begun(
    cluster: Cluster, named: list[str], wanted: Stretch | None
) -> tuple[list[str], dict[Partition, int]]:
    """The topics that are meant, and where to begin in what stores have of them."""
    placed = wanted is not None and wanted.begin is not to_earliest
    if not placed and not any(map(is_pattern, named)):
        return named, {}
    with stores_of(cluster, ANSWER_S) as stores:
        topics = stores.first(lambda client: topics_like(client, named))
        if wanted is None or not placed:
            return topics, {}
        begin = wanted.begin
        return topics, stores.first(lambda client: positions(client, topics, begin))


def _print_stored(cluster: Cluster, named: list[str], wanted: Stretch, how: _Printing) -> None:
    """Print what the first store that answers has."""
    with stores_of(cluster, ANSWER_S) as stores:
        topics, client = stores.first(lambda client: (topics_like(client, named), client))
        records = wanted.records(client, topics)
        for record in islice(filter(how.wants, records), how.records_max):
            how.print_(record)


def _printing(json_lines: bool, format_: str | None) -> Callable[[Record], None]:
    """What prints a record; on a terminal nothing of it is obeyed."""
    if json_lines:
        return lambda record: print_json(to_json(record))
    octets = _value_line if format_ is None else record_format(format_)
    if sys.stdout.isatty():
        return lambda record: say(octets(record).decode(errors="surrogateescape"), end="")

    def written(record: Record) -> None:
        sys.stdout.buffer.write(octets(record))
        sys.stdout.buffer.flush()

    return written


def _value_line(record: Record) -> bytes:
    return (record.value or b"") + b"\n"


def _print_records(consumer: Consumer, how: _Printing) -> None:
    """Print what comes until there is enough of it, or no more.

    Raises:
        UnreachableError: No tower answers, so that nothing can come.
    """
    printed = 0
    began = heard = time.monotonic()
    awaited = True
    while how.records_max is None or printed < how.records_max:
        record = consumer.poll(0.2)
        now = time.monotonic()
        if record is not None:
            heard, awaited = now, False
            if how.wants(record):
                printed += 1
                how.print_(record)
            continue
        ends = how.quiet_s is not None and now - heard >= how.quiet_s
        if ends and awaited and now - began < KNOWN_S:
            continue  # whether nothing is there, or nobody to bring it, is not known yet
        if awaited and (ends or now - began >= how.connect_s):
            awaited = False
            consumer.search.check_towers()
        if ends:
            break
