from __future__ import annotations

import pytest

from dafka.errors import RegistryError
from dafka.limits import SCHEMA_BYTES_MAX
from dafka.schemas.entries import Reference, Schema
from dafka.schemas.requests import (
    ANYWHERE,
    Place,
    checked_id,
    checked_version,
    place_of,
    schema_of,
)


def test_a_request_holds_a_schema():
    assert schema_of({"schema": '"int"'}) == Schema("AVRO", '"int"')
    uses = {"name": "a", "subject": "b", "version": 1}
    assert schema_of({"schema": "{}", "schemaType": "JSON", "references": [uses]}) == Schema(
        "JSON", "{}", (Reference("a", "b", 1),)
    )


@pytest.mark.parametrize(
    "body",
    [
        *(None, [], {}, {"schema": 3}, {"schema": "{"}, {"schema": "{}", "schemaType": "THRIFT"}),
        *({"schema": "{}", "references": what} for what in (3, False, {}, [{}])),
        {"schema": " " * SCHEMA_BYTES_MAX + "{}"},
        {"schema": "[" * 100_000},
        {"schema": '"\ud800"'},
        {"schema": "{}", "schemaType": {"a": 1}},
    ],
)
def test_other_requests_are_refused(body):
    with pytest.raises(RegistryError) as refused:
        schema_of(body)
    assert refused.value.code == 42201


def test_ids_are_numbers():
    assert checked_id("17") == 17
    for text, code in (
        ("x", 404),
        ("-1", 404),
        ("²", 404),
        (str(2**31), 40403),
        ("9" * 5_000, 40403),
    ):
        with pytest.raises(RegistryError) as refused:
            checked_id(text)
        assert refused.value.code == code


def test_versions_are_numbers_from_1():
    assert checked_version("17") == 17
    for text in ("0", "-2", "x", "", "²", "99999999999", "1" * 5_000):
        with pytest.raises(RegistryError) as refused:
            checked_version(text)
        assert refused.value.code == 42202


def test_a_registration_may_say_where_it_belongs():
    assert place_of({"schema": "{}"}) == place_of({"id": -1, "version": -1}) == ANYWHERE
    assert place_of({"id": 5, "version": 2}) == Place(5, 2)
    for said, code in (({"id": "5"}, 42201), ({"id": 2**31}, 42201), ({"version": [1]}, 42202)):
        with pytest.raises(RegistryError) as refused:
            place_of(said)
        assert refused.value.code == code
