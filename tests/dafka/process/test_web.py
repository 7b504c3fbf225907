from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from contextlib import ExitStack
from http.client import HTTPException

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dafka.errors import MisuseError
from dafka.process.web import WebServer, bind
from dafka.process.web_access import load_web_access
from tests.support.certificates import write_web

pytestmark = pytest.mark.net


def test_an_application_is_served_until_it_is_closed():
    bound, url = bind("127.0.0.1:0", "it")
    routes = [Route("/", lambda _: PlainTextResponse("hello"))]
    with WebServer(Starlette(routes=routes), bound) as server:
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.read() == b"hello"
        assert not server.join(0)
    assert server.join(0)


@pytest.mark.parametrize("listen", ["", "here", "127.0.0.1:x", "192.0.2.1:0"])
def test_where_nothing_can_be_served_is_refused(listen):
    with pytest.raises(MisuseError, match="cannot serve it"):
        bind(listen, "it")


@pytest.fixture
def guarded(tmp_path):
    """A function that serves what counts its calls to whom a file lets in: tokens, a client."""
    opened = ExitStack()

    def guarded(*, tls):
        file, tokens = write_web(tmp_path, tls=tls, reader=["schemas"], idle=[])
        access = load_web_access(file)
        bound, url = bind("127.0.0.1:0", "it", access)
        calls = []

        async def hello(request):
            calls.append(await request.body())
            return PlainTextResponse("hello")

        routes = [Route("/", hello, methods=["GET", "POST"])]
        server = WebServer(Starlette(routes=routes), bound, access, lambda _: "schemas")
        opened.enter_context(server)
        return url, tokens, calls

    with opened:
        yield guarded


def ask(url, shown=None, **how):
    request = urllib.request.Request(url, headers={"Authorization": shown} if shown else {})
    try:
        with urllib.request.urlopen(request, timeout=60, **how) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, (error.headers["WWW-Authenticate"], json.loads(error.read()))


def test_who_has_no_token_reaches_nothing(guarded):
    url, tokens, calls = guarded(tls=False)
    status, (challenge, body) = ask(url)
    assert (status, body["error_code"]) == (401, 401)
    assert challenge.startswith("Basic realm=")
    status, (challenge, body) = ask(url, f"Bearer {tokens['idle']}")
    assert (status, challenge) == (403, None)
    assert "idle's token is not good for schemas" in body["message"]
    assert calls == []
    assert ask(url, f"Bearer {tokens['reader']}") == (200, b"hello")


def test_a_strangers_body_is_not_waited_for(guarded):
    url, _, calls = guarded(tls=False)
    host, _, port = url.removeprefix("http://").rstrip("/").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as stranger:
        stranger.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert stranger.recv(100).startswith(b"HTTP/1.1 401 ")
    assert calls == []


def test_with_a_certificate_it_is_tls_and_nothing_else(guarded, tmp_path):
    url, tokens, _ = guarded(tls=True)
    assert url.startswith("https://")
    trusted = ssl.create_default_context(cafile=tmp_path / "web.crt")
    shown = f"Bearer {tokens['reader']}"
    assert ask(url, shown, context=trusted) == (200, b"hello")
    assert ask(url, context=trusted)[0] == 401
    with pytest.raises(OSError, match=r"CERTIFICATE_VERIFY_FAILED|certificate"):
        ask(url, shown, context=ssl.create_default_context())
    with pytest.raises((OSError, HTTPException)):
        ask(url.replace("https:", "http:"), shown)
