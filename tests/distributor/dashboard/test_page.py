"""The page as people use it: in a real browser, with a mouse, a keyboard, on a small screen."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dafka.model import Partition
from dafka.process.files import write_secret
from distributor.dashboard import watcher
from distributor.dashboard.server import Dashboard
from distributor.operations.probe import Vitals
from distributor.operations.recovery import RecoveryPoint
from distributor.operations.status import ILL, ClusterStatus, LinkStatus, Status
from distributor.testing.browser import HOW_TO_INSTALL, PATIENCE_MS, chromium
from tests.support.certificates import write_web
from tests.support.page_checks import HOSTILE, findings, outside
from topology import plan
from topology.model import Web
from topology.processes import Process, ProcessKind
from topology.testing import topology_of, tree_of

pytestmark = [
    pytest.mark.net,
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason=HOW_TO_INSTALL),
]

# Generous, as machines that run tests may be busy; what comes sooner is not waited for.
expect.set_options(timeout=PATIENCE_MS)

STYLE = Path(__file__).parents[3] / "distributor/dashboard/static/style.css"
ADDRESS = "AB" * 16


@pytest.fixture
def running(pair, make_batch):
    hostile = make_batch([HOSTILE.encode()], partition=Partition(HOSTILE, ADDRESS))
    for number in (1, 2):
        pair.fill(number, make_batch([b"a", b"b"]), hostile)
    with pair.running():
        yield pair


def test_it_shows_clusters_links_and_the_way_of_a_record(running, show):
    page = show()
    assert page.inner_text("h1") == "pair"
    assert page.inner_text("#summary") == "All well: 2 clusters, 2 links"
    assert page.title() == "pair · Dafka distributor"
    first = page.locator(".cluster").first
    expect(first).to_contain_text("2 partitions")
    expect(first).to_contain_text("3")
    expect(page.locator("#links tbody tr")).to_have_count(2)
    expect(page.locator("#links tbody tr").first).to_contain_text("in step")
    expect(page.locator("#arcs g")).to_have_count(2)
    first.click()
    expect(page.locator("#way")).to_have_text("Published on c1: c1 → c2 (level 1, 0001).")
    expect(page.locator("#arcs .hop")).to_have_count(1)
    expect(page.locator(".flags").nth(1)).to_have_text("0001")
    first.click()
    expect(page.locator("#way")).to_be_empty()


def test_gateways_have_a_card_where_there_are_some(running, show, monkeypatch):
    expect(show().locator("#gateways-card")).to_be_hidden()
    gateway = Process(
        name="c1-gateway-1", kind=ProcessKind.GATEWAY, cluster="c1", command=(), metrics="one:1"
    )
    told = "# TYPE dafka_gateway_connections gauge\ndafka_gateway_connections 3\n"
    monkeypatch.setattr(watcher, "probe", lambda _: [Vitals(gateway, "ok", exposition=told)])
    cells = show().locator("#gateways tbody tr td")
    expect(cells.nth(0)).to_have_text("c1-gateway-1")
    expect(cells.nth(1)).to_have_text("ok")
    expect(cells.nth(2)).to_have_text("3")


def test_a_browser_asks_for_the_token(running, opened, tmp_path):
    _, tokens = write_web(tmp_path, tls=True, me=["dashboard", "metrics"])
    write_secret(tmp_path / "me.token", tokens["me"])
    web = Web(access="web.toml", token="me.token", directory=str(tmp_path))
    secured = plan(replace(running.topology, web=web))
    with Dashboard(secured, [], "127.0.0.1:0") as dashboard:
        for token, state in ((tokens["me"], "ok"), ("made-up", None)):
            known = {"username": "me", "password": token}
            context = opened.new_context(http_credentials=known, ignore_https_errors=True)
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            answer = page.goto(dashboard.url)
            if state is None:
                assert answer.status == 401
            else:
                page.wait_for_selector(f"#summary[data-state={state}]")
            context.close()


def test_a_topic_is_text_whatever_its_name(running, show):
    page = show()
    page.locator("#refresh").click()
    expect(page.locator("#found")).to_have_text("2 partitions to choose from")
    offered = page.eval_on_selector_all("#topics option", "all => all.map((one) => one.value)")
    assert offered == [HOSTILE, "orders"]
    page.fill("[name=topic]", HOSTILE)
    page.fill("[name=address]", ADDRESS)
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("#found")).to_have_text("On 2 of 2 clusters")
    visible = HOSTILE.replace("\u202e", "\\u{202e}").replace("\x1b", "\\u{1b}")
    expect(page.locator("#copies tbody td bdi").last).to_have_text(visible)
    assert page.locator("img").count() == 1, "the icon"
    assert page.evaluate("window.hacked") is None


def test_a_comparison_names_what_differs_as_text(pair, make_batch, show):
    for number, value in ((1, b"a"), (2, b"b")):
        pair.fill(number, make_batch([value], partition=Partition(HOSTILE, ADDRESS)))
    with pair.running():
        page = show()
        page.get_by_role("button", name="Compare all clusters").click()
        expect(page.locator("#problems li")).to_contain_text("<img", timeout=20_000)
        expect(page.locator("#compared")).to_contain_text("Different at")
    assert page.locator("img").count() == 1
    assert page.evaluate("window.hacked") is None


def test_a_link_that_is_ill_or_at_rest_is_shown_so(make_pair, monkeypatch, show):
    ill = LinkStatus("c1", "c2", 1, state="stuck", waits_for="c2")
    rows = [ill, LinkStatus("c2", "c1", 1, state="drained")]
    monkeypatch.setattr(watcher, "status_of", lambda *_: Status([], rows))
    pair = make_pair()
    with pair.running():
        page = show(state="bad")
        first, second = page.locator("#links tbody tr").all()
        expect(first.locator("[data-state=bad]")).to_have_text("stuck: waits for c2")
        expect(second.locator("[data-state=warn]")).to_have_text("drained")
        for state in ILL:
            rows[0] = replace(ill, state=state, waits_for="")
            expect(first.locator("[data-state=bad]")).to_have_text(state)


def test_equal_clusters_are_said_to_be(running, show):
    page = show()
    page.get_by_role("button", name="Compare all clusters").click()
    expect(page.locator("#compared")).to_contain_text("Equal at", timeout=20_000)
    expect(page.locator("#compared")).to_contain_text("2 partitions, 6 records read")
    expect(page.get_by_role("button", name="Compare all clusters")).to_be_enabled()


def test_a_link_that_was_aimed_elsewhere_or_leaves_something_out_is_shown_so(
    make_pair, monkeypatch, show
):
    pair = make_pair()
    rows = [LinkStatus("c1", "c2", 1, diverged=1, overtaken=1), LinkStatus("c2", "c1", 1)]
    monkeypatch.setattr(watcher, "status_of", lambda *_: Status([], rows))
    with pair.running():
        page = show(state="bad")
        expect(page.locator("#links tbody tr").first).to_contain_text("does not copy 2 partitions")
        expect(page.locator("#arcs g").first).to_have_attribute("data-link", '["c1","c2",1]')
        # No cluster of that name is in the tree: what matters is that the page follows.
        rows[0] = LinkStatus("c1", "c1", 1)
        expect(page.locator("#arcs g").first).to_have_attribute("data-link", '["c1","c1",1]')
        expect(page.locator("#summary")).to_have_attribute("data-state", "ok")


def test_never_and_all_well_do_not_stand_side_by_side(make_pair, monkeypatch, show):
    clusters = [ClusterStatus(name, 1, 2, "") for name in ("c1", "c2")]
    links = [LinkStatus("c1", "c2", 1), LinkStatus("c2", "c1", 1)]
    heard, never = RecoveryPoint("c1", "c1", 0.4), RecoveryPoint("c1", "c2", None)
    status = Status(clusters, links, [heard, never])
    monkeypatch.setattr(watcher, "status_of", lambda *_: status)
    with make_pair().running():
        page = show(state="warn")
        expect(page.locator("#summary")).to_have_text("1 cluster never heard by others")


def test_axe_finds_what_is_wrong(running, show):
    page = show()
    page.evaluate("document.getElementById('compare').textContent = ''")
    assert [rule for rule, _ in findings(page)] == ["button-name"]


def test_a_cluster_that_does_not_answer_is_the_first_thing_said(pair, show):
    with pair.running(1):
        page = show(state="bad")
        assert page.inner_text("#summary") == "1 cluster without answer, 2 links in trouble"
        expect(page.locator("[data-state=bad]").nth(1)).to_contain_text("cannot reach")


def test_what_is_not_known_is_not_shown_as_a_number(pair, show):
    with pair.running(1):
        page = show(state="bad")
        line = page.locator("#links tbody tr").first
        expect(line).to_contain_text("cannot reach")
        assert line.locator(".number").all_inner_texts() == ["\u2013"] * 5


def test_troubles_are_not_cut_off_on_a_small_screen(make_pair, free_ports, show):
    pair = make_pair(f"metrics: {{first_port: {free_ports(6)}}}")
    with pair.running(1):
        page = show(400, state="bad")
        expect(page.locator("#processes li li")).to_have_count(6)
        expect(page.locator("#processes li li").first).to_contain_text("Connection refused")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert "urlopen" not in page.inner_text("#processes")


def test_everything_can_be_done_with_a_keyboard(running, show):
    page = show()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.textContent || document.activeElement.name")
        )
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert outline == "3px", reached
    assert reached[0] == "Skip to the tree"
    assert reached[1:4] == ["Overview", "Topics", "Groups"]
    assert [reached[4][:2], reached[5][:2]] == ["c1", "c2"]
    assert reached[6:9] == ["topic", "address", "sequence"]
    assert reached[9:] == ["Find", "Load partitions", "Compare all clusters"]
    page.locator(".cluster").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".cluster").first).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(page.locator(".cluster").first).to_have_attribute("aria-pressed", "false")
    page.locator("[name=topic]").focus()
    page.keyboard.type("orders")
    page.locator("[name=address]").fill(ADDRESS)
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_have_text("On 2 of 2 clusters")


@pytest.mark.parametrize(("width", "scheme"), [*product((400, 1_280), ("light", "dark"))])
def test_nothing_is_cut_off_and_everything_has_a_name(running, show, width, scheme):
    page = show(width, scheme)
    page.locator(".cluster").first.click()
    page.fill("[name=topic]", "orders")
    page.fill("[name=address]", ADDRESS)
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("#found")).to_have_text("On 2 of 2 clusters")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for landmark in ("banner", "main"):
        expect(page.get_by_role(landmark)).to_have_count(1)
    for region in ("Clusters", "Links", "Find a record", "Comparison", "Processes"):
        expect(page.get_by_role("region", name=region)).to_be_visible()
    for control in page.locator("button:visible, input:visible").all():
        box = control.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["height"] >= 24
    assert findings(page) == []
    name = page.locator(".cluster .name").first
    assert name.evaluate("one => one.scrollWidth <= one.clientWidth")


@pytest.fixture
def show_large(opened, tmp_path, monkeypatch):
    """A function that shows twelve clusters with 60 links, one of them down if told so."""
    names = [
        f"eu-{place}-{number}"
        for place in ("north", "east", "south", "west")
        for number in (1, 2, 3)
    ]
    sites = [(1, *names[at : at + 3]) for at in range(0, 12, 3)]
    the_plan = plan(topology_of(tree_of((2, *sites))))
    assert len(the_plan.links) == 60
    with ExitStack() as opened_here:

        def show_large(width, scheme, down=""):
            status = large_status(the_plan, down)
            processes = [
                Process(
                    name=f"{name}-store-1",
                    kind=ProcessKind.STORE,
                    cluster=name,
                    command=(),
                    metrics="s:1",
                )
                for name in names
            ]
            vitals = [
                Vitals(one, "no answer", ("Connection refused",))
                if one.cluster == down
                else Vitals(one, "ok")
                for one in processes
            ]
            monkeypatch.setattr(watcher, "probe", lambda _: vitals)
            monkeypatch.setattr(watcher, "status_of", lambda *_: status)
            dashboard = opened_here.enter_context(Dashboard(the_plan, processes, "127.0.0.1:0"))
            page = opened.new_page(
                viewport={"width": width, "height": 800},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            opened_here.callback(page.close)
            page.set_default_timeout(PATIENCE_MS)
            page.goto(dashboard.url)
            page.wait_for_selector(f"#summary[data-state={'bad' if down else 'ok'}]")
            return page

        yield show_large


def large_status(the_plan, down):
    clusters = [
        ClusterStatus(one.name, None, None, f"no answer from {one.stores[0].query}")
        if one.name == down
        else ClusterStatus(one.name, 12 * number, 1_234_567 * number, "")
        for number, one in enumerate(the_plan.topology.clusters, 1)
    ]
    links = [
        LinkStatus(link.source, link.target, link.level, None, None, None, f"{down}: no answer")
        if down in (link.source, link.target)
        else LinkStatus(link.source, link.target, link.level, 2, 1_234, 0.8, state="serving")
        for link in the_plan.links
    ]
    return Status(clusters, links)


@pytest.mark.parametrize("down", ["", "eu-east-2"])
@pytest.mark.parametrize(("width", "scheme"), [*product((400, 1_280), ("light", "dark"))])
def test_twelve_clusters_and_sixty_links_can_be_read(show_large, tmp_path, width, scheme, down):
    page = show_large(width, scheme, down)
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    page.locator(".cluster").first.click()
    expect(page.locator("#way")).not_to_be_empty()
    page.screenshot(path=tmp_path / "way.png", full_page=True)
    assert outside(page) == []
    assert page.evaluate(CUT_OFF) == []
    assert findings(page) == []
    rows = page.locator("#links tbody tr")
    expect(rows).to_have_count(12)
    if down:
        expect(rows.first).to_contain_text(f"{down}: no answer")
    page.get_by_role("button", name="Show all 60 links").press("Enter")
    expect(rows).to_have_count(60)
    page.get_by_role("button", name="Show fewer links").press("Enter")
    expect(rows).to_have_count(12)


CUT_OFF = """() => [...document.querySelectorAll(".cluster .name, .facts:not([title^=no])")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.textContent)"""
"""Names and facts that do not fit into their cards; errors are told whole further down."""


def test_colours_have_contrast_enough_in_both_schemes():
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6})", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.DOTALL)[:2]
    )
    for scheme in (light, dark):
        for text, behind in (
            *product(("ink", "soft", "accent", "ok", "warn", "bad"), ("page", "card")),
            *product(("ink", "soft", "accent"), ("shade",)),
            ("on-accent", "accent"),
        ):
            assert contrast(scheme[text], scheme[behind]) >= 4.5, (text, behind)


def contrast(one, other):
    """The ratio of WCAG 2, section 1.4.3."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    red, green, blue = (linear(int(digits[at : at + 2], 16) / 255) for at in (0, 2, 4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def linear(part):
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
