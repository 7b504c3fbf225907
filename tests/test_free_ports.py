"""Ports of tests: free when their server has gone, taken while somebody listens."""

from __future__ import annotations

import socket

from tests.conftest import is_free


def test_a_port_where_somebody_listens_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_a_connection_that_has_ended_holds_no_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()  # who ends first waits for what may still be under way
    assert is_free(port)
