from __future__ import annotations

import socket

import pytest

from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.query import paging
from distributor.control import messages
from distributor.control.messages import decode_answer, encode
from distributor.control.server import ControlServer, answer
from distributor.link.aim import ClusterLost, Pause, Retarget


class FakeLink:
    """A link that remembers what it was told."""

    def __init__(self, *targets: str, remembered=None):
        self.targets = targets
        self.told = []
        self._remembered = remembered or {}

    def tell(self, event):
        self.told.append(event)

    def row(self):
        return messages.LinkRow("c1", 3, 1, self.targets[0], "serving", "", "", 0, 0)

    def remembered(self, cluster):
        return self._remembered.get(cluster)


@pytest.fixture
def links():
    heads = {Partition("orders", "AA"): 4}
    older = {Partition("orders", "AA"): 1}
    return [
        FakeLink("c3", "c4", remembered={"c3": (900, older)}),
        FakeLink("c5", remembered={"c3": (20, heads)}),
    ]


def obeyed(command, links):
    return decode_answer(answer(encode(command), links))


def test_it_tells_what_its_links_do(links):
    assert [row.target for row in obeyed(messages.AskLinks(), links).links] == ["c3", "c5"]


def test_it_passes_a_target_on_to_the_link_that_can_serve_it(links):
    obeyed(messages.Retarget("c5"), links)
    assert [link.told for link in links] == [[], [Retarget("c5")]]


def test_every_link_is_told_to_pause(links):
    assert len(obeyed(messages.Pause(), links).links) == 2
    assert [link.told for link in links] == [[Pause()]] * 2


def test_it_refuses_a_target_that_no_link_can_serve(links):
    refused = obeyed(messages.Retarget("c9"), links)
    assert refused == messages.Refused("'c9' is no target here: there are c3, c4, c5")
    assert not any(link.told for link in links)


def test_every_link_is_told_of_a_loss_and_the_latest_memory_counts(links):
    remembered = obeyed(messages.DeclareLost("c3"), links)
    assert remembered == messages.Remembered(20, ((b"orders", b"AA", 4),))
    assert [link.told for link in links] == [[ClusterLost("c3")]] * 2


def test_a_memory_is_told_in_pages(links, monkeypatch):
    monkeypatch.setattr(paging, "PAGE_BYTES_MAX", 100)
    heads = {Partition("orders", f"{number:032X}"): number for number in range(10)}
    links[1] = FakeLink("c5", remembered={"c3": (20, heads)})
    found, after, pages = [], None, 0
    while True:
        page = obeyed(messages.Recall("c3", after), links)
        found += page.heads
        pages += 1
        if not page.more:
            break
        after = page.heads[-1][:2]
    assert pages == 10
    assert found == [(b"orders", b"%032X" % number, number) for number in range(10)]
    assert not any(link.told for link in links)
    assert obeyed(messages.DeclareLost("c3"), links).more


def test_of_a_cluster_never_heard_of_it_knows_nothing(links):
    assert obeyed(messages.DeclareLost("c8"), links) == messages.Remembered(-1, ())


def test_what_is_no_command_is_refused(links):
    refused = decode_answer(answer(b"hello", links))
    assert refused == messages.Refused("control version: this one speaks version 1")


def test_it_is_not_opened_to_other_machines(links):
    with pytest.raises(MisuseError, match="anybody who reaches it"):
        ControlServer("tcp://0.0.0.0:17950", links)


@pytest.mark.net
def test_a_port_that_is_taken_is_named_for_what_it_is(links):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(MisuseError, match=f"cannot open control port at '{endpoint}'"):
            ControlServer(endpoint, links)
