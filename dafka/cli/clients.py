"""`dafka produce` and `dafka consume`: a terminal as producer and consumer."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from dafka.cli.options import (
    DEFAULT_QUERY,
    Access,
    Advertise,
    ClusterArguments,
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
from dafka.cli.record_format import LETTERS, record_format
from dafka.cli.records import Lines, lines_of, to_json
from dafka.errors import MisuseError, UnreachableError
from dafka.model import Record, checked_topic
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.plural import counted
from dafka.process.logs import set_up_logs
from dafka.process.signals import interrupt_when_told
from dafka.wire.dialect import DEFAULT_DIALECT
from topology.terminal import say

Topic = Annotated[str, typer.Argument(help="1 to 249 bytes.")]
JsonLines = Annotated[
    bool,
    typer.Option(
        "--json",
        help='Lines are objects: {"value": …, "key": …, "headers": {"name": …}, '
        '"timestamp_ms": …}, all but the value if wanted. Text stands for its UTF-8, '
        '{"base64": "…"} for any bytes.',
    ),
]
RecordKey = Annotated[
    str | None, typer.Option(help="The key of every record that has none by itself.")
]
Headers = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE: a header of every record, in front of its own; repeatedly."),
]
KeySeparator = Annotated[
    str | None,
    typer.Option(help="What ends the key at the beginning of a line; the rest is the value."),
]
Content = Annotated[
    str | None,
    typer.Option(
        help="batches; raw: each record by itself, a bare value; classic: both. Peers of "
        "another make know single records only."
    ),
]
Compression = Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd, of each batch.")]
Spool = Annotated[
    Path | None,
    typer.Option(
        help="Directory that keeps what is not stored yet: run again, and it is sent first."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="What to print of each, in the letters of kcat: "
        + ", ".join(f"%{letter} {meaning}" for letter, (meaning, _) in LETTERS.items())
        + "; \\n ends a line.",
    ),
]


def produce(
    topic: Topic,
    tower: Towers,
    host: Host = "127.0.0.1",
    advertise: Advertise = None,
    json_lines: JsonLines = False,
    record_key: RecordKey = None,
    header: Headers = None,
    key_separator: KeySeparator = None,
    timeout: Annotated[
        float, typer.Option(callback=bounded_seconds, help="Seconds to wait for the last ACK.")
    ] = 30.0,
    content: Content = None,
    compression: Compression = "none",
    spool: Spool = None,
    access: Access = None,
    key: Key = None,
    insecure: Insecure = False,
    wire: Wire = DEFAULT_DIALECT,
    log_level: LogLevel = "warning",
) -> None:
    """Publish every line of standard input as a record.

    Ctrl-C, SIGTERM and SIGHUP end it in order: what was read by then is stored, and counted.

    Example: seq 5 | dafka produce numbers
    """
    set_up_logs(log_level)
    interrupt_when_told()
    checked_topic(topic)
    lines = Lines(json_lines, record_key, header or (), key_separator)
    way: ClusterArguments = {
        "host": host,
        "advertise": advertise,
        "insecure": insecure,
        "wire": wire,
    }
    cluster = entered(tower, access=access, key=key, **way)
    producer = Producer(cluster, spool=spool, content=content, compression=compression)
    try:
        sent, refused = _send_lines(producer, topic, lines)
    finally:
        producer.close(timeout)
    if refused is not None:
        raise MisuseError(
            f"line {sent + 1}: {refused}; {counted(sent, 'record')} stored before it"
        ) from refused
    say(f"{counted(sent, 'record')} stored", file=sys.stderr)
    if producer.resumed:
        say(f"{counted(producer.resumed, 'record')} from the spool stored", file=sys.stderr)


def _send_lines(producer: Producer, topic: str, lines: Lines) -> tuple[int, MisuseError | None]:
    """Send the lines of standard input, until they end or somebody interrupts.

    Returns:
        How many are sent, and why the next one cannot be.

    Raises:
        MisuseError: There is no standard input.
    """
    if sys.stdin is None:
        raise MisuseError("standard input is closed: give it the lines to publish")
    sent = 0
    try:
        for line in lines_of(sys.stdin.buffer, lines.bytes_max):
            producer.send(topic, **lines.record(line))
            sent += 1
    except KeyboardInterrupt:
        pass  # what was sent before is still stored
    except MisuseError as error:
        return sent, error
    return sent, None


def consume(
    topic: Annotated[list[str], typer.Argument(help="Topics.")],
    tower: Towers,
    store: Annotated[
        list[str],
        typer.Option(
            default_factory=lambda: [DEFAULT_QUERY],
            show_default=DEFAULT_QUERY,
            help="With --group: query port of a store; give all of them, repeatedly.",
        ),
    ],
    host: Host = "127.0.0.1",
    advertise: Advertise = None,
    isolation: Annotated[
        str,
        typer.Option(help="published: records as they come; stored: what a store has on disk."),
    ] = "published",
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Every record there is, then new ones.")
    ] = False,
    json_lines: Json = False,
    format_: Format = None,
    max_records: Annotated[
        int | None, typer.Option("--max", min=1, help="End after this many records.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            callback=bounded_seconds, help="End when no record has come for this many seconds."
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Share the partitions with all consumers of this group, and commit."),
    ] = None,
    access: Access = None,
    key: Key = None,
    insecure: Insecure = False,
    wire: Wire = DEFAULT_DIALECT,
    log_level: LogLevel = "warning",
) -> None:
    """Print the records of topics as they come, values only or as JSON.

    Ctrl-C, SIGTERM and SIGHUP end it in order: a member of a group commits, and leaves it.

    Example: dafka consume numbers --from-beginning --timeout 2
    """
    set_up_logs(log_level)
    interrupt_when_told()
    if json_lines and format_ is not None:
        raise MisuseError("--json and --format say two things of what to print: leave one out")
    print_ = _printing(json_lines, format_)
    start = "earliest" if from_beginning else "latest"
    way: ClusterArguments = {
        "host": host,
        "advertise": advertise,
        "insecure": insecure,
        "wire": wire,
    }
    cluster = entered(tower, store, access=access, key=key, **way)
    try:
        with Consumer(cluster, topic, start=start, isolation=isolation, group=group) as consumer:
            heard = _print_records(consumer, print_, max_records, timeout)
            if not heard and consumer.towers_away == {*cluster.towers}:
                places = " and at ".join(cluster.towers)
                raise UnreachableError(f"nothing answers of the tower at {places}")
    except KeyboardInterrupt:
        return


def _printing(json_lines: bool, format_: str | None) -> Callable[[Record], None]:
    """What prints a record; on a terminal nothing of it is obeyed."""
    if json_lines:
        return lambda record: say(json.dumps(to_json(record)))
    octets = _value_line if format_ is None else record_format(format_)
    if sys.stdout.isatty():
        return lambda record: say(octets(record).decode(errors="surrogateescape"), end="")

    def written(record: Record) -> None:
        sys.stdout.buffer.write(octets(record))
        sys.stdout.buffer.flush()

    return written


def _value_line(record: Record) -> bytes:
    return (record.value or b"") + b"\n"


def _print_records(
    consumer: Consumer,
    print_: Callable[[Record], None],
    max_records: int | None,
    timeout: float | None,
) -> int:
    """Print what comes until there is enough of it, or no more; returns how much that was."""
    printed = 0
    heard = time.monotonic()
    while max_records is None or printed < max_records:
        record = consumer.poll(0.2)
        if record is not None:
            heard = time.monotonic()
            printed += 1
            print_(record)
        elif timeout is not None and time.monotonic() - heard >= timeout:
            break
    return printed
