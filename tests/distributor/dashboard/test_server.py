from __future__ import annotations

import logging
import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from dafka.errors import MisuseError
from dafka.process.files import write_secret
from distributor.dashboard.server import Dashboard
from tests.support.certificates import write_web
from topology import plan
from topology.model import Web

pytestmark = pytest.mark.net


def test_it_serves_until_it_is_closed_also_with_a_page_open(pair, caplog):
    with Dashboard(plan(pair.topology), [], "127.0.0.1:0") as dashboard:
        assert dashboard.url.startswith("http://127.0.0.1:")
        page = urllib.request.urlopen(dashboard.url + "api/events", timeout=60)
        assert page.readline() == b"event: topology\n"
        assert not dashboard.join(0)
    page.close()
    assert dashboard.join(0)
    assert not [line for line in caplog.records if line.levelno >= logging.ERROR]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(dashboard.url.split(":")[2].strip("/"))))


def test_only_who_has_the_right_sees_the_page(pair, tmp_path):
    _, tokens = write_web(tmp_path, tls=True, me=["dashboard"], other=["metrics"])
    web = Web(access="web.toml", token="me.token", directory=str(tmp_path))
    write_secret(tmp_path / "me.token", tokens["me"])
    trusted = ssl.create_default_context(cafile=tmp_path / "web.crt")
    with Dashboard(plan(replace(pair.topology, web=web)), [], "127.0.0.1:0") as dashboard:
        assert dashboard.url.startswith("https://127.0.0.1:")
        for path in ("", "api/events", "api/partitions", "page.js"):
            request = urllib.request.Request(dashboard.url + path)
            for shown, status in ((None, 401), (f"Bearer {tokens['other']}", 403)):
                if shown:
                    request.add_header("Authorization", shown)
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(request, timeout=60, context=trusted)
                assert refused.value.code == status
                refused.value.close()
            request.add_header("Authorization", f"Bearer {tokens['me']}")
            with urllib.request.urlopen(request, timeout=60, context=trusted) as answer:
                assert answer.status == 200


@pytest.mark.parametrize("listen", ["", "here", "127.0.0.1", "127.0.0.1:70000", "127.0.0.1:x"])
def test_where_nothing_can_be_served_is_refused(pair, listen):
    with pytest.raises(MisuseError, match="cannot serve the page"):
        Dashboard(plan(pair.topology), [], listen)


def test_a_port_that_is_taken_and_a_host_of_others_are_refused(pair):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for listen in (f"127.0.0.1:{taken.getsockname()[1]}", "192.0.2.1:0"):
            with pytest.raises(MisuseError, match=f"cannot serve the page at {listen}"):
                Dashboard(plan(pair.topology), [], listen)
