from __future__ import annotations

import dataclasses

from dafka.groups.writers import HEARD_MS
from dafka.limits import ADDRESS_BYTES_MAX
from dafka.model import WHOLE, PartitionShare, replace
from distributor.control.later_writers import LaterWriters, Writing, writing_of
from distributor.control.messages import Flow, FlowKind
from tests.support.control_commands import flow_of

ONE = Writing("a", WHOLE, 5)


def test_the_latest_of_all_stores_counts():
    writers = LaterWriters()
    assert writers.later(ONE, 0) == 0
    writers.told("s1", {ONE: 5}, 0)
    assert writers.later(ONE, 0) == 0, "that is itself"
    writers.told("s2", {ONE: 7}, 0)
    writers.told("s3", {ONE: 6}, 0)
    assert writers.later(ONE, 1) == 7
    writers.told("s2", {ONE: 5}, 2)
    assert writers.later(ONE, 2) == 6
    assert writers.later(ONE._replace(epoch=4), 2) == 0, "of which nobody has said anything"


def test_what_was_said_long_ago_does_not_count():
    writers = LaterWriters()
    writers.told("s1", {ONE: 7}, 0)
    assert writers.later(ONE, HEARD_MS - 1) == 7
    assert writers.later(ONE, HEARD_MS) == 0


def test_what_may_not_be_written_any_more_is_forgotten():
    writers = LaterWriters()
    writers.told("s1", {ONE: 7}, 0)
    writers.forget(ONE)
    assert writers.later(ONE, 0) == 0
    writers.forget(ONE)


def test_a_flow_is_the_same_wherever_it_aims():
    flow = flow_of(1)
    turned = replace(
        flow, link=dataclasses.replace(flow.link, targets=("other", *flow.link.targets))
    )
    assert writing_of(turned, 3) == writing_of(flow, 3)
    assert writing_of(flow, 3).share == PartitionShare(flow.share, flow.shares)
    others = [
        replace(flow, kind=FlowKind.OFFSETS),
        *(
            Flow(dataclasses.replace(flow.link, **change), flow.kind, flow.share, flow.shares)
            for change in ({"level": 9}, {"branch": 9}, {"source": "x"}, {"topics": "y" * 999})
        ),
    ]
    names = {writing_of(one, 3).flow for one in (flow, *others)}
    assert len(names) == 1 + len(others)
    assert max(map(len, names)) < ADDRESS_BYTES_MAX
