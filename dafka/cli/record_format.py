"""How `dafka consume --format` prints a record, in the letters of kcat's `-f`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.model import Record

if TYPE_CHECKING:
    from collections.abc import Callable

_NULL = b"NULL"
"""What stands for no key and no value, as kcat has it."""


def _octets(value: bytes | None) -> bytes:
    return _NULL if value is None else value


def _length(value: bytes | None) -> bytes:
    return b"%d" % (-1 if value is None else len(value))


def _headers(record: Record) -> bytes:
    return b",".join(
        header.name.encode() + b"=" + _octets(header.value) for header in record.headers
    )


LETTERS: dict[str, tuple[str, Callable[[Record], bytes]]] = {
    "t": ("topic", lambda record: record.topic.encode()),
    "p": ("partition (the address of its producer)", lambda record: record.address.encode()),
    "o": ("sequence", lambda record: b"%d" % record.sequence),
    "k": ("key", lambda record: _octets(record.key)),
    "s": ("value", lambda record: _octets(record.value)),
    "v": ("value as well", lambda record: _octets(record.value)),
    "h": ("headers", _headers),
    "T": ("timestamp in milliseconds", lambda record: b"%d" % record.timestamp_ms),
    "K": ("length of the key", lambda record: _length(record.key)),
    "S": ("length of the value", lambda record: _length(record.value)),
    "%": ("itself", lambda _record: b"%"),
}
"""What stands behind a percent sign: what it means, and what it prints."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_TOKEN = re.compile(r"%(?P<letter>.?)|\\(?P<escape>.?)|(?P<text>[^%\\]+)", re.DOTALL)


def record_format(text: str) -> Callable[[Record], bytes]:
    r"""Return what prints records as `text` says; nothing ends a record but what it says.

    Args:
        text: With `LETTERS` behind percent signs, and `\n`, `\t`, `\r`, `\0`, `\\`.

    Raises:
        MisuseError: Something stands behind a percent sign or a backslash that means nothing.
    """
    pieces: list[Callable[[Record], bytes]] = []
    for token in _TOKEN.finditer(text):
        letter, escape, plain = token["letter"], token["escape"], token["text"]
        if letter is not None:
            if letter not in LETTERS:
                known = " ".join(f"%{one}" for one in LETTERS)
                raise MisuseError(f"--format knows no {token[0]!r}: {known}")
            pieces.append(LETTERS[letter][1])
        elif escape is not None:
            if escape not in _ESCAPES:
                known = " ".join(f"\\{one}" for one in _ESCAPES)
                raise MisuseError(f"--format knows no {token[0]!r}: {known}")
            pieces.append(_always(_ESCAPES[escape]))
        else:
            pieces.append(_always(plain))
    return lambda record: b"".join(piece(record) for piece in pieces)


def _always(text: str) -> Callable[[Record], bytes]:
    octets = text.encode(errors="surrogateescape")
    return lambda _record: octets
