"""`dafka store check`, `compact`, `backup` and `restore`: a store's directory, not its process."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer

from dafka.cli.options import Json
from dafka.errors import MisuseError, StorageError
from dafka.groups.commit_table import GROUPS_TABLE
from dafka.groups.commit_table import TABLE as COMMITS_TABLE
from dafka.plural import counted
from dafka.process.clock import wall_ms
from dafka.storage.backup import back_up
from dafka.storage.backup import restore as restore_log
from dafka.storage.check import PROBLEMS_MAX, CheckReport
from dafka.storage.check import check as check_log
from dafka.storage.kept_slots import TABLE as SLOTS_TABLE
from dafka.storage.lmdb_log import LmdbLog
from dafka.storage.passed_over import TABLE as PASSED_OVER_TABLE
from topology.output import print_json
from topology.terminal import say

Directory = Annotated[Path, typer.Argument(help="A store's directory; the store must be stopped.")]


def check(directory: Directory, json_lines: Json = False) -> None:
    """Read a whole store and check it. Exit code 1 if it is damaged.

    Example: dafka store check data/store-1
    """
    _must_exist(directory)
    # Where LMDB meets a damaged page, the process may just end.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as other:
        try:
            findings = other.submit(checked, str(directory)).result()
        except BrokenProcessPool as error:
            raise StorageError(
                f"cannot read log at {str(directory)!r}: its file data.mdb is damaged so that "
                "reading it ends the process; put back a copy, or move the directory away and "
                "begin anew"
            ) from error
    if json_lines:
        print_json(findings)
    else:
        for gap in findings.gaps:
            say(f"passed over, since no store had them: {gap}")
        for problem in findings.problems:
            say(problem)
        say(
            f"{counted(findings.partitions, 'partition')}, {counted(findings.batches, 'batch')}, "
            f"{counted(findings.records, 'record')}, {findings.size:,} bytes: "
            + (counted(len(findings.problems), "problem") if findings.problems else "whole")
        )
        if findings.unread:
            say(f"{counted(findings.unread, 'partition')} not looked at, after so many problems")
    if findings.problems:
        raise typer.Exit(1)


def checked(directory: str) -> CheckReport:
    """Open and check; in the process that may end of it.

    Raises:
        StorageError: It cannot be opened.
    """
    log = LmdbLog(directory)
    try:
        findings = check_log(log)
        findings.problems += [
            f"{topic}/{address} at {sequence}: another batch is where it should be"
            for (topic, address), sequence in log.strays(PROBLEMS_MAX)
        ]
        return findings
    finally:
        log.close()


def compact(directory: Directory, json_lines: Json = False) -> None:
    """Give the disk back what retention has freed. Needs room for what is kept, once more.

    Example: dafka store compact data/store-1
    """
    _must_exist(directory)
    before, after = LmdbLog(directory).compact()
    if json_lines:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        say(f"{before:,} bytes before, {after:,} after")


Place = Annotated[
    str,
    typer.Argument(
        metavar="PLACE",
        help="A backup: a directory, or file:// and its path.",
    ),
]

KEPT_TABLES = (COMMITS_TABLE, GROUPS_TABLE, SLOTS_TABLE, PASSED_OVER_TABLE)
"""What groups have committed, which slots are kept, and what of them was never there. All else in a
store's tables is what that store has said."""


def backup(
    directory: Annotated[Path, typer.Argument(help="A store's directory; the store may run.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="What to make: a directory that is not there yet, or file:// and its path. For "
            "elsewhere, copy it whole when it is made.",
        ),
    ],
    json_lines: Json = False,
) -> None:
    """Copy a store's log as it is at one moment, while the store runs.

    Run it on the store's machine, as its user; in its container, if it has one. It takes room for
    what is kept, once. PLACE has its name when it is whole and on the disk.

    Example: dafka store backup data/store-1 --to backups/store-1-monday
    """
    _must_exist(directory)
    target = local_path(to)
    from topology.bars import bar  # a store that starts has no use for it

    with bar("copying") as progress:
        made = back_up(
            directory,
            target,
            program=version("dafka-distributor"),
            wall_ms=wall_ms(),
            progress=progress,
        )
    if json_lines:
        facts = {"bytes": made.size, "sha256": made.sha256, "store": made.store}
        print_json({"partitions": made.partitions, "records": made.records, **facts})
    else:
        say(
            f"{target}: {counted(made.partitions, 'partition')}, "
            f"{counted(made.records, 'record')}, {made.size:,} bytes"
        )


def restore(
    place: Place,
    directory: Annotated[Path, typer.Argument(help="Of the restored store: empty, or not there.")],
    json_lines: Json = False,
) -> None:
    """Restore a store's directory from a backup. It is a disk of its own, with a new address.

    What the store had acknowledged or promised before counts no more; what it lacks comes from
    other stores, producers and clusters once it is started.

    Example: dafka store restore backups/store-1-monday data/store-1
    """
    source = local_path(place)
    from topology.bars import bar  # a store that starts has no use for it

    with bar("restoring") as progress:
        made, store = restore_log(source, directory, keeps=KEPT_TABLES, progress=progress)
    if json_lines:
        facts = {"made_ms": made.made_ms, "store": store, "store_before": made.store}
        print_json({"partitions": made.partitions, "records": made.records, **facts})
    else:
        made_at = datetime.fromtimestamp(made.made_ms / 1000, UTC).isoformat(" ", "seconds")
        say(
            f"{directory}: {counted(made.partitions, 'partition')}, "
            f"{counted(made.records, 'record')} as of {made_at}, as store {store}"
        )


def local_path(place: str) -> Path:
    """Read where a backup is.

    Raises:
        MisuseError: It is on another machine, as far as can be said.
    """
    parts = urlsplit(place)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    if "://" in place:
        raise MisuseError(
            f"cannot use {place!r}: backups are directories of this machine; mount it, or copy the "
            "finished directory with a tool that can"
        )
    return Path(place)


def _must_exist(directory: Path) -> None:
    """Opening would make it."""
    if not (directory / "data.mdb").is_file():
        raise MisuseError(f"directory {str(directory)!r} is not a store's: it has no data.mdb")
