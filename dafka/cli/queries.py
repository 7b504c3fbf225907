"""`dafka peek` and `dafka holes`: what a store holds, and what it waits for in vain."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from dafka.cli.options import (
    DEFAULT_QUERY,
    Access,
    Json,
    Key,
    OneStore,
    Stores,
    bounded_seconds,
    entered,
)
from dafka.cli.reading import records_in
from dafka.cli.records import to_json
from dafka.errors import MisuseError
from dafka.model import Partition, Record
from dafka.plural import counted
from dafka.process.logs import set_up_logs
from dafka.query.client import LOOK_TIMEOUT_MS, StoreClient
from dafka.query.cluster_client import ClusterClient
from dafka.transport.request import QueryClient
from dafka.wire.fields import SEQUENCE_MAX
from topology.output import Columns, column, number, open_console, print_json, print_rows, table
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dafka.cluster import Cluster

REACH_MS = LOOK_TIMEOUT_MS
"""How long a store may take to be connected to; `--timeout` is for its answer."""

ANSWER_S = 5.0
Timeout = Annotated[
    float, typer.Option(callback=bounded_seconds, help="Seconds to wait for an answer.")
]


@dataclass(frozen=True, slots=True)
class HoleRow:
    """What lacks of one partition, as `--json` tells it.

    Attributes:
        topic: Of the partition.
        address: Of the partition.
        first: The first sequence that lacks.
        end: The one behind the last.
        records: How many lack.
    """

    topic: str
    address: str
    first: int
    end: int
    records: int


HOLES: Columns[HoleRow] = (
    column("topic"),
    column("partition", lambda row: row.address[:8]),
    number("from", "first"),
    number("to", lambda row: row.end - 1),
    number("records"),
)


def holes(
    store: OneStore = DEFAULT_QUERY,
    skip: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Continue without what is missing of this topic, for good."
        ),
    ] = None,
    json_lines: Json = False,
    timeout: Timeout = ANSWER_S,
    access: Access = None,
    key: Key = None,
) -> None:
    """List what a store waits for that nobody has: what is behind it is not acknowledged.

    As after a store has lost its disk, and with it records that no other has. Look first whether a
    store that is down has them. Exit code 1 if there is any, and with --skip if there is none.

    Example: dafka holes --store tcp://127.0.0.1:5558 --skip orders
    """
    with client_of([store], timeout, access, key) as client:
        rows = [
            HoleRow(*partition, hole.start, hole.stop, len(hole))
            for partition, hole in sorted(client.holes().items())
            if skip is None or partition.topic == skip
        ]
        if skip is not None:
            for row in rows:
                client.skip(Partition(row.topic, row.address), row.end)
    print_rows(rows, HOLES, f"holes of {store}", as_json=json_lines)
    if skip is not None and not json_lines:
        places = counted(len(rows), "partition")
        gone = counted(sum(row.records for row in rows), "record")
        say(f"{store} goes on with {places} of {skip!r}, without {gone}")
    if bool(rows) is (skip is None):
        raise typer.Exit(1)


RECORDS: Columns[Record] = (
    column("partition", lambda record: record.address[:8]),
    column("sequence", lambda record: str(record.sequence)),
    column("key", lambda record: "" if record.key is None else repr(record.key)),
    column("value", lambda record: repr(record.value)[:60]),
    column("flags", lambda record: f"{record.copy_flags:04b}"),
)
"""What people see of them; `--json` has all that a record has."""


def peek(
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    store: Stores,
    address: Annotated[
        str | None, typer.Option(help="Only this partition (or the only one it begins).")
    ] = None,
    start: Annotated[
        int, typer.Option(min=0, max=SEQUENCE_MAX, help="First sequence of each partition.")
    ] = 0,
    count: Annotated[
        int, typer.Option(min=1, max=SEQUENCE_MAX, help="Records of each partition.")
    ] = 10,
    json_lines: Json = False,
    timeout: Timeout = ANSWER_S,
    access: Access = None,
    key: Key = None,
) -> None:
    """Read some records of a topic out of a store; moves nobody's position.

    Example: dafka peek numbers --start 2 --count 3 --json
    """
    set_up_logs("warning")
    with client_of(store, timeout, access, key) as client:
        chosen = {
            partition: kept.start
            for partition, kept in sorted(client.ranges(topic).items())
            if address is None or partition.address.startswith(address)
        }
        if not chosen:
            raise MisuseError(
                f"no partition of topic {topic!r} at {client.endpoint}: see `dafka topics`"
            )
        records = [
            record
            for partition, first in chosen.items()
            for record in records_in(client, partition, _span(max(start, first), count))
        ]
    if json_lines:
        for record in records:
            print_json(to_json(record))
    else:
        open_console().print(table(RECORDS, records, topic))


@contextmanager
def client_of(
    stores: list[str], timeout: float, access: Path | None, key: Path | None
) -> Iterator[StoreClient]:
    """Open the first store's query port as the options say; others are asked for other slots.

    Raises:
        MisuseError: An endpoint or the key cannot be used.
    """
    cluster = entered(stores=stores, access=access, key=key)
    with stores_of(cluster, timeout) as clients:
        yield clients.store()


def stores_of(cluster: Cluster, timeout: float) -> ClusterClient:
    """Return what asks a cluster's stores for somebody who waits: who is not there is said soon."""
    return ClusterClient(cluster, int(timeout * 1_000), partial(QueryClient, reach_ms=REACH_MS))


def _span(start: int, count: int) -> range:
    return range(start, start + count)
