"""A link with several targets, between stores of this process."""

from __future__ import annotations

import socket
import stat
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import Partition, PartitionShare
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.storage.lmdb_log import Durability
from distributor.control import agent, protocol
from distributor.control.agent import REOPEN_MS_MAX, ControlServer, SteeredLink, answer
from distributor.control.client import ControlClient
from distributor.control.protocol import decode_answer, encode
from distributor.link.events import Stop, StopReason, overtaken_of
from distributor.link.target import ClusterLost, Pause, Retarget
from distributor.survey import survey
from topology import plan
from topology.model import Branch, ClusterSpec, Links, StoreSpec, Topology

pytestmark = pytest.mark.net


@pytest.fixture
def three(tmp_path, free_ports, reopened, until):
    """Three clusters under one of level 2 over two of level 1, and the link from c1 up."""
    first = free_ports(9)
    clusters = tuple(
        ClusterSpec(
            name=f"c{number}",
            id=number,
            towers=(f"tcp://127.0.0.1:{first + 3 * number - 3}",),
            stores=(
                StoreSpec(
                    query=f"tcp://127.0.0.1:{first + 3 * number - 1}",
                    data=str(tmp_path / str(number)),
                ),
            ),
        )
        for number in (1, 2, 3)
    )
    tree = Branch(level=2, children=("c1", Branch(level=1, children=("c2", "c3"))))
    links = Links(failover_after_ms=1_000)
    topology = Topology(name="three", clusters=clusters, tree=tree, links=links)
    with ExitStack() as stack:
        stores = {}
        for cluster in clusters:
            stack.enter_context(reopened(partial(Tower, cluster.towers[0])))
            (spec,) = cluster.stores
            opened = partial(Store, Path(spec.data), Cluster.declared(cluster), query=spec.query)
            stores[cluster.name] = stack.enter_context(
                reopened(partial(opened, durability=Durability.OS))
            )
        yield topology, stores, stack


def steered(topology, stack, source="c1"):
    (link,) = [one for one in plan(topology).links if (one.source, one.level) == (source, 2)]
    node = SteeredLink(topology, link, probe_interval_ms=200)
    stack.callback(node.close)
    return node


def records(topology):
    return {holding.cluster: holding.records for holding in survey(topology)}


def test_a_planned_switch_waits_until_all_behind_the_target_have_what_was_sent(three, until):
    topology, _, stack = three
    node = steered(topology, stack)
    producer = stack.enter_context(Producer(topology.clusters[0].towers[0]))
    producer.send("orders", b"1")
    until(lambda: records(topology)["c2"] == 1)
    node.tell(Retarget("c3"))
    until(lambda: node.row().waits_for == "c3 lacks records of 1 partition")
    assert (node.row().state, node.row().next, node.row().stall_ms) == ("draining", "c3", -1)
    # The link from c2 to c3 is what the barrier waits for.
    (inner,) = [one for one in plan(topology).links if one.source == "c2" and one.level == 1]
    helper = SteeredLink(topology, inner)
    stack.callback(helper.close)
    until(lambda: node.row().target == "c3" and node.row().stall_ms >= 0)
    producer.send("orders", b"2")
    until(lambda: records(topology)["c3"] == 2)
    assert records(topology)["c2"] == 1
    assert node.row().switches == 1


def test_a_paused_link_says_when_what_it_sent_is_everywhere_and_goes_on_when_told(three, until):
    topology, _, stack = three
    node = steered(topology, stack)
    producer = stack.enter_context(Producer(topology.clusters[0].towers[0]))
    producer.send("orders", b"1")
    until(lambda: records(topology)["c2"] == 1)
    node.tell(Pause())
    until(lambda: node.row().waits_for == "c3 lacks records of 1 partition")
    assert (node.row().state, node.row().stall_ms) == ("paused", -1)
    (inner,) = [one for one in plan(topology).links if one.source == "c2" and one.level == 1]
    helper = SteeredLink(topology, inner)
    stack.callback(helper.close)
    until(lambda: node.row().state == "drained")
    producer.send("orders", b"2")
    producer.flush(20)
    assert records(topology)["c2"] == 1
    node.tell(Retarget("c2"))
    until(lambda: records(topology)["c3"] == 2)
    assert node.row().state == "serving"


