"""What a consumer gathers for a table or a data frame, and when it has enough."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from dafka.errors import MissingPackageError, MisuseError
from dafka.model import K, Range, V

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dafka.model import Batch
    from dafka.node.received import ReceivedBatch

FrameKind: TypeAlias = Literal["arrow", "pandas", "polars"]

RECORDS_MAX = 1_000_000
"""Records of one frame, where nobody says how many."""

BYTES_MAX = 1024 * 1024 * 1024
"""Bytes of the batches of one frame, however many records are asked for."""

_PACKAGES: dict[FrameKind, tuple[str, ...]] = {
    "arrow": ("numpy", "pyarrow"),
    "pandas": ("numpy", "pyarrow", "pandas"),
    "polars": ("numpy", "pyarrow", "polars"),
}


class Gathering(Generic[K, V]):
    """The batches of one frame.

    Args:
        kind: Which frame.
        max_records: How many records it takes; `RECORDS_MAX` if it is not said.
        timeout: Seconds without a record after which it is complete; None is never.

    Raises:
        MissingPackageError: A package that makes such a frame is not installed.
        MisuseError: A number cannot be used, or neither says when it is complete.
    """

    def __init__(self, kind: FrameKind, max_records: int | None, timeout: float | None) -> None:
        self._make = _maker(kind)
        if max_records is None and timeout is None:
            raise MisuseError(
                f"to_{kind} needs max_records or timeout: a topic has no end by itself"
            )
        if max_records is not None and max_records < 1:
            raise MisuseError(f"max_records must be 1 or more: {max_records}")
        if timeout is not None and timeout < 0:
            raise MisuseError(f"timeout must not be negative: {timeout}")
        self.left = RECORDS_MAX if max_records is None else max_records
        """How many more records it takes; 0 once it is complete."""
        self.timeout = math.inf if timeout is None else timeout
        """For how many seconds to wait for the next batch."""
        self._room = BYTES_MAX
        self.received: list[ReceivedBatch[K, V]] = []
        """What it has."""

    def add(self, received: ReceivedBatch[K, V] | None) -> None:
        """Take a batch of `left` records at most; None if none has come in time."""
        if received is None:
            self.left = 0
            return
        self.received.append(received)
        self._room -= len(received.batch.content)
        self.left = self.left - received.count if self._room > 0 else 0

    def made(self) -> Any:  # noqa: ANN401 (a table, or a frame)
        """Return the frame.

        Raises:
            RecordError: A batch is damaged.
        """
        return self._make(
            [
                (Range(one.batch.partition, one.sequence, one.sequence + one.count), one.batch)
                for one in self.received
            ]
        )


def _maker(kind: FrameKind) -> Callable[[Sequence[tuple[Range, Batch]]], Any]:
    try:
        for package in _PACKAGES[kind]:
            import_module(package)
    except ModuleNotFoundError as error:
        also = "" if kind == "arrow" else f" {kind}"
        raise MissingPackageError(
            f"to_{kind} needs the package {error.name}, which is not installed here: "
            f"pip install 'dafka-distributor[arrow]'{also}"
        ) from error
    # Only now: it needs them.
    from dafka.arrow import frames

    makers = {"arrow": frames.arrow_of, "pandas": frames.pandas_of, "polars": frames.polars_of}
    return makers[kind]
