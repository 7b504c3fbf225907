"""What is known of schemas: whether they are any, and what keeps one from following others.

To find that out may take for ever: comparing doubles with each level of some schemas. So a registry
only looks up what has been found out; what has not been it says by `Unjudged`, whoever asked has it
judged elsewhere, in bounded time, and asks again. A ruling follows from its case alone.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import NamedTuple

from dafka.schemas.compatibility import Source, check, obstacles

RULINGS_MAX = 1_000
"""Those that are remembered, each of some 10 kB at most, besides what was compiled."""

COMPILED_BYTES_MAX = 32 * 1024 * 1024
"""What was compiled, in all of them together: one may be of 1.4 MB."""

OBSTACLES_MAX = 20
OBSTACLE_CHARACTERS_MAX = 500
"""More of them, or of each, nobody reads."""


class Case(NamedTuple):
    """What is to be ruled on: is it a schema, or with a level, may it follow?

    Attributes:
        new: The schema.
        level: See `compatibility.obstacles`; empty if only the schema itself is in doubt.
        earlier: Those before it, the oldest first.
    """

    new: Source
    level: str = ""
    earlier: tuple[Source, ...] = ()


class Ruling(NamedTuple):
    """The answer.

    Attributes:
        error: Why it is no schema; empty if it is one.
        obstacles: Why it may not follow.
        compiled: What a schema of Protobuf is compiled to; see `Schema`.
    """

    error: str = ""
    obstacles: tuple[str, ...] = ()
    compiled: str = ""


def judge(case: Case) -> Ruling:
    """Find out, however long it takes."""
    if not case.level:
        try:
            return Ruling(compiled=check(case.new))
        except ValueError as error:
            return Ruling(str(error)[:OBSTACLE_CHARACTERS_MAX])
    found = obstacles(case.level, case.new, case.earlier)
    shown = [obstacle[:OBSTACLE_CHARACTERS_MAX] for obstacle in found[:OBSTACLES_MAX]]
    if len(found) > OBSTACLES_MAX:
        shown.append(f"and {len(found) - OBSTACLES_MAX} more")
    return Ruling(obstacles=tuple(shown))


class Unjudged(Exception):  # noqa: N818 - nothing is wrong
    """A ruling is needed that nobody has found yet.

    Attributes:
        case: What is to be found out.
    """

    def __init__(self, case: Case) -> None:
        super().__init__("a schema has not been judged yet")
        self.case = case


class Rulings:
    """Those that have been found.

    Args:
        compiled_bytes_max: What was compiled and is remembered; the latest ruling always is.
    """

    def __init__(self, compiled_bytes_max: int = COMPILED_BYTES_MAX) -> None:
        self._compiled_bytes_max = compiled_bytes_max
        self._compiled_bytes = 0
        self._found: OrderedDict[bytes, Ruling] = OrderedDict()

    def of(self, case: Case) -> Ruling:
        """Return the ruling on a case.

        Raises:
            Unjudged: There is none yet.
        """
        name = _digest(case)
        if name not in self._found:
            raise Unjudged(case)
        self._found.move_to_end(name)
        return self._found[name]

    def found(self, case: Case, ruling: Ruling) -> None:
        """Remember a ruling, and forget the one not asked for longest if they become too many."""
        name = _digest(case)
        self._forget(self._found.pop(name, None))
        self._found[name] = ruling
        self._compiled_bytes += len(ruling.compiled)
        while len(self._found) > RULINGS_MAX or (
            self._compiled_bytes > self._compiled_bytes_max and len(self._found) > 1
        ):
            self._forget(self._found.popitem(last=False)[1])

    def _forget(self, ruling: Ruling | None) -> None:
        self._compiled_bytes -= len(ruling.compiled) if ruling is not None else 0


def _digest(case: Case) -> bytes:
    return hashlib.blake2b(repr(case).encode("utf-8", "surrogatepass"), digest_size=16).digest()
