"""How the nodes of a cluster write to each other, and what this process knows of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import MisuseError
from dafka.protocol.foreign import Shape
from dafka.wire.dialect import DEFAULT_DIALECT, dialect

if TYPE_CHECKING:
    from collections.abc import Iterable


CONTENTS = (None, "batches", "classic", "raw")
"""What a publisher may be told to send; none leaves it to the cluster."""


class Wiring(NamedTuple):
    """What all nodes of a cluster have to agree on.

    Attributes:
        wire: The dialect's name.
        classic: Whether publishers also send every record by itself, for peers without batches. If
            it is not said, they do in the dialect of such peers.
    """

    wire: str = DEFAULT_DIALECT
    classic: bool | None = None

    def shape(self, wire: str | None = None, content: str | None = None) -> Shape:
        """How a node publishes here, if it is not told otherwise.

        Raises:
            MisuseError: There is no such content.
        """
        if content not in CONTENTS:
            raise MisuseError(f"content {content!r} is not known: batches, classic or raw")
        if content == "raw":
            return Shape.RAW
        ours = (wire or self.wire) == DEFAULT_DIALECT
        classic = not ours if self.classic is None else self.classic
        if content == "classic" or (content is None and classic):
            return Shape.CLASSIC
        return Shape.BATCHES if ours else Shape.MARKED


class Wirings:
    """The clusters of this process, by their towers."""

    def __init__(self) -> None:
        self._declared: dict[str, Wiring] = {}

    def declare(self, towers: Iterable[str], wiring: Wiring) -> None:
        """Nodes at these towers speak so, if they are not told otherwise.

        Raises:
            MisuseError: There is no such dialect.
        """
        dialect(wiring.wire)
        self._declared.update(dict.fromkeys(towers, wiring))

    def of(self, tower: str) -> Wiring:
        """What was declared; the defaults, if nothing was."""
        return self._declared.get(tower, Wiring())


wirings = Wirings()
"""Those declared by the topology that this process has read."""
