"""Avro's schemas: the only importer of Apache's avro; values are in `dafka/spark/confluent`.

fastavro says what a schema is; Apache's library has the check of a reader against a writer, by the
rules of the Avro specification's section on schema resolution, which fastavro has only for data.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException
from avro.name import Names
from avro.schema import make_avsc_object
from fastavro.schema import SchemaParseException, UnknownType, parse_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from avro.schema import Schema

Uses = tuple[tuple[str, str], ...]
"""Name and text of each schema another one uses, each behind those that it uses itself."""


def check(text: str, uses: Uses) -> None:
    """Check a schema.

    Args:
        text: JSON.
        uses: What it refers to.

    Raises:
        ValueError: It is none; the message says why.
    """
    named: dict[str, dict[object, object]] = {}
    try:
        for source in (*(used for _, used in uses), text):
            parse_schema(json.loads(source), named_schemas=named)
        _parsed(text, uses)
    except UnknownType as error:
        raise ValueError(f"type {error.name!r} is not known") from error
    except (SchemaParseException, AvroException) as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("schema is nested too deeply") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"schema is malformed: {error!r}") from error


def obstacles(reader: tuple[str, Uses], writer: tuple[str, Uses]) -> Sequence[str]:
    """Why data written with one schema cannot be read with another; empty if it can.

    Source: Apache Avro specification, Schema Resolution.
    """
    checker = ReaderWriterCompatibilityChecker()
    result = checker.get_compatibility(_parsed(*reader), _parsed(*writer))
    if result.compatibility is SchemaCompatibilityType.compatible:
        return ()
    return [f"{', '.join(sorted(result.messages))} at {', '.join(sorted(result.locations))}"]


def _parsed(text: str, uses: Uses) -> Schema:
    names = Names(validate_names=True)
    with warnings.catch_warnings():
        # Of logical types it does not know; such data is read as the type below, as Avro says.
        warnings.simplefilter("ignore")
        for _, used in uses:
            make_avsc_object(json.loads(used), names)
        return make_avsc_object(json.loads(text), names)