def test_a_silent_target_is_left_and_what_it_last_held_is_remembered(three, until):
    topology, stores, stack = three
    node = steered(topology, stack)
    producer = stack.enter_context(Producer(topology.clusters[0].towers[0]))
    producer.send("orders", b"1")
    until(lambda: records(topology)["c2"] == 1)
    until(lambda: node.remembered("c2"))
    assert node.remembered("c9") is None
    stores["c2"].close()
    until(lambda: node.row().state == "silent" or node.row().target == "c3")
    until(lambda: node.row().target == "c3")
    until(lambda: records(topology)["c3"] == 1)
    assert not node.join(0)
    assert node.unwell() == ""


def test_a_cluster_declared_lost_is_left_at_once(three, until):
    topology, _, stack = three
    node = steered(replace(topology, links=Links()), stack)
    until(lambda: node.unready() == "")
    until(lambda: node.row().state == "serving")
    node.tell(ClusterLost("c2"))
    until(lambda: node.row().target == "c3")
    until(lambda: node.row().stall_ms >= 0)


class Watch:
    """Where a link says that it writes, and who does under a later epoch: nobody, at first."""

    def __init__(self):
        self.later, self.flow = 0, None

    def begin(self, flow, epoch, changed):
        self.flow, self.epoch, self.tell = flow, epoch, changed
        return self

    def end(self):
        self.flow = None

    def supersede(self, later):
        self.later = later
        self.tell()


@pytest.mark.parametrize("held", [False, True], ids=["copying", "on hold"])
def test_who_is_superseded_writes_nothing_until_the_other_is_gone(three, until, caplog, held):
    topology, _, stack = three
    node = steered(topology, stack)
    watch = Watch()
    node.stand(watch)
    assert (watch.flow.share, watch.flow.shares, watch.flow.kind.value) == (0, 1, "records")
    producer = stack.enter_context(Producer(topology.clusters[0].towers[0]))
    producer.send("orders", b"1")
    until(lambda: records(topology)["c2"] == 1)
    if held:
        node.tell(Pause())
        until(lambda: node.row().state == "paused")
    watch.supersede(watch.epoch + 1)
    until(lambda: node.row().state == "superseded")
    assert "another process" in node.row().waits_for
    assert "link writes no more: another process that began later does" in caplog.text
    producer.send("orders", b"2")
    producer.flush(20)
    until(lambda: node.unready() == "")
    assert not node.permitted
    assert records(topology)["c2"] == 1
    watch.supersede(0)
    until(lambda: node.permitted)
    if held:
        assert node.row().state == "paused", "what an operator wants still holds"
        node.tell(Retarget("c2"))
    # No link runs behind c2: on a busy machine it is left meanwhile, as it relays nothing to c3.
    until(lambda: 2 in {records(topology)[name] for name in ("c2", "c3")})
    node.close()
    assert watch.flow is None


class Offsets:
    """What brings positions, and whether it still does."""

    opened: ClassVar[list[str]] = []

    def __init__(self, _topology, _link, target):
        self._target = target
        self.opened.append(target)

    def check(self):
        pass

    def unwell(self):
        return ""

    def close(self):
        self.opened.remove(self._target)


