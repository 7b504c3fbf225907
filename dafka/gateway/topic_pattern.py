"""Patterns of topics, as members of groups of KIP-848 send them: RE2's expressions, bounded.

Python's `re` goes back and tries again, for hours if a pattern wants it to. Here a pattern becomes
a table with a row for each state before anything is matched (McNaughton and Yamada's positions,
then subsets of them): a name costs one look for each character. A pattern whose table would be too
large is refused. It matches whole names, of the characters that names of topics have.
"""

from __future__ import annotations

import string
from functools import lru_cache
from typing import NamedTuple, NoReturn

from dafka.errors import MisuseError

CHARACTERS = string.ascii_letters + string.digits + "._-"
"""Those of topics' names; no other can be matched."""

PATTERN_CHARACTERS_MAX = 4_000
POSITIONS_MAX = 1_000
"""Characters that a pattern names, each as often as it is repeated."""

STATES_MAX = 500
STEPS_MAX = 50_000
"""Of making the table: who sends a pattern holds up all others for so long, some 50 ms."""

DEPTH_MAX = 30
"""Of parentheses."""

PATTERNS_KEPT = 32
"""Of those made last; the largest takes 2 MB."""

REPEATED_MAX = 1_000
"""As in RE2."""

_BEGIN = -1
"""The state before the first character; others are sets of positions."""

_ALL = frozenset(CHARACTERS)
_DIGITS = frozenset(string.digits)
_WORDS = frozenset(string.ascii_letters + string.digits + "_")
_ESCAPES = {"d": _DIGITS, "D": _ALL - _DIGITS, "w": _WORDS, "W": _ALL - _WORDS}
_ESCAPES |= {"s": frozenset(), "S": _ALL}
_SIGNS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _Set(NamedTuple):
    """One of these characters."""

    characters: frozenset[str]


class _Sequence(NamedTuple):
    """One part after the other."""

    parts: tuple[_Node, ...]


class _Choice(NamedTuple):
    """One of several."""

    choices: tuple[_Node, ...]


class _Repeat(NamedTuple):
    """A part several times; without an end if `most` is None."""

    part: _Node
    least: int
    most: int | None


_Node = _Set | _Sequence | _Choice | _Repeat


