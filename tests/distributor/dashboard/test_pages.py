from __future__ import annotations

import asyncio
from urllib.parse import quote, urlencode

import pytest

from dafka.model import Partition
from dafka.process.files import write_secret
from distributor.dashboard import pages as module
from distributor.dashboard.pages import PARTITIONS_SHOWN_MAX, VIEWERS_MAX, Pages
from distributor.dashboard.watcher import Watcher
from tests.support.certificates import write_web
from tests.support.shares import also_shared
from topology import plan

pytestmark = pytest.mark.net

ADDRESS = "AB" * 16
WEB = "\nweb: {access: web.toml, token: me.token}\n"


def test_the_page_and_its_parts_are_served_and_nothing_else_is_loaded(open_site):
    site = open_site()
    status, headers, text = site.ask("/")
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    for part in ("style.css", "page.js", "icon.svg", "topics.html", "groups.html"):
        assert f'"{part}"' in text
        assert site.ask(f"/{part}")[0] == 200
    for page in ("/", "/topics.html", "/groups.html"):
        assert "//" not in site.ask(page)[2].replace("<!doctype", "")


@pytest.mark.parametrize("path", ["/../server.py", "/%2e%2e/pages.py", "/nothing", "/api/nothing"])
def test_what_is_not_there_is_not_served(open_site, path):
    assert open_site().ask(path)[0] == 404


@also_shared("pair")
def test_events_tell_the_topology_and_then_every_look(open_site, pair, make_batch):
    pair.fill(1, make_batch([b"x"] * 4))
    with pair.running():
        topology, look, again = open_site(look_interval_s=0.05).events(["topology", "look", "look"])
    assert topology["name"] == "pair"
    assert [cluster["records"] for cluster in look["clusters"]] == [4, 0]
    assert look["links"][0]["lag_records"] == 4
    assert again["at_ms"] >= look["at_ms"]


@also_shared("pair")
def test_partitions_of_any_name_are_listed(open_site, pair, make_batch):
    hostile = Partition("<img src=x onerror=alert(1)>\udcff\n", ADDRESS)
    pair.fill(1, make_batch([b"x"] * 4, partition=hostile))
    with pair.running():
        status, found = open_site().json("/api/partitions")
    assert (status, found) == (200, {"partitions": [[hostile.topic, ADDRESS, 3]], "more": 0})


def test_more_partitions_than_a_page_shows_are_counted(open_site, pair, make_batch):
    names = [f"t{n:04}" for n in range(PARTITIONS_SHOWN_MAX + 3)]
    pair.fill(1, *(make_batch([b"x"], partition=Partition(name, ADDRESS)) for name in names))
    with pair.running():
        _, found = open_site().json("/api/partitions")
    assert [row[0] for row in found["partitions"]] == names[:PARTITIONS_SHOWN_MAX]
    assert found["more"] == 3


def test_a_way_is_told(open_site):
    status, found = open_site().json("/api/trace?from=c1")
    assert status == 200
    assert found == {
        "origin": "c1",
        "flags": "0000",
        "hops": [{"source": "c1", "target": "c2", "level": 1, "flags": "0001"}],
    }


@pytest.mark.parametrize("name", ["", "c9", "<b>", "\0"])
def test_a_way_from_nowhere_is_refused(open_site, name):
    status, found = open_site().json(f"/api/trace?from={quote(name)}")
    assert status == 400
    assert "no cluster" in found["error"]


@also_shared("pair")
def test_every_copy_of_a_record_is_told(open_site, pair, make_batch):
    pair.fill(1, make_batch([b"a", b"\xff" * 300, b"<b>"]))
    site = open_site()
    query = urlencode({"topic": "orders", "address": ADDRESS})
    with pair.running(1):
        status, found = site.json(f"/api/record?{query}&sequence=2")
        _, long = site.json(f"/api/record?{query}&sequence=1")
    assert status == 200
    one, two = found["copies"]
    assert (one["flags"], one["key"], one["value"]) == ("0000", "key", "<b>")
    assert one["timestamp_ms"] == 5
    assert "flags" not in two
    assert "cannot reach" in two["error"]
    assert long["copies"][0]["value"].endswith("… (300 bytes)")


def test_a_record_that_is_nowhere_is_told(open_site, pair):
    with pair.running():
        query = urlencode({"topic": "t", "address": "A", "sequence": 10**17})
        _, found = open_site().json(f"/api/record?{query}")
    assert found["copies"] == [{"cluster": "c1", "error": ""}, {"cluster": "c2", "error": ""}]


@pytest.mark.parametrize("sequence", ["", "-1", "x", "1e3", "٣", "9" * 19])
def test_a_sequence_that_is_none_is_refused(open_site, sequence):
    query = urlencode({"topic": "t", "address": "A", "sequence": sequence})
    assert open_site().json(f"/api/record?{query}")[0] == 400


