"""A log as versions before this one have left it."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import lmdb

from dafka.storage import rows

if TYPE_CHECKING:
    from pathlib import Path


def as_format_5(directory: Path) -> None:
    """Have the contents of a log, which is closed, in the rows of its index, and nowhere else."""
    with lmdb.open(str(directory), max_dbs=8) as opened:
        meta, batches, segments = (
            opened.open_db(name) for name in (b"meta", b"batches", b"segments")
        )
        with opened.begin(write=True) as transaction:
            for key, row in list(transaction.cursor(batches)):
                content = rows.content_of(row)
                if isinstance(content, rows.Content) and rows.outline_of(0, row).size:
                    outline = rows.outline_of(0, row)
                    file = directory / f"segments/{content.segment:010}.log"
                    octets = file.read_bytes()[content.span.at : content.span.end]
                    value = struct.pack(">IQ", outline.end, outline.newest_ms) + octets
                    transaction.put(key, value, db=batches)
            transaction.drop(segments)
            transaction.put(b"format", b"5", db=meta)
    shutil.rmtree(directory / "segments", ignore_errors=True)
