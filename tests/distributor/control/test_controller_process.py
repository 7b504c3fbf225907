"""A controller of replicas that are in this process, with a real store to agree by."""

from __future__ import annotations

import dataclasses
import logging
import socket
import threading
import time
from contextlib import ExitStack, closing

import grpc
import pytest
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.errors import MisuseError, QueryError
from dafka.model import replace
from distributor.control.controller_process import RunningController
from distributor.control.grants import GrantSettings, Wishes
from distributor.control.holds import HeldForRow
from distributor.control.operator_client import OperatorClient
from distributor.control.operator_server import Operators
from distributor.control.replica_server import ReplicaServer
from distributor.control.wish_log import WishLog
from distributor.errors import CommandError, RefusedCommandError
from distributor.testing.control_replicas import LINK
from tests.support.control_commands import flow_of, hello
from tests.support.control_sessions import INSTANCE, Session, Works
from tests.support.relay import Relay
from tests.support.two_clusters import LOADED

log = logging.getLogger(__name__)

pytestmark = pytest.mark.net

FLOWS = [flow_of(1), flow_of(2)]
HASTY = GrantSettings(gone_ms=100, unseen_ms=2_000)


class Site:
    """One cluster, two replicas, and controllers as they are asked for."""

    def __init__(self, pair, stack, ports):
        self.topology, self.spec = pair.topology, pair.topology.clusters[0]
        self.cluster = Cluster.declared(self.spec)
        self.stack = stack
        self.flows = FLOWS
        self.works = {name: Works() for name in ("r1", "r2")}
        self.places = {
            name: f"127.0.0.1:{port}" for name, port in zip(self.works, ports, strict=True)
        }
        self.replicas = {}
        for name in self.works:
            self.start(name)

    def start(self, name):
        self.replicas[name] = ReplicaServer(name, INSTANCE, self.places[name], self.works[name])
        self.stack.callback(self.replicas[name].close)

    def controller(self, **given):
        given = {"grants": HASTY} | given
        one = RunningController(self.cluster, INSTANCE, self.flows, self.places, **given)
        self.stack.callback(one.close)
        return one

    def writers(self):
        """Who writes each flow, by what was opened at each replica."""
        return sorted(
            (work.flow.share, name)
            for name, works in self.works.items()
            for work in works.opened
            if work.permitted and not work.closed
        )

    @property
    def opened(self):
        return sum(len(works.opened) for works in self.works.values())


@pytest.fixture
def site(pair, free_ports):
    first = free_ports(2)
    with pair.running(1), ExitStack() as stack:
        yield Site(pair, stack, (first, first + 1))


def metric(name, **labels):
    labels |= {"cluster": INSTANCE.cluster}
    return REGISTRY.get_sample_value(f"distributor_controller_{name}", labels)


SPREAD = [(1, "r1"), (2, "r2")]


def test_flows_are_spread_and_move_from_a_replica_that_is_gone(site, until, caplog):
    caplog.set_level(logging.INFO)
    controller = site.controller()
    until(lambda: site.writers() == SPREAD)
    until(lambda: controller.page({})["flows"][0]["ready"] == 1)
    page = controller.page({})
    assert page["in_charge"]
    assert [one["writer"] for one in page["flows"]] == ["r1", "r2"]
    assert [one["session"] for one in page["replicas"]] == ["active", "active"]
    assert (controller.unready(), controller.unwell(), controller.join(0)) == ("", "", False)
    until(lambda: metric("flows", state="written") == 2)
    site.replicas["r1"].close()
    until(lambda: site.writers() == [(1, "r2"), (2, "r2")])
    told = [one for one in caplog.records if one.message == "flows have another writer"]
    assert [(one.before, one.writer, one.flows) for one in told] == [
        ("nobody", "r1", 1),
        ("nobody", "r2", 1),
        ("r1", "r2", 1),
    ]
    until(lambda: controller.unready() == "no session with r1")
    until(lambda: metric("replicas", state="away") == 1)
    site.start("r1")
    until(lambda: controller.unready() == "")
    assert site.writers() == [(1, "r2"), (2, "r2")]
    assert metric("in_charge") == 1
    controller.close()
    assert (metric("in_charge"), metric("replicas", state="there")) == (0, None)


def test_a_way_on_which_nothing_arrives_any_more_is_noticed(site, until):
    relay = Relay(int(site.places["r1"].rpartition(":")[2]))
    site.stack.callback(relay.close)
    site.places["r1"] = f"127.0.0.1:{relay.port}"
    site.controller(grants=GrantSettings())
    until(lambda: site.writers() == SPREAD)
    began_s = time.monotonic()
    relay.swallow()
    both = [(1, "r1"), (2, "r2"), (1, "r2")]  # r1 cannot hear of it, and its writing does no harm
    until(lambda: site.writers() == sorted(both))
    noticed_s = time.monotonic() - began_s
    log.info("noticed after %.2f s", noticed_s)
    assert noticed_s < 5 * LOADED


def test_another_one_takes_over_and_disturbs_nobody(site, until):
    first, second = site.controller(), site.controller()
    until(lambda: site.writers() == SPREAD)
    one, other = sorted((first, second), key=lambda one: not one.epoch)
    assert other.unready() == ""
    nothing = {"flows": [], "replicas": [], "held_for": []}
    assert other.page({}) == {"in_charge": False, "epoch": 0, **nothing}
    opened, epoch = site.opened, one.epoch
    one.close()
    until(lambda: other.epoch > epoch)
    until(lambda: other.unready() == "")
    assert (site.writers(), site.opened) == (SPREAD, opened)
    other.close()
    assert site.writers() == SPREAD, "replicas go on without"


