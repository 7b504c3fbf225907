"""A registry on a log in memory, and clients that speak to it without a network."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from dafka.schemas.rest import application
from dafka.schemas.schema_log import MemorySchemaLog
from dafka.schemas.service import Service


@pytest.fixture
def records():
    """What is in the log."""
    return []


@pytest.fixture
def registry_of(records):
    """A function that starts one more registry process on the log."""

    def registry_of(cluster="one", address="A"):
        return Service(MemorySchemaLog(records, address), cluster)

    return registry_of


@pytest.fixture
def client(registry_of):
    """Speaks to the registry of the primary."""
    service = registry_of()
    assert service.become_first_primary()
    return TestClient(application(service), base_url="http://localhost:8081")