def test_a_comparison_is_begun_by_the_page_alone(open_site, pair, until):
    site = open_site()
    with pair.running():
        assert site.json("/api/compare", method="POST")[0] == 403
        assert site.ask("/api/compare")[0] == 404
        assert site.json("/api/compare", method="POST", x_dashboard="1") == (200, {"started": True})
        (look,) = site.events(["look"])
        until(lambda: not site.events(["look"])[0]["comparison"]["running"])
    assert "running" in look["comparison"]


def test_a_host_that_leads_here_by_a_trick_is_refused(open_site):
    assert open_site().ask("/api/trace?from=c1", Host="evil.example")[0] == 400


def test_one_viewer_too_many_ends_the_oldest(pair):
    pages = Pages(plan(pair.topology), Watcher(plan(pair.topology), []))

    async def news():
        async with pages._news:
            pages._latest += "."
            pages._news.notify_all()

    async def view():
        streams = [pages._stream() for _ in range(VIEWERS_MAX + 1)]
        for stream in streams:
            assert "topology" in await anext(stream)
        await news()
        with pytest.raises(StopAsyncIteration):
            await anext(streams[0])
        assert [("look" in await anext(stream)) for stream in streams[1:]] == [True] * VIEWERS_MAX
        assert len(pages._streams) == VIEWERS_MAX
        for stream in streams[1:]:
            await stream.aclose()
        assert not pages._watched.is_set()

    asyncio.run(view())


@also_shared("pair")
def test_topics_and_one_of_them_are_told(open_site, pair, make_batch):
    pair.fill(1, make_batch([b"a", b"<b>"]))
    site = open_site()
    with pair.running():
        status, found = site.json("/api/topics")
        assert (status, [row["topic"] for row in found["topics"]]) == (200, ["orders"])
        status, found = site.json("/api/topic?name=orders")
        assert (status, found["newest"]["cluster"], found["schemas"]) == (200, "c1", [])
        assert [row["value"] for row in found["newest"]["messages"]] == ["<b>", "a"]
        status, found = site.json("/api/topic?name=orders&cluster=c2")
        assert (found["newest"]["cluster"], found["newest"]["messages"]) == ("c2", [])


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/api/topic", 404, "topic ''"),
        ("/api/topic?name=%ff%00", 404, "no cluster that answers has records of topic"),
        ("/api/topic?name=orders&cluster=c9", 400, "no cluster 'c9'"),
        ("/api/group", 400, "group ''"),
        ("/api/group?name=" + "x" * 300, 400, "cannot be used"),
        ("/api/group?name=a%00b", 400, "without NUL"),
    ],
)
def test_a_topic_or_group_that_cannot_be_is_refused(open_site, pair, path, status, reason):
    with pair.running():
        found, answer = open_site().json(path)
    assert (found, reason in answer["error"]) == (status, True), answer


def test_groups_and_one_of_them_are_told_with_who_does_not_answer(open_site, pair):
    site = open_site()
    with pair.running(1):
        assert site.json("/api/groups") == (200, {"groups": [], "more": 0, "silent": ["c2"]})
        status, found = site.json("/api/group?name=billing")
    assert status == 200
    assert [bool(row["error"]) for row in found["clusters"]] == [False, True]


def test_pages_of_topics_and_groups_are_closed_as_the_first_one_is(open_site, pair, tmp_path):
    _, tokens = write_web(tmp_path, me=["dashboard", "metrics"], other=["metrics"])
    pair.file.write_text(pair.file.read_text() + WEB)
    write_secret(tmp_path / "me.token", tokens["me"])
    site = open_site()
    paths = ("/", "/topics.html", "/groups.html", "/api/topics", "/api/topic?name=orders")
    for path in (*paths, "/api/groups", "/api/group?name=billing"):
        assert site.ask(path)[0] == 401
        assert site.ask(path, Authorization=f"Bearer {tokens['other']}")[0] == 403
        if not path.startswith("/api"):
            assert site.ask(path, Authorization=f"Bearer {tokens['me']}")[0] == 200


def test_a_list_is_made_once_for_all_who_ask_at_once(pair, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "survey", lambda topology: asked.append(topology) or [])
    the_plan = plan(pair.topology)
    pages = Pages(the_plan, Watcher(the_plan, []))
    always_anew = Pages(the_plan, Watcher(the_plan, []), list_s=0)

    async def ask():
        answers = await asyncio.gather(*(pages.partitions(None) for _ in range(60)))
        assert {answer.body for answer in answers} == {b'{"partitions": [], "more": 0}'}
        assert len(asked) == 1
        for _ in range(2):
            await always_anew.partitions(None)
        assert len(asked) == 3

    asyncio.run(ask())
