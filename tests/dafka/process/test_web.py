from __future__ import annotations

import urllib.request

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dafka.errors import MisuseError
from dafka.process.web import WebServer, bind

pytestmark = pytest.mark.net


def test_an_application_is_served_until_it_is_closed():
    bound, url = bind("127.0.0.1:0", "it")
    routes = [Route("/", lambda _: PlainTextResponse("hello"))]
    with WebServer(Starlette(routes=routes), bound) as server:
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert answer.read() == b"hello"
        assert not server.join(0)
    assert server.join(0)


@pytest.mark.parametrize("listen", ["", "here", "127.0.0.1:x", "192.0.2.1:0"])
def test_where_nothing_can_be_served_is_refused(listen):
    with pytest.raises(MisuseError, match="cannot serve it"):
        bind(listen, "it")
