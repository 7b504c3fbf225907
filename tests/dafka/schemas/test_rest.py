from __future__ import annotations

import asyncio
import base64
import json
import random

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from prometheus_client import REGISTRY
from starlette.testclient import TestClient

from dafka.limits import SCHEMA_BYTES_MAX
from dafka.schemas.rest import MEDIA_TYPE, application, right_of

JSON = {"content-type": "application/json"}

INT, LONG, TEXT = ({"schema": f'"{name}"'} for name in ("int", "long", "string"))


def test_the_largest_schema_is_taken_however_json_writes_its_letters(client):
    fields = '{"type": "record", "name": "R", "doc": "%s", "fields": []}'
    letters = "\u00e9" * (SCHEMA_BYTES_MAX // 2 - 100)
    answer = client.post("/subjects/long/versions", json={"schema": fields % letters})
    assert answer.status_code == 200, answer.text
    escaped = json.dumps({"schema": fields % letters})
    assert len(escaped) > 2 * SCHEMA_BYTES_MAX
    answer = client.post(
        "/subjects/long/versions", content=escaped, headers={"content-type": MEDIA_TYPE}
    )
    assert (answer.status_code, answer.json()) == (200, {"id": 1})


def test_a_schema_is_registered_found_and_deleted(client):
    answer = client.post("/subjects/a%2Fb/versions", json=INT)
    assert (answer.status_code, answer.json()) == (200, {"id": 1})
    assert answer.headers["content-type"] == MEDIA_TYPE
    place = {"subject": "a/b", "version": 1, "id": 1, **INT}
    assert client.post("/subjects/a%2Fb", json=INT).json() == place
    assert client.get("/subjects").json() == ["a/b"]
    assert client.get("/subjects/a%2Fb/versions/latest").json() == place
    assert client.get("/subjects/a%2Fb/versions/1/schema").text == INT["schema"]
    assert client.get("/schemas/ids/1").json() == INT
    assert client.get("/schemas/ids/1/schema").text == INT["schema"]
    assert client.get("/schemas/ids/1/subjects").json() == ["a/b"]
    assert client.get("/schemas/ids/1/versions").json() == [{"subject": "a/b", "version": 1}]
    assert client.delete("/subjects/a%2Fb/versions/1").json() == 1
    assert client.get("/subjects").json() == []
    assert client.get("/subjects?deleted=true").json() == ["a/b"]
    assert client.delete("/subjects/a%2Fb?permanent=true").json() == [1]


def proto(text, *references):
    return {"schema": text, "schemaType": "PROTOBUF", "references": list(references)}


def test_a_schema_of_protobuf_is_kept_as_its_text_and_as_its_descriptor(client):
    item = proto('syntax = "proto3"; package shop; message Item { int64 id = 1; }')
    order = proto(
        'syntax = "proto3"; import "item.proto"; message Order { shop.Item item = 1; }',
        {"name": "item.proto", "subject": "item", "version": 1},
    )
    assert client.post("/subjects/item/versions", json=item).json() == {"id": 1}
    assert client.post("/subjects/order/versions", json=order).json() == {"id": 2}
    assert client.get("/schemas/ids/2").json() == order
    assert client.get("/schemas/ids/2/schema").text == order["schema"]
    serialized = client.get("/schemas/ids/2?format=serialized").json()["schema"]
    file = FileDescriptorProto.FromString(base64.b64decode(serialized))
    assert (file.name, list(file.dependency)) == ("", ["item.proto"])
    for path in ("/schemas/ids/2/schema", "/subjects/order/versions/latest/schema"):
        assert client.get(f"{path}?format=serialized").text == serialized
    place = {"subject": "order", "version": 1, "id": 2, **order}
    assert client.post("/subjects/order", json=order).json() == place
    as_sent = {**order, "schema": serialized}
    assert client.post("/subjects/order/versions", json=as_sent).json() == {"id": 2}
    assert client.post("/subjects/order?format=serialized", json=as_sent).json() == {
        **place,
        "schema": serialized,
    }
    found = client.get("/subjects/order/versions/1?format=serialized").json()
    assert found["schema"] == client.get("/schemas?format=serialized").json()[1]["schema"]
    # Languages of JSON have no other form.
    assert client.post("/subjects/int/versions", json=INT).json() == {"id": 3}
    assert client.get("/schemas/ids/3?format=serialized").json() == INT


def test_what_is_wrong_with_a_schema_of_protobuf_is_said_with_its_line(client):
    broken = proto('syntax = "proto3";\nmessage A { int32 = 1; }')
    answer = client.post("/subjects/a/versions", json=broken)
    assert answer.status_code == 422
    assert answer.json() == {
        "error_code": 42201,
        "message": "Invalid schema: 2:19: Expected field name.",
    }
    good = [
        proto(f'syntax = "proto3"; message A {{ {one} a = 1; }}') for one in ("int32", "string")
    ]
    assert client.post("/subjects/a/versions", json=good[0]).status_code == 200
    answer = client.post("/subjects/a/versions", json=good[1])
    assert answer.status_code == 409
    assert "field 1 of A is text or bytes, not a whole number" in answer.json()["message"]


@pytest.mark.parametrize("subject", ["", "/orders"])
def test_a_mode_and_a_level_of_one_subject_are_two_things(client, subject):
    client.put(f"/config{subject}", json={"compatibility": "FULL"})
    client.put(f"/mode{subject}", json={"mode": "READONLY"})
    assert client.get(f"/config{subject}").json() == {"compatibilityLevel": "FULL"}
    client.put(f"/mode{subject}", json={"mode": "READWRITE"})
    client.put(f"/config{subject}", json={"compatibility": "NONE"})
    assert client.get(f"/mode{subject}").json() == {"mode": "READWRITE"}


def test_what_there_is_can_be_asked_for_in_parts(client):
    for subject, schemas in {"a": (INT, LONG), "b": (INT,), "c": (TEXT,)}.items():
        for schema in schemas:
            assert client.post(f"/subjects/{subject}/versions", json=schema).status_code == 200
    client.delete("/subjects/c")
    client.delete("/subjects/a/versions/1")

    def get(path):
        return client.get(path).json()

    assert get("/subjects") == ["a", "b"]
    assert get("/subjects?deleted=true&offset=1&limit=1") == ["b"]
    assert get("/subjects?deletedOnly=true") == ["c"]
    assert get("/subjects?subjectPrefix=:*:b") == ["b"]
    assert get("/subjects?offset=9&limit=0") == []
    assert get("/subjects/a/versions") == [2]
    assert get("/subjects/a/versions?deleted=true&limit=1") == [1]
    assert get("/subjects/a/versions?deletedOnly=true") == [1]
    assert get("/subjects/b/versions?deletedOnly=true") == []
    assert get("/schemas/ids/1/subjects?deleted=true&offset=1") == ["b"]
    assert get("/schemas/ids/1/versions?deleted=true&limit=1") == [{"subject": "a", "version": 1}]
    assert get("/schemas/ids/1?fetchMaxId=true") == {**INT, "maxId": 3}

    def places(path):
        return [(one["subject"], one["version"], one["id"]) for one in get(path)]

    assert places("/schemas") == [("a", 2, 2), ("b", 1, 1)]
    assert places("/schemas?deleted=true&latestOnly=true") == [
        ("a", 2, 2),
        ("b", 1, 1),
        ("c", 1, 3),
    ]
    assert places("/schemas?deletedOnly=true") == [("a", 1, 1), ("c", 1, 3)]
    assert places("/schemas?subjectPrefix=b") == [("b", 1, 1)]
    assert places("/schemas?offset=1&limit=5") == [("b", 1, 1)]
    assert get("/schemas?limit=1")[0] == {"subject": "a", "version": 2, "id": 2, **LONG}


def test_the_latest_version_that_is_there_is_deleted(client):
    for schema in (INT, LONG):
        client.post("/subjects/a/versions", json=schema)
    assert client.delete("/subjects/a/versions/latest").json() == 2
    assert client.delete("/subjects/a/versions/latest").json() == 1
    assert client.get("/subjects").json() == []


def test_levels_and_modes_for_all_are_taken_back(client):
    client.put("/config", json={"compatibility": "FULL", "normalize": True})
    assert client.delete("/config").json() == {"compatibilityLevel": "FULL"}
    assert client.delete("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert client.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    client.put("/mode", json={"mode": "READONLY"})
    assert client.delete("/mode").json() == {"mode": "READONLY"}
    assert client.get("/mode").json() == {"mode": "READWRITE"}


def test_another_registry_is_imported_with_its_ids_and_versions(client):
    client.post("/subjects/old/versions", json=INT)
    refused = client.put("/mode", json={"mode": "IMPORT"}).json()
    assert (refused["error_code"], "existing subjects" in refused["message"]) == (42205, True)
    assert client.put("/mode/new", json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}

    def register(schema, **place):
        answer = client.post("/subjects/new/versions", json={**schema, **place})
        return answer.json().get("error_code") or answer.json()

    assert register(TEXT, id=77, version=4) == {"id": 77}
    assert register(TEXT, id=77, version=4) == {"id": 77}, "again"
    assert register(LONG, id=80, version=2) == {"id": 80}, "not compatible, and in any order"
    assert register({"schema": '"bytes"'}, id=77) == 42205, "the id means another schema"
    assert register({"schema": '"bytes"'}, id=81, version=4) == 42205, "so does the version"
    assert register({"schema": '"none"'}, id=82) == 42201, "it is no schema"
    assert register({"schema": '"bytes"'}) == 42205, "it says no id"
    assert register({"schema": '"bytes"'}, id=81) == {"id": 81}, "the next version"
    assert client.get("/subjects/new/versions").json() == [2, 4, 5]
    assert client.get("/schemas/ids/80").json() == LONG
    assert client.put("/mode?force=true", json={"mode": "IMPORT"}).status_code == 200
    client.delete("/mode")
    client.put("/mode/new", json={"mode": "READWRITE"})
    assert register(TEXT) == {"id": 77}
    assert register({"schema": '"double"'}, id=99) == 42205
    assert client.put("/config/new", json={"compatibility": "NONE"}).status_code == 200
    assert register({"schema": '"double"'}) == {"id": 82}, "nothing is given twice"


def test_a_type_with_nothing_but_its_name_is_that_name(client):
    assert client.post("/subjects/a/versions", json=TEXT).json() == {"id": 1}
    same = {"schema": '{"type": "string"}'}
    assert client.post("/subjects/a/versions", json=same).json() == {"id": 1}
    assert client.post("/subjects/b/versions", json=same).json() == {"id": 1}
    assert client.get("/subjects/b/versions/1").json()["schema"] == TEXT["schema"]


def test_compatibility_config_and_mode(client):
    client.post("/subjects/a/versions", json=INT)
    check = "/compatibility/subjects/a/versions"
    assert client.post(f"{check}/latest", json=LONG).json() == {"is_compatible": True}
    answer = client.post(f"{check}?verbose=true", json=TEXT).json()
    assert not answer["is_compatible"]
    assert "string" in answer["messages"][0]
    assert client.post("/subjects/a/versions", json=TEXT).status_code == 409
    assert client.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert client.put("/config/a", json={"compatibility": "NONE"}).json() == {
        "compatibility": "NONE"
    }
    assert client.get("/config/a").json() == {"compatibilityLevel": "NONE"}
    assert client.delete("/config/a").json() == {"compatibilityLevel": "NONE"}
    assert client.get("/config/a").json()["error_code"] == 40408
    assert client.get("/config/a?defaultToGlobal=true").json()["compatibilityLevel"] == "BACKWARD"
    assert client.put("/mode", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}
    assert client.post("/subjects/b/versions", json=INT).json()["error_code"] == 42205
    assert client.put("/mode", json={"mode": "READWRITE"}).status_code == 200
    assert client.get("/mode").json() == {"mode": "READWRITE"}


@pytest.mark.parametrize(
    ("method", "path", "octets", "status", "code"),
    [
        ("GET", "/subjects/none/versions", b"", 404, 40401),
        ("GET", "/schemas/ids/9", b"", 404, 40403),
        ("POST", "/subjects/a/versions", b"{", 400, 400),
        ("POST", "/subjects/a/versions", b"[" * 100_000, 400, 400),
        ("POST", "/subjects/a/versions", b"{}", 422, 42201),
        ("POST", "/subjects/a/versions", b" " * 9_000_000, 413, 413),
        ("POST", "/subjects/a/versions", b'{"schema": "1", "schemaType": {"a": 1}}', 422, 42201),
        ("POST", "/subjects/a/versions", b'{"schema": "\\"\\ud800\\""}', 422, 42201),
        ("GET", "/schemas/ids/" + "9" * 5_000, b"", 404, 40403),
        ("GET", f"/schemas/ids/{2**31}/schema", b"", 404, 40403),
        ("PUT", "/config", b"{}", 422, 42203),
        ("PUT", "/mode", b'{"mode": "FORWARD"}', 422, 42204),
        ("PUT", "/config", b'{"compatibility": "FULL", "alias": "b"}', 422, 42203),
        ("PUT", "/config", b'{"compatibility": "FULL", "normalize": false}', 422, 42203),
        (
            "POST",
            "/subjects/a/versions",
            b'{"schema": "\\"int\\"", "metadata": {"a": 1}}',
            422,
            42201,
        ),
        (
            "POST",
            "/subjects/a/versions",
            b'{"schema": "\\"int\\"", "ruleSet": {"a": 1}}',
            422,
            42201,
        ),
        ("POST", "/subjects/a/versions", b'{"schema": "\\"int\\"", "id": true}', 422, 42201),
        ("POST", "/subjects/a/versions", b'{"schema": "\\"int\\"", "id": 0}', 422, 42201),
        ("POST", "/subjects/a/versions", b'{"schema": "\\"int\\"", "version": 0}', 422, 42202),
        ("POST", "/subjects/a/versions", b'{"schema": "\\"int\\"", "id": 7}', 422, 42205),
        ("POST", "/subjects/:.ctx:a/versions", b'{"schema": "\\"int\\""}', 422, 42208),
        ("GET", "/subjects?limit=x", b"", 404, 404),
        ("GET", "/nothing", b"", 404, 404),
        ("PATCH", "/subjects", b"", 405, 405),
    ],
)
def test_a_refusal_has_a_code_and_a_sentence(client, method, path, octets, status, code):
    answer = client.request(method, path, content=octets, headers=JSON)
    assert answer.status_code == status
    assert answer.json()["error_code"] == code
    assert answer.json()["message"]


def test_odd_values_anywhere_in_a_request_are_refused_or_taken(client):
    chance = random.Random(7)
    for _ in range(400):
        method, path, document = chance.choice(REQUESTS)
        content = json.dumps(replaced(chance, document))
        answer = client.request(method, path, content=content, headers=JSON)
        assert answer.status_code < 500
        assert isinstance(answer.json(), dict)


REQUESTS = [
    ("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": "AVRO", "references": []}),
    (
        "POST",
        "/subjects/b/versions",
        {"schema": "{}", "schemaType": "JSON", "references": [NAMED := {"name": "n"}]},
    ),
    (
        "POST",
        "/subjects/c",
        {"schema": '"a"', "references": [{**NAMED, "subject": "a", "version": 1}]},
    ),
    ("POST", "/compatibility/subjects/a/versions/latest", {"schema": '{"type": "int"}'}),
    ("PUT", "/config", {"compatibility": "NONE"}),
    ("PUT", "/mode/a", {"mode": "READWRITE"}),
]
ODD = (None, True, -1, 10**30, 1e308, "", "\ud800", "\0", "9" * 5_000, [], {}, [[]], {"a": [1]})


def replaced(chance, document):
    """The document with some of its values, or all of it, replaced by odd ones."""
    if chance.random() < 0.2:
        return chance.choice(ODD)
    if isinstance(document, dict):
        return {key: replaced(chance, value) for key, value in document.items()}
    if isinstance(document, list):
        return [replaced(chance, value) for value in document]
    return document


def test_a_registry_elsewhere_answers_and_does_not_register(client, registry_of):
    client.post("/subjects/a/versions", json=INT)
    other = TestClient(application(registry_of("two", "B")), base_url="http://127.0.0.1")
    assert other.get("/schemas/ids/1").json() == INT
    answer = other.post("/subjects/a/versions", json=TEXT)
    assert answer.json()["error_code"] in (409, 42205)
    answer = other.post("/subjects/b/versions", json=TEXT).json()
    assert answer["error_code"] == 42205
    assert "one" in answer["message"]
    assert other.put("/config", json={"compatibility": "NONE"}).json()["error_code"] == 42205


def test_what_asks_for_nothing_is_answered(client):
    assert client.get("/").json() == {}
    assert client.get("/contexts").json() == ["."]
    assert client.get("/schemas/types").json() == ["AVRO", "JSON", "PROTOBUF"]


def test_requests_are_counted_by_what_became_of_them(client):
    def counted(status):
        labels = {"method": "GET", "status": status}
        return REGISTRY.get_sample_value("dafka_registry_requests_total", labels) or 0

    before = counted("200"), counted("404")
    client.get("/subjects")
    client.get("/subjects/nobody/versions")
    assert (counted("200"), counted("404")) == (before[0] + 1, before[1] + 1)
    assert REGISTRY.get_sample_value("dafka_registry_primary", {"cluster": "one"}) == 1
    assert REGISTRY.get_sample_value("dafka_registry_epoch", {"cluster": "one"}) == 1


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_web_page_may_send_unasked_registers_nothing(client, kind):
    body = json.dumps({"schema": '"int"'})
    refused = client.post("/subjects/a/versions", content=body, headers={"content-type": kind})
    assert (refused.status_code, refused.json()["error_code"]) == (415, 415)
    assert client.get("/subjects").json() == []
    for kind in ("application/json; charset=utf-8", "application/vnd.schemaregistry.v1+json"):
        taken = client.post("/subjects/a/versions", content=body, headers={"content-type": kind})
        assert taken.json() == {"id": 1}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "localhost.evil", ""])
