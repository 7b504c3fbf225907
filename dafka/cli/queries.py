"""`dafka topics` and `dafka peek`: what a store holds."""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from dafka.cli.options import (
    DEFAULT_QUERY,
    Access,
    Json,
    Key,
    Stores,
    bounded_seconds,
    entered,
)
from dafka.cli.records import printable, to_json
from dafka.cli.tables import print_table
from dafka.errors import MisuseError
from dafka.model import Partition, checked_topic
from dafka.plural import counted
from dafka.query.client import StoreClient
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from dafka.wire.fields import SEQUENCE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dafka.model import Record

Timeout = Annotated[
    float, typer.Option(callback=bounded_seconds, help="Seconds to wait for an answer.")
]


def topics(
    store: Stores = DEFAULT_QUERY,
    delete: Annotated[
        str | None,
        typer.Option(help="Drop all records of this topic instead; see `store --allow-delete`."),
    ] = None,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    access: Access = None,
    key: Key = None,
) -> None:
    """List the topics of a store with their partitions and the records it keeps of them.

    Deleting a topic drops its records from this one store, so do it on each store of the cluster.
    Producers may go on: what they send next is stored.

    Example: dafka topics --store tcp://127.0.0.1:5558
    """
    if delete is not None:
        with client_of(store, timeout, access, key) as client:
            deleted = client.delete(checked_topic(delete))
        row = {"topic": delete, "deleted": deleted}
        print(
            json.dumps(row) if json_lines else f"deleted {counted(deleted, 'record')} of {delete!r}"
        )
        return
    partitions: dict[str, int] = {}
    records: dict[str, int] = {}
    with client_of(store, timeout, access, key) as client:
        for partition, kept in client.ranges().items():
            if kept:
                partitions[partition.topic] = partitions.get(partition.topic, 0) + 1
                records[partition.topic] = records.get(partition.topic, 0) + len(kept)
    if json_lines:
        for topic in sorted(partitions):
            row = {"topic": topic, "partitions": partitions[topic], "records": records[topic]}
            print(json.dumps(row))
        return
    table = Table("topic", title=f"topics of {store}")
    table.add_column("partitions", justify="right")
    table.add_column("records", justify="right")
    for topic in sorted(partitions):
        table.add_row(Text(printable(topic)), f"{partitions[topic]:,}", f"{records[topic]:,}")
    print_table(table)


def peek(
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    store: Stores = DEFAULT_QUERY,
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
    timeout: Timeout = 5.0,
    access: Access = None,
    key: Key = None,
) -> None:
    """Read some records of a topic out of a store; moves nobody's position.

    Example: dafka peek numbers --start 2 --count 3 --json
    """
    with client_of(store, timeout, access, key) as client:
        chosen = {
            partition: kept.start
            for partition, kept in sorted(client.ranges(topic).items())
            if address is None or partition.address.startswith(address)
        }
        if not chosen:
            raise MisuseError(f"no partition of topic {topic!r} at {store}: see `dafka topics`")
        records = [
            record
            for partition, first in chosen.items()
            for record in _some(client, partition, max(start, first), count)
        ]
    if json_lines:
        for record in records:
            print(json.dumps(to_json(record)))
    else:
        print_table(_table(topic, records))


@contextmanager
def client_of(
    store: str, timeout: float, access: Path | None, key: Path | None
) -> Iterator[StoreClient]:
    """Open a store's query port as the options say.

    Raises:
        MisuseError: The endpoint or the key cannot be used.
    """
    cluster = entered(stores=store, access=access, key=key)
    with ClusterClient(cluster, timeout_ms=int(timeout * 1_000)) as stores:
        yield stores.store()


def _some(client: StoreClient, partition: Partition, start: int, count: int) -> Iterator[Record]:
    batches = client.scan(partition, start, min(start + count, SEQUENCE_MAX + 1))
    return islice((record for batch in batches for record in records_of(batch, start)), count)


def _table(topic: str, records: list[Record]) -> Table:
    table = Table("partition", "sequence", "key", "value", "flags", title=Text(printable(topic)))
    for record in records:
        table.add_row(
            Text(printable(record.address[:8])),
            str(record.sequence),
            Text(repr(record.key)) if record.key is not None else "",
            Text(repr(record.value)[:60]),
            f"{record.copy_flags:04b}",
        )
    return table
