from __future__ import annotations

from distributor.link.pull_order import patient, turn
from distributor.link.settings import LinkSettings
from topology.plan import plan
from topology.testing import topology_of, tree_of

PLAN = plan(topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4")))))


def test_every_cluster_has_its_turn_and_those_that_serve_the_target_come_first():
    # c1 and c2 serve c3; of the other half only c3 serves c4, the others would after a failover.
    assert [turn(PLAN.links, source, "c3") for source in ("c1", "c2", "c4")] == [0, 1, 2]
    assert [turn(PLAN.links, source, "c4") for source in ("c3", "c1", "c2")] == [0, 1, 2]


def test_each_waits_two_surveys_for_the_one_before():
    settings = LinkSettings(survey_interval_ms=1_000, repair_after_ms=6_000)
    waits = [
        patient(settings, PLAN.links, source, "c3").repair_after_ms for source in ("c1", "c2", "c4")
    ]
    assert waits == [6_000, 8_000, 10_000]


def test_who_never_pulls_has_no_turn():
    settings = LinkSettings(repair_after_ms=None)
    assert patient(settings, PLAN.links, "c2", "c3") == settings
