from __future__ import annotations

import pickle

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from dafka.errors import MisuseError, QueryError
from dafka.serializers.registry import SchemaRegistry, UnknownSchemaError
from tests.support.confluent_registry import answering

pytestmark = pytest.mark.net

USED = '{"type": "record", "name": "a.Used", "fields": [{"name": "n", "type": "int"}]}'
USER = '{"type": "record", "name": "b.User", "fields": [{"name": "u", "type": "a.Used"}]}'


def at(*urls, **who):
    """One that is asked again at once."""
    return SchemaRegistry(urls, pause_s=0.0, **who)


def test_schemas_are_found_by_subject_and_id_with_all_they_use(url):
    with SchemaRegistryClient({"url": url}) as client:
        client.register_schema("used", Schema(USED, "AVRO"))
        references = [SchemaReference("a.Used", "used", 1)]
        id_ = client.register_schema("a/b value", Schema(USER, "AVRO", references))
    asked = SchemaRegistry.at(url)
    latest = asked.latest("a/b value")
    assert latest == (id_, "AVRO", USER, (USED,))
    assert asked.by_id(id_) == latest
    assert pickle.loads(pickle.dumps(asked)).by_id(id_) == latest


def test_a_schema_is_registered_once(url):
    asked = SchemaRegistry.at(url)
    first = asked.registered("used", USED, "AVRO")
    assert asked.registered("used", USED, "AVRO") == first
    assert asked.latest("used").id == first.id
    with pytest.raises(MisuseError, match="42201"):
        asked.registered("other", '{"type": "nothing"}', "AVRO")


def test_what_is_not_there_is_said_not_to_be(url):
    with pytest.raises(UnknownSchemaError, match="404"):
        SchemaRegistry.at(url).latest("nothing")
    with pytest.raises(UnknownSchemaError, match="404"):
        SchemaRegistry.at(url).by_id(77)


@pytest.mark.parametrize("place", ["", "localhost:8081", "http://a:1,ftp://b"])
def test_a_place_that_is_none_is_refused(place):
    with pytest.raises(MisuseError, match="a registry is at"):
        SchemaRegistry.at(place)


def test_the_next_one_is_asked_where_one_does_not_answer(url):
    asked = SchemaRegistry.at(f"http://127.0.0.1:9, {url}/")
    assert asked.registered("used", USED, "AVRO").id
    with pytest.raises(QueryError, match=r"127\.0\.0\.1:9"):
        at("http://127.0.0.1:9").latest("used")


def test_it_is_asked_again_where_it_has_a_fault_and_who_asks_is_told():
    with answering((503, b"busy"), (200, b"[]"), (200, b'{"schema": "{}", "id": 3}')) as server:
        asked = at(server.url, name="ops", password="secret")
        assert "secret" not in repr(asked)
        assert asked.latest("used").id == 3
    assert server.authorizations == ["Basic b3BzOnNlY3JldA=="] * 3
    with answering(*[(429, b"later")] * 3) as server, pytest.raises(QueryError, match="429: later"):
        at(server.url).latest("used")