class _PatternReader:
    """Reads a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._at, self._depth = pattern, 0, 0
        self._folds = pattern.startswith("(?i)")
        if self._folds:
            self._at = 4
        self._ended = False
        """Whether a `$` stood before, which nothing may follow."""

    def read(self) -> _Node:
        """All of it."""
        node = self._choice(first=True)
        if self._at < len(self._pattern):
            self._refuse("a parenthesis that was not opened")
        return node

    def _refuse(self, why: str) -> NoReturn:
        raise MisuseError(f"pattern {self._pattern[:100]!r}: {why} (character {self._at + 1})")

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _takes(self, text: str) -> bool:
        there = self._pattern.startswith(text, self._at)
        if there:
            self._at += len(text)
        return there

    def _choice(self, *, first: bool) -> _Node:
        choices = [self._sequence(first=first)]
        ended = self._ended
        while self._takes("|"):
            self._ended = False
            choices.append(self._sequence(first=first))
            ended = ended or self._ended
        self._ended = ended
        return choices[0] if len(choices) == 1 else _Choice(tuple(choices))

    def _sequence(self, *, first: bool) -> _Node:
        parts: list[_Node] = []
        while self._next() not in ("", "|", ")"):
            if self._ended:
                self._refuse("something behind $")
            if self._takes("^"):
                if parts or not first:
                    self._refuse("^ that is not the first")
            elif self._takes("$"):
                self._ended = True
            else:
                parts.append(self._repeated(self._part(first=first and not parts)))
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _repeated(self, part: _Node) -> _Node:
        sign = self._next()
        if sign in _SIGNS:
            self._at += 1
            least, most = _SIGNS[sign]
        elif sign == "{":
            least, most = self._counts()
        else:
            return part
        if self._ended:
            self._refuse("something behind $")
        self._takes("?")  # as few as possible: all the same to whole names
        if self._next() in (*_SIGNS, "{"):
            self._refuse("a repetition of a repetition")
        return _Repeat(part, least, most)

    def _counts(self) -> tuple[int, int | None]:
        inside, closed, _ = self._pattern[self._at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        numbers = [low] if not high else [low, high]
        if not closed or not all(one.isascii() and one.isdigit() for one in numbers):
            self._refuse("{ that does not count")
        if any(len(one) > 4 or int(one) > REPEATED_MAX for one in numbers):
            self._refuse(f"more than {REPEATED_MAX} repetitions")
        least = int(low)
        most = int(high) if high else (None if comma else least)
        if most is not None and most < least:
            self._refuse("more at least than at most")
        self._at += len(inside) + 2
        return least, most

    def _part(self, *, first: bool) -> _Node:
        sign = self._next()
        if sign in (*_SIGNS, "{"):
            self._refuse("a repetition of nothing")
        self._at += 1
        if sign == "(":
            return self._group(first=first)
        if sign == "[":
            return _Set(self._class())
        if sign == ".":
            return _Set(_ALL)
        return _Set(self._folded(self._escape() if sign == "\\" else frozenset(sign)))

    def _group(self, *, first: bool) -> _Node:
        if self._takes("?P<") or self._takes("?<"):
            name, closed, _ = self._pattern[self._at :].partition(">")
            if not closed or not name.isidentifier():
                self._refuse("a name of a group")
            self._at += len(name) + 1
        elif not self._takes("?:") and self._next() == "?":
            self._refuse("what is asked for by (? is not served")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._refuse(f"more than {DEPTH_MAX} parentheses in each other")
        node = self._choice(first=first)
        self._depth -= 1
        if not self._takes(")"):
            self._refuse("a parenthesis that is not closed")
        return node

    def _class(self) -> frozenset[str]:
        others = self._takes("^")
        found: set[str] = set()
        begin = True
        while begin or self._next() != "]":
            begin = False
            if self._pattern.startswith("[:", self._at):
                self._refuse("named classes are not served")
            low = self._member()
            if len(low) == 1 and self._next() == "-" and self._pattern[self._at + 1 :][:1] != "]":
                self._at += 1
                high = self._member()
                if len(high) != 1 or max(high) < max(low):
                    self._refuse("a range of characters")
                found.update(one for one in CHARACTERS if max(low) <= one <= max(high))
            else:
                found |= low
        self._at += 1
        chosen = self._folded(found)
        return _ALL - chosen if others else chosen

    def _member(self) -> frozenset[str]:
        sign = self._next()
        if not sign:
            self._refuse("a bracket that is not closed")
        self._at += 1
        return self._escape() if sign == "\\" else frozenset(sign)

    def _escape(self) -> frozenset[str]:
        sign = self._next()
        self._at += 1
        if sign in _ESCAPES:
            return _ESCAPES[sign]
        if not sign or sign.isalnum() or not sign.isascii():
            self._refuse("what this \\ means is not served")
        return frozenset(sign)

    def _folded(self, characters: frozenset[str] | set[str]) -> frozenset[str]:
        if self._folds:
            characters = {one.swapcase() for one in characters} | characters
        return frozenset(characters)


class _Ends(NamedTuple):
    """Of a part: whether it may be empty, and the positions that it may begin and end with."""

    empty: bool
    first: int
    last: int


class _Positions:
    """The places of a pattern where a character stands; sets of them are numbers, a bit each."""

    def __init__(self) -> None:
        self.characters: list[frozenset[str]] = []
        self.follow: list[int] = []
        """By position, those that may come next."""
        self._steps = 0

    def make(self, node: _Node) -> _Ends:
        """Make the positions of a part."""
        self._step(1)
        if len(self.characters) > POSITIONS_MAX:
            raise MisuseError("the pattern is too large")
        match node:
            case _Set():
                position = 1 << len(self.characters)
                self.characters.append(node.characters)
                self.follow.append(0)
                return _Ends(empty=False, first=position, last=position)
            case _Choice():
                made = [self.make(one) for one in node.choices]
                first, last = 0, 0
                for one in made:
                    first, last = first | one.first, last | one.last
                return _Ends(any(one.empty for one in made), first, last)
            case _Sequence():
                return self._joined(node.parts)
            case _Repeat():
                return self._repeated(node)

    def _joined(self, parts: tuple[_Node, ...]) -> _Ends:
        whole = _Ends(empty=True, first=0, last=0)
        for part in parts:
            whole = self._behind(whole, self.make(part))
        return whole

    def _repeated(self, node: _Repeat) -> _Ends:
        whole = _Ends(empty=True, first=0, last=0)
        for _ in range(node.least):
            whole = self._behind(whole, self.make(node.part))
        if node.most is None:
            more = self.make(node.part)
            self._link(more.last, more.first)
            return self._behind(whole, more._replace(empty=True))
        rest = _Ends(empty=True, first=0, last=0)
        for _ in range(node.most - node.least):
            # From the last inwards: each is there only if the one before is.
            rest = self._behind(self.make(node.part), rest)._replace(empty=True)
        return self._behind(whole, rest)

    def _behind(self, one: _Ends, other: _Ends) -> _Ends:
        self._link(one.last, other.first)
        first = one.first | other.first if one.empty else one.first
        last = other.last | one.last if other.empty else other.last
        return _Ends(one.empty and other.empty, first, last)

    def _link(self, before: int, behind: int) -> None:
        if behind:
            for position in self._each(before):
                self.follow[position] |= behind

    def behind(self, positions: int) -> int:
        """Those that may come next behind some."""
        found = 0
        for position in self._each(positions):
            found |= self.follow[position]
        return found

    def _each(self, positions: int) -> list[int]:
        self._step(positions.bit_count())
        return _bits(positions)

    def _step(self, count: int) -> None:
        self._steps += count
        if self._steps > STEPS_MAX:
            raise MisuseError("the pattern takes too long")


class TopicPattern:
    """A pattern.

    Args:
        pattern: As a client says it.

    Raises:
        MisuseError: It is none, has what is not served, or is too large.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_CHARACTERS_MAX:
            raise MisuseError(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
        positions = _Positions()
        ends = positions.make(_PatternReader(pattern).read())
        # What all positions treat alike is looked at once.
        alike: dict[int, list[str]] = {}
        for character in CHARACTERS:
            takes = sum(1 << at for at, one in enumerate(positions.characters) if character in one)
            alike.setdefault(takes, []).append(character)
        numbers = {_BEGIN: 0}  # by set of positions
        self._rows: list[dict[str, int]] = []
        self._accepts: list[bool] = []
        for state in (waiting := [_BEGIN]):
            following = ends.first if state == _BEGIN else positions.behind(state)
            row: dict[str, int] = {}
            for takes, characters in alike.items():
                to = following & takes
                if not to:
                    continue
                if to not in numbers:
                    numbers[to] = len(waiting)
                    waiting.append(to)
                    if len(waiting) > STATES_MAX:
                        raise MisuseError("the pattern has too many states")
                row.update(dict.fromkeys(characters, numbers[to]))
            self._rows.append(row)
            self._accepts.append(ends.empty if state == _BEGIN else bool(state & ends.last))

    def matches(self, name: str) -> bool:
        """Whether it matches all of a name."""
        state = 0
        for character in name:
            following = self._rows[state].get(character)
            if following is None:
                return False
            state = following
        return self._accepts[state]


@lru_cache(PATTERNS_KEPT)
def pattern_of(pattern: str) -> TopicPattern:
    """Return a pattern that may have been made before.

    Raises:
        MisuseError: See `TopicPattern`.
    """
    return TopicPattern(pattern)


def _bits(number: int) -> list[int]:
    """The places of the bits that are set."""
    found = []
    while number:
        lowest = number & -number
        found.append(lowest.bit_length() - 1)
        number ^= lowest
    return found
