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
"""Those that are remembered, each of some 10 kB at most."""

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
    """

    error: str = ""
    obstacles: tuple[str, ...] = ()


def judge(case: Case) -> Ruling:
    """Find out, however long it takes."""
    if not case.level:
        try:
            check(case.new)
        except ValueError as error:
            return Ruling(str(error)[:OBSTACLE_CHARACTERS_MAX])
        return Ruling()
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
    """Those that have been found."""

    def __init__(self) -> None:
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
        """Remember a ruling."""
        self._found[_digest(case)] = ruling
        if len(self._found) > RULINGS_MAX:
            self._found.popitem(last=False)


def _digest(case: Case) -> bytes:
    return hashlib.blake2b(repr(case).encode("utf-8", "surrogatepass"), digest_size=16).digest()
