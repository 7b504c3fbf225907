from __future__ import annotations

from collections import Counter

import pytest
from prometheus_client import REGISTRY

from distributor.offsets.distributor import OffsetsRound
from distributor.offsets.meter import OTHER_GROUPS, OffsetsMeter
from distributor.offsets.translation import SkipReason
from topology import plan


@pytest.fixture
def offsets(pair):
    (link, _) = plan(pair.topology).links
    return OffsetsMeter(link, "c2")


def value(name, **labels):
    labels = {"source": "c1", "target": "c2", "level": "1", **labels}
    return REGISTRY.get_sample_value(f"distributor_{name}", labels)


def test_commits_are_counted_by_what_became_of_them(offsets):
    before = [value("offsets_total", result=one) or 0 for one in ("brought", "stale")]
    offsets.count(OffsetsRound(brought=3, skipped=Counter({SkipReason.STALE: 2})))
    after = [value("offsets_total", result=one) for one in ("brought", "stale")]
    assert after == [before[0] + 3, before[1] + 2]


def test_groups_beyond_the_bound_share_one_series(pair):
    (link, _) = plan(pair.topology).links
    OffsetsMeter(link, "c2", groups_max=1).ages({"first": 1_000, "second": 2_000, "third": 3_000})
    assert value("position_age_seconds", group="first") == 1
    assert value("position_age_seconds", group="second") is None
    assert value("position_age_seconds", group=OTHER_GROUPS) == 3


def test_a_group_that_lacks_nothing_any_more_is_at_zero(offsets):
    offsets.ages({"billing": 1_000})
    offsets.ages({})
    assert value("position_age_seconds", group="billing") == 0


def test_positions_that_nobody_brings_any_more_have_no_age(pair):
    (link, _) = plan(pair.topology).links
    meter = OffsetsMeter(link, "c2", groups_max=1)
    meter.ages({"billing": 1_000, "others": 2_000})
    meter.close()
    for group in ("billing", OTHER_GROUPS):
        assert value("position_age_seconds", group=group) is None
