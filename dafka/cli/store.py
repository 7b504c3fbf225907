"""`dafka store`: a process that runs until it is told to stop.

What else `dafka store` can do is in `dafka.cli.store_disk`.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Annotated

import typer

from dafka.cli.command import CommandPlace, group_of
from dafka.cli.options import (
    DEFAULT_QUERY,
    Access,
    Advertise,
    ClusterArguments,
    Host,
    Insecure,
    Key,
    LogFormat,
    LogLevel,
    Metrics,
    ShutdownMs,
    Towers,
    Web,
    Wire,
    between_processes,
    entered,
    observed,
)
from dafka.errors import MisuseError
from dafka.gateway.catalog import CATALOG, CHANGES, TOPICS
from dafka.gateway.lines import LEDGER
from dafka.groups.commit import TOPIC as POSITIONS
from dafka.model import ALL_SLOTS, Slots
from dafka.node.store import Store
from dafka.process.logs import LineFormat, set_up_logs
from dafka.process.memory import collect_rarely, keep_freed_memory
from dafka.process.signals import SHUTDOWN_MS, end_within, run_until_told
from dafka.records.envelope import ORIGIN_MAX
from dafka.schemas.entries import TOPIC as SCHEMAS
from dafka.storage.clocks import ALONE
from dafka.storage.forgetting import FORGET_AFTER_MS
from dafka.storage.lmdb_log import Durability
from dafka.storage.retention import HoldBounds, Retention
from dafka.wire.dialect import DEFAULT_DIALECT
from topology.slots import read_slots

log = logging.getLogger(__name__)


COMMANDS = {
    "check": CommandPlace(
        "dafka.cli.store_disk:check",
        "Read a whole store and check it. Exit code 1 if it is damaged.",
    ),
    "compact": CommandPlace(
        "dafka.cli.store_disk:compact",
        "Give the disk back what retention has freed. Needs room for what is kept, once more.",
    ),
    "backup": CommandPlace(
        "dafka.cli.store_disk:backup",
        "Copy a store's log as it is at one moment, while the store runs.",
    ),
    "restore": CommandPlace(
        "dafka.cli.store_disk:restore",
        "Restore a store's directory from a backup. It is a disk of its own, with a new address.",
    ),
}

store = typer.Typer(cls=group_of(COMMANDS), invoke_without_command=True, add_completion=False)

_RULE = re.compile(
    r"(?s)(.+?)(?:,age_s=([1-9][0-9]{0,9}))?(?:,bytes=([1-9][0-9]{0,17}))?"
    r"(?:,hold_age_s=([1-9][0-9]{0,9}))?(?:,hold_bytes=([1-9][0-9]{0,17}))?"
)

_NEEDED = (SCHEMAS, POSITIONS, LEDGER, TOPICS, CHANGES, CATALOG)
"""Topics of which stores keep what holds, and see by themselves what need not be kept."""


def retention_of(rules: list[str]) -> list[Retention]:
    """Read rules as `--retain` takes them.

    Raises:
        MisuseError: One is not `PATTERN,age_s=SECONDS,bytes=BYTES`, at least one of the two, or
            is for a topic of which that is not for anybody to say, or a bound of its hold is not
            above its own.
    """
    found = []
    for rule in rules:
        match = _RULE.fullmatch(rule)
        if match is None or not (match[2] or match[3]):
            raise MisuseError(
                f"rule {rule!r} cannot be used: write PATTERN,age_s=SECONDS,bytes=BYTES, "
                "at least one of the two numbers"
            )
        age_s, bytes_max, hold_s, hold_bytes = (
            int(one) if one else None for one in match.groups()[1:]
        )
        for bound, own, name in ((hold_s, age_s, "age_s"), (hold_bytes, bytes_max, "bytes")):
            if bound is not None and (own is None or bound <= own):
                raise MisuseError(
                    f"rule {rule!r} cannot be used: hold_{name} has to be above {name}, for how "
                    "long what clusters lack is kept beyond that"
                )
        read = Retention(
            topics=match[1], age_ms=_ms(age_s), bytes_max=bytes_max, hold=_hold(hold_s, hold_bytes)
        )
        for topic in _NEEDED:
            if read.covers(topic):
                raise MisuseError(
                    f"rule {rule!r} cannot be used: it is for the topic {topic!r}, too, of which "
                    "stores see by themselves what is needed: take the rule out"
                )
        found.append(read)
    return found


def _ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1_000


def _hold(age_s: int | None, bytes_max: int | None) -> HoldBounds | None:
    given = age_s is not None or bytes_max is not None
    return HoldBounds(age_ms=_ms(age_s), bytes_max=bytes_max) if given else None


Retain = Annotated[
    list[str] | None,
    typer.Option(
        help="PATTERN,age_s=SECONDS,bytes=BYTES: what need not be kept of topics that match; "
        "the first rule that matches counts. Behind that ,hold_age_s=SECONDS,hold_bytes=BYTES: "
        "how long at most what other clusters lack is kept. May be given repeatedly."
    ),
]

ForgetAfter = Annotated[
    int,
    typer.Option(
        min=1, metavar="SECONDS", help="How long partitions are listed that are empty by now."
    ),
]

Number = Annotated[
    int,
    typer.Option(
        min=ALONE,
        max=ORIGIN_MAX,
        metavar="ID",
        help="The cluster's id, where records of others come: nothing is dropped by age before "
        "their clocks are known, for a day at most; 0 if there are no others.",
    ),
]


KeptSlots = Annotated[
    str,
    typer.Option(
        metavar="FIRST-LAST,…",
        help="Which of the slots 0-4095 to keep, where stores share them; all if not given.",
    ),
]


def slots_of(text: str) -> Slots:
    """Read slots as `--slots` takes them; all where nothing is said.

    Raises:
        MisuseError: They are none.
    """
    if not text:
        return ALL_SLOTS
    try:
        return Slots.of(read_slots(text))
    except ValueError as error:
        raise MisuseError(f"--slots cannot be used: {error}") from None


@store.callback()
def serve(
    context: typer.Context,
    tower: Towers,
    data: Annotated[
        Path | None, typer.Option(help="Directory of the log; made if it is not there.")
    ] = None,
    query: Annotated[
        str, typer.Option(callback=between_processes, help="Where the query port listens.")
    ] = DEFAULT_QUERY,
    host: Host = "127.0.0.1",
    advertise: Advertise = None,
    durability: Annotated[
        Durability,
        typer.Option(help="fsync: an ACK survives power loss; os: only the process's death."),
    ] = Durability.FSYNC,
    retain: Retain = None,
    allow_delete: Annotated[
        bool, typer.Option("--allow-delete", help="Let `dafka topics delete` drop topics.")
    ] = False,
    forget_after: ForgetAfter = FORGET_AFTER_MS // 1_000,
    number: Number = ALONE,
    slots: KeptSlots = "",
    access: Access = None,
    key: Key = None,
    insecure: Insecure = False,
    wire: Wire = DEFAULT_DIALECT,
    metrics: Metrics = None,
    web: Web = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = LineFormat.TEXT,
    shutdown_ms: ShutdownMs = SHUTDOWN_MS,
) -> None:
    """Run a store: it keeps every record of its cluster and answers questions about them.

    Example: dafka store --data data/store-1 --tower tcp://127.0.0.1:5556
    """
    if context.invoked_subcommand is not None:
        return
    if data is None:
        raise typer.BadParameter("a store needs a directory", param_hint="--data")
    retention = retention_of(retain or [])
    set_up_logs(log_level, log_format)
    keep_freed_memory()
    collect_rarely()
    health = observed(metrics, web)
    way = ClusterArguments(host=host, advertise=advertise, insecure=insecure, wire=wire)
    cluster = entered(tower, access=access, key=key, **way)
    with Store(
        data,
        cluster,
        query=query,
        durability=durability,
        retention=retention,
        deletable=allow_delete,
        forget_after_ms=forget_after * 1_000,
        number=number,
        slots=slots_of(slots),
    ) as running:
        log.info("store is up", extra={"address": running.address, "query": query})
        health.watch(running)
        run_until_told(running)
        end_within(shutdown_ms)