def test_a_name_that_is_not_its_own_is_refused(client, host):
    refused = client.get("/subjects", headers={"host": host})
    assert (refused.status_code, refused.json()["error_code"]) == (421, 421)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "10.1.2.3:8081", "[::1]:8081", "[::1]", "registry.corp"]
)
def test_its_own_names_and_addresses_are_taken(registry_of, host):
    client = TestClient(application(registry_of(), ["Registry.corp"]))
    assert client.get("/subjects", headers={"host": host}).status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(registry_of):
    sent = []

    async def receive():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/subjects/a/versions",
        "headers": headers,
        "raw_path": b"/subjects/a/versions",
        "query_string": b"",
        "http_version": "1.1",
    }
    asyncio.run(application(registry_of(), body_s_max=0.05)(scope, receive, send))
    assert sent[0]["status"] == 408


@pytest.mark.parametrize(
    ("right", "requests"),
    [
        (
            "schemas",
            [
                "GET /subjects",
                "GET /mode",
                "HEAD /subjects",
                "POST /subjects/orders-value",
                "POST /subjects/a%2Fversions",
                "POST /compatibility/subjects/a/versions",
                "POST /compatibility/subjects/a/versions/latest",
            ],
        ),
        (
            "register",
            [
                "POST /subjects/a/versions",
                "POST /subjects/a%2Fb/versions",
                "POST /subjects/a/versions/",
                "POST //subjects/a",
                "PUT /config",
                "DELETE /mode/a",
                "DELETE /subjects/a",
                "PUT /compatibility/subjects/a/versions",
            ],
        ),
    ],
)
def test_which_right_a_request_needs(right, requests):
    for request in requests:
        method, path = request.split()
        assert right_of({"method": method, "raw_path": path.encode()}) == right, request
