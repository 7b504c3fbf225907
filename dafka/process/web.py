"""Serves a web application in a thread of its own: the only importer of uvicorn."""

from __future__ import annotations

import socket
from threading import Thread
from typing import TYPE_CHECKING, Any

import uvicorn

from dafka.errors import MisuseError
from dafka.model import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Self


_STOP_S = 1
"""How long open connections are waited for."""

_CONNECTIONS_MAX = 500
"""Open at a time; more are answered that it is busy."""


class WebServer:
    """An application, served.

    Args:
        application: What answers, in ASGI.
        bound: Where, from `bind`.
    """

    def __init__(
        self, application: Callable[..., Coroutine[Any, Any, None]], bound: socket.socket
    ) -> None:
        self._socket = bound
        config = uvicorn.Config(
            application,
            log_config=None,
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=_STOP_S,
            limit_concurrency=_CONNECTIONS_MAX,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._run, name="web", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for it to end by itself; True if it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def bind(listen: str, what: str) -> tuple[socket.socket, str]:
    """Return a bound socket, and the base URL it is reached at.

    Args:
        listen: `host:port`, an IPv6 host in brackets; port 0 takes a free one.
        what: Is to be served there, for the complaint.

    Raises:
        MisuseError: It is not one, the port is taken, or the host is not one of this machine's.
    """
    host, _, port = listen.rpartition(":")
    try:
        # Port 0 is no endpoint anybody could connect to, but one that can be bound.
        Endpoint.parse(f"tcp://{listen}" if port != "0" else f"tcp://{host}:1")
    except MisuseError as error:
        raise MisuseError(f"cannot serve {what} at {listen!r}: expected HOST:PORT") from error
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host.strip("[]"), int(port)))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise MisuseError(f"cannot serve {what} at {listen}: {error.strerror}") from error
    return bound, f"http://{host}:{bound.getsockname()[1]}/"
