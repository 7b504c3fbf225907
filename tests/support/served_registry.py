"""A registry over HTTP, which keeps what it knows in memory."""

from __future__ import annotations

from contextlib import contextmanager

from dafka.process.web import WebServer, bind
from dafka.schemas.rest import application
from dafka.schemas.schema_log import MemorySchemaLog
from dafka.schemas.service import Service
from dafka.schemas.worker import Judges


@contextmanager
def served_registry(port):
    """Serve one that judges in processes, as the real one does; gives its URL."""
    bound, url = bind(f"127.0.0.1:{port}", "the registry")
    with Judges() as judges:
        service = Service(MemorySchemaLog([], "A"), "one", judge=judges)
        assert service.become_first_primary()
        with WebServer(application(service), bound):
            yield url
