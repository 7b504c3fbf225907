"""A request and its answer, and the schemas that requests hold."""

from __future__ import annotations

import json
from typing import NamedTuple

ANY = ...
"""Whatever it says: a sentence of ours, or what another case looks at."""


class Case(NamedTuple):
    """One request.

    Attributes:
        request: Method and path.
        body: What is sent as JSON; None sends nothing, octets are sent as they are.
        code: 200, or the error's code.
        answer: The whole answer, or of an error its message.
        ours: Code and answer of this registry, where they differ.
        why: Which line of docs/schemas.md says why, by what stands in its first column.
        headers: Besides the content type.
    """

    request: str
    body: object = None
    code: int = 200
    answer: object = ANY
    ours: tuple[int, object] | None = None
    why: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def schema(text: object, language: str = "AVRO", **others: object) -> dict[str, object]:
    """The body of a registration."""
    body: dict[str, object] = {"schema": text if isinstance(text, str) else json.dumps(text)}
    if language != "AVRO":
        body["schemaType"] = language
    return {**body, **others}


def record(*fields: tuple[str, object] | tuple[str, object, object], name: str = "R") -> object:
    """A record of Avro's; a field's third part is its default."""
    keys = ("name", "type", "default")
    return {
        "type": "record",
        "name": name,
        "fields": [dict(zip(keys, field, strict=False)) for field in fields],
    }


def reference(name: str, subject: str, version: int) -> dict[str, object]:
    """What a schema uses."""
    return {"name": name, "subject": subject, "version": version}


INT, LONG, TEXT = (schema(f'"{name}"') for name in ("int", "long", "string"))
F = record(("f", "string"))
F_AND_G = record(("f", "string"), ("g", "string", "x"))
F_AND_NEW = record(("f", "string"), ("h", "string"))
ITEM = schema(record(("id", "int"), name="Item"))
ORDER = schema(record(("item", "Item"), name="Order"), references=[reference("Item", "item", 1)])
NOTE = schema({"type": "object", "properties": {"a": {"type": "string"}}}, "JSON")

READ_ONLY = "is in read-only mode"
