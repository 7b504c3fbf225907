"""What a request holds, checked: the text a client sent becomes values of ours."""

from __future__ import annotations

import json
from typing import NamedTuple

from dafka.errors import RegistryError, invalid_schema, no_schema
from dafka.limits import SCHEMA_BYTES_MAX
from dafka.schemas.compatibility import LANGUAGES
from dafka.schemas.entries import Reference, Schema

VERSION_MAX = ID_MAX = 2**31 - 1


class Place(NamedTuple):
    """What a registration asks for itself, as migrations from other registries do.

    Attributes:
        id: Of the schema; None for the next one.
        version: Of the subject; None for the next one.
    """

    id: int | None = None
    version: int | None = None


ANYWHERE = Place()


def place_of(body: object) -> Place:
    """Return what a registration asks for by `id` and `version`; -1 asks for nothing.

    Raises:
        RegistryError: 42201, 42202.
    """
    said = body if isinstance(body, dict) else {}
    id_, version = (None if said.get(key) == -1 else said.get(key) for key in ("id", "version"))
    if id_ is not None and (type(id_) is not int or not 1 <= id_ <= ID_MAX):
        raise invalid_schema(f"'id' must be a number from 1 to {ID_MAX}")
    return Place(id_, None if version is None else checked_version(str(version)))


def schema_of(body: object) -> Schema:
    """Return the schema that a request holds: `schema`, `schemaType`, `references`.

    Raises:
        RegistryError: 42201.
    """
    if not isinstance(body, dict) or not isinstance(body.get("schema"), str):
        raise invalid_schema("the request has no text under 'schema'")
    for key in ("metadata", "ruleSet"):
        if body.get(key):
            raise invalid_schema(f"{key!r} is not kept here: register the schema without it")
    text, language = body["schema"], body.get("schemaType") or "AVRO"
    if not isinstance(language, str) or language not in LANGUAGES:
        raise invalid_schema(f"type {language!r} is not known: {', '.join(LANGUAGES)} are")
    try:
        if len(text.encode()) > SCHEMA_BYTES_MAX:
            raise invalid_schema(f"it is longer than {SCHEMA_BYTES_MAX} bytes")
        json.loads(text)
        references = tuple(_reference(one) for one in body.get("references") or ())
        schema = Schema(language, text, references)
        schema.identity()
    except RecursionError as error:
        raise invalid_schema("it is nested too deeply") from error
    except (ValueError, TypeError, KeyError) as error:
        raise invalid_schema(str(error)) from error
    return schema


def _reference(says: object) -> Reference:
    match says:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            return Reference(name, subject, version)
        case _:
            raise ValueError("a reference has a 'name', a 'subject' and a 'version'")


def checked_id(text: str) -> int:
    """Return the id of a schema.

    Raises:
        RegistryError: 404, it is no number; 40403, no schema has one so large.
    """
    if not text.isascii() or not text.isdigit():
        raise RegistryError(404, "HTTP Not Found")
    if int(text[:11]) > ID_MAX:
        raise no_schema()
    return int(text[:11])


def checked_version(text: str) -> int:
    """Return a version number.

    Raises:
        RegistryError: 42202.
    """
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:11]) <= VERSION_MAX:
        raise RegistryError(
            42202,
            f"The specified version '{text[:63]}' is not a valid version id. Allowed values are"
            f' between [1, {VERSION_MAX}] and the string "latest"',
        )
    return int(text[:11])
