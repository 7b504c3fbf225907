from __future__ import annotations

import logging
import socket
import urllib.request

import pytest

from dafka.errors import MisuseError
from distributor.dashboard.server import Dashboard
from topology import plan

pytestmark = pytest.mark.net


def test_it_serves_until_it_is_closed_also_with_a_page_open(pair, caplog):
    with Dashboard(plan(pair.topology), [], "127.0.0.1:0") as dashboard:
        assert dashboard.url.startswith("http://127.0.0.1:")
        page = urllib.request.urlopen(dashboard.url + "api/events", timeout=5)
        assert page.readline() == b"event: topology\n"
        assert not dashboard.join(0)
    page.close()
    assert dashboard.join(0)
    assert not [line for line in caplog.records if line.levelno >= logging.ERROR]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(dashboard.url.split(":")[2].strip("/"))))


@pytest.mark.parametrize("listen", ["", "here", "127.0.0.1", "127.0.0.1:70000", "127.0.0.1:x"])
def test_where_nothing_can_be_served_is_refused(pair, listen):
    with pytest.raises(MisuseError, match="cannot serve the page"):
        Dashboard(plan(pair.topology), [], listen)


def test_a_port_that_is_taken_and_a_host_of_others_are_refused(pair):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for listen in (f"127.0.0.1:{taken.getsockname()[1]}", "192.0.2.1:0"):
            with pytest.raises(MisuseError, match=f"cannot serve the page at {listen}"):
                Dashboard(plan(pair.topology), [], listen)
