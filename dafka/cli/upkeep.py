"""`dafka store check` and `dafka store compact`: a store's directory while nobody uses it."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dafka.cli.options import Json
from dafka.cli.records import printable
from dafka.errors import MisuseError, StorageError
from dafka.plural import counted
from dafka.storage.check import CheckReport
from dafka.storage.check import check as check_log
from dafka.storage.lmdb_log import LmdbLog

Directory = Annotated[Path, typer.Argument(help="A store's directory; the store must be stopped.")]


def check(directory: Directory, json_lines: Json = False) -> None:
    """Read a whole store and tell whether it is what it says. Exit code 1 if it is not.

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
        print(json.dumps(asdict(findings)))
    else:
        for problem in findings.problems:
            print(printable(problem))
        print(
            f"{counted(findings.partitions, 'partition')}, {counted(findings.batches, 'batch')}, "
            f"{counted(findings.records, 'record')}, {findings.size:,} bytes: "
            + (counted(len(findings.problems), "problem") if findings.problems else "whole")
        )
    if findings.problems:
        raise typer.Exit(1)


def checked(directory: str) -> CheckReport:
    """Open and check; in the process that may end of it.

    Raises:
        StorageError: It cannot be opened.
    """
    log = LmdbLog(directory)
    try:
        return check_log(log)
    finally:
        log.close()


def compact(directory: Directory, json_lines: Json = False) -> None:
    """Give the disk back what retention has freed. Needs room for what is kept, once more.

    Example: dafka store compact data/store-1
    """
    _must_exist(directory)
    before, after = LmdbLog(directory).compact()
    if json_lines:
        print(json.dumps({"bytes_before": before, "bytes_after": after}))
    else:
        print(f"{before:,} bytes before, {after:,} after")


def _must_exist(directory: Path) -> None:
    """Opening would make it."""
    if not (directory / "data.mdb").is_file():
        raise MisuseError(f"directory {str(directory)!r} is not a store's: it has no data.mdb")
