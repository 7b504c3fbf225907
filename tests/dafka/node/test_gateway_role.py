from __future__ import annotations

from dafka.cluster import Cluster
from dafka.gateway.effects import Looked, OffsetsShown
from dafka.gateway.machine import GatewayMachine
from dafka.groups.commit import GATEWAYS
from dafka.groups.events import Ask
from dafka.node.gateway_role import GatewayRole
from dafka.node.group_client import StoreLines
from dafka.protocol.events import Woke
from tests.support.gateway_bench import FIRST


class Line:
    """The port `QueryLinePort`, which keeps what is sent."""

    socket = object()

    def __init__(self, *_place):
        self.sent = []

    def send(self, question):
        self.sent.append(question)
        return len(self.sent)

    def close(self):
        self.sent = None


def test_what_the_group_asks_goes_to_its_store_and_all_else_to_the_broker():
    lines, performed = [], []

    def connect(*place):
        lines.append(Line(*place))
        return lines[-1]

    cluster = Cluster(stores=("tcp://127.0.0.1:1", "tcp://127.0.0.1:2"))
    machine = GatewayMachine("A" * 32, "127.0.0.1:9092", 2, lambda: "B" * 32)
    role = GatewayRole(machine, StoreLines(GATEWAYS, cluster, connect), performed.append)
    asked = [one for _, one in role.handle(None, Woke(), 0) if isinstance(one, Ask)]
    assert {one.store for one in asked} == {0, 1}
    for one in asked:
        role.perform(None, one)
    assert all(line.sent for line in lines)
    shown = OffsetsShown(FIRST, None)
    role.perform(None, shown)
    assert performed == [shown]
    assert role.wakeup_ms() == machine.wakeup_ms()
    assert set(role.pollable()) == {Line.socket}
    role.close()
    assert [line.sent for line in lines] == [None, None]


def test_a_look_is_told_behind_what_it_has_found():
    machine = GatewayMachine("A" * 32, "127.0.0.1:9092", 1, lambda: "B" * 32)
    role = GatewayRole(machine, StoreLines(GATEWAYS, Cluster(), Line), [].append)
    assert role.handle(None, Looked(7), 0) == [(None, Looked(7))]
