"""`dafka topics`: which there are, what is in one, what is set of it, and dropping its records."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dafka.cli.command import by_default
from dafka.cli.options import Access, AllStores, Json, Key, Stores, entered
from dafka.cli.queries import ANSWER_S, Timeout, client_of, stores_of
from dafka.errors import MisuseError
from dafka.limits import READ_BYTES_MAX
from dafka.model import checked_topic
from dafka.node.ledgers import known_topics
from dafka.plural import counted
from dafka.process.unreadable import pass_over
from dafka.records.batch import records_of
from topology.output import Columns, column, number, open_console, print_json, print_rows, table
from topology.quantities import shown_bytes
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.model import Batch, Partition
    from dafka.query.client import StoreClient
    from dafka.query.sharing_store import SharingStore

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]

topics = typer.Typer(
    cls=by_default("list"),
    add_completion=False,
    help="Show topics, their contents and settings; drop their records.\n\n"
    "`dafka topics` is the same as with `list`.\n\n"
    "Example: dafka topics describe orders",
)


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic, as `--json` tells it.

    Attributes:
        topic: Its name.
        partitions: Of how many something is kept.
        records: How many are kept.
        bytes: Of the batches that they are in; None if the store is of a release that cannot tell.
    """

    topic: str
    partitions: int
    records: int
    bytes: int | None


TOPICS: Columns[TopicRow] = (
    column("topic"),
    number("partitions"),
    number("records"),
    number("bytes"),
)


@topics.command("list")
def list_topics(
    store: Stores,
    json_lines: Json = False,
    timeout: Timeout = ANSWER_S,
    access: Access = None,
    key: Key = None,
) -> None:
    """List the topics of a store with their partitions, and the records and bytes it keeps of them.

    Example: dafka topics --store tcp://127.0.0.1:5558
    """
    kept: dict[str, list[tuple[range, int | None]]] = {}
    with client_of(store, timeout, access, key) as client:
        for partition, one in client.sized_ranges().items():
            if one[0]:
                kept.setdefault(partition.topic, []).append(one)
    rows = [
        TopicRow(topic, len(ours), sum(len(span) for span, _ in ours), _all_bytes(ours))
        for topic, ours in sorted(kept.items())
    ]
    print_rows(rows, TOPICS, f"topics of {client.endpoint}", as_json=json_lines)


def _all_bytes(kept: Iterable[tuple[range, int | None]]) -> int | None:
    sizes = [size for _, size in kept]
    return None if None in sizes else sum(size or 0 for size in sizes)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """What a store keeps of one partition, as `--json` tells it.

    Attributes:
        topic: Of the partition.
        address: Its producer: a partition is what one producer has published in a topic.
        first: The first sequence that is kept.
        end: The one to come.
        records: How many are kept.
        bytes: Of the batches that they are in; None if the store is of a release that cannot tell.
        oldest_ms: The time of the first of them; None without one.
        newest_ms: The time of the last.
    """

    topic: str
    address: str
    first: int
    end: int
    records: int
    bytes: int | None
    oldest_ms: int | None
    newest_ms: int | None


PARTITIONS: Columns[PartitionRow] = (
    column("partition (its producer)", "address"),
    number("first"),
    number("end"),
    number("records"),
    number("bytes"),
    column("oldest", lambda row: _day_and_hour(row.oldest_ms)),
    column("newest", lambda row: _day_and_hour(row.newest_ms)),
)


def _day_and_hour(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms:,} ms"  # whatever its producer has said


@topics.command()
def describe(
    topic: TopicName,
    store: Stores,
    json_lines: Json = False,
    timeout: Timeout = ANSWER_S,
    access: Access = None,
    key: Key = None,
) -> None:
    """Show the partitions of a topic, who produces each, what is kept of it and how old that is.

    Times are those of the first and of the last record, in UTC.

    Example: dafka topics describe orders
    """
    with client_of(store, timeout, access, key) as client:
        sized = client.sized_ranges(checked_topic(topic))
        if not sized:
            raise MisuseError(
                f"no partition of topic {topic!r} at {client.endpoint}: see `dafka topics`"
            )
        kept = {partition: span for partition, (span, _) in sized.items()}
        oldest = _times(client, {one: span.start for one, span in kept.items() if span})
        newest = _times(client, {one: span.stop - 1 for one, span in kept.items() if span})
    rows = [
        PartitionRow(
            *(*partition, span.start, span.stop, len(span), size),
            *(oldest.get(partition), newest.get(partition)),
        )
        for partition, (span, size) in sorted(sized.items())
    ]
    total = [counted(sum(row.records for row in rows), "record")]
    size = _all_bytes(sized.values())
    if size is not None:
        total.append(shown_bytes(size))
    title = f"{topic}: {counted(len(rows), 'partition')}, {', '.join(total)} at {client.endpoint}"
    print_rows(rows, PARTITIONS, title, as_json=json_lines)


