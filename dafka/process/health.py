"""`/metrics`, `/health` and `/ready` of a process, over HTTP in a thread of its own.

`/health` says whether the process does what it is there for: if not, restarting it may help.
`/ready` says whether it has found what it needs to be of use: if not, something else is missing.
Each answers 200 and `ok`, or 503 and one reason a line. Where only holders of tokens may read
metrics, strangers get the status without the reasons. A process may have more pages, of JSON, for
who may read metrics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from socket import AF_INET6, socket
from socketserver import TCPServer, ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from dafka.errors import MisuseError
from dafka.model import Endpoint
from dafka.process import metrics
from dafka.process.web_access import CHALLENGE, scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ssl import SSLContext
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from dafka.process.signals import LongRunning
    from dafka.process.web_access import Denial, WebAccess

REQUEST_TIMEOUT_S = 10
"""A client that says nothing for this long is cut off: each holds a thread."""


FIELDS_MAX = 10
"""What may be asked of a page."""

Page = Callable[[Mapping[str, str]], object]
"""What a page says, as plain values, by what it is asked; `ValueError` and `TimeoutError` if it
cannot."""


class Health:
    """What a process has to say about itself. Until it watches something, it is not ready."""

    def __init__(self) -> None:
        self._watched: tuple[LongRunning, ...] = ()

        self.pages: Mapping[str, Page] = {}
        """By path, such as `/groups`."""

    def watch(self, *running: LongRunning) -> None:
        """Answer for these from now on."""
        self._watched = running

    def show(self, pages: Mapping[str, Page]) -> None:
        """Serve these, too, from now on."""
        self.pages = pages

    def unwell(self) -> list[str]:
        """Why the process does not work; nothing if it does."""
        return [reason for running in self._watched if (reason := running.unwell())]

    def unready(self) -> list[str]:
        """Why the process is of no use yet; nothing if it is."""
        if not self._watched:
            return ["starting"]
        return self.unwell() + [
            reason for running in self._watched if (reason := running.unready())
        ]


def serve_health(
    endpoint: str,
    health: Health,
    access: WebAccess | None = None,
    silence_s: float = REQUEST_TIMEOUT_S,
) -> None:
    """Serve these pages until the process ends.

    Args:
        endpoint: `host:port`; an IPv6 host in brackets.
        health: What to answer.
        access: Who may read it, and the certificate to show; None for everybody.
        silence_s: How long a client may say nothing while a connection is made.

    Raises:
        MisuseError: It is not one, the port is taken, or the host is not one of this machine's.
    """
    try:
        where = Endpoint.parse(f"tcp://{endpoint}")
    except MisuseError as error:
        raise MisuseError(f"cannot serve metrics at {endpoint!r}: expected HOST:PORT") from error
    host = where.host.strip("[]")
    kind = _ServerOnIPv6 if ":" in host else _Server
    try:
        server = make_server(host, where.port, _application(health, access), kind, _Handler)
    except OSError as error:
        raise MisuseError(f"cannot serve metrics at {endpoint}: {error.strerror}") from error
    scheme_of(access, where.host, "metrics")
    server.context = None if access is None else access.context()
    server.silence_s = silence_s
    Thread(target=server.serve_forever, name="dafka-health", daemon=True).start()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64
    context: SSLContext | None = None
    silence_s: float = REQUEST_TIMEOUT_S

    def server_bind(self) -> None:
        # WSGIServer would look up the host's name, which may take many seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def finish_request(self, request: socket, client_address: object) -> None:  # type: ignore[override]
        """In the connection's own thread, where a slow handshake holds up nobody else."""
        if self.context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(self.silence_s)
        with self.context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is nobody's concern."""


class _ServerOnIPv6(_Server):
    address_family = AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its base's name)
        """One line for every scrape would drown the others."""


def _application(health: Health, access: WebAccess | None) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        page = environ["PATH_INFO"]
        states = {"/health": health.unwell, "/ready": health.unready}
        shown = environ.get("HTTP_AUTHORIZATION")
        refused = None
        if access is not None and not (page in states and shown is None):
            refused = access.refusal(shown, "metrics")
        if page in states:
            told = access is None or (shown is not None and refused is None)
            return _answer(states[page](), start_response, told=told)
        if refused is not None:
            return _refuse(refused, start_response)
        if page in health.pages:
            return _show(health.pages[page], environ.get("QUERY_STRING", ""), start_response)
        return metrics.application(environ, start_response)

    return answer


def _answer(reasons: list[str], start_response: StartResponse, *, told: bool) -> Iterable[bytes]:
    status = "503 Service Unavailable" if reasons else "200 OK"
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    said = reasons if told else ["no"] * bool(reasons)
    return ["\n".join(said or ["ok"]).encode(errors="replace") + b"\n"]


def _show(page: Page, query: str, start_response: StartResponse) -> Iterable[bytes]:
    try:
        status, found = HTTPStatus.OK, page(dict(parse_qsl(query, max_num_fields=FIELDS_MAX)))
    except ValueError as error:
        status, found = HTTPStatus.BAD_REQUEST, {"error": str(error)}
    except TimeoutError:
        status, found = HTTPStatus.SERVICE_UNAVAILABLE, {"error": "no answer in time"}
    start_response(f"{status} {status.phrase}", [("Content-Type", "application/json")])
    return [json.dumps(found).encode() + b"\n"]


def _refuse(refused: Denial, start_response: StartResponse) -> Iterable[bytes]:
    headers = [("Content-Type", "text/plain; charset=utf-8")]
    if refused.status == HTTPStatus.UNAUTHORIZED:
        headers.append(("WWW-Authenticate", CHALLENGE))
    start_response(f"{refused.status} {HTTPStatus(refused.status).phrase}", headers)
    return [refused.message.encode() + b"\n"]
