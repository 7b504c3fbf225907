"""The registry as a process, with the clients that Confluent ships."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from contextlib import ExitStack

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.support.certificates import write_web

pytestmark = [pytest.mark.net, pytest.mark.slow]

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"type": "object", "title": "Note", "properties": {"text": {"type": "string"}}}
VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def registry(cluster, free_ports):
    """A function that starts a registry and returns its URL and its process."""
    started = []

    def registry(*words):
        port = free_ports(1)
        running = subprocess.Popen(
            [
                *(sys.executable, "-m", "dafka", "schemas", *words),
                *("--tower", cluster.tower, "--store", cluster.query),
                *("--listen", f"127.0.0.1:{port}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(running)
        lines = [running.stderr.readline()]
        while lines[-1] and "schemas is up" not in lines[-1]:
            lines.append(running.stderr.readline())
        assert lines[-1], lines
        scheme = "https" if "url=https:" in lines[-1] else "http"
        return f"{scheme}://127.0.0.1:{port}", running

    yield registry
    for running in started:
        if running.poll() is None:
            running.kill()
        running.communicate()


@pytest.fixture
def client_of():
    """A function that returns Confluent's client of a registry."""
    with ExitStack() as opened:

        def client_of(url, **more):
            client = SchemaRegistryClient({"url": url, **more})
            opened.callback(client.close)
            return client

        yield client_of


def test_confluents_clients_work_with_it_also_after_it_was_killed(registry, client_of):
    url, running = registry("--cluster", "one", "--primary")
    client = client_of(url)
    avro = AvroSerializer(client, json.dumps(ORDER))
    octets = avro({"id": 7}, VALUE)
    assert octets[0] == 0
    assert fastavro.schemaless_reader(io.BytesIO(octets[5:]), ORDER) == {"id": 7}
    note = JSONSerializer(json.dumps(NOTE), client)
    context = SerializationContext("notes", MessageField.VALUE)
    noted = note({"text": "hello"}, context)
    running.kill()
    running.wait()

    url, running = registry("--cluster", "one", "--primary")
    client = client_of(url)
    assert AvroDeserializer(client)(octets, VALUE) == {"id": 7}
    assert JSONDeserializer(None, schema_registry_client=client)(noted, context) == {
        "text": "hello"
    }
    assert client.get_subjects() == ["notes-value", "orders-value"]
    assert client.get_latest_version("orders-value").schema_id == int.from_bytes(octets[1:5])
    wrong = Schema(json.dumps({**ORDER, "fields": [{"name": "x", "type": "long"}]}), "AVRO")
    assert not client.test_compatibility("orders-value", wrong)
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("orders-value", wrong)
    assert refused.value.http_status_code == 409
    client.set_compatibility("orders-value", "NONE")
    assert client.register_schema("orders-value", wrong) > 2

    other, _ = registry("--cluster", "two", "--primary")
    elsewhere = client_of(other)
    assert elsewhere.get_schema(int.from_bytes(octets[1:5])).schema_str
    with pytest.raises(SchemaRegistryError) as refused:
        elsewhere.register_schema("other-value", Schema('"int"', "AVRO"))
    assert refused.value.error_code == 42205
    assert client.delete_subject("notes-value") == [1]
    assert client.delete_subject("notes-value", permanent=True) == [1]
    running.send_signal(signal.SIGTERM)
    _, error = running.communicate(timeout=120)
    assert running.returncode == 0, error
    assert "Traceback" not in error


def test_confluents_clients_show_tokens_over_tls(registry, client_of, tmp_path):
    file, tokens = write_web(tmp_path, tls=True, ci=["register"], shop=["schemas"])
    url, _ = registry("--cluster", "one", "--primary", "--web", str(file))
    assert url.startswith("https:")
    trusted = {"ssl.ca.location": str(tmp_path / "web.crt")}
    ci = client_of(url, **trusted, **{"basic.auth.user.info": f"ci:{tokens['ci']}"})
    bearer = {
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": tokens["shop"],
        "bearer.auth.logical.cluster": "any",
        "bearer.auth.identity.pool.id": "any",
    }
    shop = client_of(url, **trusted, **bearer)
    stranger = client_of(url, **trusted)
    order = Schema(json.dumps(ORDER), "AVRO")
    number = ci.register_schema("orders-value", order)
    assert shop.get_schema(number).schema_str
    assert shop.lookup_schema("orders-value", order).schema_id == number
    assert shop.test_compatibility("orders-value", order)
    for refused_to, status in ((shop, 403), (stranger, 401)):
        with pytest.raises(SchemaRegistryError) as refused:
            refused_to.register_schema("other-value", order)
        assert (refused.value.http_status_code, refused.value.error_code) == (status, status)
    with pytest.raises(SchemaRegistryError) as refused:
        stranger.get_subjects()
    assert refused.value.http_status_code == 401
    assert ci.get_subjects() == ["orders-value"]


def test_where_it_cannot_listen_it_says_so(refused):
    assert "cannot serve the registry" in refused(
        2, "schemas", "--cluster", "one", "--listen", "nowhere"
    )