def _times(client: StoreClient, sequences: dict[Partition, int]) -> dict[Partition, int]:
    """The times of single records, in ms since 1970; of those that can be read."""
    spans = {partition: range(one, one + 1) for partition, one in sequences.items()}
    pages = client.read_each(spans, READ_BYTES_MAX)
    return {
        partition: time_ms
        for partition, batches in pages.items()
        for time_ms in _time_of(batches, sequences[partition])
    }


def _time_of(batches: list[Batch], sequence: int) -> Iterator[int]:
    for batch in batches:
        for record in records_of(batch, sequence, pass_over):
            if record.sequence == sequence:
                yield record.timestamp_ms
            return


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """What is, or would be, dropped from one store, as `--json` tells it."""

    store: str
    partitions: int
    records: int


DROPPED: Columns[DroppedRow] = (column("store"), number("partitions"), number("records"))


@topics.command()
def delete(
    topic: TopicName,
    store: AllStores,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    json_lines: Json = False,
    timeout: Timeout = ANSWER_S,
    access: Access = None,
    key: Key = None,
) -> None:
    """Drop the records of a topic from stores that were started with `--allow-delete`.

    They go from the stores that are named, so name all of the cluster; other clusters keep theirs.
    Producers may go on: what they send next is stored.

    Example: dafka topics delete orders --store tcp://127.0.0.1:5558 --yes
    """
    checked_topic(topic)
    with stores_of(entered(stores=store, access=access, key=key), timeout) as stores:
        clients = [stores.store(endpoint) for endpoint in store]
        rows = [_held(client, topic) for client in clients]
        if not yes and not json_lines:
            open_console().print(table(DROPPED, rows, f"to be dropped of {topic}"))
            yes = _agreed()
        if yes:
            rows = [
                DroppedRow(row.store, row.partitions, client.delete(topic))
                for client, row in zip(clients, rows, strict=True)
            ]
    if json_lines:
        print_json({"topic": topic, "dropped": yes, "stores": rows})
    elif yes:
        for row in rows:
            say(f"dropped {counted(row.records, 'record')} of {topic!r} from {row.store}")
    else:
        say("nothing is dropped yet: give --yes to do it")


def _held(client: SharingStore, topic: str) -> DroppedRow:
    kept = [span for span in client.own_ranges(topic).values() if span]
    return DroppedRow(client.endpoint, len(kept), sum(map(len, kept)))


def _agreed() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and typer.confirm("drop them for good?")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """Something that is set of a topic, as `--json` tells it.

    Attributes:
        setting: What; one of Kafka's has its name.
        value: As text.
        said_by: `catalog`, where Kafka clients have it set, or the topology file.
    """

    setting: str
    value: str
    said_by: str


SETTINGS: Columns[SettingRow] = (column("setting"), column("value"), column("said by", "said_by"))


@topics.command()
def config(
    topic: TopicName,
    store: Stores,
    topology_file: Annotated[
        Path | None,
        typer.Option("--topology", help="The topology file, to show its settings, too."),
    ] = None,
    json_lines: Json = False,
    timeout: Timeout = ANSWER_S,
    access: Access = None,
    key: Key = None,
) -> None:
    """Show the settings of a topic, of Kafka clients here and of a topology file.

    Kafka's own tools set it, at a gateway of the cluster (docs/kafka.md); retention and placement
    stand in the topology file.

    Example: dafka topics config orders --topology config/four-clusters.yaml
    """
    said = [] if topology_file is None else _said_in(topology_file, topic)
    with client_of(store, timeout, access, key) as client:
        there = checked_topic(topic) in client.topics()
        state = known_topics(client).state(topic)
    rows: list[SettingRow] = []
    if state is not None:
        set_ = {"partitions": str(state.topic.partitions), "stage": state.stage.value}
        set_ |= {"id": str(state.topic.id), **state.topic.configs}
        rows += [SettingRow(what, value, "catalog") for what, value in set_.items()]
    elif not there:
        raise MisuseError(f"no topic {topic!r} at {client.endpoint}: see `dafka topics`")
    rows += said
    if rows or json_lines:
        print_rows(rows, SETTINGS, topic, as_json=json_lines)
    else:
        say(f"nothing is set of {topic!r}: no Kafka client has made it")


def _said_in(file: Path, topic: str) -> list[SettingRow]:
    # Who names no file need not wait for what reads one.
    import topology

    try:
        declared = topology.load(file)
    except topology.TopologyError as error:
        raise MisuseError(str(error)) from error
    said: dict[str, object] = {"clusters": ", ".join(declared.placed_on(topic))}
    said["copied"] = "yes" if declared.topics.copies(topic) else "no"
    rule = declared.retained(topic)
    if rule is not None:
        limits = ("age_s", "bytes_max", "hold_age_s", "hold_bytes")
        said |= {f"retention {limit}": getattr(rule, limit) for limit in limits}
    return [
        SettingRow(what, str(value), file.name) for what, value in said.items() if value is not None
    ]
