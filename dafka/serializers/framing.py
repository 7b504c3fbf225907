"""What stands before a value of a schema: a zero, and the schema's id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import MisuseError

if TYPE_CHECKING:
    from dafka.serializers.registry import RegisteredSchema, SchemaRegistry

HEAD_BYTES = 5
"""A zero, and the schema's id."""


def head_of(id_: int) -> bytes:
    """What stands before a value of a schema."""
    return b"\0" + id_.to_bytes(4, "big")


def taken_apart(octets: bytes) -> tuple[int, memoryview]:
    """Return the id of a value's schema, and what stands behind it.

    Raises:
        ValueError: There is none.
    """
    if len(octets) < HEAD_BYTES or octets[0] != 0:
        raise ValueError(
            f"begins with {octets[:HEAD_BYTES].hex()}, not with 00 and the id of a schema"
        )
    return int.from_bytes(octets[1:HEAD_BYTES], "big"), memoryview(octets)[HEAD_BYTES:]


def written_with(
    registry: SchemaRegistry, subject: str, schema: str | None, language: str
) -> RegisteredSchema:
    """Return what is written with: a schema that is registered from now on, or the latest there is.

    Raises:
        MisuseError: There is no such schema, it is of another language, or it is refused.
        QueryError: The registry does not answer.
    """
    if schema is not None:
        return registry.registered(subject, schema, language)
    found = registry.latest(subject)
    if found.language != language:
        raise MisuseError(f"subject {subject!r} is of {found.language}, not {language}")
    return found
