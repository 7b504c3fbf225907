"""`dafka groups`: how far groups of consumers are, who they are, and where they are to go on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dafka.cli.command import by_default
from dafka.cli.options import (
    Access,
    Host,
    Json,
    Key,
    Stores,
    Towers,
    entered,
)
from dafka.cli.queries import Timeout, client_of
from dafka.cli.times import duration_ms, time_ms
from dafka.errors import MisuseError
from dafka.gateway.commits import REACHED, is_row
from dafka.groups import reset as ways
from dafka.groups.assignment import owner
from dafka.groups.commit import CommitKey, checked_group
from dafka.groups.membership import decode
from dafka.model import checked_topic
from dafka.node.committer import Committer
from dafka.plural import counted
from dafka.process.clock import wall_ms
from dafka.wire.primitives import text
from topology.output import Columns, column, number, open_console, print_json, print_rows, table
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.cluster import Cluster
    from dafka.groups.commit import Commit
    from dafka.model import Partition
    from dafka.query.client import StoreClient

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group of consumers.")]
Execute = Annotated[
    bool, typer.Option("--execute", help="Do it; otherwise only show what would be done.")
]


groups = typer.Typer(
    cls=by_default("show"),
    add_completion=False,
    help="Show groups of consumers, their positions and members; move them.\n\n"
    "`dafka groups` and `dafka groups GROUP` are the same as with `show`.\n\n"
    "Example: dafka groups billing",
)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group, as `--json` tells it.

    Attributes:
        group: Its name.
        partitions: Those in which it has a position.
        lag: How many records the store has from there on, of partitions whose end it knows.
    """

    group: str
    partitions: int
    lag: int


GROUPS: Columns[GroupRow] = (column("group"), number("partitions"), number("lag"))


@dataclass(frozen=True, slots=True)
class PositionRow:
    """How far a group is in one partition, as `--json` tells it.

    Of a Kafka partition, `orders/3`, stores know no end: gateways tell Kafka's tools.
    """

    group: str
    topic: str
    address: str
    position: int
    end: int | None
    lag: int | None
    epoch: int
    age_s: int
    metadata: str


POSITIONS: Columns[PositionRow] = (
    column("topic"),
    column("partition", lambda row: _shortened(row.address)),
    number("position"),
    number("end"),
    number("lag"),
    number("epoch"),
    number("age", lambda row: f"{row.age_s:,} s"),
)


def _shortened(address: str) -> str:
    """The begin of an address; a Kafka partition's number."""
    _, kafka, number_ = address.rpartition("/")
    return f"Kafka {number_}" if kafka else address[:8]


@groups.command()
def show(
    store: Stores,
    group: Annotated[
        str | None, typer.Argument(help="Show this group's position in every partition instead.")
    ] = None,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    access: Access = None,
    key: Key = None,
) -> None:
    """List the groups that have positions, or show how far one is and how far behind.

    A position is the first sequence that the group has not processed. The lag is how many records
    this store has from there on. A group of Kafka clients has offsets, too.

    Example: dafka groups billing --store tcp://127.0.0.1:5558
    """
    with client_of(store, timeout, access, key) as client:
        if group is None:
            ranges: dict[str, dict[Partition, range]] = {}
            held = [(name, _positions(client, name, ranges)) for name in client.groups()]
            found = [
                GroupRow(name, len(rows), sum(row.lag or 0 for row in rows))
                for name, rows in held
                if rows
            ]
            print_rows(found, GROUPS, as_json=json_lines)
            return
        rows = _positions(client, checked_group(group), {})
    if not rows:
        raise MisuseError(
            f"group {group!r} has no position at {client.endpoint}: see `dafka groups`"
        )
    print_rows(rows, POSITIONS, f"group {group}", as_json=json_lines)


