"""`dafka gateway`: what it refuses. That it serves: tests/processes/test_gateway.py."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dafka.cli.main import app
from dafka.errors import MisuseError


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--listen", "0.0.0.0:9092"], "dafka keys NAME --kafka"),
        (["--listen", "127.0.0.1"], "expected HOST:PORT"),
        (["--advertised-listener", "ipc:///tmp/x"], "expected HOST:PORT"),
    ],
)
def test_a_listener_that_cannot_be_used(words, says):
    done = CliRunner().invoke(app, ["gateway", "--cluster", "c1", *words])
    assert isinstance(done.exception, MisuseError)
    assert says in str(done.exception)
