"""Records as JSON, and back. Bytes that are not UTF-8 travel as base64, and say so."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from dafka.errors import MisuseError
from dafka.model import Record

_FIELDS = frozenset(("key", "value", "headers", "timestamp_ms"))


def lines_of(stream: BinaryIO, bytes_max: int) -> Iterator[bytes]:
    """Iterate over the lines of `stream`, without what ends them.

    Raises:
        MisuseError: The next line is longer than `bytes_max`, or cannot be read.
    """
    allowed = bytes_max + len(b"\r\n")
    while line := _line(stream, allowed + 1):
        if len(line) > allowed:
            raise MisuseError(
                f"longer than {bytes_max:,} bytes, and a line becomes one record: break it up"
            )
        yield line.rstrip(b"\r\n")


def to_json(record: Record) -> dict[str, Any]:
    """Return a JSON object with every field of `record`."""
    return {
        "topic": record.topic,
        "address": record.address,
        "sequence": record.sequence,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": {header.name: _text(header.value) for header in record.headers},
        "copy_flags": record.copy_flags,
        "origin": record.origin,
    }


def from_json(line: bytes) -> dict[str, Any]:
    """Return the keyword arguments of `Producer.send` that a JSON object stands for.

    Raises:
        MisuseError: The line is not such an object.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MisuseError(f"line is not JSON: {error}: {line[:80]!r}") from error
    if not isinstance(fields, dict) or not fields.keys() <= _FIELDS or "value" not in fields:
        raise MisuseError(f"line must be an object with value and {sorted(_FIELDS)}: {line[:80]!r}")
    headers = fields.get("headers") or {}
    timestamp_ms = fields.get("timestamp_ms")
    if not isinstance(headers, dict) or type(timestamp_ms) not in (int, type(None)):
        raise MisuseError(f"line must have headers as object, time as number: {line[:80]!r}")
    try:
        return {
            "value": _octets(fields["value"]),
            "key": _octets(fields.get("key")),
            "headers": [(name, _octets(value)) for name, value in headers.items()],
            "timestamp_ms": timestamp_ms,
        }
    except ValueError as error:
        raise MisuseError(f"line has text without bytes: {error}: {line[:80]!r}") from error


def printable(text: str) -> str:
    """Return `text` for a terminal: names come from peers and may hold anything."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _line(stream: BinaryIO, bytes_max: int) -> bytes:
    try:
        return stream.readline(bytes_max)
    except OSError as error:
        raise MisuseError(f"standard input cannot be read: {error.strerror}") from error


def _text(octets: bytes | None) -> str | dict[str, str] | None:
    if octets is None:
        return None
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(octets).decode()}


def _octets(value: object) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"base64": str() as encoded}:
            return base64.b64decode(encoded, validate=True)
        case _:
            # Anything else is meant as a JSON value of its own.
            return json.dumps(value).encode()
