"""`dafka produce`: a terminal as a producer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dafka.cli.options import (
    Access,
    Advertise,
    ClusterArguments,
    DeliveryWay,
    Host,
    Insecure,
    Key,
    LogLevel,
    Towers,
    Wire,
    bounded_seconds,
    entered,
)
from dafka.cli.records import Lines, lines_of
from dafka.errors import MisuseError
from dafka.model import checked_topic
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
RecordKey = Annotated[str | None, typer.Option(help="The key of records without one.")]
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
        help="Directory for records that are not stored yet; the next run sends them first."
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
    delivery: DeliveryWay = None,
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
    way = ClusterArguments(host=host, advertise=advertise, insecure=insecure, wire=wire)
    cluster = entered(tower, access=access, key=key, **way).delivered(delivery)
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