def test_shares_of_a_link_carry_all_between_them_and_the_first_brings_positions(
    three, until, monkeypatch
):
    monkeypatch.setattr(agent, "OffsetsNode", Offsets)
    topology, _, stack = three
    (link,) = [one for one in plan(topology).links if (one.source, one.level) == ("c1", 2)]
    halves = [PartitionShare(number, 2) for number in (0, 1)]
    nodes = [SteeredLink(topology, link, share=half) for half in halves]
    for node in nodes:
        stack.callback(node.close)
    assert Offsets.opened == ["c2"]
    sent = dict.fromkeys(halves, 0)
    while not all(sent.values()):
        producer = stack.enter_context(Producer(topology.clusters[0].towers[0]))
        producer.send("orders", b"1")
        (half,) = [one for one in halves if one.has(producer.address)]
        sent[half] += 1
    until(lambda: records(topology)["c2"] == sum(sent.values()))
    # Who is superseded brings no positions either.
    watch = Watch()
    nodes[0].stand(watch)
    watch.supersede(watch.epoch + 1)
    until(lambda: nodes[0].row().state == "superseded" and Offsets.opened == [])
    watch.supersede(0)
    until(lambda: Offsets.opened == ["c2"])


class FakeLink:
    """A link that remembers what it was told."""

    def __init__(self, *targets: str, remembered=None):
        self.targets = targets
        self.told = []
        self._remembered = remembered or {}
        self.stops = {}
        self.holding = False
        self.passed = []

    def tell(self, event):
        self.told.append(event)

    def row(self):
        return protocol.LinkRow("c1", 3, 1, self.targets[0], "serving", "", "", 0, 0)

    def remembered(self, cluster):
        return self._remembered.get(cluster)

    def pass_over(self, topic):
        self.passed.append(topic)
        return overtaken_of(topic, self.stops)


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
    assert [row.target for row in obeyed(protocol.LinksCommand(), links).links] == ["c3", "c5"]


def test_it_passes_a_target_on_to_the_link_that_can_serve_it(links):
    obeyed(protocol.RetargetCommand("c5"), links)
    assert [link.told for link in links] == [[], [Retarget("c5")]]


def test_what_is_overtaken_goes_on_by_topic_and_its_gaps_are_told(links):
    orders, other = Partition("orders", "AA"), Partition("other", "AA")
    links[0].stops = {
        orders: Stop(StopReason.OVERTAKEN, 5, 10),
        other: Stop(StopReason.OVERTAKEN, 0, 9),
    }
    links[1].stops = {orders: Stop(StopReason.OVERTAKEN, 7, 10)}
    assert obeyed(protocol.ResumeCommand(b"orders"), links) == protocol.PassedOver(2, 8)
    none = obeyed(protocol.ResumeCommand(b"nothing"), links)
    assert none == protocol.PassedOver(0, 0)


def test_what_is_on_hold_cannot_go_on_behind_a_gap(links):
    links[0].stops = {Partition("orders", "AA"): Stop(StopReason.OVERTAKEN, 5, 10)}
    links[1].holding = True
    refused = obeyed(protocol.ResumeCommand(b"orders"), links)
    assert isinstance(refused, protocol.CommandRefused)
    assert "on hold towards c5: wait" in refused.detail
    assert links[0].passed == [], "all or none: the command is given again"


def test_every_link_is_told_to_pause(links):
    assert len(obeyed(protocol.PauseCommand(), links).links) == 2
    assert [link.told for link in links] == [[Pause()]] * 2


def test_it_refuses_a_target_that_no_link_can_serve(links):
    refused = obeyed(protocol.RetargetCommand("c9"), links)
    assert refused == protocol.CommandRefused("'c9' is no target here: there are c3, c4, c5")
    assert not any(link.told for link in links)


def test_every_link_is_told_of_a_loss_and_the_latest_memory_counts(links):
    remembered = obeyed(protocol.LostCommand("c3"), links)
    assert remembered == protocol.Remembered(20, ((b"orders", b"AA", 4),))
    assert [link.told for link in links] == [[ClusterLost("c3")]] * 2


def test_a_memory_is_told_in_pages(links):
    heads = {Partition("o" * 249, f"{number:0255}"): number for number in range(9_000)}
    links[1] = FakeLink("c5", remembered={"c3": (20, heads)})
    found, after, pages = [], None, 0
    while True:
        page = obeyed(protocol.RecallCommand("c3", after), links)
        found += page.heads
        pages += 1
        if not page.more:
            break
        after = page.heads[-1][:2]
    assert pages == 3
    assert found == [(b"o" * 249, b"%0255d" % number, number) for number in range(9_000)]
    assert not any(link.told for link in links)
    assert obeyed(protocol.LostCommand("c3"), links).more


