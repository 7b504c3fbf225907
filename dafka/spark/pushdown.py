"""Filters that need not be applied to rows, because they say which ranges to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from dafka.spark.batch_reader import BatchReader
from dafka.spark.columns import shown
from dafka.spark.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.datasource import Filter

    from dafka.spark.options import SourceOptions
    from dafka.spark.rows import Rows
    from dafka.spark.stores import Stores

_NAMES = ("topic", "partition")
_END = 1 << 63


class Narrowing:
    """What filters leave of a range."""

    def __init__(self) -> None:
        self._allowed: dict[str, set[str]] = {}
        self._start, self._end = 0, _END

    def take(self, condition: Filter) -> bool:
        """Take a filter in; False if it has to be applied to the rows."""
        match condition:
            case IsNotNull(attribute=(name,)):
                return name in (*_NAMES, "offset")
            case EqualTo(attribute=(name,), value=value) if name in _NAMES:
                self._allow(name, [value])
            case In(attribute=(name,), value=values) if name in _NAMES:
                self._allow(name, values)
            case EqualTo(attribute=("offset",), value=int(value)):
                self._bound(value, value + 1)
            case GreaterThan(attribute=("offset",), value=int(value)):
                self._bound(value + 1, _END)
            case GreaterThanOrEqual(attribute=("offset",), value=int(value)):
                self._bound(value, _END)
            case LessThan(attribute=("offset",), value=int(value)):
                self._bound(0, value)
            case LessThanOrEqual(attribute=("offset",), value=int(value)):
                self._bound(0, value + 1)
            case _:
                return False
        return True

    def of(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """Yield what is left of ranges."""
        for partition, start, end in ranges:
            names = zip(_NAMES, partition, strict=True)
            if all(shown(name) in self._allowed.get(kind, {shown(name)}) for kind, name in names):
                yield Range(partition, max(start, self._start), min(end, self._end))

    def _allow(self, name: str, values: Iterable[str]) -> None:
        self._allowed[name] = self._allowed.get(name, set(values)) & set(values)

    def _bound(self, start: int, end: int) -> None:
        self._start, self._end = max(self._start, start), min(self._end, end)


class NarrowingReader(BatchReader):
    """A reader that Spark tells the filters of a query.

    Only for sessions with `spark.sql.python.filterPushdown.enabled`: in others Spark refuses a
    reader that could take filters.

    Args:
        options: Checked.
        rows: What is read.
    """

    def __init__(self, options: SourceOptions, rows: Rows) -> None:
        super().__init__(options, rows)
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Take filters; yields those that Spark has to apply."""
        for condition in filters:
            if not self._narrowing.take(condition):
                yield condition

    def planned(self, stores: Stores) -> list[Range]:
        """The ranges to read, less what the filters leave out."""
        return list(self._narrowing.of(super().planned(stores)))
