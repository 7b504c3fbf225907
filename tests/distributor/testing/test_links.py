"""Links of a simulated topology do what they are told, and count it."""

from __future__ import annotations

from dafka.testing.world import Faults
from distributor.link.target import Retarget
from distributor.testing.checkers import settled
from distributor.testing.world import SimWorld
from topology.plan import plan
from topology.testing import topology_of, tree_of

PLAN = plan(topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4")))))


def test_a_link_that_drains_looks_no_more_while_its_machine_is_suspended():
    world = SimWorld(PLAN, seed=1, faults=Faults())
    world.world.run_until(2_000)
    world.send_somewhere("flights", 2)
    (link,) = [one for one in world.links if one.link.source == "c1" and one.link.level == 3]
    link.tell(Retarget("c4"))
    link.suspend(5_000)
    world.world.run_until(6_000)
    assert link.target.name == "c3"
    world.world.run_until(20_000)
    assert link.target.name == "c4"
    assert settled(world)


def test_links_count_what_they_forward_and_skip():
    world = SimWorld(PLAN, seed=1, faults=Faults())
    world.world.run_until(2_000)
    world.clusters["c1"].producers[0].send("flights", 5)
    world.world.run_until(10_000)
    assert sum(link.forwarded for link in world.links) == 15
    names = {link.name: link.forwarded for link in world.links if link.forwarded}
    assert names == {"link-c1-3-1": 5, "link-c1-1-1": 5, "link-c3-1-1": 5}
