"""Records as JSON, and back. Bytes that are not UTF-8 travel as base64, and say so."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from dafka.errors import MisuseError
from dafka.limits import JSON_LINE_BYTES_MAX, RECORD_BYTES_MAX
from dafka.model import Record

_FIELDS = ("value", "key", "headers", "timestamp_ms")

TIMESTAMP_MS_MAX = 2**63 - 1
"""What the field of a record can carry."""


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


class Lines:
    """How a line of standard input becomes a record.

    Args:
        json_lines: Lines are JSON objects.
        key: The key of records without one.
        headers: `NAME=VALUE`: of every record, in front of its own.
        key_separator: Behind the key at the beginning of a line; None is no key there.

    Raises:
        MisuseError: These cannot be used together, or a header is none.
    """

    def __init__(
        self,
        json_lines: bool = False,
        key: str | None = None,
        headers: Iterable[str] = (),
        key_separator: str | None = None,
    ) -> None:
        if json_lines and key_separator is not None:
            raise MisuseError("--json has the key in each object: leave --key-separator out")
        if key_separator == "":
            raise MisuseError("--key-separator must not be empty")
        self._json_lines = json_lines
        self._key = _typed(key)
        self._headers = [_header(one) for one in headers]
        self._separator = _typed(key_separator)
        self.bytes_max = JSON_LINE_BYTES_MAX if json_lines else RECORD_BYTES_MAX
        """A line may have so many."""

    def record(self, line: bytes) -> dict[str, Any]:
        """Return the keyword arguments of `Producer.send` that a line stands for.

        Raises:
            MisuseError: It stands for none.
        """
        if self._json_lines:
            record = from_json(line)
        elif self._separator is None:
            record = {"value": line}
        else:
            key, separator, value = line.partition(self._separator)
            if not separator:
                raise _refusal(f"no {self._separator!r}, which ends the key", line)
            record = {"key": key, "value": value}
        if record.get("key") is None:
            record["key"] = self._key
        record["headers"] = [*self._headers, *record.get("headers", ())]
        return record


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise MisuseError(f"--header takes NAME=VALUE: {text!r}")
    return name, value.encode(errors="surrogateescape")


def _typed(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="surrogateescape")


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
    except json.JSONDecodeError as error:
        raise _refusal(f"not JSON at column {error.colno}: {error.msg}", line) from error
    except (ValueError, RecursionError) as error:
        raise _refusal(f"not JSON that can be read: {error}", line) from error
    if not isinstance(fields, dict) or "value" not in fields:
        raise _refusal('not an object with "value", whose content may be null', line)
    if unknown := sorted(fields.keys() - set(_FIELDS)):
        known = ", ".join(f'"{name}"' for name in _FIELDS)
        raise _refusal(f"{json.dumps(unknown[0])[:80]} is no field of a record: {known} are", line)
    headers = fields.get("headers") or {}
    if not isinstance(headers, dict):
        raise _refusal('"headers" must be an object, {"name": "value"}', line)
    timestamp_ms = fields.get("timestamp_ms")
    if timestamp_ms is not None and not _is_time(timestamp_ms):
        raise _refusal(
            '"timestamp_ms" must be a whole number of milliseconds since 1970, '
            f"0 to {TIMESTAMP_MS_MAX}",
            line,
        )
    try:
        return {
            "value": _octets(fields["value"]),
            "key": _octets(fields.get("key")),
            "headers": [(name, _octets(value)) for name, value in headers.items()],
            "timestamp_ms": timestamp_ms,
        }
    except ValueError as error:
        raise _refusal(f"text that stands for no bytes: {error}", line) from error


def _line(stream: BinaryIO, bytes_max: int) -> bytes:
    try:
        return stream.readline(bytes_max)
    except OSError as error:
        raise MisuseError(f"standard input cannot be read: {error.strerror}") from error


def _refusal(complaint: str, line: bytes) -> MisuseError:
    return MisuseError(f"{complaint}: {line[:80]!r}")


def _is_time(value: object) -> bool:
    # By its type: JSON's true is an int to Python.
    return type(value) is int and 0 <= value <= TIMESTAMP_MS_MAX


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