def test_of_a_cluster_never_heard_of_it_knows_nothing(links):
    assert obeyed(protocol.LostCommand("c8"), links) == protocol.Remembered(-1, ())


def test_what_is_no_command_is_refused(links):
    refused = decode_answer(answer(b"hello", links))
    assert refused == protocol.CommandRefused("control version: this one speaks version 1")


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:17950", "inproc://control"])
def test_it_is_a_unix_socket(links, endpoint):
    with pytest.raises(MisuseError, match=f"cannot open control socket at '{endpoint}'"):
        ControlServer(endpoint, links)


@pytest.fixture
def endpoint(tmp_path):
    return f"ipc://{tmp_path}/control/c1-level-1.sock"


@pytest.mark.net
def test_no_other_user_reaches_it(links, endpoint, tmp_path):
    with closing(ControlServer(endpoint, links)):
        assert stat.S_IMODE((tmp_path / "control").stat().st_mode) == 0o700


def test_a_directory_that_others_may_enter_is_refused(links, endpoint, tmp_path):
    (tmp_path / "control").mkdir(mode=0o755)
    with pytest.raises(MisuseError, match=r"others may enter it \(mode 755\); chmod 700"):
        ControlServer(endpoint, links)


@pytest.mark.net
def test_a_socket_that_is_taken_is_named_for_what_it_is(links, endpoint):
    with (
        closing(ControlServer(endpoint, links)),
        pytest.raises(MisuseError, match=f"cannot open control socket at '{endpoint}'"),
    ):
        ControlServer(endpoint, links)


@pytest.mark.net
def test_what_a_killed_process_has_left_is_taken(links, endpoint, tmp_path):
    (tmp_path / "control").mkdir(mode=0o700)
    path = endpoint.removeprefix("ipc://")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    assert Path(path).is_socket()
    with closing(ControlServer(endpoint, links)), ControlClient(endpoint) as client:
        assert [row.source for row in client.links()] == [link.row().source for link in links]


def test_a_flow_is_of_records_alone_and_stays_ready_as_it_changes_its_target(three, until):
    topology, stores, stack = three
    (link,) = [one for one in plan(topology).links if (one.source, one.level) == ("c1", 2)]
    node = SteeredLink(topology, link, 200, permitted=False, is_flow=True)
    stack.callback(node.close)
    producer = stack.enter_context(Producer(topology.clusters[0].towers[0]))
    for index in range(5):
        producer.send("orders", str(index).encode()).result(10)
    until(lambda: [*node.progress.there.values()] == [0])
    first = node.row().target
    stores[first].close()
    until(lambda: node.row().target != first and [*node.progress.there.values()] == [0])
    assert node.unwell() == ""
    node.permit()
    until(lambda: [*node.progress.there.values()] == [5])
    assert node.turned_ms
    assert not node.join(0)


@pytest.mark.net
def test_a_link_that_begins_anew_does_not_stand_still_meanwhile(pair, monkeypatch):
    (link, _) = plan(pair.topology).links
    with pair.running(), closing(SteeredLink(pair.topology, link, is_flow=True)) as node:
        seen = []
        opened = node._opened

        def slowly(target):
            began_ms, ended_ms = node._reopening_ms, node._node.turned_ms
            for later_ms in (REOPEN_MS_MAX - 1, 2 * REOPEN_MS_MAX):
                monkeypatch.setattr(agent, "now_ms", lambda ms=began_ms + later_ms: ms)
                seen.append(node.turned_ms > ended_ms)
            monkeypatch.undo()
            return opened(target)

        monkeypatch.setattr(node, "_opened", slowly)
        node.reopen(link.target)
        assert seen == [True, False], "it is at work, but not for ever"
        assert node._reopening_ms is None
