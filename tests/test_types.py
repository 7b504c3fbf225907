"""What a type checker knows of programs that use the client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow

PROGRAM = """
import json
from typing import Any, assert_type

from dafka import AsyncConsumer, AsyncProducer, Consumer, Producer, Record


def as_json(value: dict[str, int]) -> bytes:
    return json.dumps(value).encode()


def from_json(octets: bytes) -> dict[str, int]:
    return {**json.loads(octets)}


def with_octets() -> None:
    assert_type(Producer("x"), Producer[bytes, bytes])
    for record in Consumer("x", "t"):
        assert_type(record, Record)
        assert_type(record.value, bytes | None)


def with_values() -> None:
    producer = Producer("x", key_serializer=str.encode, value_serializer=as_json)
    assert_type(producer, Producer[str, dict[str, int]])
    producer.send("t", {"a": 1}, key="k")
    producer.send("t", None)
    producer.send_many("t", [{"a": 1}, None])
    producer.send("t", 1)
    for record in Consumer("x", "t", value_deserializer=from_json):
        assert_type(record, Record[bytes, dict[str, int]])
    for batch in Consumer("x", "t", value_deserializer=int).batches():
        assert_type(batch.values(), list[int | None])
    for loaded in Consumer("x", "t", value_deserializer=json.loads):
        assert_type(loaded.value, Any | None)


async def of_coroutines() -> None:
    producer = AsyncProducer("x", value_serializer=as_json)
    assert_type(producer, AsyncProducer[bytes, dict[str, int]])
    await producer.send("t", {"a": 1})
    await producer.send("t", b"1")
    async for record in AsyncConsumer("x", "t", key_deserializer=bytes.decode):
        assert_type(record, Record[str, bytes])
"""
REFUSED = ('producer.send("t", 1)', 'await producer.send("t", b"1")')
"""Lines in which a value is none of the serializer's."""


def test_values_have_the_types_of_their_serializers(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    options = ["--strict", "--config-file", ROOT / "pyproject.toml", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", tmp_path, program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    found = [line.split(": ", 2) for line in done.stdout.splitlines()]
    lines = PROGRAM.splitlines()
    assert [lines[int(place.rpartition(":")[2]) - 1].strip() for place, _, _ in found] == [
        *REFUSED
    ], done.stdout
    assert all("incompatible type" in told for _, _, told in found)
