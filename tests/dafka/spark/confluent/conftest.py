"""A registry."""

from __future__ import annotations

import pytest

from dafka.process.web import WebServer, bind
from dafka.schemas.rest import application
from dafka.schemas.schema_log import MemorySchemaLog
from dafka.schemas.service import Service
from dafka.schemas.worker import Judges


@pytest.fixture
def url(free_ports):
    """Where a registry is."""
    bound, url = bind(f"127.0.0.1:{free_ports(1)}", "the registry")
    with Judges() as judges:
        service = Service(MemorySchemaLog([], "A"), "one", judge=judges)
        assert service.become_first_primary()
        with WebServer(application(service), bound):
            yield url
