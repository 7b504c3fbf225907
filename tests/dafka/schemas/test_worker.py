"""Judging in processes: real ones, and schemas that would take for ever."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time

import pytest

from dafka.errors import RegistryError
from dafka.limits import SCHEMA_BYTES_MAX
from dafka.schemas import worker
from dafka.schemas.compatibility import Source
from dafka.schemas.entries import Schema
from dafka.schemas.rulings import OBSTACLE_CHARACTERS_MAX, Case, Ruling
from dafka.schemas.schema_log import MemorySchemaLog
from dafka.schemas.service import Service
from dafka.schemas.worker import Judges

pytestmark = pytest.mark.slow

INT, TEXT = Source("AVRO", '"int"'), Source("AVRO", '"string"')


def doubling(leaf, levels=40):
    """A JSON schema of 3 kB of which each level is compared twice for each one above."""
    definitions = {"l0": leaf}
    for level in range(1, levels):
        choice = {"type": "object", "properties": {"a": {"$ref": f"#/definitions/l{level - 1}"}}}
        definitions[f"l{level}"] = {"anyOf": [choice, {**choice, "minProperties": 1}]}
    return json.dumps({"definitions": definitions, "$ref": f"#/definitions/l{levels - 1}"})


@pytest.fixture
def judges():
    judges = Judges(work_s_max=1.5)
    yield judges
    judges.close()


def refused(judges, question):
    with pytest.raises(RegistryError) as error:
        judges(question)
    return error.value


def test_verdicts_are_those_of_this_process(judges):
    assert judges(Case(INT)) == Ruling()
    assert "not known" in judges(Case(Source("AVRO", '"é\\nx"'))).error
    assert judges(Case(INT, "BACKWARD", (TEXT,))).obstacles
    used = Source(
        "AVRO",
        '{"type": "array", "items": "U"}',
        (("U", '{"type": "enum", "name": "U", "symbols": ["a"]}'),),
    )
    assert judges(Case(used)) == Ruling()


def test_what_takes_too_long_is_refused_and_the_next_is_judged(judges):
    hard = Case(
        Source("JSON", doubling({"type": "integer"})),
        "BACKWARD",
        (Source("JSON", doubling({"type": "string"})),),
    )
    began = time.monotonic()
    error = refused(judges, hard)
    assert time.monotonic() - began < 60
    assert (error.code, "more than 1.5 s" in str(error)) == (42201, True)
    assert judges(Case(INT)) == Ruling()


@pytest.mark.parametrize(
    "text",
    [
        "message A{optional B b=1;}" * 40_000,
        "/*" * (SCHEMA_BYTES_MAX // 2),
        f"message A {{ reserved {', '.join(str(2 * at + 1) for at in range(120_000))}; }}",
    ],
)
def test_what_takes_a_compiler_too_long_is_refused_and_leaves_nothing_behind(
    text, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Judges(work_s_max=1.0) as judges:
        error = refused(judges, Case(Source("PROTOBUF", text)))
        assert (error.code, "more than 1 s" in str(error)) == (42201, True)
        assert list(tmp_path.iterdir()) == []
        assert judges(Case(Source("PROTOBUF", "message A {}"))).compiled
        (folder,) = tmp_path.iterdir()
        assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message A {" * (SCHEMA_BYTES_MAX // 11), "recursion limit"),
        ("{" * SCHEMA_BYTES_MAX, "1:1: Expected"),
        ("a " * (SCHEMA_BYTES_MAX // 2), "1:1: Expected"),
        ("".join(f'import "f{at}.proto";' for at in range(1_000)), "f0.proto: File not found"),
        ("A" * SCHEMA_BYTES_MAX, "neither"),
        ("\0" * SCHEMA_BYTES_MAX, "control characters"),
    ],
)
def test_what_is_large_and_no_schema_is_refused_with_its_cause(judges, text, why):
    ruling = judges(Case(Source("PROTOBUF", text)))
    assert why in ruling.error
    assert len(ruling.error) <= OBSTACLE_CHARACTERS_MAX


def test_a_process_that_dies_while_idle_costs_no_case(judges):
    workers = [judges._idle.get() for _ in range(worker.WORKERS)]
    for one in workers:
        judges._idle.put(one)
    one = workers[0]
    assert judges(Case(INT)) == Ruling()
    process = one._process
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    for _ in workers:
        assert judges(Case(INT)) == Ruling()
    assert one._process is not process


def test_others_are_answered_while_one_is_compared(judges):
    service = Service(MemorySchemaLog([], "A"), "one", judge=judges)
    assert service.become_first_primary()

    def register(subject, language, text):
        schema = Schema(language, text)
        return service.decide(lambda registry, id_: registry.register(subject, schema, id_))

    assert register("hard", "JSON", doubling({"type": "string"})) == {"id": 1}
    codes = []

    def attack():
        try:
            register("hard", "JSON", doubling({"type": "integer"}))
        except RegistryError as error:
            codes.append(error.code)

    thread = threading.Thread(target=attack)
    thread.start()
    began, answered = time.monotonic(), 0
    while thread.is_alive():
        assert service.ask(lambda registry: registry.subjects()) == ["hard"]
        answered += 1
        time.sleep(0.05)
    assert time.monotonic() - began > 1
    assert answered > 1
    assert codes == [42201]
    assert register("easy", "AVRO", '"int"') == {"id": 2}


def test_too_many_at_once_are_sent_away(judges, monkeypatch):
    monkeypatch.setattr(judges, "_places", threading.BoundedSemaphore(1))
    judges._places.acquire()
    assert refused(judges, Case(INT)).code == 50301
    judges._places.release()
    assert judges(Case(INT)) == Ruling()
