"""`dafka groups`: how far groups of consumers are."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from dafka.cli.options import DEFAULT_QUERY, Access, Json, Key, Stores
from dafka.cli.queries import Timeout, client_of
from dafka.cli.records import printable
from dafka.cli.tables import print_table
from dafka.errors import MisuseError
from dafka.groups.commit import checked_group
from dafka.process.clock import wall_ms
from dafka.query.client import StoreClient


def groups(
    group: Annotated[
        str | None, typer.Argument(help="Show this group's position in every partition instead.")
    ] = None,
    store: Stores = DEFAULT_QUERY,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    access: Access = None,
    key: Key = None,
) -> None:
    """List the groups of consumers, or show how far one is and how far behind.

    A position is the first sequence that the group has not processed. The lag is how many records
    this store has from there on.

    Example: dafka groups billing --store tcp://127.0.0.1:5558
    """
    with client_of(store, timeout, access, key) as client:
        if group is None:
            _list(client, json_lines)
        else:
            _show(client, store, checked_group(group), json_lines)


def _list(client: StoreClient, json_lines: bool) -> None:
    found = client.groups()
    if json_lines:
        for group in found:
            print(json.dumps({"group": group}))
        return
    table = Table("group")
    for group in found:
        table.add_row(Text(printable(group)))
    print_table(table)


def _show(client: StoreClient, store: str, group: str, json_lines: bool) -> None:
    rows = _rows(client, group)
    if not rows:
        raise MisuseError(f"group {group!r} has no position at {store}: see `dafka groups`")
    if json_lines:
        for row in rows:
            print(json.dumps(row))
        return
    table = Table("topic", "partition", title=Text(f"group {printable(group)}"))
    for name in ("position", "end", "lag", "epoch", "age"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            Text(printable(str(row["topic"]))),
            Text(printable(str(row["address"]))[:8]),
            *(f"{row[name]:,}" for name in ("position", "end", "lag", "epoch")),
            f"{row['age_s']:,} s",
        )
    print_table(table)


def _rows(client: StoreClient, group: str) -> list[dict[str, str | int]]:
    commits = {
        partition: (commit, commit.position)
        for partition, commit in client.offsets(group).items()
        if commit.position is not None
    }
    ranges = {
        partition: kept
        for topic in {partition.topic for partition in commits}
        for partition, kept in client.ranges(topic).items()
    }
    now_ms = wall_ms()
    rows: list[dict[str, str | int]] = []
    for partition, (commit, position) in sorted(commits.items()):
        kept = ranges.get(partition, range(0))
        rows.append(
            {
                "group": group,
                "topic": partition.topic,
                "address": partition.address,
                "position": position,
                "end": kept.stop,
                "lag": max(0, kept.stop - max(position, kept.start)),
                "epoch": commit.epoch,
                "age_s": max(0, now_ms - commit.commit_ms) // 1_000,
                "metadata": commit.metadata,
            }
        )
    return rows