def test_what_operators_ask_goes_to_who_is_in_charge(site, until, free_ports):
    declared = site.topology
    (cluster, *_), first = declared.clusters, free_ports(2)
    places = [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]
    controllers = [
        site.controller(operators=Operators(place, declared, cluster)) for place in places
    ]
    until(lambda: site.writers() == SPREAD)
    for place in places:
        with OperatorClient(place) as client:
            waited = client.wait(5)
            assert (waited.left, waited.flows) == ((), 0), "nothing is published"
            routes = client.explain("orders", None, 5)
        # Its flows are of other clusters than the file's.
        assert [(one.writer, one.carried) for one in routes] == [("r1", False), ("r2", False)]
    one, other = sorted(controllers, key=lambda one: not one.epoch)
    one.close()
    until(lambda: other.epoch)
    with OperatorClient(places[controllers.index(other)]) as client:
        until(lambda: answered(client))


def test_links_are_turned_for_good(site, until, free_ports):
    first = free_ports(2)
    places = [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]
    two = dataclasses.replace(LINK, targets=("south", "east"), beyond=("south", "east"))
    site.flows = [replace(flow, link=two) for flow in FLOWS]
    controllers = [
        site.controller(operators=Operators(place, site.topology, site.spec)) for place in places
    ]
    until(lambda: site.writers() == SPREAD)
    one, other = sorted(controllers, key=lambda one: not one.epoch)

    def targets():
        return {
            work.flow.link.target
            for works in site.works.values()
            for work in works.opened
            if not work.closed
        }

    # Whoever is asked: the one that is not in charge says who is.
    with OperatorClient(places[controllers.index(other)]) as client:
        assert [row.target for row in client.retarget(1, "east", 20)] == ["east"]
        with pytest.raises(MisuseError, match="'west' is no target here"):
            client.retarget(1, "west", 20)
    until(lambda: (targets(), site.writers()) == ({"east"}, SPREAD))
    opened = site.opened
    one.close()
    until(lambda: other.epoch)
    until(lambda: other.unready() == "")
    assert (targets(), site.writers(), site.opened) == ({"east"}, SPREAD, opened)
    with OperatorClient(places[controllers.index(other)]) as client:
        until(lambda: answered(client))
        assert [row.target for row in client.retarget(1, "", 20)] == ["south"]
    until(lambda: (targets(), site.writers()) == ({"south"}, SPREAD))


def answered(client):
    """Whether a controller answers by now; before, it says that it is not in charge."""
    try:
        return client.wait(5).flows == 0
    except RefusedCommandError:
        return False


def test_where_operators_cannot_be_served_it_ends(site, until):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        controller = site.controller(operators=Operators(listen, site.topology, site.spec))
        until(lambda: controller.unwell() != "")
        assert f"cannot serve operators at {listen}" in controller.unwell()


def test_who_is_refused_ends(site, until):
    with grpc.insecure_channel(site.places["r1"]) as channel:
        later = Session(channel)
        later.begin(greeting=hello(epoch=10**6))
        later.pong(1)
        controller = site.controller()

        def ended():
            try:
                return controller.join(0.1)
            except CommandError as error:
                return "epoch 1000000 is in charge" in str(error)

        until(ended)
        assert "in charge" in controller.unwell()


def test_stores_that_have_forgotten_whose_epoch_it_is_are_said(site, until):
    with closing(WishLog(site.cluster)) as kept:
        kept.write(Wishes(10**6, 0, {}))
    controller = site.controller()

    def ended():
        try:
            return controller.join(0.1)
        except CommandError as error:
            return "their disks are not those" in str(error)

    until(ended)


def test_stores_that_are_away_are_waited_for(pair, free_ports, until, caplog):
    first = free_ports(2)
    with ExitStack() as stack:
        site = Site(pair, stack, (first, first + 1))
        with pair.running(1):
            controller = site.controller()
            until(lambda: site.writers() == SPREAD)
        site.replicas["r1"].close()
        until(lambda: "stores do not answer a controller" in caplog.text or not controller.epoch)
        with pair.running(1):
            until(lambda: site.writers() == [(1, "r2"), (2, "r2")])


class Keeper:
    """The port of what is held: stands when it is let."""

    def __init__(self):
        self.said = []
        self.stands = threading.Event()

    def place(self, epoch):
        self.said.append(("place", epoch))
        if not self.stands.is_set():
            raise QueryError("0 stores hold for others, and 1 have to")

    def round(self):
        self.said.append("round")
        return [HeldForRow("c2", True, 1, 5, 2)]

    def close(self):
        self.said.append("close")


def test_nothing_is_said_to_replicas_before_its_holds_stand(site, until):
    keeper = Keeper()
    controller = site.controller(keeper=keeper)
    until(lambda: len(keeper.said) >= 2)
    assert (site.opened, metric("gone_records", other="c2")) == (0, None)
    keeper.stands.set()
    until(lambda: site.writers() == SPREAD)
    assert {*keeper.said} - {"round"} == {("place", controller.epoch)}
    until(lambda: metric("lacking_records", other="c2") == 5)
    assert metric("gone_records", other="c2") == 2
    assert [one["gone"] for one in controller.page({})["held_for"]] == [2]
    controller.close()
    until(lambda: keeper.said[-1] == "close")
    assert metric("gone_records", other="c2") is None


def test_a_keeper_that_fails_is_told(site, until):
    keeper = Keeper()
    keeper.stands.set()
    keeper.round = lambda: 1 // 0
    controller = site.controller(keeper=keeper)
    until(lambda: "division" in controller.unwell())
