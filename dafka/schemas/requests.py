"""What a request holds, checked: the text a client sent becomes values of ours."""

from __future__ import annotations

import re
from typing import NamedTuple

from dafka.errors import RegistryError, invalid_schema, no_schema
from dafka.limits import SCHEMA_BYTES_MAX, SUBJECT_BYTES_MAX
from dafka.schemas.compatibility import LANGUAGES
from dafka.schemas.entries import PROTOBUF, Reference, Schema

VERSION_MAX = ID_MAX = 2**31 - 1

LATEST = -1
"""How clients write the number of the latest version."""

_RESERVED = ("__GLOBAL", "__EMPTY")
"""Confluent's registry has another meaning for these subjects."""

_CONTEXT = ":."
"""What a subject begins with that is in another context than the one there is."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


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
    number = LATEST if version is None else checked_version(str(version))
    if id_ is not None and (type(id_) is not int or not 1 <= id_ <= ID_MAX):
        raise invalid_schema(f"'id' must be a number from 1 to {ID_MAX}")
    return Place(id_, None if number == LATEST else number)


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
        references = _references(body.get("references"))
        schema = Schema(language, text, references)
        if language != PROTOBUF:  # which takes a compiler, in a process of its own
            schema.identity()
    except RecursionError as error:
        raise invalid_schema("it is nested too deeply") from error
    except (ValueError, TypeError, KeyError) as error:
        raise invalid_schema(str(error)) from error
    return schema


def _references(says: object) -> tuple[Reference, ...]:
    if says is not None and not isinstance(says, list):
        raise TypeError("'references' is no list")
    return tuple(_reference(one) for one in says or ())


def _reference(says: object) -> Reference:
    match says:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            return Reference(name, subject, version)
        case _:
            raise ValueError("a reference has a 'name', a 'subject' and a 'version'")


def checked_subject(subject: str) -> str:
    """Return a subject.

    Raises:
        RegistryError: 42208.
    """
    is_one = 0 < len(subject.encode(errors="replace")) <= SUBJECT_BYTES_MAX
    if not is_one or _CONTROL.search(subject) or subject in _RESERVED:
        raise RegistryError(42208, f"The specified subject '{subject[:63]}' is not valid.")
    if subject.startswith(_CONTEXT):
        raise RegistryError(
            42208, f"The specified subject '{subject[:63]}' is not valid: there are no contexts"
        )
    return subject


def checked_id(text: str) -> int:
    """Return the id of a schema.

    Raises:
        RegistryError: 404, it is no number; 40403, no schema has one so large.
    """
    if not text.isascii() or not text.isdigit():
        raise RegistryError(404, "HTTP 404 Not Found")
    if int(text[:11]) > ID_MAX:
        raise no_schema()
    return int(text[:11])


def checked_version(text: str) -> int:
    """Return a version number, or `LATEST`.

    Raises:
        RegistryError: 42202.
    """
    text = text.strip()
    if text.lower() == "latest" or text == str(LATEST):
        return LATEST
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:11]) <= VERSION_MAX:
        raise RegistryError(
            42202,
            f"The specified version '{text[:63]}' is not a valid version id. Allowed values are"
            ' between [1, 2^31-1] and the string "latest"',
        )
    return int(text[:11])