def _positions(
    client: StoreClient, group: str, ranges: dict[str, dict[Partition, range]]
) -> list[PositionRow]:
    """How far a group is.

    Args:
        client: A store.
        group: Which.
        ranges: What the store keeps, by topic: what is known of it, and gets known here.
    """
    commits = client.offsets(group)
    positions = ways.positions_of(commits)
    for topic in {partition.topic for partition in positions} - ranges.keys():
        ranges[topic] = client.ranges(topic)
    now_ms = wall_ms()
    rows = []
    for partition, position in sorted(positions.items()):
        kept = ranges[partition.topic].get(partition, range(0))
        commit = commits[partition]
        kafka = is_row(partition)
        if partition.topic == REACHED:
            continue  # the same, worked out from the positions
        rows.append(
            PositionRow(
                group=group,
                topic=partition.address.rpartition("/")[0] if kafka else partition.topic,
                address=partition.address,
                position=position,
                end=None if kafka else kept.stop,
                lag=None if kafka else max(0, kept.stop - max(position, kept.start)),
                epoch=commit.epoch,
                age_s=max(0, now_ms - commit.commit_ms) // 1_000,
                metadata=commit.metadata,
            )
        )
    return rows


def _ranges(client: StoreClient, topics: set[str]) -> dict[Partition, range]:
    """What a store keeps of the partitions of some topics."""
    return {partition: kept for topic in topics for partition, kept in client.ranges(topic).items()}


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member, as `--json` tells it.

    Attributes:
        group: Its group.
        member: Its id.
        topics: What it takes partitions of.
        partitions: How many of those that this store has are its.
        silent_s: For how long this store has heard nothing of it.
        alive: Whether that is within its session, and it has not said goodbye.
        generation: That of the membership.
    """

    group: str
    member: str
    topics: list[str]
    partitions: int
    silent_s: float
    alive: bool
    generation: int


MEMBERS: Columns[MemberRow] = (
    column("member"),
    column("topics", lambda row: ", ".join(row.topics)),
    number("partitions"),
    number("silent for", lambda row: f"{row.silent_s:.1f} s"),
    column("alive", lambda row: "yes" if row.alive else "no"),
)


@groups.command()
def members(
    group: GroupName,
    store: Stores,
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    access: Access = None,
    key: Key = None,
) -> None:
    """Show who belongs to a group, as a store knows it, and how many partitions are whose.

    Example: dafka groups members billing
    """
    with client_of(store, timeout, access, key) as client:
        roster = client.members(checked_group(group))
        membership = decode(roster.membership)
        wanted = {text(topic) for about in membership.members.values() for topic in about.topics}
        owners = Counter(
            owner(partition, membership.members, membership.moved)
            for partition in _ranges(client, wanted)
        )
    if not membership.members:
        raise MisuseError(
            f"group {group!r} has no members at {client.endpoint}: see `dafka groups`"
        )
    pulses = {pulse.member: pulse for pulse in roster.pulses}
    rows = [
        MemberRow(
            group=group,
            member=name,
            topics=[text(topic) for topic in about.topics],
            partitions=owners[name],
            silent_s=pulses[name].silent_ms / 1_000,
            alive=pulses[name].alive,
            generation=membership.generation,
        )
        for name, about in sorted(membership.members.items())
    ]
    title = f"group {group}, generation {membership.generation}"
    print_rows(rows, MEMBERS, title, as_json=json_lines)


@dataclass(frozen=True, slots=True)
class ResetRow:
    """Where a group is to go on in one partition, as `--json` tells it.

    Attributes:
        group: Which.
        topic: Of the partition.
        address: Of the partition.
        before: Where it was; None if nowhere.
        position: Where it goes on; None if that is forgotten.
    """

    group: str
    topic: str
    address: str
    before: int | None
    position: int | None


RESETS: Columns[ResetRow] = (
    column("topic"),
    column("partition", lambda row: row.address[:8]),
    number("was at", "before"),
    number("goes on at", lambda row: "forgotten" if row.position is None else row.position),
)


@groups.command()
def reset(
    group: GroupName,
    tower: Towers,
    store: Stores,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Only this topic; repeatedly. Else all it has positions in."),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the log starts.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the ends.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Where it is, within what the store keeps.")
    ] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option(help="To the first records of this time or later, 2026-11-23T08:00:00; UTC."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(help="The same, so long ago: 90s, 15m, 2h or 7d.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(help="Forward by so many records, or back if negative.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="To those of a file, lines of topic,address,position.")
    ] = None,
    like: Annotated[str | None, typer.Option(help="Where this other group is.")] = None,
    execute: Execute = False,
    host: Host = "127.0.0.1",
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    access: Access = None,
    key: Key = None,
) -> None:
    """Move a group's positions. It must have no live members.

    Nothing is changed without --execute. Exit code 2 if the group has members.

    Example: dafka groups reset billing --by-duration 2h --execute
    """
    cluster = entered(tower, access=access, key=key, host=host)
    with client_of(store, timeout, access, key) as client:
        given = {
            "--to-earliest": ways.to_earliest if to_earliest else None,
            "--to-latest": ways.to_latest if to_latest else None,
            "--to-current": ways.to_current if to_current else None,
            "--to-datetime": to_datetime and ways.to_time(time_ms(to_datetime)),
            "--by-duration": by_duration and ways.to_time(wall_ms() - duration_ms(by_duration)),
            "--shift-by": None if shift_by is None else ways.shifted_by(shift_by),
            "--from-file": from_file and ways.to_positions(_positions_in(from_file)),
            "--like": like
            and ways.to_positions(ways.positions_of(client.offsets(checked_group(like)))),
        }
        chosen = [way for way in given.values() if way]
        if len(chosen) != 1:
            raise MisuseError(f"say where to go on by one of {', '.join(given)}")
        commits = client.offsets(checked_group(group))
        held = ways.positions_of(commits)
        topics = {checked_topic(name) for name in topic or ()} or {one.topic for one in held}
        if not topics:
            where = f"group {group!r} has no position at {client.endpoint}"
            raise MisuseError(f"{where}: name topics, --topic")
        kept = _ranges(client, topics)
        places = ways.Places(kept, held, client.find)
        positions = {
            partition: position
            for partition in sorted(kept)
            if (position := chosen[0](places, partition)) is not None
        }
        _commit(cluster, client, group, positions, commits, execute, json_lines)


@groups.command()
def delete(
    group: GroupName,
    tower: Towers,
    store: Stores,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only positions in this topic; repeatedly.")
    ] = None,
    execute: Execute = False,
    host: Host = "127.0.0.1",
    json_lines: Json = False,
    timeout: Timeout = 5.0,
    access: Access = None,
    key: Key = None,
) -> None:
    """Forget where a group is. It must have no live members.

    It begins anew when it comes back. Nothing is changed without --execute. Exit code 2 if the
    group has members, or no positions.

    Example: dafka groups delete billing --execute
    """
    cluster = entered(tower, access=access, key=key, host=host)
    with client_of(store, timeout, access, key) as client:
        commits = client.offsets(checked_group(group))
        held = ways.positions_of(commits)
        forgotten = {one: None for one in held if not topic or one.topic in topic}
        if not forgotten:
            raise MisuseError(
                f"group {group!r} has no such position at {client.endpoint}: see `dafka groups`"
            )
        _commit(cluster, client, group, forgotten, commits, execute, json_lines)


def _commit(
    cluster: Cluster,
    client: StoreClient,
    group: str,
    positions: Mapping[Partition, int | None],
    commits: Mapping[Partition, Commit],
    execute: bool,
    json_lines: bool,
) -> None:
    """Show what is to be committed, and do it.

    Raises:
        MisuseError: The group has live members, who would go on where they are.
    """
    roster = client.members(group)
    alive = [pulse.member for pulse in roster.pulses if pulse.alive]
    if alive:
        raise MisuseError(
            f"group {group!r} has {counted(len(alive), 'live member')}, which would go on where "
            "they are: stop them first; see `dafka groups members`"
        )
    due = ways.commits_to(positions, commits, roster.epoch, wall_ms())
    before = ways.positions_of(commits)
    rows = [
        ResetRow(group, *partition, before.get(partition), commit.position)
        for partition, commit in due
    ]
    if due and execute:
        committer = Committer(cluster)
        try:
            committer.write([(CommitKey(group, partition), commit) for partition, commit in due])
        finally:
            committer.close()
    if json_lines:
        print_json({"group": group, "committed": bool(due) and execute, "positions": rows})
        return
    if not due:
        say(f"nothing to do: group {group!r} is there already")
        return
    open_console().print(table(RESETS, rows, f"group {group}"))
    say("committed" if execute else "nothing is changed yet: give --execute to commit this")


def _positions_in(file: Path) -> dict[Partition, int]:
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            return ways.read_positions(lines)
    except (OSError, UnicodeDecodeError) as error:
        raise MisuseError(f"cannot read {str(file)!r}: {error}") from error
    except MisuseError as error:
        raise MisuseError(f"file {str(file)!r}, {error}") from error
