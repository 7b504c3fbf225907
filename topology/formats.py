"""How a cluster spells names: a format such as `{tenant}-{environment}-{topic}`.

A format is literal text and fields in braces, `{topic}` exactly once among them. The topic is any
text; the other fields are letters, digits, `.` and `_`. What stands between two fields begins
(ends) with a character that the field before (behind) it cannot have, so a name is split in one way
only: `format.split(format.join(values)) == values`, and the other way round.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC = "topic"
"""The field that every format has: the name that users of the system see."""

IDENTITY = "{topic}"
"""The format of a cluster whose names are what users see."""

_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_VALUE = re.compile(r"[A-Za-z0-9_.]{1,63}")
_PIECE = re.compile(r"\{([^{}]*)\}|([^{}]+)|([{}])")
_VALUE_PATTERN = "([A-Za-z0-9_.]+)"


@dataclass(frozen=True, slots=True)
class NameFormat:
    """A format, taken apart.

    Attributes:
        fields: Their names, in order.
        literals: What stands before the first field, between two, and behind the last.
    """

    fields: tuple[str, ...]
    literals: tuple[str, ...]

    def join(self, values: Mapping[str, str]) -> str:
        """Return the name with these values.

        Raises:
            KeyError: A field has none.
        """
        parts = [self.literals[0]]
        for field, literal in zip(self.fields, self.literals[1:], strict=True):
            parts += values[field], literal
        return "".join(parts)

    def split(self, name: str) -> dict[str, str] | None:
        """Return the values in a name; None if it is not spelled like this."""
        match = _pattern(self).fullmatch(name)
        return None if match is None else dict(zip(self.fields, match.groups(), strict=True))


def parse_format(text: str) -> NameFormat:
    """Return the format that a text describes.

    Raises:
        ValueError: It is none; the message says why.
    """
    fields: list[str] = []
    literals = [""]
    for field, literal, brace in _PIECE.findall(text):
        if brace:
            raise ValueError(f"a {brace!r} stands alone")
        if literal:
            if not literal.isprintable():
                raise ValueError(f"{literal!r} cannot stand in a name")
            literals[-1] = literal
            continue
        if not is_field(field):
            raise ValueError(f"{field!r} is not the name of a field")
        if field in fields:
            raise ValueError(f"field {{{field}}} stands there twice")
        fields.append(field)
        literals.append("")
    if TOPIC not in fields:
        raise ValueError("field {topic} is missing")
    _check_separated(fields, literals)
    return NameFormat(tuple(fields), tuple(literals))


def is_field(text: object) -> bool:
    """Whether a field may be called so."""
    return isinstance(text, str) and _FIELD_NAME.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Whether a text may stand for a field other than `{topic}`."""
    return _VALUE.fullmatch(text) is not None


def _check_separated(fields: list[str], literals: list[str]) -> None:
    """Names are split from both ends towards the topic: each field must be seen to end."""
    topic = fields.index(TOPIC)
    for index, field in enumerate(fields):
        following, preceding = literals[index + 1], literals[index]
        if index < topic and (not following or is_value(following[0])):
            raise ValueError(f"it is not clear where {{{field}}} ends")
        if index > topic and (not preceding or is_value(preceding[-1])):
            raise ValueError(f"it is not clear where {{{field}}} begins")


@cache
def _pattern(form: NameFormat) -> re.Pattern[str]:
    parts = [re.escape(form.literals[0])]
    for field, literal in zip(form.fields, form.literals[1:], strict=True):
        parts += "(.+)" if field == TOPIC else _VALUE_PATTERN, re.escape(literal)
    return re.compile("".join(parts), re.DOTALL)
