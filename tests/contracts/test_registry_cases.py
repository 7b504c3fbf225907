"""The registry against Confluent's and Karapace's: requests, answers, and where ours differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dafka.schemas.rest import MEDIA_TYPE, application
from dafka.schemas.schema_log import MemorySchemaLog
from dafka.schemas.service import Service
from tests.support import confluent_cases, karapace_cases
from tests.support.confluent_cases.case import ANY

SEQUENCES = {**confluent_cases.SEQUENCES, **karapace_cases.SEQUENCES}

DOCUMENT = (Path(__file__).parent.parent.parent / "docs/schemas.md").read_text()


@pytest.fixture
def client():
    service = Service(MemorySchemaLog([], "A"), "one")
    assert service.become_first_primary()
    return TestClient(application(service), base_url="http://localhost:8081")


def answered(client, case):
    """Code and answer; of an error its message."""
    method, path = case.request.split(" ", 1)
    content = case.body if isinstance(case.body, bytes | None) else json.dumps(case.body)
    headers = {"content-type": MEDIA_TYPE} if content is not None else {}
    response = client.request(
        method, path, content=content, headers={**headers, **dict(case.headers)}
    )
    assert response.headers["content-type"] == MEDIA_TYPE
    answer = response.json()
    if response.status_code == 200:
        return 200, answer
    assert set(answer) == {"error_code", "message"}
    assert answer["message"]
    assert response.status_code == int(str(answer["error_code"])[:3])
    return answer["error_code"], answer["message"]


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_registry_answers_as_others_do(client, name):
    for number, case in enumerate(SEQUENCES[name], 1):
        code, answer = case.ours or (case.code, case.answer)
        got = answered(client, case)
        assert got == (code, got[1] if answer is ANY else answer), f"{number}: {case.request}"


@pytest.mark.parametrize("name", SEQUENCES)
def test_what_differs_has_its_reason_in_the_document(name):
    for case in SEQUENCES[name]:
        assert (case.ours is None) == (case.why == "")
        if case.why:
            assert f"\n| {case.why}" in DOCUMENT, case.request
