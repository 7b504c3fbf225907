"""The thread that steers a link: it obeys, looks, and ends with what it cannot do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.errors import MisuseError
from distributor.control.steering_thread import SteeringThread
from distributor.link.target import Retarget
from topology import plan


class Node:
    """What is steered, towards a target at a time."""

    sent: dict = {}
    stuck_ms = late_ms = 0

    def __init__(self):
        self.targets = []
        self.failure = None

    def hold(self):
        pass

    def reopen(self, target):
        if self.failure is not None:
            raise self.failure
        self.targets.append(target)

    def unready(self):
        return ""


@pytest.fixture
def steered(pair):
    link = plan(pair.topology).links[0]
    link = replace(link, targets=("c2", "c1"), beyond=())
    node = Node()
    thread = SteeringThread(pair.topology, link, node, 100)
    yield node, thread
    thread.close()


def test_it_takes_another_target_when_it_is_told(steered, until):
    node, thread = steered
    thread.tell(Retarget("c1"))
    until(lambda: node.targets == ["c1"])
    assert thread.failure is None


def test_what_cannot_be_opened_anew_ends_it(steered, until):
    node, thread = steered
    node.failure = MisuseError("port taken")
    thread.tell(Retarget("c1"))
    until(lambda: thread.failure is node.failure)
