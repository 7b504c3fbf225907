"""What a replica tells of its links, between stores of this process."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dafka.errors import WireError
from dafka.model import Partition
from distributor.control.messages import Flow, FlowKind
from distributor.control.opened_links import OpenedLinks
from distributor.control.protocol import (
    LinkRow,
    OpenedFlowRow,
    OpenedPage,
    OpenedRow,
    StoppedRow,
    decode_opened,
    decode_remembered,
    values_of,
)
from distributor.errors import PlanError
from topology import plan

NOTHING: dict[str, object] = {"links": (), "others": ()}


def no_beats(_topology, _link):
    return None


@pytest.mark.net
def test_links_are_told_of_for_as_long_as_they_are_open(pair):
    with pair.running():
        links = OpenedLinks(pair.topology, no_beats)
        there, back = plan(pair.topology).links

        def told():
            rows = decode_opened(json.dumps(links.page({}))).links
            return [(one.row.source, one.row.target, one.writes) for one in rows]

        assert told() == []
        first = links.open(Flow(there, FlowKind.RECORDS), permitted=False)
        second = links.open(Flow(back, FlowKind.RECORDS), permitted=True)
        assert told() == [("c1", "c2", False), ("c2", "c1", True)]
        first.permit()
        second.close()
        assert told() == [("c1", "c2", True)]
        first.close()
        assert told() == []


@pytest.mark.net
def test_each_share_of_a_link_has_its_row(pair):
    with pair.running():
        links = OpenedLinks(pair.topology, no_beats)
        link = plan(pair.topology).links[0]
        flows = [Flow(link, FlowKind.RECORDS, share, 2) for share in (0, 1)]
        works = [links.open(flow, permitted=bool(flow.share)) for flow in flows]
        told = decode_opened(json.dumps(links.page({}))).links
        assert [(one.share, one.shares, one.writes) for one in told] == [
            (0, 2, False),
            (1, 2, True),
        ]
        for work in works:
            work.close()


@pytest.mark.net
def test_flows_that_copy_no_records_are_told_of_too(pair):
    link = plan(pair.topology).links[0]
    links = OpenedLinks(pair.topology, no_beats)
    positions = links.open(Flow(link, FlowKind.OFFSETS), permitted=False)
    schemas = links.open(Flow(replace(link, level=0), FlowKind.SCHEMAS), permitted=False)

    def told():
        return decode_opened(json.dumps(links.page({}))).others

    assert told() == (
        OpenedFlowRow("offsets", "c1", 1, link.branch, "", False),
        OpenedFlowRow("schemas", "c1", 0, link.branch, "", False),
    )
    schemas.close()
    assert [one.kind for one in told()] == ["offsets"]
    with pair.running():
        positions.permit()
        assert [one.writes for one in told()] == [True]
        positions.close()
    assert told() == ()


class Beats:
    """Heartbeats that are not sent."""

    def close(self):
        """Nothing."""


@pytest.mark.net
def test_a_link_with_heartbeats_beside_it_is_told_of_as_others_are(pair):
    with pair.running():
        links = OpenedLinks(pair.topology, lambda _topology, _link: Beats)
        work = links.open(Flow(plan(pair.topology).links[0], FlowKind.RECORDS), permitted=True)
        try:
            (row,) = decode_opened(json.dumps(links.page({}))).links
            assert (row.row.source, row.writes) == ("c1", True)
        finally:
            work.close()
        assert links.page({}) == NOTHING


def test_what_cannot_be_opened_is_not_told_of(pair):
    links = OpenedLinks(pair.topology, no_beats)
    flow = Flow(replace(plan(pair.topology).links[0], source="c9"), FlowKind.RECORDS)
    with pytest.raises(PlanError):
        links.open(flow, permitted=False)
    assert links.page({}) == NOTHING


def test_a_page_has_all_that_a_link_says():
    stopped = (StoppedRow(b"\xff/orders", b"AB", "diverged", 3, 5),)
    row = LinkRow("c1", 2, 1, "c3", "serving", "", "", 1, 7, diverged=1, stopped=stopped, left="c2")
    told = OpenedPage(
        (OpenedRow(True, row, 3, 4),), (OpenedFlowRow("schemas", "c1", 0, 0, "", True),)
    )
    assert decode_opened(json.dumps(values_of(told))) == told


@pytest.mark.parametrize(
    "page",
    ["", "{}", "[]", '{"links": []}', '{"links": [{"writes": 1}]}', '{"links": ' + "[" * 5_000],
)
def test_what_is_no_page_is_refused(page):
    with pytest.raises(WireError):
        decode_opened(page)


class RemembersWork:
    closed = False

    def __init__(self, known):
        self._known = known

    def remembered(self, cluster):
        return self._known.get(cluster)


def test_what_a_cluster_was_last_known_to_hold_is_told_page_by_page(pair):
    links = OpenedLinks(pair.topology, no_beats, 2)
    places = [Partition("orders", f"A{number}") for number in range(3)]
    works = [
        RemembersWork({}),
        RemembersWork({"c2": (900, {places[0]: 4, places[1]: 1})}),
        RemembersWork({"c2": (700, {places[1]: 5, places[2]: 6})}),
    ]
    links._flows = [(None, work) for work in works]

    def told(**asked):
        page = decode_remembered(json.dumps(links.remembered(asked)))
        return page.age_ms, [head for _, _, head in page.heads], page.more

    assert told(cluster="c2") == (700, [4, 5], True)
    assert told(cluster="c2", **{"from": "2"}) == (700, [6], False)
    assert told(cluster="c1") == (-1, [], False)
    assert told(**{"from": "x"}) == (-1, [], False)
    with pytest.raises(WireError):
        decode_remembered("[]")
