"""Who asks processes; with tokens and over TLS: tests/distributor/operations/test_probe.py."""

from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.process.caller import Caller
from dafka.process.health import Health, serve_health
from tests.support.certificates import write_web

pytestmark = pytest.mark.net


def test_an_answer_that_is_none_is_told_with_its_text(free_ports):
    endpoint = f"127.0.0.1:{free_ports(1)}"
    health = Health()
    serve_health(endpoint, health)
    assert Caller(None, None, 5).get(endpoint, "/health") == (True, "ok\n")
    assert Caller(None, None, 5).get(endpoint, "/ready") == (False, "starting\n")


def test_files_that_cannot_be_used_are_refused(tmp_path):
    file, _ = write_web(tmp_path, ops=["metrics"])
    with pytest.raises(MisuseError, match="belong together"):
        Caller(file, None, 5)
    token = tmp_path / "ops.token"
    token.touch(0o600)
    token.write_text("a\x00b")
    with pytest.raises(MisuseError, match="holds no token"):
        Caller(file, token, 5)
