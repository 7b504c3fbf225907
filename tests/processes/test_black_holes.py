"""A network between controllers and a replica that carries nothing, and says nothing of it."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, closing

import pytest

from distributor.testing.proxy import Hindrance, Proxy
from tests.support.controlled import Controlled
from tests.support.two_clusters import LOADED, Traffic, World

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.net, pytest.mark.slow]

FRONTS = (("127.0.1.21", "127.0.0.21"), ("127.0.1.22", "127.0.0.22"))


@pytest.fixture
def controlled(tmp_path, free_ports, until):
    """Two replicas, each behind a proxy of its own; the proxies by the host behind."""
    first = free_ports(14)
    with ExitStack() as stack:
        world = World(stack, range(first, first + 14), tmp_path)
        proxies = {
            behind: stack.enter_context(closing(Proxy({front: behind}, lambda: world.started)))
            for front, behind in FRONTS
        }
        system = Controlled(world, until, fronts=FRONTS)
        stack.callback(system.tell)
        yield system, Traffic(stack, world, tmp_path), proxies


def test_both_sides_notice_and_the_other_replica_writes(controlled, until):
    system, traffic, proxies = controlled
    writer = until(system.ready, 60)
    traffic.go()
    until(lambda: len(traffic.read) > 200)
    _, at = system.replicas[writer]
    ended = 'distributor_replica_sessions_ended_total{why="silent"'
    before = system.told(writer, ended)
    began_s = time.monotonic()
    with proxies[at.rpartition(":")[0]].hindered(Hindrance(lambda *_: True)):
        until(system.others_write(writer), 60)
        noticed_s = time.monotonic() - began_s
        until(lambda: system.told(writer, ended) > before)
        silent_s = time.monotonic() - began_s
        # It could still write, and hears at the target that somebody else does.
        until(lambda: system.flows(writer, "warm") and not system.flows(writer, "writing"))
        warm_s = time.monotonic() - began_s
        log.info(
            "another wrote after %.2f s, the replica noticed after %.2f s", noticed_s, silent_s
        )
        log.info("and wrote no more after %.2f s", warm_s)
        known = len(traffic.read)
        until(lambda: len(traffic.read) > known + 200)
    until(lambda: system.ready() not in (None, writer), 60)
    traffic.check(until)
    assert noticed_s < 5 * LOADED
    assert silent_s < 5 * LOADED
    assert warm_s < 7 * LOADED
