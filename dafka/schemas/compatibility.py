"""Whether a schema may follow others, by the levels that Confluent's registry has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dafka.schemas import avro_schema, json_schema, protobuf_schema
from dafka.schemas.entries import AVRO, JSON, PROTOBUF
from dafka.schemas.protobuf_compiler import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS = (
    *("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
    *("FULL", "FULL_TRANSITIVE"),
)
DEFAULT_LEVEL = "BACKWARD"

E = TypeVar("E")

LANGUAGES = {AVRO: avro_schema, JSON: json_schema, PROTOBUF: protobuf_schema}


class Source(NamedTuple):
    """A schema with everything it uses: name and text, each behind what it uses itself.

    Of Protobuf texts are descriptors in base64, but for that of a schema that is to be checked.
    """

    language: str
    text: str
    uses: tuple[tuple[str, str], ...] = ()


def check(source: Source) -> str:
    """Check a schema by itself; return what it is compiled to, nothing where it is JSON.

    Raises:
        ValueError: It is none; the message says why.
    """
    if source.language == PROTOBUF:
        return compiled(source.text, source.uses)
    LANGUAGES[source.language].check(source.text, source.uses)
    return ""


def compared(level: str, earlier: Sequence[E]) -> Sequence[E]:
    """Return those of the earlier schemas, the oldest first, that a level compares with."""
    if level == "NONE":
        return ()
    return earlier if level.endswith("_TRANSITIVE") else earlier[-1:]


def obstacles(level: str, new: Source, earlier: Sequence[Source]) -> list[str]:
    """Why `new` may not follow; empty if it may.

    Args:
        level: BACKWARD: the new schema reads what the last one wrote; FORWARD: the last one reads
            what the new one writes; FULL: both; with TRANSITIVE, for all earlier ones.
        new: The schema that comes.
        earlier: Those that are there, the oldest first.
    """
    found: list[str] = []
    for old in compared(level, earlier):
        if level.startswith(("BACKWARD", "FULL")):
            found += _unreadable(new, old, "new schema cannot read data of an earlier one")
        if level.startswith(("FORWARD", "FULL")):
            found += _unreadable(old, new, "an earlier schema cannot read data of the new one")
    return found


def _unreadable(reader: Source, writer: Source, what: str) -> list[str]:
    if reader.language != writer.language:
        return [f"{what}: {reader.language} is not {writer.language}"]
    language = LANGUAGES[reader.language]
    try:
        found = language.obstacles((reader.text, reader.uses), (writer.text, writer.uses))
    except RecursionError:
        found = ["they are nested too deeply"]
    return [f"{what}: {obstacle}" for obstacle in found]
