"""Records as one table, and as a data frame of pandas or polars.

| column | type | what |
|---|---|---|
| topic | string | |
| partition | string | the producer's address, 32 hex digits |
| offset | int64 | the sequence |
| timestamp | timestamp[us, UTC] | the producer's |
| key, value | binary | as they are stored; null where there is none |
| headers | list of (key string, value binary) | in their order |
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from dafka.arrow.columns import TYPES, record_batches
from dafka.process.unreadable import pass_over

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    import pandas as pd
    import polars as pl

    from dafka.model import Batch, Range

    ArrowTable: TypeAlias = pa.Table
    PandasFrame: TypeAlias = pd.DataFrame
    PolarsFrame: TypeAlias = pl.DataFrame

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""Named as those of Spark's sources."""

_TOGETHER_BYTES = 8 * 1024 * 1024
"""Of so many bytes columns are made at once; what they point into has 2 GiB at most."""


def arrow_of(pieces: Iterable[tuple[Range, Batch]]) -> ArrowTable:
    """Return the records of ranges, each with a batch that holds it, in their order.

    Records that nobody can read are left out; they are logged, and counted.

    Raises:
        RecordError: A batch is damaged.
    """
    schema = pa.schema([(name, TYPES[name]) for name in COLUMNS])
    return pa.Table.from_batches(
        [found for some in _together(pieces) for found in record_batches(some, COLUMNS, pass_over)],
        schema,
    )


def pandas_of(pieces: Iterable[tuple[Range, Batch]]) -> PandasFrame:
    """Return the same as a data frame of pandas."""
    return arrow_of(pieces).to_pandas()


def polars_of(pieces: Iterable[tuple[Range, Batch]]) -> PolarsFrame:
    """Return the same as a data frame of polars."""
    import polars as pl

    return pl.from_arrow(arrow_of(pieces))


def _together(
    pieces: Iterable[tuple[Range, Batch]],
) -> Iterator[list[tuple[Range, tuple[Batch]]]]:
    """Pieces, as many at a time as columns are made of."""
    passed = 0

    def number(piece: tuple[Range, Batch]) -> int:
        nonlocal passed
        passed += len(piece[1].content)
        return passed // _TOGETHER_BYTES

    for _, some in groupby(pieces, number):
        yield [(wanted, (batch,)) for wanted, batch in some]
