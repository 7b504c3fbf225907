"""Serves a web application in a thread of its own, to whom it is for: the importer of uvicorn."""

from __future__ import annotations

import json
import socket
from threading import Thread
from typing import TYPE_CHECKING, Any

import uvicorn

from dafka.errors import MisuseError
from dafka.model import Endpoint
from dafka.process.threads import wait_for_end
from dafka.process.web_access import CHALLENGE, scheme_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
    from typing import Self

    from dafka.process.web_access import Denial, WebAccess

    Message = MutableMapping[str, Any]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[Message, Callable[[], Awaitable[Message]], Send], Awaitable[None]]

_STOP_S = 1
"""How long open connections are waited for."""

_CONNECTIONS_MAX = 500
"""Open at a time; more are answered that it is busy."""


class WebServer:
    """An application, served.

    Args:
        application: What answers, in ASGI.
        bound: Where, from `bind`.
        access: Who may call it, and its certificate; None for everybody.
        right: Which right a request needs.
    """

    def __init__(
        self,
        application: Callable[..., Coroutine[Any, Any, None]],
        bound: socket.socket,
        access: WebAccess | None = None,
        right: Callable[[Message], str] = lambda _: "",
    ) -> None:
        self._socket = bound
        served = application if access is None else guarded(application, access, right)
        certificate, key = (None, None) if access is None else access.certificate or (None, None)
        config = uvicorn.Config(
            served,
            ssl_certfile=certificate,
            ssl_keyfile=key,
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
        wait_for_end(self._thread, "requests over HTTP")
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def guarded(
    application: Application, access: WebAccess, right: Callable[[Message], str]
) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return an application that answers callers who have a right, before it reads anything.

    Args:
        application: What answers them.
        access: Who they are.
        right: Which one a request needs, by its ASGI scope.
    """

    async def answer(scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            shown = headers.get(b"authorization", b"").decode("latin-1")
            refused = access.refusal(shown, right(scope))
            if refused is not None:
                await _refuse(refused, send)
                return
        await application(scope, receive, send)

    return answer


async def _refuse(refused: Denial, send: Send) -> None:
    body = json.dumps({"error_code": refused.status, "message": refused.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if refused.status == 401:
        headers.append((b"www-authenticate", CHALLENGE.encode()))
    start = {"type": "http.response.start", "status": refused.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})


def bind(listen: str, what: str, access: WebAccess | None = None) -> tuple[socket.socket, str]:
    """Return a bound socket, and the base URL it is reached at.

    Args:
        listen: `host:port`, an IPv6 host in brackets; port 0 takes a free one.
        what: Is to be served there, for the complaint.
        access: Who may call it; see `WebServer`.

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
    scheme = scheme_of(access, host, what)
    return bound, f"{scheme}://{host}:{bound.getsockname()[1]}/"
