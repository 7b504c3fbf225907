from __future__ import annotations

from contextlib import ExitStack

import pytest

from dafka.model import Partition
from dafka.transport.request import QueryServer
from distributor.control import agent as module
from distributor.control import protocol
from distributor.control.agent import ControlServer, answer
from distributor.control.client import ControlClient
from distributor.control.protocol import decode_command, encode
from distributor.errors import CommandError
from distributor.link.target import ClusterLost, Pause, Retarget

pytestmark = pytest.mark.net

ROW = protocol.LinkRow("c1", 3, 1, "c3", "serving", "", "", 0, 0)


class OneLink:
    targets = ("c3", "c4")

    def __init__(self):
        self.told = []

    def tell(self, event):
        self.told.append(event)

    def row(self):
        return ROW

    def remembered(self, cluster):
        return (7, {Partition("orders", "AA"): 4}) if cluster == "c3" else None


@pytest.fixture
def link():
    return OneLink()


@pytest.fixture
def client(link, tmp_path):
    with ExitStack() as stack:
        server = ControlServer(f"ipc://{tmp_path}/control/c1-level-1.sock", [link])
        stack.callback(server.close)
        yield stack.enter_context(ControlClient(server.endpoint))


def test_commands_reach_the_links_and_answers_come_back(client, link):
    assert client.links() == (ROW,)
    assert client.retarget("c4") == (ROW,)
    assert client.pause() == (ROW,)
    assert link.told == [Retarget("c4"), Pause()]
    assert client.lost("c3") == (7, {Partition("orders", "AA"): 4})
    assert client.lost("c9") == (-1, {})


def test_a_memory_of_very_many_partitions_comes_whole(client, link):
    heads = {Partition(f"{number:0200}", f"{number:032X}"): number for number in range(20_000)}
    link.remembered = lambda cluster: (7, heads)
    assert client.lost("c3") == (7, heads)
    assert link.told == [ClusterLost("c3")]


def test_a_memory_that_leads_nowhere_is_left(client, monkeypatch):
    page = protocol.Remembered(7, ((b"orders", b"AA", 4),), more=True)
    monkeypatch.setattr(module, "answer", lambda command, links: encode(page))
    with pytest.raises(CommandError, match="a page that leads nowhere"):
        client.lost("c3")


def test_a_distributor_of_before_pages_tells_what_fits(client, link, monkeypatch):
    def older(command, links):
        if isinstance(decode_command(command), protocol.RecallCommand):
            return encode(protocol.CommandRefused("control message"))
        return answer(command, links)

    monkeypatch.setattr(module, "answer", older)
    assert client.lost("c3") == (7, {Partition("orders", "AA"): 4})
    assert link.told == [ClusterLost("c3")]


def test_a_refusal_is_told_with_its_reason(client):
    with pytest.raises(CommandError, match="refuses: 'c9' is no target here"):
        client.retarget("c9")


def test_silence_is_told_with_the_endpoint():
    server = QueryServer("tcp://127.0.0.1:*")
    try:
        client = ControlClient(server.endpoint, timeout_ms=50)
        with pytest.raises(CommandError, match=f"no answer from {server.endpoint}"):
            client.links()
        client.close()
    finally:
        server.close()
